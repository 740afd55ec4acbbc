"""Merging thin bins with their neighbours, by a rule that looks at one set of counts only."""

from collections.abc import Sequence

import numpy as np

from gatestats.arrays import FloatArray
from gatestats.detectors.inputs import checked_counts, refuse_below


def baseline_groups(baseline: Sequence[int], least_share: float = 0.05) -> tuple[int, ...]:
    """Return the first bin of each group such that every group holds enough of the baseline.

    Bins are fixed from the baseline alone: a rule that looked at the candidate would move with what it measures.

    Parameters
    ----------
    baseline
        Counts per bin, whole numbers >= 0, shape (J,), J >= 1; bins in their natural order.
    least_share
        Share of the baseline in each group, 0..1; 0 keeps the bins as they are.

    Returns
    -------
    tuple of int
        Strictly increasing, from 0; at least one group.
    """
    refuse_below("least_share", least_share, 0.0)
    if least_share > 1:
        raise ValueError(f"least_share must be at most 1, got {least_share}")
    counts = checked_counts("baseline", baseline)
    return grouped(counts, least_share * float(counts.sum()))


def grouped(amounts: FloatArray, least: float) -> tuple[int, ...]:
    """Return the first bin of each group, joined from the left until it holds ``least``; a poor rest joins the last.

    Parameters
    ----------
    amounts
        At least 0, shape (J,), J >= 1.
    least
        Amount in each group, >= 0; if the sum of all is less, there is one group.
    """
    starts, held = [0], 0.0
    for index, amount in enumerate(amounts):
        # rounding must not split off a group that is short of the least by its last bit
        if held >= least * (1 - 1e-12) and index:
            starts.append(index)
            held = 0.0
        held += float(amount)
    if held < least * (1 - 1e-12) and len(starts) > 1:
        starts.pop()
    return tuple(starts)


def summed(counts: FloatArray, starts: tuple[int, ...]) -> FloatArray:
    """Return the counts of the groups, shape (number of groups,)."""
    totals: FloatArray = np.add.reduceat(counts, starts)
    return totals
