"""Is the candidate slower than a margin: the histogram tilt, an exact stratified rank test at every look.

H0 of rollback: in every tick the candidate's values, divided by the margin, are stochastically not larger than the
baseline's. H0 of promotion: they are not smaller. The distribution itself may drift: pooled bucket counts are given.
Validity: anytime, exact, for requests independent within a tick given routing. ln L = b sum_j s_j x_j - ln E[...],
x the candidate's bucket counts, s fixed nondecreasing scores; E by `gatestats.tilted_sum`. The likelihood ratio of a
rollback bet grows with every candidate value (that of a promotion bet falls), so stochastic order carries E <= 1 from
equality to the whole null, by coupling. Where the edges do not hold a slowed bucket exactly, rollback takes the first
bucket in which its values can lie and promotion the last, so both stay valid.
Source: statistics.md 1.5; van Elteren (1960) for the stratified rank test.
"""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gatestats.arrays import FloatArray, as_array, log_mixture
from gatestats.buckets import positions, quantile_of, refuse_bad_edges, slowed
from gatestats.late_change import FIRST_STAKE, first_wealth, held, log_evidence, refuse_bad_plan, step_wealth
from gatestats.proportion_bounds import quantile_bounds
from gatestats.state import State, mark, must_belong, plain
from gatestats.ticks import Estimate, Interval, Measure, Tick, TwoArmHistogram, Worse, refuse_bad_level, tick_as
from gatestats.tilted_sum import log_tilted_expectation

#: Rollback bets: tilt per standard deviation of the log value, and log odds of lying in the tail.
_LEVEL_TILTS: Final = (0.1, 0.2, 0.4)
_TAIL_TILTS: Final = (math.log(1.5), math.log(2.5), math.log(5.0))
_WEIGHTS: Final = (0.25, 0.35, 0.1, 0.1, 0.1, 0.1)
#: Promotion bets: the candidate lies this far below the slowed baseline, in standard deviations.
_BETTER_TILTS: Final = (-0.1, -0.2, -0.4)
_BETTER_WEIGHTS: Final = (0.35, 0.45, 0.2)
_LARGEST_SCORE: Final = 2.5
_TAIL: Final = 0.95


