"""Are the rates further apart than a margin in points, or in per cent of the baseline: block e-processes.

H0 of rollback: in every tick the candidate's rate is beyond the baseline's by at most the margin. H0 of promotion: by
at least the margin. Rates may drift in any way within the null. Bets are made before each tick from the past only:
effects of fixed sizes around the recent pooled rate. Validity: anytime, exact, for independent requests given routing.
Source: statistics.md 1.2; `gatestats.projection`.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from gatestats.arrays import as_array, log_mixture
from gatestats.late_change import log_evidence, refuse_bad_plan
from gatestats.projection import LinearNull
from gatestats.proportion_bounds import difference_bounds, ratio_bounds
from gatestats.rate_bets import (
    EFFECT_WEIGHTS,
    EFFECTS,
    EFFECTS_BESIDE_EQUALITY,
    SMALLER,
    SMALLER_BESIDE_EQUALITY,
    SMALLER_WEIGHTS,
    Bet,
    RateBets,
    advance,
    fresh,
)
from gatestats.state import State, mark, must_belong
from gatestats.strata import common_rates
from gatestats.ticks import Estimate, Interval, Measure, Tick, TwoArmCounts, Worse, share, tick_as


@dataclass(frozen=True, slots=True)
class AbsoluteRateDesign:
    """A margin in absolute rate (0.01 is one percentage point); a process for `TwoArmCounts`.

    Parameters
    ----------
    margin
        Largest accepted difference of rates in the worse direction, 0..0.9; 0 tolerates no loss.
    worse
        Direction that counts as worse.
    planned_ticks
        Ticks within which a late regression is expected, >= 0; None for an open end.
    mde
        Difference (in the worse direction) that the user cares most about, in (margin, 1); takes half the mass.
    """

    margin: float
    worse: Worse = Worse.HIGHER
    planned_ticks: int | None = None
    mde: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.margin <= 0.9:
            raise ValueError(f"margin must be a difference of rates in 0..0.9, got {self.margin}")
        if self.mde is not None and not self.margin < self.mde < 1:
            raise ValueError(f"mde must be above the margin {self.margin} and below 1, got {self.mde}")
        refuse_bad_plan(self.planned_ticks)

    def start(self) -> State:
        """Return the state before the first tick."""
        return _fresh_absolute(self)

    def update(self, state: State, tick: Tick) -> State:
        """Return the state after one more tick; see `gatestats.process.Process`."""
        must_belong(state, self.start())
        return advance(state, tick_as(TwoArmCounts, tick), _bets_absolute(self))

    def log_e(self, state: State) -> float:
        """Return ln E against "the rate differs by at most the margin in every tick", nats."""
        return _evidence(state, favourite=self.mde is not None)

    def log_e_non_inferior(self, state: State) -> float:
        """Return ln E against "the rate differs by at least the margin in every tick", nats."""
        return _evidence_non_inferior(state)

    def estimate(self, state: State) -> Estimate | None:
        """Return the Mantel-Haenszel rate difference (candidate minus baseline), or None without data."""
        candidate, baseline, mass, _ = state.sums[-4:]
        return _estimate(state, Measure.DIFFERENCE, (candidate - baseline) / mass if mass > 0 else None)

    def interval(self, state: State, level: float) -> Interval | None:
        """Return the confidence sequence of the rate difference; None until both variants have data."""
        arms = common_rates(state.sums[-4:])
        return None if arms is None else Interval(Measure.DIFFERENCE, *difference_bounds(*arms, level), level)


@dataclass(frozen=True, slots=True)
class RelativeRateDesign:
    """A margin relative to the baseline's rate (0.05 is five per cent of it); a process for `TwoArmCounts`.

    Parameters
    ----------
    margin
        Largest accepted relative change in the worse direction: 0..10 for HIGHER, 0..0.9 for LOWER.
    worse
        Direction that counts as worse.
    planned_ticks
        Ticks within which a late regression is expected, >= 0; None for an open end.
    mde
        Relative change (in the worse direction) that the user cares most about, above the margin; below 1 for LOWER.
    """

    margin: float
    worse: Worse = Worse.HIGHER
    planned_ticks: int | None = None
    mde: float | None = None

    def __post_init__(self) -> None:
        largest, end = (10.0, 100.0) if self.worse is Worse.HIGHER else (0.9, 1.0)
        if not 0 <= self.margin <= largest:
            raise ValueError(f"margin must be a relative change in 0..{largest}, got {self.margin}")
        if self.mde is not None and not self.margin < self.mde < end:
            raise ValueError(f"mde must be above the margin {self.margin} and below {end}, got {self.mde}")
        refuse_bad_plan(self.planned_ticks)

    def start(self) -> State:
        """Return the state before the first tick."""
        return _fresh_relative(self)

    def update(self, state: State, tick: Tick) -> State:
        """Return the state after one more tick; see `gatestats.process.Process`."""
        must_belong(state, self.start())
        return advance(state, tick_as(TwoArmCounts, tick), _bets_relative(self))

    def log_e(self, state: State) -> float:
        """Return ln E against "the rate changes by at most the margin in every tick", nats."""
        return _evidence(state, favourite=self.mde is not None)

    def log_e_non_inferior(self, state: State) -> float:
        """Return ln E against "the rate changes by at least the margin in every tick", nats."""
        return _evidence_non_inferior(state)

    def estimate(self, state: State) -> Estimate | None:
        """Return the Mantel-Haenszel rate ratio (candidate over baseline), or None without data."""
        candidate, baseline, *_ = state.sums[-4:]
        return _estimate(state, Measure.RATIO, candidate / baseline if baseline > 0 else None)

    def interval(self, state: State, level: float) -> Interval | None:
        """Return the confidence sequence of the rate ratio; None until both variants have data."""
        arms = common_rates(state.sums[-4:])
        return None if arms is None else Interval(Measure.RATIO, *ratio_bounds(*arms, level), level)


@lru_cache(maxsize=512)
def _bets_absolute(design: AbsoluteRateDesign) -> RateBets:
    margin = design.margin
    wish = () if design.mde is None else (Bet(points=design.mde),)
    effects = tuple(Bet(points=effect * margin) for effect in EFFECTS) if margin else EFFECTS_BESIDE_EQUALITY
    return RateBets(
        swap=design.worse is Worse.LOWER,
        null=LinearNull((1.0, -1.0), margin),
        reverse=LinearNull((-1.0, 1.0), -margin),
        effects=(*effects, *wish),
        smaller=tuple(Bet(points=effect * margin) for effect in SMALLER) if margin else SMALLER_BESIDE_EQUALITY,
        planned_ticks=design.planned_ticks,
    )


@lru_cache(maxsize=512)
def _bets_relative(design: RelativeRateDesign) -> RateBets:
    # A fall by r of the candidate is a rise by r / (1 - r) of the baseline over the candidate.
    lower = design.worse is Worse.LOWER
    margin, wish = (
        None if change is None else change / (1 - change) if lower else change for change in (design.margin, design.mde)
    )
    margin = margin or 0.0
    effects = tuple(Bet(factor=1 + effect * margin) for effect in EFFECTS) if margin else EFFECTS_BESIDE_EQUALITY
    smaller = tuple(Bet(factor=(1 + margin) ** effect) for effect in SMALLER) if margin else SMALLER_BESIDE_EQUALITY
    return RateBets(
        swap=lower,
        null=LinearNull((1.0, -1.0 - margin), 0.0),
        reverse=LinearNull((-1.0, 1.0 + margin), 0.0),
        effects=effects if wish is None else (*effects, Bet(factor=1 + wish)),
        smaller=smaller,
        planned_ticks=design.planned_ticks,
    )


@lru_cache(maxsize=512)
def _fresh_absolute(design: AbsoluteRateDesign) -> State:
    return fresh(mark("absolute-rate", design), _bets_absolute(design))


@lru_cache(maxsize=512)
def _fresh_relative(design: RelativeRateDesign) -> State:
    return fresh(mark("relative-rate", design), _bets_relative(design))


def _evidence(state: State, *, favourite: bool) -> float:
    weights = as_array(EFFECT_WEIGHTS)
    return log_evidence(state, np.append(weights / 2, 0.5) if favourite else weights)


def _evidence_non_inferior(state: State) -> float:
    return log_mixture(as_array(state.reverse), as_array(SMALLER_WEIGHTS))


def _estimate(state: State, measure: Measure, effect: float | None) -> Estimate | None:
    baseline_events, baseline_total, candidate_events, candidate_total = state.totals
    if not baseline_total and not candidate_total:
        return None
    return Estimate(
        measure=measure,
        effect=effect,
        baseline=share(baseline_events, baseline_total),
        candidate=share(candidate_events, candidate_total),
        baseline_total=baseline_total,
        candidate_total=candidate_total,
    )
