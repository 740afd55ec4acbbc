"""Which phase may follow which, as data: decisions are checked against it in tests, and the diagram is drawn from it.

Rule 1: no move leaves a terminal phase but to a new attempt: it begins at Pending, or is Held while its candidate is in
quarantine, and what is over stays over.
Rule 2: from every phase that is not terminal a rollback is one move away.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from davylamp.core.model import TERMINAL, Phase

_BEGUN: Final = frozenset(Phase) - TERMINAL

#: From each phase, those that may come next within the same attempt, beside staying.
MOVES: Final[Mapping[Phase, frozenset[Phase]]] = MappingProxyType(
    {
        Phase.PENDING: frozenset(
            {Phase.PROGRESSING, Phase.PAUSED, Phase.HELD, Phase.PROMOTED, Phase.ROLLING_BACK, Phase.ROLLED_BACK}
        ),
        Phase.PROGRESSING: frozenset(
            {Phase.PENDING, Phase.PAUSED, Phase.HELD, Phase.PROMOTING, Phase.ROLLING_BACK, Phase.ROLLED_BACK}
        ),
        Phase.PAUSED: frozenset(Phase) - {Phase.PAUSED},
        Phase.HELD: frozenset(Phase) - {Phase.HELD},
        Phase.PROMOTING: frozenset(Phase) - {Phase.PROMOTING},
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