@dataclass(frozen=True, slots=True)
class HistogramDesign:
    """A slowdown margin and the scores of the buckets; a process for `TwoArmHistogram`.

    Parameters
    ----------
    edges
        Upper edges of the buckets, above 0, strictly increasing; every tick must come on them.
    scores
        Score of each bucket, nondecreasing, finite; see `from_baseline`.
    tail_from
        Index of the first bucket of the tail, 1..len(edges) - 1.
    margin
        Largest accepted ratio of candidate's to baseline's values, 1/16..16: 1 tolerates no loss, below 1 asks for an
        improvement. Exact if it is a whole number of buckets (`expressible_shift`), else conservative.
    worse
        Direction that counts as worse; LOWER exchanges the variants.
    planned_ticks
        Ticks within which a late regression is expected, >= 0; None for an open end.
    quantile
        Which quantile estimate and interval show, in (0, 1); evidence is about the whole distribution.
    """

    edges: tuple[float, ...]
    scores: tuple[float, ...]
    tail_from: int
    margin: float = 1.0
    worse: Worse = Worse.HIGHER
    planned_ticks: int | None = None
    quantile: float = 0.95

    def __post_init__(self) -> None:
        refuse_bad_edges(self.edges)
        if (
            len(self.scores) != len(self.edges)
            or not np.isfinite(self.scores).all()
            or (np.diff(self.scores) < 0).any()
        ):
            raise ValueError(f"scores must be finite, nondecreasing, one per edge, got {self.scores}")
        if not 1 <= self.tail_from < len(self.edges):
            raise ValueError(f"tail_from must be in 1..{len(self.edges) - 1}, got {self.tail_from}")
        if not 1 / 16 <= self.margin <= 16:
            raise ValueError(f"margin must be a ratio in 1/16..16, got {self.margin}")
        refuse_bad_level(self.quantile)
        refuse_bad_plan(self.planned_ticks)

    @classmethod
    def from_baseline(
        cls,
        edges: Sequence[float],
        baseline: Sequence[int],
        *,
        margin: float = 1.0,
        worse: Worse = Worse.HIGHER,
        planned_ticks: int | None = None,
    ) -> "HistogramDesign":
        """Set scores from the baseline's histogram of before the rollout.

        The score of a bucket is its distance in log value from the baseline's mean, in standard deviations (at least
        half a bucket), clipped to -2.5..2.5; the tail begins at the edge that leaves at most 5 % beyond.

        Parameters
        ----------
        edges, baseline
            Upper edges, and counts of the baseline, with at least one request.
        margin, worse, planned_ticks
            See the class.
        """
        middle, weights = positions(edges), as_array(baseline)
        if weights.size != middle.size or (weights < 0).any() or not weights.sum() > 0:
            raise ValueError(f"the baseline needs counts in {middle.size} buckets, got {tuple(baseline)}")
        weights /= weights.sum()
        mean = (weights * middle).sum()
        spread = max(math.sqrt((weights * (middle - mean) ** 2).sum()), float(np.diff(middle).min()) / 2)
        scores = np.clip((middle - mean) / spread, -_LARGEST_SCORE, _LARGEST_SCORE)
        tail_from = int(np.searchsorted(np.cumsum(weights), _TAIL - 1e-12, side="left")) + 1
        return cls(
            edges=tuple(edges),
            scores=plain(scores),
            tail_from=min(tail_from, middle.size - 1),
            margin=margin,
            worse=worse,
            planned_ticks=planned_ticks,
        )

    def start(self) -> State:
        """Return the state before the first tick."""
        return _fresh(self)

    def update(self, state: State, tick: Tick) -> State:
        """Return the state after one more tick.

        A tick in which a variant served nothing, or all values lie in one bucket, has factor 1.

        Raises
        ------
        ValueError
            If the tick is no `TwoArmHistogram`, has other edges, or the state belongs to another design.
        """
        must_belong(state, _fresh(self))
        histogram = tick_as(TwoArmHistogram, tick)
        if histogram.edges != self.edges:
            raise ValueError(f"the design has the edges {self.edges}, the tick {histogram.edges}: unequal buckets")
        reference, test = as_array(histogram.baseline), as_array(histogram.candidate)
        if self.worse is Worse.LOWER:
            reference, test = test, reference
        bets = _bets(self)
        factors = _log_factors(reference, _moved(test, bets.first), bets.rollback)
        reverse = _log_factors(reference, _moved(test, bets.last), bets.promotion)
        wealth, spent = step_wealth(state, held(factors, apart=histogram.apart), self.planned_ticks)
        seen = (*histogram.baseline, *histogram.candidate)
        return dataclasses.replace(
            state,
            ticks=state.ticks + 1,
            informative=state.informative + bool(factors.any() or reverse.any()),
            spent=spent,
            wealth=wealth,
            reverse=plain(as_array(state.reverse) + reverse),
            totals=tuple(before + now for before, now in zip(state.totals, seen, strict=True)),
            sums=plain(as_array(state.sums) + _at_same_times(histogram)),
        )

    def log_e(self, state: State) -> float:
        """Return ln E against "not larger than the margin in every tick", nats."""
        return log_evidence(state, as_array(_WEIGHTS))

    def log_e_non_inferior(self, state: State) -> float:
        """Return ln E against "larger by at least the margin in every tick", nats."""
        return log_mixture(as_array(state.reverse), as_array(_BETTER_WEIGHTS))

    def estimate(self, state: State) -> Estimate | None:
        """Return the quantile of both variants and their ratio (candidate over baseline), or None without data."""
        baseline, candidate = self.counts(state)
        if not sum(baseline) and not sum(candidate):
            return None
        arms = baseline, candidate, *self._strata(state)
        theirs, ours, before, now = (quantile_of(self.edges, counts, self.quantile) for counts in arms)
        return Estimate(
            measure=Measure.SLOWDOWN,
            effect=None if before is None or now is None else now / before,
            baseline=theirs,
            candidate=ours,
            baseline_total=sum(baseline),
            candidate_total=sum(candidate),
        )

    def interval(self, state: State, level: float) -> Interval | None:
        """Return the confidence sequence of the ratio of quantiles, rounded outwards to edges.

        H0 inverted: the variant's quantile is q at every request. None until both variants have data; bounds beyond
        the finite edges are None.
        """
        refuse_bad_level(level)
        baseline, candidate = self._strata(state)
        if not sum(baseline):
            return None
        half = 1 - (1 - level) / 2
        theirs, ours = (quantile_bounds(self.edges, counts, self.quantile, half) for counts in (baseline, candidate))
        low = ours[0] / theirs[1] if ours[0] is not None and theirs[1] is not None else None
        high = ours[1] / theirs[0] if ours[1] is not None and theirs[0] is not None else None
        return Interval(Measure.SLOWDOWN, low, high, level)

    def _strata(self, state: State) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Return counts per bucket, of baseline and candidate, weighted over ticks so that a common drift cancels."""
        return state.sums[: len(self.edges)], state.sums[len(self.edges) :]

    def counts(self, state: State) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return all counts per bucket so far, of baseline and candidate."""
        return state.totals[: len(self.edges)], state.totals[len(self.edges) :]


