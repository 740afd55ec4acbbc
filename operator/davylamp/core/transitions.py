"""Which phase may follow which, as data: decisions are checked against it in tests, and the diagram is drawn from it.

Rule 1: no move leaves a terminal phase but to a new attempt: it begins at Pending, or is Held while its candidate is in
quarantine, and what is over stays over.
Rule 2: from every phase that is not terminal a rollback is one move away.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from davylamp.core.model import TERMINAL, Phase

#: From each phase, those that may come next within the same attempt, beside staying.
MOVES: Final[Mapping[Phase, frozenset[Phase]]] = MappingProxyType(
    {
        Phase.PENDING: frozenset({Phase.PROGRESSING, Phase.PAUSED, Phase.HELD, Phase.ROLLING_BACK}),
        Phase.PROGRESSING: frozenset({Phase.PENDING, Phase.PAUSED, Phase.HELD, Phase.PROMOTING, Phase.ROLLING_BACK}),
        # A promotion that was under way may turn out to be done.
        Phase.PAUSED: frozenset(
            {Phase.PENDING, Phase.PROGRESSING, Phase.HELD, Phase.PROMOTING, Phase.PROMOTED, Phase.ROLLING_BACK}
        ),
        # What was held at its end, since the next attempt waits, may show that end again.
        Phase.HELD: frozenset(Phase) - {Phase.HELD},
        # A raise to 100 % that did not arrive is proven anew.
        Phase.PROMOTING: frozenset(
            {Phase.PENDING, Phase.PROGRESSING, Phase.PAUSED, Phase.HELD, Phase.PROMOTED, Phase.ROLLING_BACK}
        ),
        Phase.ROLLING_BACK: frozenset({Phase.ROLLED_BACK}),
        Phase.PROMOTED: frozenset({Phase.HELD}),
        Phase.ROLLED_BACK: frozenset({Phase.HELD}),
    }
)


def allowed(before: Phase, after: Phase, *, new_attempt: bool = False) -> bool:
    """Return whether a decision may change ``before`` to ``after``; a new attempt begins at Pending from anywhere."""
    if new_attempt:
        return after is Phase.PENDING
    return before is after or after in MOVES[before]


def diagram() -> str:
    """Return the table as a Mermaid state diagram."""
    moves = [f"    {before} --> {after}" for before in Phase for after in Phase if after in MOVES[before]]
    again = [f"    {phase} --> {Phase.PENDING}: new attempt" for phase in Phase if phase in TERMINAL]
    return "\n".join(["stateDiagram-v2", f"    [*] --> {Phase.PENDING}", *moves, *again, ""])
