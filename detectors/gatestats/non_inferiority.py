"""Error rates that may be next to nothing: an odds ratio margin with an allowance for negligible differences.

Given no events at all, an odds ratio cannot be judged: a service without errors would never be promoted. So the
candidate counts as inferior only if its odds ratio is at least the margin AND its rate is at least the allowance
(in points) beyond the baseline's. That null is an intersection; an e-process of either part is valid for it, and so
is their mean, which is the promotion evidence here. Rollback evidence is that of the odds ratio alone.
"""

import dataclasses
import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from gatestats.odds_ratio import OddsRatioDesign
from gatestats.rates import AbsoluteRateDesign
from gatestats.state import State, mark, must_belong
from gatestats.tempered import TemperedDesign
from gatestats.ticks import Estimate, Interval, Tick, Worse


@dataclass(frozen=True, slots=True)
class ErrorRateDesign:
    """An odds ratio margin whose promotion forgives a negligible difference; a process for `TwoArmCounts`.

    H0 of rollback: the odds ratio is at most the margin in every tick. H0 of promotion: in every tick the odds ratio
    is at least the margin and the difference of rates at least the allowance. Validity: as `OddsRatioDesign` and
    `AbsoluteRateDesign`; the mean costs ln 2.

    Parameters
    ----------
    margin
        Largest accepted odds ratio in the worse direction, 1/16..16.
    allowance
        Difference of rates that is negligible whatever the odds ratio, in (0, 0.9]; the default is half a point.
    worse
        Direction that counts as worse.
    planned_ticks
        Ticks within which a late regression is expected, >= 0; None for an open end.
    mde
        Odds ratio that the user cares most about, above the margin.
    phi
        Dispersion that all evidence is divided by, 1..1000; above 1 bounds hold only about, see `gatestats.tempered`.
    """

    margin: float = 1.25
    allowance: float = 0.005
    worse: Worse = Worse.HIGHER
    planned_ticks: int | None = None
    mde: float | None = None
    phi: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.allowance <= 0.9:
            raise ValueError(f"allowance must be a difference of rates above 0 and up to 0.9, got {self.allowance}")
        self.odds_ratio()  # checks the other parameters

    def odds_ratio(self) -> OddsRatioDesign | TemperedDesign:
        """Return the test of the odds ratio."""
        if self.phi != 1:
            return TemperedDesign(self.phi, self.margin, self.worse, self.planned_ticks)
        return OddsRatioDesign(self.margin, self.worse, self.planned_ticks, self.mde)

    def difference(self) -> AbsoluteRateDesign:
        """Return the test of the negligible difference."""
        return AbsoluteRateDesign(self.allowance, self.worse, self.planned_ticks)

    def start(self) -> State:
        """Return the state before the first tick."""
        return _fresh(self)

    def update(self, state: State, tick: Tick) -> State:
        """Return the state after one more tick; see `gatestats.process.Process`."""
        must_belong(state, _fresh(self))
        odds_ratio, difference = state.parts
        parts = self.odds_ratio().update(odds_ratio, tick), self.difference().update(difference, tick)
        informative = max(part.informative for part in parts)
        return dataclasses.replace(state, ticks=state.ticks + 1, informative=informative, parts=parts)

    def log_e(self, state: State) -> float:
        """Return ln E against "the odds ratio is at most the margin in every tick", nats."""
        return self.odds_ratio().log_e(state.parts[0])

    def log_e_non_inferior(self, state: State) -> float:
        """Return ln E against "odds ratio at least the margin and difference at least the allowance", nats."""
        odds_ratio = self.odds_ratio().log_e_non_inferior(state.parts[0])
        difference = self.difference().log_e_non_inferior(state.parts[1]) / self.phi
        return float(np.logaddexp(odds_ratio, difference)) - math.log(2)

    def estimate(self, state: State) -> Estimate | None:
        """Return the common odds ratio (candidate over baseline), or None without data."""
        return self.odds_ratio().estimate(state.parts[0])

    def interval(self, state: State, level: float) -> Interval | None:
        """Return the confidence sequence of the odds ratio; None without information."""
        return self.odds_ratio().interval(state.parts[0], level)

    def difference_interval(self, state: State, level: float) -> Interval | None:
        """Return the confidence sequence of the rate difference; None until both variants have data."""
        return self.difference().interval(state.parts[1], level)


@lru_cache(maxsize=512)
def _fresh(design: ErrorRateDesign) -> State:
    parts = design.odds_ratio().start(), design.difference().start()
    return State(mark("error-rate", design), 0, 0, 0.0, (), (), (), (), parts)
