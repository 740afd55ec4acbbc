"""The Mann-Whitney confidence interval of a shift, as Kayenta's judge uses it.

H0 of the test that it inverts: both samples come from one distribution, shifted by d. Validity: fixed-n and
independent values; looking again and again invalidates it, which is what a replay shows.
Source: Hollander, Wolfe and Chicken, Nonparametric Statistical Methods, 3rd ed., 4.3 (exact quantiles; for 50 or more
values, or ties, the normal approximation).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist, median
from typing import Final

_EXACT_BELOW: Final = 50


@dataclass(frozen=True, slots=True)
class Shift:
    """The Hodges-Lehmann ``estimate`` of a shift, and its limits ``low`` and ``high``, in the unit of the values."""

    estimate: float
    low: float
    high: float


def shift_of(candidate: Sequence[float], baseline: Sequence[float], confidence: float) -> Shift | None:
    """Return by how much the candidate's values lie above the baseline's.

    Parameters
    ----------
    candidate, baseline
        Finite values, any number.
    confidence
        Level of the interval, in (0, 1).

    Returns
    -------
    Shift or None
        None if there are too few values for an interval of this level.

    Raises
    ------
    ValueError
        If the level or a value is out of range.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie in (0, 1), got {confidence}")
    if not all(map(math.isfinite, (*candidate, *baseline))):
        raise ValueError("values must be finite")
    if not candidate or not baseline:
        return None
    differences = sorted(ours - theirs for ours in candidate for theirs in baseline)
    rank = _rank(candidate, baseline, (1 - confidence) / 2)
    if rank < 1:
        return None
    return Shift(median(differences), differences[rank - 1], differences[-rank])


def _rank(candidate: Sequence[float], baseline: Sequence[float], tail: float) -> int:
    """Return which of the ordered differences bounds the interval; 0 if none does."""
    ours, theirs = len(candidate), len(baseline)
    ties = len({*candidate, *baseline}) < ours + theirs
    if max(ours, theirs) < _EXACT_BELOW and not ties:
        ways, below = _ways(ours, theirs), 0
        limit = tail * math.comb(ours + theirs, ours)
        for rank, count in enumerate(ways):
            below += count
            if below > limit:
                return rank
        return 0
    spread = math.sqrt(ours * theirs * (ours + theirs + 1) / 12)
    return max(0, math.floor(ours * theirs / 2 + NormalDist().inv_cdf(tail) * spread))


@lru_cache(maxsize=512)
def _ways(ours: int, theirs: int) -> tuple[int, ...]:
    """Return in how many orders of all values U takes each value 0..ours*theirs."""
    # U counts partitions into at most `ours` parts, each at most `theirs`: a Gaussian binomial coefficient.
    ways = [1] + [0] * (ours * theirs)
    for part in range(1, ours + 1):
        grown = theirs + part
        for total in range(ours * theirs, grown - 1, -1):
            ways[total] -= ways[total - grown]
        for total in range(part, ours * theirs + 1):
            ways[total] += ways[total - part]
    return tuple(ways)
