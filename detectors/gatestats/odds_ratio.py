"""Is the candidate's odds ratio beyond a margin: the stratified exact conditional test, at every look.

H0 of rollback: in every tick the odds ratio is at most the margin. H0 of promotion: it is at least the margin.
The event rate itself may be anything and drift in any way: given the pooled events of the tick it drops out.
Validity: anytime, exact; requests must be independent within a tick given routing (bursts: see `gatestats.pods`).
Source: statistics.md 1.1; Lindon and Malek (2022), arXiv:2011.03567; Turner and Grünwald (2023), arXiv:2302.11401.
"""

import dataclasses
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from gatestats.arrays import FloatArray, as_array, log_mixture, log_sum_exp
from gatestats.late_change import FIRST_STAKE, first_wealth, held, log_evidence, refuse_bad_plan, step_wealth
from gatestats.noncentral import log_normalisers
from gatestats.state import State, mark, must_belong, plain
from gatestats.ticks import Estimate, Interval, Measure, Tick, TwoArmCounts, Worse, refuse_bad_level, share, tick_as

#: Multiples of the margin that rollback bets on, and their prior mass. Ratios of neighbours up to 1.7 lose at most
#: 9 % of the growth rate for an effect between two of them.
_EFFECTS: Final = (1.3, 1.7, 2.2, 3.5, 6.0, 12.0)
_EFFECT_WEIGHTS: Final = (0.30, 0.25, 0.20, 0.12, 0.08, 0.05)
#: Promotion bets lie below the margin by these multiples of ln(margin): 1 is "equal", 2 "better by the margin".
_BETTER: Final = (1.0, 0.5, 2.0, 4.0)
_BETTER_WEIGHTS: Final = (0.5, 0.15, 0.2, 0.15)
#: A margin too close to 1 gives no scale for what better means; this is used instead.
_SMALLEST_SCALE: Final = math.log(1.25)
#: Odds ratios on which the sums are kept, so that one state serves any margin and the interval.
_GRID: Final = 41
_GRID_END: Final = math.log(16.0)
#: Place of the margin among the odds ratios of `OddsBets`.
MARGIN: Final = _GRID


