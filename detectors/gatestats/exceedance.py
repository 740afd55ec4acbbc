"""A slowdown margin on buckets too coarse to shift by: how many more requests then lie beyond one edge.

Within a bucket nothing is known, so the margin is not a number but a range. It is read off the log-odds of exceeding
an edge, as a function of the edge's logarithm: straight for a log-logistic distribution, steeper and steeper for a
lognormal one, less and less steep for heavier tails. Assumption: between the edge and the edge / margin its slope lies
between the mean slopes of the bucket there and of the next bucket above. Rollback takes the high end of the range and
promotion the low end, each moved outwards by two standard errors of the baseline's counts, so that neither few
requests nor the shape inside a bucket turns against the one that relies on it. A common drift of durations changes the
odds of exceeding; the odds ratio of a slowdown, only as far as the slope changes.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from gatestats.buckets import quantile_of, refuse_bad_edges, refuse_bad_margin
from gatestats.ticks import TwoArmCounts, TwoArmHistogram

#: Standard errors by which the range is widened: about 2 % on either side are left.
_ERRORS: Final = 2.0
#: Log-odds up to which an odds ratio is told; edges next to each other let the slope, and so the ratio, grow endlessly.
_LARGEST: Final = 100.0
#: Added to the counts below, between and above two edges: nothing seen is not nothing there (Jeffreys).
_PRIOR: Final = 0.5


@dataclass(frozen=True, slots=True)
class Exceedance:
    """A slowdown margin translated into the odds of lying beyond one edge.

    Parameters
    ----------
    index, edge
        The edge nearest to the baseline's 95th percentile, in the unit of the values.
    baseline_share
        Share of the baseline beyond it, in (0, 1).
    least_odds_ratio, most_odds_ratio
        What a slowdown by exactly the margin does to the odds of lying beyond it, at least and at most, >= 1.
    """

    index: int
    edge: float
    baseline_share: float
    least_odds_ratio: float
    most_odds_ratio: float

    def slowed_share(self, odds_ratio: float) -> float:
        """Return the share beyond the edge of a baseline whose odds are multiplied, in (0, 1)."""
        odds = odds_ratio * self.baseline_share / (1 - self.baseline_share)
        return odds / (1 + odds)


def exceedance(edges: Sequence[float], baseline: Sequence[int], margin: float) -> Exceedance | None:
    """Translate a slowdown margin for edges too coarse to shift by; None if no edge splits the baseline's counts.

    Parameters
    ----------
    edges, baseline
        As in `TwoArmHistogram`; the baseline's counts from before the rollout.
    margin
        Largest accepted ratio of candidate to baseline, > 1.
    """
    refuse_bad_edges(edges)
    refuse_bad_margin(margin)
    total, below = sum(baseline), list(accumulate(baseline))
    target = quantile_of(edges, baseline, 0.95) or edges[-2]
    splitting = [index for index in range(len(edges)) if 0 < below[index] < total]
    if not splitting:
        return None
    index = min(splitting, key=lambda place: abs(math.log(edges[place] / target)))
    ends = _log_odds_ratios(_Steps(edges, tuple(below)), index, math.log(margin))
    least, most = (math.exp(min(_LARGEST, end)) for end in ends)
    return Exceedance(index, edges[index], 1 - below[index] / total, least, most)


def counts_beyond(histogram: TwoArmHistogram, index: int) -> TwoArmCounts:
    """Return the requests beyond the edge ``index`` among all, for both variants."""
    arms = histogram.baseline, histogram.candidate
    (theirs, their_total), (ours, our_total) = ((sum(counts[index + 1 :]), sum(counts)) for counts in arms)
    return TwoArmCounts(theirs, their_total, ours, our_total, apart=histogram.apart)


@dataclass(frozen=True, slots=True)
class _Steps:
    """How the log-odds of exceeding fall from edge to edge; edge -1 is a virtual one below which nothing lies."""

    edges: Sequence[float]
    below: tuple[int, ...]

    def place(self, edge: int) -> float:
        """Return the logarithm of an edge; the first bucket counts as wide as the second."""
        return math.log(self.edges[edge]) if edge >= 0 else 2 * math.log(self.edges[0]) - math.log(self.edges[1])

    def fall(self, low: int, high: int) -> tuple[float, float]:
        """Return by how much the log-odds of exceeding fall from one edge to a higher one, at least and at most."""
        total = self.below[-1]
        first = (self.below[low] if low >= 0 else 0) + _PRIOR
        last = total - self.below[high] + _PRIOR
        middle = self.below[high] - (self.below[low] if low >= 0 else 0) + _PRIOR
        fall = math.log((middle + last) / first) - math.log(last / (first + middle))
        variance = (
            middle * (1 / (middle + last) + 1 / (first + middle)) ** 2
            + first * (1 / first - 1 / (first + middle)) ** 2
            + last * (1 / last - 1 / (middle + last)) ** 2
        )
        error = _ERRORS * math.sqrt(variance)
        return max(0.0, fall - error), fall + error


def _log_odds_ratios(steps: _Steps, index: int, log_margin: float) -> tuple[float, float]:
    """Return what the log-odds of exceeding edge ``index`` gain from a slowdown, at least and at most."""
    slowed = steps.place(index) - log_margin
    bucket = index  # the slowed edge lies in the bucket below edge ``bucket``
    while bucket > 0 and steps.place(bucket - 1) > slowed:
        bucket -= 1
    whole = steps.fall(bucket, index) if bucket < index else (0.0, 0.0)
    width = steps.place(bucket) - slowed
    slopes = [_slope(steps, bucket - 1, bucket)]
    if bucket + 1 < len(steps.edges) and math.isfinite(steps.edges[bucket + 1]):
        slopes.append(_slope(steps, bucket, bucket + 1))
    least, most = min(low for low, _ in slopes), max(high for _, high in slopes)
    return whole[0] + width * least, whole[1] + width * most


def _slope(steps: _Steps, low: int, high: int) -> tuple[float, float]:
    width = steps.place(high) - steps.place(low)
    least, most = steps.fall(low, high)
    return least / width, most / width
