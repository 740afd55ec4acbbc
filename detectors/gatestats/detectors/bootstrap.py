"""The bias-corrected and accelerated (BCa) bootstrap interval, from values or from counts.

Coverage approaches the level as n grows, for independent draws and one look at n fixed beforehand. Below 20 draws it
is too narrow, and with no events it has no width at all: then take `gatestats.detectors.intervals`.
It describes; it never decides.
Source: Efron (1987), "Better bootstrap confidence intervals"; statistics.md 4.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from gatestats.arrays import FloatArray
from gatestats.detectors.inputs import NoData, checked_counts, checked_values, refuse_bad_draws
from gatestats.ticks import refuse_bad_level

#: Maps samples, or counts, along the last axis to one number each: (..., n) to (...).
Statistic = Callable[[FloatArray], FloatArray]

#: Redraws held in memory at once hold at most this many numbers.
_HELD = 4_000_000
_FEW = 20


@dataclass(frozen=True, slots=True)
class BootstrapInterval:
    """A BCa interval.

    Parameters
    ----------
    estimate, low, high
        In the unit of the statistic.
    level
        Nominal coverage, in (0, 1).
    acceleration
        a, how fast the standard error grows with the estimate, dimensionless.
    bias
        z0, median bias of the redraws in standard deviations.
    few
        Whether there were fewer than 20 draws, so that the interval is too narrow.
    """

    estimate: float
    low: float
    high: float
    level: float
    acceleration: float
    bias: float
    few: bool


def mean_of(values: FloatArray) -> FloatArray:
    """Return the mean along the last axis."""
    mean: FloatArray = values.mean(axis=-1)
    return mean


def bca_interval(
    values: Sequence[float],
    statistic: Statistic = mean_of,
    *,
    level: float = 0.95,
    draws: int = 9_999,
    seed: int = 0,
) -> BootstrapInterval | NoData:
    """Return the BCa interval of a statistic of independent values.

    Validity and source: see the module.

    Parameters
    ----------
    values
        Finite, shape (n,), any unit.
    statistic
        Smooth function of samples along the last axis, finite; the mean unless given. Quantiles are not smooth.
    level
        Nominal coverage, in (0, 1).
    draws
        B, number of redraws, >= 99.
    seed
        Of the redraws, >= 0: the same input gives the same output.

    Returns
    -------
    BootstrapInterval or NoData
        NoData with fewer than two values, or if leaving one out never changes the statistic.

    Raises
    ------
    ValueError
        If a value or the statistic of a redraw is not finite, or a parameter is out of its range.
    """
    refuse_bad_level(level)
    refuse_bad_draws(draws)
    checked = checked_values("values", values)
    if checked.size < 2:
        return NoData(f"a bootstrap needs at least 2 values, got {checked.size}")
    random = np.random.default_rng(seed)

    def redraw(size: int) -> FloatArray:
        return checked[random.integers(0, checked.size, (size, checked.size))]

    without = np.array([float(statistic(np.delete(checked, place))) for place in range(checked.size)])
    redrawn = _in_blocks(redraw, statistic, draws, checked.size)
    return _interval(float(statistic(checked)), redrawn, (without, np.ones(checked.size)), level)


def bca_interval_of_counts(
    counts: Sequence[int],
    statistic: Statistic,
    *,
    level: float = 0.95,
    draws: int = 9_999,
    seed: int = 0,
) -> BootstrapInterval | NoData:
    """Return the BCa interval of a statistic of counts: redraws are multinomial.

    The same interval as that of the single draws behind the counts, at a cost that does not grow with their number.
    Validity and source: see the module.

    Parameters
    ----------
    counts
        Whole numbers >= 0 per bin, shape (J,), J >= 1, n of them together.
    statistic
        Smooth function of counts along the last axis, finite for every counts that add up to n or n - 1.
    level, draws, seed
        As in `bca_interval`.

    Returns
    -------
    BootstrapInterval or NoData
        As in `bca_interval`; all counts in one bin leave nothing to redraw.
    """
    refuse_bad_level(level)
    refuse_bad_draws(draws)
    checked = checked_counts("counts", counts)
    total = int(checked.sum())
    if total < 2:
        return NoData(f"a bootstrap needs at least 2 counts, got {total}")
    random = np.random.default_rng(seed)

    def redraw(size: int) -> FloatArray:
        return random.multinomial(total, checked / total, size).astype(np.float64)

    filled = np.flatnonzero(checked)
    # leaving out any one of the draws in a bin gives the same
    without = np.array([float(statistic(_less_one(checked, place))) for place in filled.tolist()])
    redrawn = _in_blocks(redraw, statistic, draws, checked.size)
    return _interval(float(statistic(checked)), redrawn, (without, checked[filled]), level)


def _less_one(counts: FloatArray, place: int) -> FloatArray:
    less = counts.copy()
    less[place] -= 1
    return less


def _in_blocks(redraw: Callable[[int], FloatArray], statistic: Statistic, draws: int, width: int) -> FloatArray:
    block = max(1, _HELD // width)
    sizes = [min(block, draws - start) for start in range(0, draws, block)]
    return np.concatenate([statistic(redraw(size)) for size in sizes])


def _interval(
    estimate: float, redrawn: FloatArray, jackknife: tuple[FloatArray, FloatArray], level: float
) -> BootstrapInterval | NoData:
    """Return the interval; ``jackknife`` is the statistic without one draw, and for how many draws each stands."""
    without, times = jackknife
    for name, numbers in (("estimate", estimate), ("redraws", redrawn), ("jackknife", without)):
        if not np.isfinite(numbers).all():
            raise ValueError(f"the statistic must be finite for every redraw, but is not for the {name}")
    total = float(times.sum())
    away = float((without * times).sum()) / total - without
    if np.ptp(without) <= 1e-12 * abs(estimate):
        return NoData("leaving out any one draw leaves the statistic as it is, so a bootstrap sees no spread")
    away /= np.abs(away).max()
    squares = float((times * away**2).sum())
    acceleration = float((times * away**3).sum()) / (6 * squares**1.5)
    # ties count half on either side: counts tie with their estimate often, and rounding must not break ties
    same = 1e-12 * float(np.abs(redrawn).max())
    below = float((redrawn < estimate - same).mean() + (redrawn <= estimate + same).mean()) / 2
    edge = 1 / (redrawn.size + 1)
    bias = float(ndtri(min(max(below, edge), 1 - edge)))
    z = -float(ndtri((1 - level) / 2))
    shares = [_corrected(bias, acceleration, point) for point in (-z, z)]
    low, high = np.quantile(redrawn, shares).tolist()
    return BootstrapInterval(estimate, low, high, level, acceleration, bias, total < _FEW)


def _corrected(bias: float, acceleration: float, point: float) -> float:
    """Return the share of redraws below the bound: Phi(z0 + (z0 + z) / (1 - a (z0 + z)))."""
    reach = bias + point
    room = 1 - acceleration * reach
    # beyond the pole of the correction the bound is the outermost redraw
    return float(ndtr(bias + reach / room)) if room > 0 else float(math.copysign(1, reach) > 0)
