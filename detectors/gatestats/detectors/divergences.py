"""How far the candidate's distribution lies from the baseline's: PSI, Kullback-Leibler, Jensen-Shannon.

All from counts in the same bins. H0: both variants draw independent values from one distribution. To second order PSI
is the chi-square distance, KL half and JS an eighth of it, so under H0 each one divided by its share of
(1/n_baseline + 1/n_candidate) follows chi-square with J - 1 degrees of freedom: with few counts a PSI of 0.1 is noise.
Fixed n: the threshold holds for one look at n fixed beforehand, with about five expected counts per bin.
They describe and alert; they never roll back.
Source: statistics.md 4; Yurdakul and Naranjo (2020), "Statistical properties of the population stability index"; Lin
(1991), "Divergence measures based on the Shannon entropy".
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtrc, chdtri, rel_entr

from gatestats.arrays import FloatArray
from gatestats.detectors.bins import baseline_groups, summed
from gatestats.detectors.inputs import (
    NoData,
    checked_counts,
    checked_pair,
    nothing_counted,
    refuse_bad_alpha,
    refuse_below,
)

#: Half a count per bin: the share of an empty bin then shrinks as counts grow, unlike with a fixed floor.
PSEUDO_COUNT = 0.5


@dataclass(frozen=True, slots=True)
class Divergence:
    """A divergence and what it would be if nothing had changed.

    Parameters
    ----------
    nats
        The divergence, >= 0; inf if a bin makes it so.
    null_mean
        Its mean under H0, nats.
    null_threshold
        Value that it exceeds with chance alpha under H0, nats.
    p_value
        Chance under H0 of a value at least as large, 0..1.
    degrees
        Degrees of freedom: bins with counts, less one.
    thin_bins
        Bins whose expected count in a variant is below 5; unless 0, threshold and p-value are rough.
    infinite_bins
        First bin of each group in which a variant has no mass where the other has some, so that the value is
        infinite; empty with smoothing.
    groups
        First bin of each group of bins compared; groups that neither variant fills are not among them.
    """

    nats: float
    null_mean: float
    null_threshold: float
    p_value: float
    degrees: int
    thin_bins: int
    infinite_bins: tuple[int, ...]
    groups: tuple[int, ...]

    @property
    def excess(self) -> float:
        """The divergence less its null mean, nats; what is left to compare across slices of different size."""
        return self.nats - self.null_mean

    def shifted(self, limit: float = 0.0) -> bool:
        """Tell whether the value exceeds both the user's limit (nats, >= 0) and the null threshold."""
        refuse_below("limit", limit, 0.0)
        return self.nats > max(limit, self.null_threshold)


@dataclass(frozen=True, slots=True)
class JensenShannon(Divergence):
    """A Jensen-Shannon divergence: 0..ln 2 nats."""

    @property
    def distance(self) -> float:
        """The metric sqrt(JS / ln 2), 0..1."""
        return math.sqrt(self.nats / math.log(2))


def smoothed(counts: Sequence[int], pseudo_count: float = PSEUDO_COUNT) -> tuple[float, ...] | NoData:
    """Return the shares (c_j + a) / (n + a J), each 0..1, adding up to 1; NoData without counts.

    Parameters
    ----------
    counts
        Whole numbers >= 0, shape (J,), J >= 1.
    pseudo_count
        a, counts added to each bin, >= 0.
    """
    refuse_below("pseudo_count", pseudo_count, 0.0)
    checked = checked_counts("counts", counts)
    return tuple(_shares(checked, pseudo_count).tolist()) if checked.any() else NoData("there are no counts")


def population_stability(
    baseline: Sequence[int],
    candidate: Sequence[int],
    *,
    alpha: float = 0.01,
    pseudo_count: float = PSEUDO_COUNT,
    least_share: float = 0.05,
) -> Divergence | NoData:
    """Return the population stability index sum (q - p) ln(q / p), with its null threshold.

    Symmetric in the variants where the bins are (``least_share`` 0). H0, validity and source: see the module.

    Parameters
    ----------
    baseline, candidate
        Counts per bin, whole numbers >= 0, shape (J,), J >= 1, same bins in their natural order. Bins that both leave
        empty are left out.
    alpha
        Chance of exceeding the threshold under H0, in (0, 1).
    pseudo_count
        Counts added to each bin, >= 0; with 0 a bin that only one variant fills makes the value infinite.
    least_share
        Bins are merged with neighbours until each holds this share of the baseline, 0..1; 0 keeps them.
    """
    refuse_bad_alpha(alpha)
    compared = _compared(baseline, candidate, pseudo_count, least_share)
    if isinstance(compared, NoData):
        return compared
    p, q = compared.shares
    nats = float((rel_entr(q, p) + rel_entr(p, q)).sum())
    return Divergence(*_judged(compared, nats, 1.0, alpha), compared.lonely(p, q), compared.groups)


