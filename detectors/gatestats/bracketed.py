"""An odds ratio margin that is known only to lie in a range: each decision is tested at the end that is hard for it.

H0 of rollback: in every tick the odds ratio is at most the high end. H0 of promotion: it is at least the low end. So
whatever the margin is within the range, neither error grows beyond its level. Validity: as `gatestats.odds_ratio`.
"""

import dataclasses
from dataclasses import dataclass
from functools import lru_cache

from gatestats.odds_ratio import OddsRatioDesign
from gatestats.state import State, mark, must_belong
from gatestats.ticks import Estimate, Interval, Tick


@dataclass(frozen=True, slots=True)
class BracketedOddsRatioDesign:
    """Two ends of a margin; a process for `TwoArmCounts`.

    Parameters
    ----------
    low, high
        Odds ratios, 1/16 <= low <= high <= 16.
    planned_ticks
        As in `OddsRatioDesign`.
    """

    low: float
    high: float
    planned_ticks: int | None = None

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise ValueError(f"a margin must range from low to high, got {self.low} and {self.high}")
        self.promotion()  # checks the ends
        self.rollback()

    def promotion(self) -> OddsRatioDesign:
        """Return the test against "at least the low end"."""
        return OddsRatioDesign(self.low, planned_ticks=self.planned_ticks)

    def rollback(self) -> OddsRatioDesign:
        """Return the test against "at most the high end"."""
        return OddsRatioDesign(self.high, planned_ticks=self.planned_ticks)

    def start(self) -> State:
        """Return the state before the first tick."""
        return _fresh(self)

    def update(self, state: State, tick: Tick) -> State:
        """Return the state after one more tick; see `gatestats.process.Process`."""
        must_belong(state, _fresh(self))
        promotion, rollback = state.parts
        parts = self.promotion().update(promotion, tick), self.rollback().update(rollback, tick)
        return dataclasses.replace(state, ticks=state.ticks + 1, informative=parts[0].informative, parts=parts)

    def log_e(self, state: State) -> float:
        """Return ln E against "the odds ratio is at most the high end", nats."""
        return self.rollback().log_e(state.parts[1])

    def log_e_non_inferior(self, state: State) -> float:
        """Return ln E against "the odds ratio is at least the low end", nats."""
        return self.promotion().log_e_non_inferior(state.parts[0])

    def estimate(self, state: State) -> Estimate | None:
        """Return the common odds ratio (candidate over baseline), or None without data."""
        return self.promotion().estimate(state.parts[0])

    def interval(self, state: State, level: float) -> Interval | None:
        """Return the confidence sequence of the odds ratio; None without information."""
        return self.promotion().interval(state.parts[0], level)


@lru_cache(maxsize=512)
def _fresh(design: BracketedOddsRatioDesign) -> State:
    parts = design.promotion().start(), design.rollback().start()
    return State(mark("bracketed-odds-ratio", design), 0, 0, 0.0, (), (), (), (), parts)