@dataclass(frozen=True, slots=True)
class OddsRatioDesign:
    """The margin and the bets of an odds ratio test; a process for `TwoArmCounts`.

    Parameters
    ----------
    margin
        Largest odds ratio in the worse direction that is accepted, 1/16..16, dimensionless; 1 tolerates no loss,
        below 1 asks for an improvement.
    worse
        Direction that counts as worse. LOWER tests the odds of the baseline over those of the candidate.
    planned_ticks
        Ticks within which a late regression is expected, >= 0; None for an open end.
    mde
        Odds ratio (in the worse direction) that the user cares most about, > margin; takes half of the prior mass.
    """

    margin: float = 1.0
    worse: Worse = Worse.HIGHER
    planned_ticks: int | None = None
    mde: float | None = None

    def __post_init__(self) -> None:
        if not 1 / 16 <= self.margin <= 16:
            raise ValueError(f"margin must be an odds ratio in 1/16..16, got {self.margin}")
        if self.mde is not None and not self.margin < self.mde < math.inf:
            raise ValueError(f"mde must be a finite odds ratio above the margin {self.margin}, got {self.mde}")
        refuse_bad_plan(self.planned_ticks)

    def start(self) -> State:
        """Return the state before the first tick."""
        return _fresh(self)

    def update(self, state: State, tick: Tick) -> State:
        """Return the state after one more tick.

        A tick whose pooled events are none or all, or in which a variant served nothing, has factor 1: it changes no
        evidence, and only the schedule of `gatestats.late_change` goes on.

        Raises
        ------
        ValueError
            If the tick is not a `TwoArmCounts`, or the state belongs to another design.
        """
        must_belong(state, _fresh(self))
        tick = tick_as(TwoArmCounts, tick)
        counts = tick.swapped() if self.worse is Worse.LOWER else tick
        bets = bets_of(self)
        informative = is_informative(counts)
        added = log_normalisers(counts, bets.log_odds) if informative else np.zeros(bets.log_odds.size)
        events = counts.candidate_events if informative else 0
        factors = events * (bets.rollback - bets.margin) - (added[bets.kept :] - added[MARGIN])
        wealth, spent = step_wealth(state, held(factors, apart=tick.apart), self.planned_ticks)
        seen = (tick.baseline_events, tick.baseline_total, tick.candidate_events, tick.candidate_total, events)
        return dataclasses.replace(
            state,
            ticks=state.ticks + 1,
            informative=state.informative + informative,
            spent=spent,
            wealth=wealth,
            totals=tuple(before + now for before, now in zip(state.totals, seen, strict=True)),
            sums=plain(as_array(state.sums) + np.concatenate([added[: bets.kept], common_odds_terms(tick)])),
        )

    def log_e(self, state: State) -> float:
        """Return ln E against "odds ratio <= margin in every tick" (weighted late-change mixture), nats."""
        return log_evidence(state, bets_of(self).rollback_weights)

    def log_e_non_inferior(self, state: State) -> float:
        """Return ln E against "odds ratio >= margin in every tick" (plain mixture of better values), nats."""
        better = slice(MARGIN + 1, bets_of(self).kept)
        return log_mixture(_log_ratios(self, state, better, MARGIN), as_array(_BETTER_WEIGHTS))

    def log_e_non_inferior_at(self, state: State, margin: float) -> float:
        """Return ln E against "odds ratio >= margin" for another margin than the design's, nats.

        The largest grid value not above ``margin`` stands for it: a larger null, so the answer is conservative by up
        to 15 %. Bets lie on "equal" and on the grid below.

        Raises
        ------
        ValueError
            If ``margin`` is not in 1/14..16 (below that, nothing better is on the grid).
        """
        if not 1 / 14 <= margin <= 16:
            raise ValueError(f"margin must be an odds ratio in 1/14..16, got {margin}")
        index = int(np.searchsorted(_grid(), math.log(margin) + 1e-12, side="right")) - 1
        below = slice(max(0, index - 12), index)
        bets = index - below.start
        return log_mixture(_log_ratios(self, state, below, index), np.full(bets, 1 / bets))

    def estimate(self, state: State) -> Estimate | None:
        """Return the Mantel-Haenszel common odds ratio (candidate over baseline), or None without any data."""
        baseline_events, baseline_total, candidate_events, candidate_total, _ = state.totals
        if not baseline_total and not candidate_total:
            return None
        for_candidate, for_baseline = state.sums[-2:]
        return Estimate(
            measure=Measure.ODDS_RATIO,
            effect=for_candidate / for_baseline if for_baseline > 0 else None,
            baseline=share(baseline_events, baseline_total),
            candidate=share(candidate_events, candidate_total),
            baseline_total=baseline_total,
            candidate_total=candidate_total,
        )

    def interval(self, state: State, level: float) -> Interval | None:
        """Return the confidence sequence of a constant odds ratio, candidate over baseline; None without information.

        Parameters
        ----------
        state
            What was seen.
        level
            Coverage over all looks together, in (0, 1).

        Notes
        -----
        {w0: E(w0) < 1 / (1 - level)}, with a Gaussian prior on the grid of ln w around equality. ln E is convex in
        ln w0, so the set is an interval; bounds are rounded outwards, and None beyond 1/16 or 16.
        """
        refuse_bad_level(level)
        if not state.informative:
            return None
        prior = -0.5 * _grid() ** 2
        prior -= log_sum_exp(prior)
        points = state.totals[-1] * _grid() - as_array(state.sums[:_GRID])
        excess = log_sum_exp(prior + points) - points + math.log1p(-level)
        bounds = -_upper_crossing(excess[::-1]), _upper_crossing(excess)
        low, high = sorted(-bound for bound in bounds) if self.worse is Worse.LOWER else bounds
        return Interval(
            Measure.ODDS_RATIO,
            math.exp(low) if low > -math.inf else None,
            math.exp(high) if high < math.inf else None,
            level,
        )


