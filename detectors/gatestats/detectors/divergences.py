"""How far the candidate's distribution lies from the baseline's: PSI, Kullback-Leibler, Jensen-Shannon.

All from counts in the same bins. H0: both variants draw independent values from one distribution. With few counts a
PSI of 0.1 is noise, so each value comes with what it would be under H0. PSI / (1/n_baseline + 1/n_candidate) follows
about chi-square with J - 1 degrees of freedom; KL and JS, which are not smoothed, leave that law early (with five
expected counts per bin JS passes its 5 % point in 11 % of healthy comparisons), so theirs comes from redraws.
Fixed n: the threshold holds for one look at n fixed beforehand. They describe and alert; they never roll back.
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
    refuse_bad_draws,
    refuse_below,
)
from gatestats.detectors.redraws import deal, p_value, threshold

#: Half a count per bin: the share of an empty bin then shrinks as counts grow, unlike with a fixed floor.
PSEUDO_COUNT = 0.5


@dataclass(frozen=True, slots=True)
class Divergence:
    """A divergence and what it would be if nothing had changed.

    Parameters
    ----------
    nats
        The divergence, >= 0; inf if a bin makes it so.
    null_threshold
        Value that it exceeds with chance alpha under H0, nats; inf if H0 makes it infinite that often.
    p_value
        Chance under H0 of a value at least as large, 0..1.
    groups
        First bin of each group of bins compared; groups that neither variant fills are not among them.
    """

    nats: float
    null_threshold: float
    p_value: float
    groups: tuple[int, ...]

    def shifted(self, limit: float = 0.0) -> bool:
        """Tell whether the value exceeds both the user's limit (nats, >= 0) and the null threshold."""
        refuse_below("limit", limit, 0.0)
        return self.nats > max(limit, self.null_threshold)


@dataclass(frozen=True, slots=True)
class PopulationStability(Divergence):
    """A population stability index.

    Parameters
    ----------
    null_mean
        Its mean under H0, nats.
    degrees
        Degrees of freedom of its null law: groups of bins, less one.
    thin_bins
        Groups whose expected count in a variant is below 5; unless 0, threshold and p-value are rough.
    infinite_bins
        First bin of each group that only one variant fills, so that the value is infinite; empty with smoothing.
    """

    null_mean: float
    degrees: int
    thin_bins: int
    infinite_bins: tuple[int, ...]

    @property
    def excess(self) -> float:
        """The index less its null mean, nats; what is left to compare across slices of different size."""
        return self.nats - self.null_mean


@dataclass(frozen=True, slots=True)
class KullbackLeibler(Divergence):
    """A Kullback-Leibler divergence.

    Parameters
    ----------
    infinite_bins
        First bin of each group that only the candidate fills, so that the value is infinite; empty with smoothing.
    """

    infinite_bins: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class JensenShannon(Divergence):
    """A Jensen-Shannon divergence, 0..ln 2 nats.

    Parameters
    ----------
    null_mean
        Its mean under H0, nats.
    """

    null_mean: float

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
) -> PopulationStability | NoData:
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
    sizes = np.array([compared.baseline.sum(), compared.candidate.sum()])
    unit, degrees = float((1 / sizes).sum()), p.size - 1
    expected = (compared.baseline + compared.candidate) * sizes.min() / sizes.sum()
    return PopulationStability(
        nats=nats,
        null_threshold=unit * float(chdtri(degrees, alpha)),
        p_value=float(chdtrc(degrees, nats / unit)),
        groups=compared.groups,
        null_mean=unit * degrees,
        degrees=degrees,
        thin_bins=int((expected < 5).sum()),
        infinite_bins=compared.lonely(p, q),
    )


