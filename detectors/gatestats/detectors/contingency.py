"""Whether the candidate fills the same categories as the baseline: chi-square and G on a 2 x J table.

H0: both variants draw independent values from one distribution over the columns. Fixed n: one look at n fixed
beforehand; the chi-square law is good from about five expected counts per cell, which merging sees to.
They describe and alert; they never roll back.
Source: Pearson (1900); Wilks (1938); statistics.md 4. No continuity correction.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtrc, rel_entr

from gatestats.arrays import FloatArray
from gatestats.detectors.bins import grouped, summed
from gatestats.detectors.inputs import NoData, checked_pair, nothing_counted, refuse_below


@dataclass(frozen=True, slots=True)
class ContingencyTest:
    """A test of homogeneity.

    Parameters
    ----------
    statistic
        >= 0.
    degrees
        Degrees of freedom: columns tested, less one; >= 1.
    p_value
        Chance under H0 of a statistic at least as large, 0..1.
    columns
        First column of each group of columns that was tested as one.
    least_expected
        Smallest expected count of a cell, > 0.
    """

    statistic: float
    degrees: int
    p_value: float
    columns: tuple[int, ...]
    least_expected: float


def chi_square(
    baseline: Sequence[int], candidate: Sequence[int], *, least_expected: float = 5.0
) -> ContingencyTest | NoData:
    """Return Pearson's chi-square: sum (O - E)^2 / E.

    H0, validity and source: see the module.

    Parameters
    ----------
    baseline, candidate
        Counts per column, whole numbers >= 0, shape (J,), J >= 1, same columns. Columns that both leave empty are
        dropped, thin ones merged with their right neighbours (the last with its left one).
    least_expected
        Expected count that each cell must reach, >= 0; 0 merges nothing.

    Returns
    -------
    ContingencyTest or NoData
        NoData if a variant has no counts or fewer than two columns are left.
    """
    table = _table(baseline, candidate, least_expected)
    if isinstance(table, NoData):
        return table
    observed, expected, columns = table
    return _judged(float(((observed - expected) ** 2 / expected).sum()), expected, columns)


def g_test(
    baseline: Sequence[int], candidate: Sequence[int], *, least_expected: float = 5.0
) -> ContingencyTest | NoData:
    """Return the likelihood ratio statistic G = 2 sum O ln(O / E), with 0 ln 0 = 0.

    Parameters, H0 and validity as in `chi_square`.
    """
    table = _table(baseline, candidate, least_expected)
    if isinstance(table, NoData):
        return table
    observed, expected, columns = table
    return _judged(max(0.0, 2 * float(rel_entr(observed, expected).sum())), expected, columns)


def _table(
    baseline: Sequence[int], candidate: Sequence[int], least_expected: float
) -> tuple[FloatArray, FloatArray, tuple[int, ...]] | NoData:
    """Return observed and expected counts, each shape (2, columns), and the first column of each group."""
    refuse_below("least_expected", least_expected, 0.0)
    arms = np.stack(checked_pair(baseline, candidate))
    missing = nothing_counted(arms[0], arms[1])
    if missing:
        return missing
    kept = np.flatnonzero(arms.sum(axis=0))
    sizes = arms.sum(axis=1)
    smaller = float(sizes.min() / sizes.sum())
    groups = grouped(arms[:, kept].sum(axis=0), least_expected / smaller)
    if len(groups) < 2:
        return NoData(f"fewer than two columns with {least_expected} expected counts, so there is nothing to compare")
    observed = np.stack([summed(arm[kept], groups) for arm in arms])
    expected = np.outer(sizes / sizes.sum(), observed.sum(axis=0))
    return observed, expected, tuple(int(kept[group]) for group in groups)


def _judged(statistic: float, expected: FloatArray, columns: tuple[int, ...]) -> ContingencyTest:
    degrees = len(columns) - 1
    return ContingencyTest(statistic, degrees, float(chdtrc(degrees, statistic)), columns, float(expected.min()))
