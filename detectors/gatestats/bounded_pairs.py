"""Is a bounded value of pairs too large on average: score differences, or one loss minus the other, from a histogram.

H0 of rollback: in every tick E[value | past] <= margin (LOWER: >=). H0 of promotion: the reverse. Of a value only its
bucket is known, so each test takes the end of the bucket that lowers its evidence: the lower edge where large values
count against H0, the upper edge where small ones do. Nothing else is assumed of the pairs: they may drift and depend
on the past; bets 1 + l (value - margin) are nonnegative with mean at most 1 under H0. Anytime, exact.
Source: statistics.md 1.4; Waudby-Smith and Ramdas (2024), arXiv:2010.09686.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from gatestats.arrays import FloatArray, as_array, log_mixture
from gatestats.late_change import FIRST_STAKE, first_wealth, log_evidence, refuse_bad_plan, step_wealth
from gatestats.state import State, mark, must_belong, plain
from gatestats.ticks import (
    Estimate,
    Interval,
    Measure,
    PairedHistogram,
    Tick,
    Worse,
    refuse_bad_bounds,
    refuse_bad_level,
    tick_as,
)

#: Sizes of the bets, as shares of the largest that cannot go broke.
_BETS: Final = (0.05, 0.1, 0.2, 0.35, 0.55, 0.75)
_WEIGHTS: Final = (0.1, 0.15, 0.2, 0.25, 0.2, 0.1)
_HALVINGS: Final = 50


@dataclass(frozen=True, slots=True)
class BoundedPairsDesign:
    """A margin on the mean of a bounded value of pairs; a process for `PairedHistogram`.

    Parameters
    ----------
    edges
        Edges of the buckets, finite, strictly increasing; the value lies between the first and the last.
    margin
        Accepted mean of the value, strictly between the first and the last edge.
    worse
        HIGHER: a mean above the margin is worse; LOWER: below.
    planned_ticks
        Ticks within which a late regression is expected, >= 0; None for an open end.
    """

    edges: tuple[float, ...]
    margin: float
    worse: Worse = Worse.HIGHER
    planned_ticks: int | None = None

    def __post_init__(self) -> None:
        refuse_bad_bounds(self.edges)
        if not self.edges[0] < self.margin < self.edges[-1]:
            raise ValueError(f"margin must lie between {self.edges[0]} and {self.edges[-1]}, got {self.margin}")
        refuse_bad_plan(self.planned_ticks)

    def start(self) -> State:
        """Return the state before the first tick."""
        return _fresh(self)

    def update(self, state: State, tick: Tick) -> State:
        """Return the state after one more tick; see `gatestats.process.Process`.

        Raises
        ------
        ValueError
            As every process, and if the tick has other edges.
        """
        must_belong(state, _fresh(self))
        pairs = tick_as(PairedHistogram, tick)
        if pairs.edges != self.edges:
            raise ValueError(f"this design counts between the edges {self.edges}, got {pairs.edges}")
        above = _log_above(self.edges, pairs.counts, self.margin)
        below = _log_below(self.edges, pairs.counts, self.margin)
        worse, better = (above, below) if self.worse is Worse.HIGHER else (below, above)
        wealth, spent = step_wealth(state, worse, self.planned_ticks)
        return dataclasses.replace(
            state,
            ticks=state.ticks + 1,
            informative=state.informative + (sum(pairs.counts) > 0),
            spent=spent,
            wealth=wealth,
            reverse=plain(as_array(state.reverse) + better),
            totals=tuple(before + now for before, now in zip(state.totals, pairs.counts, strict=True)),
        )

    def log_e(self, state: State) -> float:
        """Return ln E against "the mean is within the margin in every tick", nats."""
        return log_evidence(state, as_array(_WEIGHTS))

    def log_e_non_inferior(self, state: State) -> float:
        """Return ln E against "the mean is at or beyond the margin in every tick", nats."""
        return log_mixture(as_array(state.reverse), as_array(_WEIGHTS))

    def estimate(self, state: State) -> Estimate | None:
        """Return the mean if values lay in the middle of their buckets, or None without pairs.

        The levels are the means if they lay at the lower edges, and at the upper ones.
        """
        total = sum(state.totals)
        if not total:
            return None
        low, high = (as_array(state.totals) @ as_array(ends) / total for ends in (self.edges[:-1], self.edges[1:]))
        return Estimate(Measure.PAIRED_MEAN, float(low + high) / 2, float(low), float(high), total, total)

    def interval(self, state: State, level: float) -> Interval | None:
        """Return the confidence sequence of a constant mean, as wide as the buckets make it; None without pairs."""
        refuse_bad_level(level)
        if not sum(state.totals):
            return None
        limit = -math.log((1 - level) / 2)

        def too_low(mean: float) -> bool:
            return log_mixture(_log_above(self.edges, state.totals, mean), as_array(_WEIGHTS)) >= limit

        def too_high(mean: float) -> bool:
            return log_mixture(_log_below(self.edges, state.totals, mean), as_array(_WEIGHTS)) >= limit

        ends = self.edges[0], self.edges[-1]
        low, high = _last(too_low, *ends), _last(too_high, *reversed(ends))
        return Interval(Measure.PAIRED_MEAN, low, high, level)


def _log_above(edges: Sequence[float], counts: Sequence[int], margin: float) -> FloatArray:
    """Return ln of what each bet on a mean above ``margin`` makes of 1."""
    return _log_bets(as_array(edges[:-1]) - margin, counts, margin - edges[0])


def _log_below(edges: Sequence[float], counts: Sequence[int], margin: float) -> FloatArray:
    """Return ln of what each bet on a mean below ``margin`` makes of 1."""
    return _log_bets(margin - as_array(edges[1:]), counts, edges[-1] - margin)


def _log_bets(gains: FloatArray, counts: Sequence[int], worst: float) -> FloatArray:
    sizes = as_array(_BETS) / worst
    result: FloatArray = np.log1p(sizes[:, None] * gains) @ as_array(counts)
    return result


def _last(rejected: Callable[[float], bool], rejecting: float, keeping: float) -> float:
    """Bisect from an end of the scale, next to which means are rejected if any are; the rejected side is returned."""
    for _ in range(_HALVINGS):
        middle = (rejecting + keeping) / 2
        if rejected(middle):
            rejecting = middle
        else:
            keeping = middle
    return rejecting


@lru_cache(maxsize=512)
def _fresh(design: BoundedPairsDesign) -> State:
    bets, buckets = len(_BETS), len(design.edges) - 1
    return State(
        mark("bounded-pairs", design), 0, 0, FIRST_STAKE, first_wealth(bets), (0.0,) * bets, (0,) * buckets, ()
    )
