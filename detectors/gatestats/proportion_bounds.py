"""Confidence sequences of rates for display: Robbins' beta mixture, inverted.

H0 inverted: the rate of the variant is p at every request. Valid at all looks together; a drifting rate is covered
only on average, so decisions use the stratified processes and not these bounds.
Source: Robbins (1970); statistics.md 1.5, Bernoulli confidence sequence with a Beta(1/2, 1/2) mixture.
"""

import math
from collections.abc import Callable, Sequence

from gatestats.ticks import refuse_bad_count, refuse_bad_level

_HALVINGS = 48
_PRIOR = 0.5


def rate_bounds(events: int, total: int, level: float) -> tuple[float, float]:
    """Return lower and upper bound of a rate, each in 0..1; without data they are 0 and 1.

    Parameters
    ----------
    events
        Count, 0..total.
    total
        Count, >= 0.
    level
        Coverage over all looks together, in (0, 1).
    """
    refuse_bad_count("total", total)
    refuse_bad_count("events", events, total)
    refuse_bad_level(level)
    middle = (events + _PRIOR) / (total + 2 * _PRIOR)

    limit = _log_mixture(events, total) + math.log1p(-level)

    def rejected(rate: float) -> bool:
        return events * math.log(rate) + (total - events) * math.log1p(-rate) <= limit

    low = _outermost(rejected, middle, 0.0) if events else 0.0
    high = _outermost(rejected, middle, 1.0) if events < total else 1.0
    return low, high


def difference_bounds(baseline: tuple[int, int], candidate: tuple[int, int], level: float) -> tuple[float, float]:
    """Return bounds of (candidate's rate - baseline's rate), each in -1..1.

    Each rate is bounded at half of the error; by the union bound both hold together, whatever their dependence.

    Parameters
    ----------
    baseline, candidate
        (events, total) of each variant.
    level
        Coverage over all looks together, in (0, 1).
    """
    refuse_bad_level(level)
    theirs, ours = (rate_bounds(*counts, 1 - (1 - level) / 2) for counts in (baseline, candidate))
    return ours[0] - theirs[1], ours[1] - theirs[0]


def ratio_bounds(baseline: tuple[int, int], candidate: tuple[int, int], level: float) -> tuple[float, float | None]:
    """Return bounds of candidate's rate over baseline's rate, each >= 0; the upper one None if it may be anything.

    Parameters and validity as `difference_bounds`.
    """
    refuse_bad_level(level)
    theirs, ours = (rate_bounds(*counts, 1 - (1 - level) / 2) for counts in (baseline, candidate))
    return ours[0] / theirs[1], ours[1] / theirs[0] if theirs[0] > 0 else None


def _outermost(rejected: Callable[[float], bool], inside: float, end: float) -> float:
    """Bisect between a rate that is not rejected and the end of the scale; the rejected side is returned."""
    kept, out = inside, end
    for _ in range(_HALVINGS):
        middle = (kept + out) / 2
        if rejected(middle):
            out = middle
        else:
            kept = middle
    return out


def _log_beta(left: float, right: float) -> float:
    return math.lgamma(left) + math.lgamma(right) - math.lgamma(left + right)


def quantile_bounds(
    edges: Sequence[float], counts: Sequence[float], quantile: float, level: float
) -> tuple[float | None, float | None]:
    """Return edges between which a quantile lies; None where the counts give no bound.

    The share below an edge is bounded as in `rate_bounds`. Only the edge just beyond the true quantile on either side
    can fail, because counts grow with the edge; each gets half of the error.

    Parameters
    ----------
    edges, counts
        As in `gatestats.ticks.TwoArmHistogram`.
    quantile
        In (0, 1).
    level
        Coverage over all looks together, in (0, 1).
    """
    refuse_bad_level(quantile)
    refuse_bad_level(level)
    total, below = sum(counts), 0.0
    low: float | None = None
    for edge, count in zip(edges, counts, strict=True):
        below += count
        if not math.isfinite(edge):
            break
        if _rejected(below, total, quantile, 1 - (1 - level) / 2):
            if below > quantile * total:
                return low, edge
            low = edge
    return low, None


def _rejected(events: float, total: float, rate: float, level: float) -> bool:
    limit = _log_mixture(events, total) + math.log1p(-level)
    return events * math.log(rate) + (total - events) * math.log1p(-rate) <= limit


def _log_mixture(events: float, total: float) -> float:
    return _log_beta(_PRIOR + events, _PRIOR + total - events) - _log_beta(_PRIOR, _PRIOR)