@dataclass(frozen=True, slots=True)
class _Bets:
    """Exponents per bet and bucket, and where each bucket of the arm under test goes when slowed."""

    rollback: FloatArray
    promotion: FloatArray
    first: NDArray[np.intp]
    last: NDArray[np.intp]


@lru_cache(maxsize=512)
def _bets(design: HistogramDesign) -> _Bets:
    levels = as_array(design.scores)
    tails = (np.arange(levels.size) >= design.tail_from).astype(np.float64)
    first, last = slowed(design.edges, design.margin)
    rollback = np.concatenate([np.outer(_LEVEL_TILTS, levels), np.outer(_TAIL_TILTS, tails)])
    return _Bets(rollback, np.outer(_BETTER_TILTS, levels), first, last)


@lru_cache(maxsize=512)
def _fresh(design: HistogramDesign) -> State:
    return State(
        design=mark("histogram", design),
        ticks=0,
        informative=0,
        spent=FIRST_STAKE,
        wealth=first_wealth(len(_WEIGHTS)),
        reverse=(0.0,) * len(_BETTER_WEIGHTS),
        totals=(0,) * (2 * len(design.edges)),
        sums=(0.0,) * (2 * len(design.edges)),
    )


def _at_same_times(histogram: TwoArmHistogram) -> FloatArray:
    """Return both variants' counts, each weighted with the other's share of the requests (Mantel and Haenszel)."""
    baseline, candidate = as_array(histogram.baseline), as_array(histogram.candidate)
    theirs, ours = baseline.sum(), candidate.sum()
    total = max(1.0, theirs + ours)
    return np.concatenate([baseline * (ours / total), candidate * (theirs / total)])


def _moved(counts: FloatArray, target: NDArray[np.intp]) -> FloatArray:
    return np.bincount(target, counts, counts.size).astype(np.float64)


def _log_factors(reference: FloatArray, test: FloatArray, exponents: FloatArray) -> FloatArray:
    """Return ln L of each bet for counts per bucket of the two arms."""
    pooled = reference + test
    filled = pooled > 0
    drawn, total = int(test.sum()), int(pooled.sum())
    if not 0 < drawn < total or filled.sum() < 2:
        return np.zeros(exponents.shape[0])
    used = exponents[:, filled]
    result: FloatArray = (used * test[filled]).sum(axis=1) - log_tilted_expectation(pooled[filled], drawn, used)
    return result
