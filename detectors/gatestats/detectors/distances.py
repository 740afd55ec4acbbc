"""How far two distributions lie apart when only their buckets are known: Kolmogorov-Smirnov and Wasserstein.

Inside a bucket nothing is known, and more requests do not help. So the KS distance is bounded from both sides: what is
certain at the edges, and the most that the insides can hide. H0: both variants draw independent values from one
distribution. Fixed n: p-values and thresholds hold for one look at n fixed beforehand.
They describe and alert; they never roll back.
Source: statistics.md 4; Massart (1990) for the constant of the Dvoretzky-Kiefer-Wolfowitz inequality.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.special import kolmogi, kolmogorov

from gatestats.arrays import FloatArray
from gatestats.detectors.inputs import (
    NoData,
    checked_pair,
    nothing_counted,
    refuse_bad_alpha,
    refuse_bad_draws,
    refuse_bad_value,
)
from gatestats.detectors.redraws import deal, p_value, threshold


@dataclass(frozen=True, slots=True)
class KolmogorovBounds:
    """What buckets tell of the largest distance between two distribution functions.

    Parameters
    ----------
    low, high
        The distance of the two samples lies between them, each 0..1: ``low`` is the distance at the edges.
    threshold
        Under H0 the distance of the samples exceeds it with chance about alpha, > 0; for comparing with ``low``.
    p_value
        Chance under H0 of a distance of at least ``low``, 0..1; conservative, for the edges see only part.
    most
        The distance of the true distributions is at most this with chance 1 - alpha, 0..1: ``high`` and the error of
        both samples. Claims of equivalence need it.
    """

    low: float
    high: float
    threshold: float
    p_value: float
    most: float

    @property
    def differs(self) -> bool:
        """Whether H0 is rejected at level alpha."""
        return self.low > self.threshold

    def equivalent(self, tolerance: float) -> bool:
        """Tell whether the true distance is at most ``tolerance`` (in (0, 1)), wrongly with chance at most alpha."""
        if not 0 < tolerance < 1:
            raise ValueError(f"tolerance must lie between 0 and 1, both excluded, got {tolerance}")
        return self.most <= tolerance


@dataclass(frozen=True, slots=True)
class Wasserstein:
    """The mean distance that mass must be moved to turn one distribution into the other.

    Parameters
    ----------
    distance
        In the unit of the edges, >= 0; moves beyond the last finite edge are not in it.
    truncated_at
        The last finite edge if there is an open bucket above it, else None.
    baseline_above, candidate_above
        Shares in that open bucket, 0..1; 0 if there is none.
    null_mean
        Mean of ``distance`` under H0, same unit.
    null_threshold
        Exceeded with chance at most alpha under H0, same unit; inf if there are too few draws for that alpha.
    p_value
        Chance under H0 of a distance at least as large, in (0, 1].
    """

    distance: float
    truncated_at: float | None
    baseline_above: float
    candidate_above: float
    null_mean: float
    null_threshold: float
    p_value: float

    @property
    def differs(self) -> bool:
        """Whether H0 is rejected at level alpha."""
        return self.distance > self.null_threshold


def kolmogorov_bounds(
    baseline: Sequence[int], candidate: Sequence[int], *, alpha: float = 0.01
) -> KolmogorovBounds | NoData:
    """Bound the Kolmogorov-Smirnov distance of two samples known by their buckets.

    H0 and validity: see the module. The p-value is that of Kolmogorov's limit law, ``most`` holds for every n.

    Parameters
    ----------
    baseline, candidate
        Counts per bucket, whole numbers >= 0, shape (J,), J >= 1, same ascending buckets that hold every value.
    alpha
        Chance of a false rejection, and of ``most`` being too small, in (0, 1).
    """
    refuse_bad_alpha(alpha)
    left, right = checked_pair(baseline, candidate)
    missing = nothing_counted(left, right)
    if missing:
        return missing
    theirs, ours = (np.concatenate([[0.0], counts.cumsum() / counts.sum()]) for counts in (left, right))
    low = float(np.abs(theirs - ours).max())
    # somewhere inside bucket j one function may have reached its upper end before the other has left its lower one
    high = float(np.maximum(theirs[1:] - ours[:-1], ours[1:] - theirs[:-1]).max())
    sizes = (float(left.sum()), float(right.sum()))
    scale = math.sqrt(sizes[0] * sizes[1] / (sizes[0] + sizes[1]))
    errors = sum(math.sqrt(math.log(4 / alpha) / (2 * size)) for size in sizes)
    return KolmogorovBounds(
        low, high, float(kolmogi(alpha)) / scale, float(kolmogorov(low * scale)), min(1.0, high + errors)
    )


def wasserstein(
    edges: Sequence[float],
    baseline: Sequence[int],
    candidate: Sequence[int],
    *,
    alpha: float = 0.01,
    draws: int = 999,
    seed: int = 0,
) -> Wasserstein | NoData:
    """Return the 1-Wasserstein distance, values spread evenly inside each bucket, and its law under H0.

    H0 and validity: see the module. The law is that of exchanging requests between the variants: pooled counts are
    dealt out again ``draws`` times. Exact at every n, and the p-value is never 0.

    Parameters
    ----------
    edges
        Bounds of the buckets, finite but for the last, which may be inf; strictly increasing, shape (J + 1,), in any
        unit.
    baseline, candidate
        Counts per bucket, whole numbers >= 0, shape (J,), J >= 1; fewer than a thousand million together.
    alpha
        Chance of exceeding the threshold under H0, in (0, 1).
    draws
        Number of redraws, >= 99.
    seed
        Of the redraws, >= 0: the same input gives the same output.
    """
    refuse_bad_alpha(alpha)
    refuse_bad_draws(draws)
    left, right = checked_pair(baseline, candidate)
    finite = _refuse_bad_bounds(edges, left.size)
    missing = nothing_counted(left, right)
    if missing:
        return missing
    if finite < 2:
        return NoData("the only bucket is open, so values have no distance")
    widths = np.diff(edges[:finite])
    distance = float(_area(left, right, widths))
    redrawn = _area(*deal(left, right, draws, seed), widths)
    return Wasserstein(
        distance=distance,
        truncated_at=None if finite == len(edges) else edges[finite - 1],
        baseline_above=float(left[finite - 1 :].sum() / left.sum()),
        candidate_above=float(right[finite - 1 :].sum() / right.sum()),
        null_mean=float(redrawn.mean()),
        null_threshold=threshold(redrawn, alpha),
        p_value=p_value(redrawn, distance),
    )


def _refuse_bad_bounds(edges: Sequence[float], buckets: int) -> int:
    """Return the number of finite edges."""
    if len(edges) != buckets + 1:
        raise ValueError(f"{buckets} buckets need {buckets + 1} edges, got {len(edges)}")
    if not all(low < high for low, high in pairwise(edges)):
        raise ValueError(f"edges must be strictly increasing, got {tuple(edges)}")
    finite = len(edges) - (edges[-1] == math.inf)
    for edge in edges[:finite]:
        refuse_bad_value("edges but the last", edge)
    return finite


def _area(baseline: FloatArray, candidate: FloatArray, widths: FloatArray) -> FloatArray:
    """Return the area between the two broken lines over the finite buckets; counts (..., J), result (...)."""
    shares = candidate / candidate.sum(axis=-1, keepdims=True) - baseline / baseline.sum(axis=-1, keepdims=True)
    after = shares.cumsum(axis=-1)[..., : widths.size]
    before = after - shares[..., : widths.size]
    size = np.abs(before) + np.abs(after)
    crossing = before * after < 0
    squares = np.divide(before**2 + after**2, size, out=np.zeros_like(size), where=crossing)
    area: FloatArray = (widths / 2 * np.where(crossing, squares, size)).sum(axis=-1)
    return area
