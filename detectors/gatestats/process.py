"""The one face of every e-process: a caller holds (design, state) by stream name and need not know the kind.

Rule 1: a design is a frozen value, a state is a small plain value; `update` is the only way from state to state.
Rule 2: evidence is ln E. It speaks for rollback when the weighted mean over streams reaches ln(1 / alpha), and for
promotion when log_e_non_inferior of every required stream reaches ln(1 / alpha').
Rule 3: the two nulls are complements: "not worse than the margin" and "worse by at least the margin".
"""

from typing import Protocol

from gatestats.state import State, from_json, must_fit
from gatestats.ticks import Estimate, Interval, Tick


class Process(Protocol):
    """A design: which null is tested, with which bets. All methods are pure and total on fitting input.

    A tick of another kind than the design counts, or a state of another design: `ValueError`.
    """

    def start(self) -> State:
        """Return the state before the first tick; its evidence is 0 nats both ways."""
        ...

    def update(self, state: State, tick: Tick) -> State:
        """Return the state after one more tick; ticks come in the order of time, each once."""
        ...

    def log_e(self, state: State) -> float:
        """Return ln E against "the candidate is not worse than the margin", nats."""
        ...

    def log_e_non_inferior(self, state: State) -> float | None:
        """Return ln E against "the candidate is worse by at least the margin", nats; None if the kind offers none."""
        ...

    def estimate(self, state: State) -> Estimate | None:
        """Return the observed effect for display; None without data."""
        ...

    def interval(self, state: State, level: float) -> Interval | None:
        """Return a confidence sequence for display, ``level`` in (0, 1); None without data or if there is none."""
        ...


def restore(design: Process, text: str) -> State:
    """Read a state of ``design`` back from `State.to_json`.

    Parameters
    ----------
    design
        The design that made it.
    text
        JSON, perhaps damaged.

    Raises
    ------
    ValueError
        If the text is damaged, belongs to another design or has another shape; the message says which.
    """
    state = from_json(text)
    must_fit(state, design.start())
    return state
