"""Clustered errors on few pods: the odds ratio test with its evidence divided by the dispersion.

APPROXIMATE under bursts. If events come in clusters, requests are not independent and the test of
`gatestats.odds_ratio` alarms too often. Dividing the log likelihood ratio by phi, the variance of the counts over the
one that independence would give, brings it near its level: measured 0.8 to 1.9 % at nominal 1 % with phi plus two
standard errors and bets on small effects only, but 6 % where phi was taken from three pods. phi must be known before
the tick, here from before the rollout. H0 as `OddsRatioDesign`; for independent requests (phi >= 1) it is exact and
only loses power, because E[L^(1 / phi)] <= E[L]^(1 / phi). Use `gatestats.pods` wherever pods allow it.
Source: statistics.md 1.7.
"""

import dataclasses
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Final

import numpy as np

from gatestats.arrays import FloatArray, as_array
from gatestats.late_change import FIRST_STAKE, first_wealth, held, log_evidence, step_wealth
from gatestats.noncentral import log_normalisers
from gatestats.odds_ratio import OddsRatioDesign, is_informative
from gatestats.state import State, mark, must_belong
from gatestats.ticks import Estimate, Interval, Measure, Tick, TwoArmCounts, Worse, refuse_bad_level, tick_as

#: Multiples of the margin that rollback bets on; large ones live on bursts.
_EFFECTS: Final = (1.3, 1.7, 2.2)
_WEIGHTS: Final = (0.3, 0.3, 0.4)
#: Smaller error probabilities than this are lost in doubles next to 1; an interval for them has no bounds.
_SMALLEST_ERROR: Final = 1e-15


@dataclass(frozen=True, slots=True)
class TemperedDesign:
    """An odds ratio margin for clustered events; a process for `TwoArmCounts`. Approximate.

    Parameters
    ----------
    phi
        Dispersion to divide by, 1..1000, known beforehand and on the cautious side; see
        `gatestats.method.cautious_phi`.
    margin, worse, planned_ticks
        As in `OddsRatioDesign`.
    """

    phi: float
    margin: float = 1.0
    worse: Worse = Worse.HIGHER
    planned_ticks: int | None = None

    #: Whether errors are bounded exactly or only about.
    approximate: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 1 <= self.phi <= 1000:
            raise ValueError(f"phi must be a dispersion in 1..1000, got {self.phi}")
        self.independent()  # checks the other parameters

    def independent(self) -> OddsRatioDesign:
        """Return the test as it would be for independent requests."""
        return OddsRatioDesign(self.margin, self.worse, self.planned_ticks)

    def start(self) -> State:
        """Return the state before the first tick."""
        return _fresh(self)

    def update(self, state: State, tick: Tick) -> State:
        """Return the state after one more tick; see `gatestats.process.Process`."""
        must_belong(state, _fresh(self))
        tick = tick_as(TwoArmCounts, tick)
        counts = tick.swapped() if self.worse is Worse.LOWER else tick
        factors = held(_log_factors(self, counts) / self.phi, apart=tick.apart)
        wealth, spent = step_wealth(state, factors, self.planned_ticks)
        part = self.independent().update(state.parts[0], tick)
        return dataclasses.replace(
            state, ticks=part.ticks, informative=part.informative, spent=spent, wealth=wealth, parts=(part,)
        )

    def log_e(self, state: State) -> float:
        """Return ln E against "odds ratio <= margin in every tick", nats; approximate."""
        return log_evidence(state, as_array(_WEIGHTS))

    def log_e_non_inferior(self, state: State) -> float:
        """Return ln E against "odds ratio >= margin in every tick", nats; approximate."""
        return self.independent().log_e_non_inferior(state.parts[0]) / self.phi

    def estimate(self, state: State) -> Estimate | None:
        """Return the common odds ratio (candidate over baseline), or None without data."""
        return self.independent().estimate(state.parts[0])

    def interval(self, state: State, level: float) -> Interval | None:
        """Return the confidence sequence of the odds ratio, wider by the dispersion; approximate.

        E^(1 / phi) < 1 / alpha is E < 1 / alpha^phi: the interval for independent requests at that level.
        """
        refuse_bad_level(level)
        error = (1 - level) ** self.phi
        if error < _SMALLEST_ERROR:
            return Interval(Measure.ODDS_RATIO, None, None, level) if state.informative else None
        interval = self.independent().interval(state.parts[0], 1 - error)
        return None if interval is None else dataclasses.replace(interval, level=level)


def _log_factors(design: TemperedDesign, counts: TwoArmCounts) -> FloatArray:
    """Return ln L of each bet for independent requests."""
    log_odds = np.log(design.margin * as_array([1.0, *_EFFECTS]))
    if not is_informative(counts):
        return np.zeros(len(_EFFECTS))
    points = counts.candidate_events * log_odds - log_normalisers(counts, log_odds)
    factors: FloatArray = points[1:] - points[0]
    return factors


@lru_cache(maxsize=512)
def _fresh(design: TemperedDesign) -> State:
    parts = (design.independent().start(),)
    return State(mark("tempered", design), 0, 0, FIRST_STAKE, first_wealth(len(_EFFECTS)), (), (), (), parts)
