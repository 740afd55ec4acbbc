"""Geometry of histogram buckets: positions, quantiles, what a slowdown does to them.

A bucket (low, high] is named by its upper edge; the first holds everything up to its edge, the last may end at inf.
Values are positive (seconds, bytes, tokens); distances are ratios, so interpolation is linear in the logarithm.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from gatestats.ticks import refuse_bad_count

#: Edges written as decimals are equal if they agree to this share.
_SAME = 1e-9
#: Edges count as one exponential grid if neighbouring ratios agree to this share.
_REGULAR = 0.005
#: A shift stands for a margin if its ratio misses it by at most this share of the margin's excess over 1.
_CLOSE = 0.25

#: Bounds (low, high] of a bucket to its count.
Buckets = Mapping[tuple[float, float], int]


def refuse_bad_edges(edges: Sequence[float]) -> None:
    """Raise ValueError unless there are at least three edges, strictly increasing, the first above 0."""
    if len(edges) < 3 or not edges[0] > 0 or not all(low < high for low, high in pairwise(edges)):
        raise ValueError(f"edges must be at least three, above 0 and strictly increasing, got {tuple(edges)}")


def rebucket(edges: Sequence[float], buckets: Buckets) -> tuple[int, ...]:
    """Count into the buckets of ``edges``; finer buckets are added up.

    Parameters
    ----------
    edges
        Upper edges as in `TwoArmHistogram`.
    buckets
        Counts by bounds, of a classic or native histogram. Zero and negative buckets belong to the first.

    Raises
    ------
    ValueError
        If a bucket that holds something straddles an edge: the histograms are on different buckets.
    """
    refuse_bad_edges(edges)
    counts = [0] * len(edges)
    for (low, high), count in buckets.items():
        refuse_bad_count(f"bucket ({low}, {high}]", count)
        if not count:
            continue
        index = int(np.searchsorted(edges, high * (1 - math.copysign(_SAME, high)), side="left"))
        if index == len(edges) or (index > 0 and low < edges[index - 1] * (1 - _SAME)):
            raise ValueError(f"bucket ({low}, {high}] does not lie in one bucket of the edges {tuple(edges)}")
        counts[index] += count
    return tuple(counts)


def pool_buckets(parts: Sequence[Buckets | None]) -> dict[tuple[float, float], int] | None:
    """Add up the targets of one variant; those not observed are left out; None if none was observed."""
    seen = [part for part in parts if part is not None]
    if not seen:
        return None
    pooled: dict[tuple[float, float], int] = {}
    for part in seen:
        for bounds, count in part.items():
            pooled[bounds] = pooled.get(bounds, 0) + count
    return pooled


def edges_of(buckets: Buckets, *, room: int = 8) -> tuple[float, ...]:
    """Return edges for a baseline histogram: its own, and for a native one ``room`` more buckets on either side.

    Parameters
    ----------
    buckets
        Counts by bounds, one classic histogram or native ones of one resolution; at least one positive finite edge
        next to a count.
    room
        Buckets added to a native histogram, whose empty buckets are not transmitted, >= 0.
    """
    classic = {high for _, high in buckets}
    if math.inf in classic:
        return tuple(sorted(classic))
    filled = sorted((low, high) for (low, high), count in buckets.items() if count and low > 0)
    if not filled:
        raise ValueError("the baseline's histogram is empty: no edges can be taken from it")
    growth = max(high / low for low, high in filled)
    step = math.log(growth)
    first, last = (round(math.log(edge) / step) for edge in (filled[0][1], filled[-1][1]))
    return (*(math.exp(step * index) for index in range(first - room, last + room + 1)), math.inf)


def positions(edges: Sequence[float]) -> NDArray[np.float64]:
    """Return the middle of each bucket on the logarithmic scale; open buckets count as wide as their neighbour."""
    refuse_bad_edges(edges)
    upper = np.log(np.array(edges[:-1], dtype=np.float64))
    bounds = np.concatenate([[2 * upper[0] - upper[1]], upper])
    last = math.log(edges[-1]) if math.isfinite(edges[-1]) else 2 * upper[-1] - upper[-2]
    bounds = np.append(bounds, last)
    middle: NDArray[np.float64] = (bounds[:-1] + bounds[1:]) / 2
    return middle


def share_below(edges: Sequence[float], counts: Sequence[int], value: float) -> float | None:
    """Return the interpolated share of values up to ``value`` (> 0), in 0..1; None without counts."""
    total = sum(counts)
    if not total:
        return None
    index = int(np.searchsorted(edges, value, side="left"))
    if index == len(edges):
        return 1.0
    low = edges[index - 1] if index else edges[0] ** 2 / edges[1]
    inside = value > low and math.isfinite(edges[index])
    within = math.log(value / low) / math.log(edges[index] / low) if inside else 0.0
    return (sum(counts[:index]) + within * counts[index]) / total


def quantile_of(edges: Sequence[float], counts: Sequence[float], quantile: float) -> float | None:
    """Return the interpolated quantile; None without counts, or if it lies beyond the last finite edge.

    Parameters
    ----------
    edges, counts
        As in `TwoArmHistogram`.
    quantile
        In (0, 1).
    """
    total = sum(counts)
    if not total:
        return None
    wanted, reached = quantile * total, list(accumulate(counts))
    index = next(place for place, below in enumerate(reached) if below >= wanted)
    high = edges[index]
    if math.isinf(high):
        return None
    low = edges[index - 1] if index else edges[0] ** 2 / edges[1]
    beyond = (reached[index] - wanted) / counts[index]
    return math.exp(math.log(high) - beyond * math.log(high / low))


@dataclass(frozen=True, slots=True)
class BucketShift:
    """A slowdown margin that the edges can express.

    Parameters
    ----------
    buckets
        By how many buckets a value moves, >= 1.
    margin
        The ratio that this is, close to the one asked for: the margin to test and to report.
    """

    buckets: int
    margin: float


def expressible_shift(edges: Sequence[float], margin: float) -> BucketShift | None:
    """Return the shift by whole buckets that stands for a slowdown margin; None if the edges are too coarse.

    Parameters
    ----------
    edges
        As in `TwoArmHistogram`.
    margin
        Largest accepted ratio of candidate to baseline, > 1; 1.1 is "10 % slower".

    Notes
    -----
    Native histograms grow by 2^(2^-schema), schema 3 by 1.0905. Classic edges qualify if their ratios are one constant;
    the usual 2 to 2.5 express no margin of some per cent: use `exceedance` then.
    """
    refuse_bad_edges(edges)
    refuse_bad_margin(margin)
    finite = np.log([edge for edge in edges if math.isfinite(edge)])
    steps = np.diff(finite)
    step = float(steps.mean())
    if steps.max() - steps.min() > _REGULAR * step:
        return None
    buckets = max(1, round(math.log(margin) / step))
    reached = math.exp(buckets * step)
    return BucketShift(buckets, reached) if abs(reached - margin) <= _CLOSE * (margin - 1) else None


def slowed(edges: Sequence[float], margin: float) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return, for each bucket, the first and the last bucket in which its values / ``margin`` can lie.

    Parameters
    ----------
    edges
        As in `TwoArmHistogram`.
    margin
        Ratio by which values are divided, > 0.

    Notes
    -----
    On an exponential grid and a margin of whole buckets both are the same but for the open buckets.
    """
    uppers = np.array(edges, dtype=np.float64)
    first = np.searchsorted(uppers, uppers[:-1] / margin * (1 + _SAME), side="right")
    last = np.searchsorted(uppers, uppers / margin * (1 - _SAME), side="left")
    end = uppers.size - 1
    return np.minimum(np.concatenate([[0], first]), end).astype(np.intp), np.minimum(last, end).astype(np.intp)


def refuse_bad_margin(margin: float) -> None:
    """Raise ValueError unless ``margin`` is above 1 and at most 16."""
    if not 1 < margin <= 16:
        raise ValueError(f"a slowdown margin must be a ratio above 1 and up to 16, got {margin}")