def kullback_leibler(  # noqa: PLR0913 - one more than six, all but the counts by keyword
    baseline: Sequence[int],
    candidate: Sequence[int],
    *,
    alpha: float = 0.01,
    pseudo_count: float = 0.0,
    least_share: float = 0.0,
    draws: int = 999,
    seed: int = 0,
) -> KullbackLeibler | NoData:
    """Return KL(candidate : baseline) = sum q ln(q / p), q of the candidate; terms with q = 0 are 0.

    H0, validity and source: see the module.

    Parameters
    ----------
    baseline, candidate, alpha, pseudo_count, least_share
        As in `population_stability`; unsmoothed, a bin without baseline that the candidate fills gives inf.
    draws
        Number of redraws, >= 99.
    seed
        Of the redraws, >= 0: the same input gives the same output.
    """
    refuse_bad_alpha(alpha)
    refuse_bad_draws(draws)
    compared = _compared(baseline, candidate, pseudo_count, least_share)
    if isinstance(compared, NoData):
        return compared
    nats = float(_directed(*compared.shares))
    redrawn = _directed(*compared.redrawn(draws, seed))
    return KullbackLeibler(
        nats, threshold(redrawn, alpha), p_value(redrawn, nats), compared.groups, compared.lonely(compared.shares[0])
    )


def jensen_shannon(
    baseline: Sequence[int],
    candidate: Sequence[int],
    *,
    alpha: float = 0.01,
    least_share: float = 0.0,
    draws: int = 999,
    seed: int = 0,
) -> JensenShannon | NoData:
    """Return JS = (KL(p : m) + KL(q : m)) / 2 with m = (p + q) / 2; always finite, so never smoothed.

    H0, validity and source: see the module.

    Parameters
    ----------
    baseline, candidate, alpha, least_share, draws, seed
        As in `kullback_leibler`.
    """
    refuse_bad_alpha(alpha)
    refuse_bad_draws(draws)
    compared = _compared(baseline, candidate, 0.0, least_share)
    if isinstance(compared, NoData):
        return compared
    nats = float(_both_to_middle(*compared.shares))
    redrawn = _both_to_middle(*compared.redrawn(draws, seed))
    return JensenShannon(
        nats, threshold(redrawn, alpha), p_value(redrawn, nats), compared.groups, float(redrawn.mean())
    )


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

    def redrawn(self, draws: int, seed: int) -> tuple[FloatArray, FloatArray]:
        """Shares of both variants under H0, each shape (draws, J)."""
        baseline, candidate = deal(self.baseline, self.candidate, draws, seed)
        return _shares(baseline, self.pseudo_count), _shares(candidate, self.pseudo_count)

    def lonely(self, *shares: FloatArray) -> tuple[int, ...]:
        """First bins of the groups with an empty share; what both leave empty is gone already."""
        return tuple(self.groups[place] for place in np.flatnonzero(np.min(shares, axis=0) == 0))


def _compared(
    baseline: Sequence[int], candidate: Sequence[int], pseudo_count: float, least_share: float
) -> _Compared | NoData:
    refuse_below("pseudo_count", pseudo_count, 0.0)
    left, right = checked_pair(baseline, candidate)
    starts = baseline_groups(baseline, least_share)
    missing = nothing_counted(left, right)
    if missing:
        return missing
    left, right = summed(left, starts), summed(right, starts)
    # a bin that neither fills says nothing, but smoothed it would count as a difference wherever totals differ
    filled = np.flatnonzero(left + right)
    if filled.size < 2:
        return NoData("all counts lie in one bin, so no shift can be seen")
    return _Compared(left[filled], right[filled], pseudo_count, tuple(starts[place] for place in filled))


def _shares(counts: FloatArray, pseudo_count: float) -> FloatArray:
    totals = counts.sum(axis=-1, keepdims=True) + pseudo_count * counts.shape[-1]
    shares: FloatArray = (counts + pseudo_count) / totals
    return shares


def _directed(p: FloatArray, q: FloatArray) -> FloatArray:
    nats: FloatArray = np.maximum(0.0, rel_entr(q, p).sum(axis=-1))
    return nats


def _both_to_middle(p: FloatArray, q: FloatArray) -> FloatArray:
    middle = (p + q) / 2
    nats: FloatArray = np.clip((rel_entr(p, middle) + rel_entr(q, middle)).sum(axis=-1) / 2, 0.0, math.log(2))
    return nats
