"""Control charts: when did a series leave the level it was on? EWMA, CUSUM, Page-Hinkley.

H0: the values are independent, with the mean (and, where asked for, the standard deviation) given; run lengths are for
normal values. They are not error rates: on a long enough healthy series every chart alarms, EWMA with L = 3 on about
one point in 370, CUSUM on average once in `cusum_run_length` points. Autocorrelated values shorten that by much.
They describe and alert; they never roll back. Alarms latch: the first one is reported, no chart resets itself.
Source: Roberts (1959); Page (1954); Siegmund (1985), "Sequential Analysis"; Hinkley (1971); statistics.md 4.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gatestats.arrays import FloatArray
from gatestats.detectors.inputs import (
    NoData,
    checked_values,
    refuse_bad_value,
    refuse_below,
    refuse_not_positive,
)


@dataclass(frozen=True, slots=True)
class EwmaChart:
    """An exponentially weighted moving average between its limits.

    Parameters
    ----------
    path
        The average after each value, in the unit of the values, shape (n,).
    half_widths
        Distance of the limits from the centre at each value, same unit, > 0, shape (n,).
    alarms
        Places (from 0) at which the path is outside of its limits.
    """

    path: tuple[float, ...]
    half_widths: tuple[float, ...]
    alarms: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Excursion:
    """How far a series has moved up and down from where it was, and where that first passed the limit.

    Parameters
    ----------
    up, down
        The excursion in either direction after each value, >= 0, shape (n,).
    alarm
        Place (from 0) at which either first exceeds the limit; None if neither does.
    """

    up: tuple[float, ...]
    down: tuple[float, ...]
    alarm: int | None


def ewma_half_width(step: int | None, *, sd: float = 1.0, smoothing: float = 0.2, width: float = 3.0) -> float:
    """Return the distance of EWMA's limits from the centre: L s sqrt(l / (2 - l) (1 - (1 - l)^(2 i))).

    Parameters
    ----------
    step
        i, number of values so far, >= 1; None for the limit of a long series.
    sd
        s, standard deviation of one value, > 0, in the unit of the values.
    smoothing
        l, weight of the newest value, above 0 and at most 1.
    width
        L, in standard deviations of the average, > 0.
    """
    _refuse_bad_smoothing(smoothing)
    refuse_not_positive("sd", sd)
    refuse_not_positive("width", width)
    if step is not None and step < 1:
        raise ValueError(f"step must be at least 1, got {step}")
    reached = 1.0 if step is None else 1 - (1 - smoothing) ** (2 * step)
    return width * sd * math.sqrt(smoothing / (2 - smoothing) * reached)


def ewma(
    values: Sequence[float], *, centre: float, sd: float, smoothing: float = 0.2, width: float = 3.0
) -> EwmaChart | NoData:
    """Return the chart z_i = l x_i + (1 - l) z_(i-1), z_0 = centre.

    H0 and validity: see the module.

    Parameters
    ----------
    values
        Finite, oldest first, shape (n,), any unit.
    centre
        Mean under H0, same unit, taken from data before these.
    sd, smoothing, width
        As in `ewma_half_width`.
    """
    refuse_bad_value("centre", centre)
    widest = ewma_half_width(None, sd=sd, smoothing=smoothing, width=width)
    checked = checked_values("values", values)
    if not checked.size:
        return NoData("there are no values")
    path, average = [], centre
    for value in checked.tolist():
        average += smoothing * (value - average)
        path.append(average)
    halves = widest * np.sqrt(1 - (1 - smoothing) ** (2.0 * np.arange(1, checked.size + 1)))
    outside = np.flatnonzero(np.abs(np.array(path) - centre) > halves)
    return EwmaChart(tuple(path), tuple(halves.tolist()), tuple(outside.tolist()))


def cusum(
    values: Sequence[float], *, centre: float, sd: float, slack: float = 0.5, limit: float = 5.0
) -> Excursion | NoData:
    """Return both sums S_i = max(0, S_(i-1) +- (x_i - centre) / sd - slack), in standard deviations.

    H0 and validity: see the module. The usual slack 0.5 and limit 5 alarm once in about 470 healthy points: with one
    point each 10 s that is every 80 minutes. Choose the limit with `cusum_run_length`.

    Parameters
    ----------
    values
        Finite, oldest first, shape (n,), any unit.
    centre, sd
        Mean and standard deviation (> 0) under H0, same unit, taken from data before these.
    slack
        k, half of the shift to be found, in standard deviations, >= 0.
    limit
        h, in standard deviations, > 0.
    """
    refuse_bad_value("centre", centre)
    refuse_not_positive("sd", sd)
    refuse_below("slack", slack, 0.0)
    refuse_not_positive("limit", limit)
    checked = checked_values("values", values)
    if not checked.size:
        return NoData("there are no values")
    scores = (checked - centre) / sd
    return _excursion(_above_lowest(scores - slack), _above_lowest(-scores - slack), limit)


def cusum_run_length(*, slack: float, limit: float) -> float:
    """Return how many healthy points a two-sided CUSUM sees on average before it alarms, > 0.

    H0: independent normal values with the centre and standard deviation of the chart. Siegmund's approximation, a few
    per cent off: ((exp(2 k b) - 2 k b - 1) / (2 k^2)) / 2 with b = h + 1.166, and b^2 / 2 for k = 0.

    Parameters
    ----------
    slack
        k, in standard deviations, >= 0.
    limit
        h, in standard deviations, > 0.
    """
    refuse_below("slack", slack, 0.0)
    refuse_not_positive("limit", limit)
    reach = limit + 1.166
    grown = 2 * slack * reach
    if grown > 700:
        raise ValueError(f"2 * slack * (limit + 1.166) must be at most 700, got {grown}: no chart runs that long")
    # below this the difference of near equals would be all rounding
    if grown < 1e-4:
        return reach**2 / 2
    return (math.expm1(grown) - grown) / (2 * slack**2) / 2


def page_hinkley(values: Sequence[float], *, delta: float = 0.005, limit: float = 50.0) -> Excursion | NoData:
    """Return Page-Hinkley's excursions: m_i - min m with m_i = sum over j <= i of (x_j - mean_j - delta), and mirrored.

    H0 and validity: see the module; the level is estimated from the values themselves, so a slow drift is learned.
    No false-alarm rate goes with any limit: it depends on the spread of the values. Sums are not faded.

    Parameters
    ----------
    values
        Finite, oldest first, shape (n,), any unit.
    delta
        Change per value that is tolerated, same unit, >= 0.
    limit
        Excursion that alarms, same unit, > 0.
    """
    refuse_below("delta", delta, 0.0)
    refuse_not_positive("limit", limit)
    checked = checked_values("values", values)
    if not checked.size:
        return NoData("there are no values")
    away = checked - checked.cumsum() / np.arange(1, checked.size + 1)
    return _excursion(_above_lowest(away - delta), _above_lowest(-away - delta), limit)


def _above_lowest(gains: FloatArray) -> FloatArray:
    """Return the running sum less its smallest value so far, 0 before the first included: max(0, S + gain)."""
    sums = np.concatenate([[0.0], gains.cumsum()])
    above: FloatArray = (sums - np.minimum.accumulate(sums))[1:]
    return above


def _excursion(up: FloatArray, down: FloatArray, limit: float) -> Excursion:
    beyond = np.flatnonzero(np.maximum(up, down) > limit)
    return Excursion(tuple(up.tolist()), tuple(down.tolist()), int(beyond[0]) if beyond.size else None)


def _refuse_bad_smoothing(smoothing: float) -> None:
    if not 0 < smoothing <= 1:
        raise ValueError(f"smoothing must be above 0 and at most 1, got {smoothing}")