@dataclass(frozen=True, slots=True)
class OddsBets:
    """All odds ratios whose normaliser a tick needs: grid, margin, promotion bets | rollback bets."""

    log_odds: FloatArray
    #: How many of them the state keeps sums for: all but the rollback bets, which have wealth of their own.
    kept: int
    margin: float
    rollback: FloatArray
    rollback_weights: FloatArray


@lru_cache(maxsize=512)
def bets_of(design: OddsRatioDesign) -> OddsBets:
    """Return the bets of a design, and where its sums are kept."""
    margin = math.log(design.margin)
    scale = margin if margin >= _SMALLEST_SCALE / 4 else _SMALLEST_SCALE
    effects, weights = margin + np.log(_EFFECTS), as_array(_EFFECT_WEIGHTS)
    if design.mde is not None:
        effects = np.append(effects, math.log(design.mde))
        weights = np.append(weights / 2, 0.5)
    kept = np.concatenate([_grid(), [margin], margin - scale * as_array(_BETTER)])
    return OddsBets(np.concatenate([kept, effects]), kept.size, margin, effects, weights)


@lru_cache(maxsize=512)
def _fresh(design: OddsRatioDesign) -> State:
    bets = bets_of(design)
    return State(
        design=mark("odds-ratio", design),
        ticks=0,
        informative=0,
        spent=FIRST_STAKE,
        wealth=first_wealth(bets.rollback.size),
        reverse=(),
        totals=(0,) * 5,
        sums=(0.0,) * (bets.kept + 2),
    )


@lru_cache(maxsize=1)
def _grid() -> FloatArray:
    return np.linspace(-_GRID_END, _GRID_END, _GRID)


def is_informative(counts: TwoArmCounts) -> bool:
    """Return whether the split of pooled events between the variants could have been different."""
    events = counts.baseline_events + counts.candidate_events
    total = counts.baseline_total + counts.candidate_total
    return counts.baseline_total > 0 and counts.candidate_total > 0 and 0 < events < total


def _log_ratios(design: OddsRatioDesign, state: State, where: slice, null: int) -> FloatArray:
    """Log likelihood ratios over all ticks, from the sums alone: the points ``where`` against the point ``null``."""
    log_odds, sums = bets_of(design).log_odds, as_array(state.sums)
    ratios: FloatArray = state.totals[-1] * (log_odds[where] - log_odds[null]) - (sums[where] - sums[null])
    return ratios


def _upper_crossing(excess: FloatArray) -> float:
    """Return where, on the grid of ln w, a convex function rises above 0, rounded up; inf if it does not.

    Beyond its last grid value below 0 it lies above the line through the two values before, which gives the bound.
    A function that is nowhere below 0 on the grid may still be so beside its smallest value.
    """
    log_odds = _grid()
    inside = np.flatnonzero(excess < 0)
    last = int(inside[-1]) if inside.size else int(excess.argmin())
    if last == _GRID - 1:
        return math.inf
    step = float(log_odds[1] - log_odds[0])
    slope = (excess[last] - excess[last - 1]) / step if inside.size and last else 0.0
    reach = min(step, -excess[last] / slope) if slope > 0 else step
    return float(log_odds[last] + reach)


def common_odds_terms(tick: TwoArmCounts) -> tuple[float, float]:
    """Return this tick's terms of the Mantel-Haenszel numerator and denominator."""
    total = tick.baseline_total + tick.candidate_total
    if not total:
        return 0.0, 0.0
    return (
        tick.candidate_events * (tick.baseline_total - tick.baseline_events) / total,
        tick.baseline_events * (tick.candidate_total - tick.candidate_events) / total,
    )
