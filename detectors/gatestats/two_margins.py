"""A margin in points and one in per cent of the baseline, taken together: "beyond either" or "beyond both".

Beyond either. H0 of rollback: in every tick the candidate's rate is within both margins; that null is convex, so one
e-process tests it, and nothing is split between the margins. H0 of promotion: one of the margins is exceeded
throughout; the smaller of two e-processes tests it.
Beyond both. H0 of rollback: one of the margins is kept throughout (the same one in every tick); the smaller of two
e-processes. H0 of promotion: in every tick both are exceeded; convex, one e-process.
Validity: anytime, exact, for independent requests given routing. Source: statistics.md 1.2; `gatestats.projection`.
"""

import dataclasses
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import assert_never

from gatestats.arrays import as_array, log_mixture
from gatestats.late_change import log_evidence, refuse_bad_plan
from gatestats.projection import CornerNull
from gatestats.rate_bets import EFFECT_WEIGHTS, EFFECTS, SMALLER, SMALLER_WEIGHTS, Bet, RateBets, advance, fresh
from gatestats.rates import AbsoluteRateDesign, RelativeRateDesign
from gatestats.state import State, mark, must_belong
from gatestats.ticks import Estimate, Interval, Tick, TwoArmCounts, Worse, tick_as


class Breach(StrEnum):
    """Which margins a candidate must exceed to count as worse."""

    #: Either of the two: the stricter one decides.
    EITHER = "Either"
    #: Both of them: the more lenient one decides.
    BOTH = "Both"


@dataclass(frozen=True, slots=True)
class TwoMarginsDesign:
    """Two margins on the same rate; a process for `TwoArmCounts`.

    Parameters
    ----------
    points
        Accepted difference of rates in the worse direction, in (0, 0.9].
    relative
        Accepted change relative to the baseline's rate: in (0, 10] for HIGHER, (0, 0.9] for LOWER.
    breach
        Which of them must be exceeded to be worse.
    worse
        Direction that counts as worse.
    planned_ticks
        Ticks within which a late regression is expected, >= 0; None for an open end.
    """

    points: float
    relative: float
    breach: Breach = Breach.EITHER
    worse: Worse = Worse.HIGHER
    planned_ticks: int | None = None

    def __post_init__(self) -> None:
        for name, margin in (("points", self.points), ("relative", self.relative)):
            if not margin > 0:
                raise ValueError(f"{name} must be a margin above 0, got {margin}")
        refuse_bad_plan(self.planned_ticks)
        self.difference()  # checks the ends
        self.ratio()

    def difference(self) -> AbsoluteRateDesign:
        """Return the test of the margin in points alone."""
        return AbsoluteRateDesign(self.points, self.worse, self.planned_ticks)

    def ratio(self) -> RelativeRateDesign:
        """Return the test of the relative margin alone."""
        return RelativeRateDesign(self.relative, self.worse, self.planned_ticks)

    def start(self) -> State:
        """Return the state before the first tick."""
        return _fresh(self)

    def update(self, state: State, tick: Tick) -> State:
        """Return the state after one more tick; see `gatestats.process.Process`."""
        must_belong(state, _fresh(self))
        corner, difference, ratio = state.parts
        bets = _corner_bets(self)[_relative_binds(self, corner)]
        parts = (
            advance(corner, tick_as(TwoArmCounts, tick), bets),
            self.difference().update(difference, tick),
            self.ratio().update(ratio, tick),
        )
        return dataclasses.replace(state, ticks=state.ticks + 1, informative=parts[0].informative, parts=parts)

    def log_e(self, state: State) -> float:
        """Return ln E against "not worse", nats; the head of the module says which null that is."""
        corner, difference, ratio = state.parts
        match self.breach:
            case Breach.EITHER:
                return log_evidence(corner, as_array(EFFECT_WEIGHTS))
            case Breach.BOTH:
                return min(self.difference().log_e(difference), self.ratio().log_e(ratio))
            case never:
                assert_never(never)

    def log_e_non_inferior(self, state: State) -> float:
        """Return ln E against "worse", nats; the head of the module says which null that is."""
        corner, difference, ratio = state.parts
        match self.breach:
            case Breach.EITHER:
                theirs, ours = self.difference(), self.ratio()
                return min(theirs.log_e_non_inferior(difference), ours.log_e_non_inferior(ratio))
            case Breach.BOTH:
                return log_mixture(as_array(corner.reverse), as_array(SMALLER_WEIGHTS))
            case never:
                assert_never(never)

    def estimate(self, state: State) -> Estimate | None:
        """Return the Mantel-Haenszel rate difference (candidate minus baseline), or None without data."""
        return self.difference().estimate(state.parts[1])

    def interval(self, state: State, level: float) -> Interval | None:
        """Return the confidence sequence of the rate difference; None until both variants have data."""
        return self.difference().interval(state.parts[1], level)

    def ratio_interval(self, state: State, level: float) -> Interval | None:
        """Return the confidence sequence of the rate ratio; None until both variants have data."""
        return self.ratio().interval(state.parts[2], level)


def _rise(design: TwoMarginsDesign) -> float:
    """Return the relative margin as a rise of the rate under test over the reference; see `gatestats.rates`."""
    return design.relative / (1 - design.relative) if design.worse is Worse.LOWER else design.relative


def _relative_binds(design: TwoMarginsDesign, corner: State) -> bool:
    """Return whether, at the recent pooled rate, the relative margin is the one that decides; known before the tick."""
    events, total, *_ = corner.sums
    narrower = _rise(design) * (events + 0.5) / (total + 1) < design.points
    return narrower if design.breach is Breach.EITHER else not narrower


@lru_cache(maxsize=512)
def _corner_bets(design: TwoMarginsDesign) -> tuple[RateBets, RateBets]:
    """Return bets on multiples of the margin in points, and of the relative margin, against the same corner."""
    rise, either = _rise(design), design.breach is Breach.EITHER
    null = CornerNull(design.points, rise, beyond=not either)
    in_points = tuple(Bet(points=effect * design.points) for effect in (EFFECTS if either else SMALLER))
    in_parts = (
        tuple(Bet(factor=1 + effect * rise) for effect in EFFECTS)
        if either
        else tuple(Bet(factor=(1 + rise) ** effect) for effect in SMALLER)
    )
    swap = design.worse is Worse.LOWER
    points, parts = (
        RateBets(swap, null, null, bets if either else (), () if either else bets, design.planned_ticks)
        for bets in (in_points, in_parts)
    )
    return points, parts


@lru_cache(maxsize=512)
def _fresh(design: TwoMarginsDesign) -> State:
    corner = fresh(mark("corner", design), _corner_bets(design)[0])
    parts = corner, design.difference().start(), design.ratio().start()
    return State(mark("two-margins", design), 0, 0, 0.0, (), (), (), (), parts)
