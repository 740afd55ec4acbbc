"""How unusual a value is beside earlier ones: rolling z and robust z.

H0: the value comes from the same distribution as its history, independently, and that is normal. Fixed n: one look
at one value; judged at every tick, a limit of 3 alarms on every healthy series sooner or later. Counts of rare events
are not normal: their median deviation is often 0, and any event is then infinitely unusual.
They describe and alert; they never roll back.
Source: Iglewicz and Hoaglin (1993), "How to detect and handle outliers"; statistics.md 4.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np

from gatestats.arrays import FloatArray
from gatestats.detectors.inputs import NoData, checked_values, refuse_bad_value

#: Standard deviation of a normal distribution in median absolute deviations, and in mean absolute deviations.
_MEDIAN_TO_SD: Final = 1.482602218505602
_MEAN_TO_SD: Final = math.sqrt(math.pi / 2)


class Spread(StrEnum):
    """What a robust z was measured in."""

    #: The median absolute deviation from the median.
    MEDIAN_DEVIATION = "MedianDeviation"
    #: The mean absolute deviation from the median, because more than half of the history is one value.
    MEAN_DEVIATION = "MeanDeviation"
    #: Nothing: all of the history is one value. The score is 0 or infinite.
    NONE = "None"


@dataclass(frozen=True, slots=True)
class RobustScore:
    """How many robust standard deviations a value lies from the median of its history.

    Parameters
    ----------
    score
        Standard deviations; 0, inf or -inf if the history has no spread.
    median
        Of the history, in its unit.
    scale
        The robust standard deviation, same unit, >= 0.
    spread
        How the scale was measured.
    """

    score: float
    median: float
    scale: float
    spread: Spread


@dataclass(frozen=True, slots=True)
class RollingScores:
    """The z of each value beside those just before it.

    Parameters
    ----------
    scores
        Standard deviations, shape (n,); None for the first values, which have no whole window before them; 0, inf or
        -inf where the window has no spread.
    window
        Values before each that it was compared with.
    """

    scores: tuple[float | None, ...]
    window: int


def rolling_z(values: Sequence[float], window: int) -> RollingScores | NoData:
    """Return (x - mean) / sd of the window before each value, sd with n - 1; the value itself is not in its window.

    H0 and validity: see the module; the score follows sqrt(1 + 1/window) times Student's t with window - 1 degrees.

    Parameters
    ----------
    values
        Finite, oldest first, shape (n,), any unit.
    window
        Values, >= 2.

    Returns
    -------
    RollingScores or NoData
        NoData if no value has a whole window before it.
    """
    if window < 2:
        raise ValueError(f"window must be at least 2 values, got {window}")
    checked = checked_values("values", values)
    if checked.size <= window:
        return NoData(f"a window of {window} needs at least {window + 1} values, got {checked.size}")
    windows = np.lib.stride_tricks.sliding_window_view(checked, window)[:-1]
    judged = [_plain_z(value, before) for value, before in zip(checked[window:].tolist(), windows, strict=True)]
    return RollingScores((*(None,) * window, *judged), window)


def robust_z(value: float, history: Sequence[float]) -> RobustScore | NoData:
    """Return (x - median) / (1.4826 MAD); where MAD is 0, 1.2533 times the mean absolute deviation stands for it.

    H0 and validity: see the module.

    Parameters
    ----------
    value
        Finite, any unit.
    history
        Finite, same unit, shape (n,); may hold the value itself, which then is a little less unusual.
    """
    refuse_bad_value("value", value)
    checked = checked_values("history", history)
    if not checked.size:
        return NoData("there is no history")
    median = float(np.median(checked))
    deviations = np.abs(checked - median)
    for scale, spread in (
        (_MEDIAN_TO_SD * float(np.median(deviations)), Spread.MEDIAN_DEVIATION),
        (_MEAN_TO_SD * float(deviations.mean()), Spread.MEAN_DEVIATION),
    ):
        if scale > 0:
            return RobustScore((value - median) / scale, median, scale, spread)
    return RobustScore(_without_spread(value - median), median, 0.0, Spread.NONE)


def _plain_z(value: float, window: FloatArray) -> float:
    # equal values have no spread, whatever rounding makes of their mean
    if window.min() == window.max():
        return _without_spread(value - float(window[0]))
    away, spread = value - float(window.mean()), float(window.std(ddof=1))
    # the squares of differences below 1e-162 are 0
    return away / spread if spread else _without_spread(away)


def _without_spread(difference: float) -> float:
    return math.copysign(math.inf, difference) if difference else 0.0