def kullback_leibler(
    baseline: Sequence[int],
    candidate: Sequence[int],
    *,
    alpha: float = 0.01,
    pseudo_count: float = 0.0,
    least_share: float = 0.0,
) -> Divergence | NoData:
    """Return KL(candidate : baseline) = sum q ln(q / p), q of the candidate; terms with q = 0 are 0.

    H0, validity and source: see the module.

    Parameters
    ----------
    baseline, candidate, alpha, pseudo_count, least_share
        As in `population_stability`; unsmoothed, a bin without baseline that the candidate fills gives inf.
    """
    refuse_bad_alpha(alpha)
    compared = _compared(baseline, candidate, pseudo_count, least_share)
    if isinstance(compared, NoData):
        return compared
    p, q = compared.shares
    nats = max(0.0, float(rel_entr(q, p).sum()))
    return Divergence(*_judged(compared, nats, 0.5, alpha), compared.lonely(p), compared.groups)


def jensen_shannon(
    baseline: Sequence[int],
    candidate: Sequence[int],
    *,
    alpha: float = 0.01,
    least_share: float = 0.0,
) -> JensenShannon | NoData:
    """Return JS = (KL(p : m) + KL(q : m)) / 2 with m = (p + q) / 2; always finite, so never smoothed.

    H0, validity and source: see the module.

    Parameters
    ----------
    baseline, candidate, alpha, least_share
        As in `population_stability`.
    """
    refuse_bad_alpha(alpha)
    compared = _compared(baseline, candidate, 0.0, least_share)
    if isinstance(compared, NoData):
        return compared
    p, q = compared.shares
    middle = (p + q) / 2
    nats = float((rel_entr(p, middle) + rel_entr(q, middle)).sum()) / 2
    nats = min(max(0.0, nats), math.log(2))
    return JensenShannon(*_judged(compared, nats, 0.125, alpha), (), compared.groups)


@dataclass(frozen=True, slots=True)
class _Compared:
    """Counts of both variants in merged bins that at least one of them fills."""

    baseline: FloatArray
    candidate: FloatArray
    pseudo_count: float
    groups: tuple[int, ...]

    @property
    def shares(self) -> tuple[FloatArray, FloatArray]:
        return _shares(self.baseline, self.pseudo_count), _shares(self.candidate, self.pseudo_count)

    def lonely(self, *shares: FloatArray) -> tuple[int, ...]:
        """First bins of the groups with an empty share; what both leave empty is gone already."""
        return tuple(self.groups[place] for place in np.flatnonzero(np.min(shares, axis=0) == 0))


def _compared(
    baseline: Sequence[int], candidate: Sequence[int], pseudo_count: float, least_share: float
) -> _Compared | NoData:
    refuse_below("pseudo_count", pseudo_count, 0.0)
    left, right = checked_pair(baseline, candidate)
    groups = np.array(baseline_groups(baseline, least_share))
    missing = nothing_counted(left, right)
    if missing:
        return missing
    left, right = summed(left, tuple(groups)), summed(right, tuple(groups))
    # a bin that neither fills says nothing, but smoothed it would count as a difference wherever totals differ
    filled = left + right > 0
    if filled.sum() < 2:
        return NoData("all counts lie in one bin, so no shift can be seen")
    return _Compared(left[filled], right[filled], pseudo_count, tuple(groups[filled].tolist()))


def _judged(compared: _Compared, nats: float, part: float, alpha: float) -> tuple[float, float, float, float, int, int]:
    """Return the first six fields of a `Divergence`; ``part`` is its ratio to the chi-square distance."""
    sizes = np.array([compared.baseline.sum(), compared.candidate.sum()])
    unit = part * float((1 / sizes).sum())
    degrees = compared.baseline.size - 1
    expected = (compared.baseline + compared.candidate) * sizes.min() / sizes.sum()
    return (
        nats,
        unit * degrees,
        unit * float(chdtri(degrees, alpha)),
        float(chdtrc(degrees, nats / unit)),
        degrees,
        int((expected < 5).sum()),
    )


def _shares(counts: FloatArray, pseudo_count: float) -> FloatArray:
    shares: FloatArray = (counts + pseudo_count) / (counts.sum() + pseudo_count * counts.size)
    return shares
