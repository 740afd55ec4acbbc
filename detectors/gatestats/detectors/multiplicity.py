"""Many p-values at once: Holm, Benjamini-Hochberg, Benjamini-Yekutieli.

H0 of each name: that of its p-value. Fixed n: the p-values must each be valid at the one moment at which they are
taken together; p-values looked at tick by tick are not. Streams judged at every look are combined as e-values
(`gatestats.combine`). A p-value that is NaN says nothing: it is left out, named, and not counted as a test.
They describe and alert; they never roll back.
Source: Holm (1979); Benjamini and Hochberg (1995); Benjamini and Yekutieli (2001).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from gatestats.arrays import FloatArray, as_array
from gatestats.detectors.inputs import NoData, Undefined, refuse_bad_alpha


@dataclass(frozen=True, slots=True)
class Adjusted:
    """P-values that have paid for their number.

    Parameters
    ----------
    p_values
        Adjusted p-value by name, 0..1, in the order given.
    undefined
        Names left out because their p-value is NaN.
    """

    p_values: Mapping[str, float]
    undefined: tuple[Undefined, ...]

    def rejected(self, alpha: float) -> frozenset[str]:
        """Return the names whose adjusted p-value is at most ``alpha``, in (0, 1)."""
        refuse_bad_alpha(alpha)
        return frozenset(name for name, p_value in self.p_values.items() if p_value <= alpha)


def holm(p_values: Mapping[str, float]) -> Adjusted | NoData:
    """Adjust so that the chance of naming any true null is at most alpha, whatever the dependence.

    The i-th smallest of m becomes the largest of (m - j + 1) p_(j) over j <= i.

    Parameters
    ----------
    p_values
        By name, each 0..1 or NaN.
    """
    return _adjusted(p_values, _step_down)


def benjamini_hochberg(p_values: Mapping[str, float]) -> Adjusted | NoData:
    """Adjust so that the expected share of true nulls among the names is at most alpha.

    For p-values that are independent or positively dependent. The i-th smallest of m becomes the smallest of
    m p_(j) / j over j >= i.

    Parameters
    ----------
    p_values
        By name, each 0..1 or NaN.
    """
    return _adjusted(p_values, _step_up)


def benjamini_yekutieli(p_values: Mapping[str, float]) -> Adjusted | NoData:
    """As `benjamini_hochberg`, under any dependence: times 1 + 1/2 + ... + 1/m."""
    return _adjusted(p_values, lambda ascending: _step_up(ascending) * (1 / np.arange(1, ascending.size + 1)).sum())


def _step_down(ascending: FloatArray) -> FloatArray:
    return np.maximum.accumulate(np.arange(ascending.size, 0, -1) * ascending)


def _step_up(ascending: FloatArray) -> FloatArray:
    scaled = ascending.size * ascending / np.arange(1, ascending.size + 1)
    return np.minimum.accumulate(scaled[::-1])[::-1]


def _adjusted(p_values: Mapping[str, float], step: Callable[[FloatArray], FloatArray]) -> Adjusted | NoData:
    for name, p_value in p_values.items():
        if not (0 <= p_value <= 1 or math.isnan(p_value)):
            raise ValueError(f"p-value of {name} must be in 0..1, got {p_value}")
    undefined = tuple(Undefined(name, "its p-value is NaN") for name, p in p_values.items() if math.isnan(p))
    names = [name for name, p_value in p_values.items() if not math.isnan(p_value)]
    if not names:
        return NoData(
            f"there is no p-value: {len(p_values)} given, all of them NaN" if p_values else "no p-value given"
        )
    given = as_array([p_values[name] for name in names])
    order = np.argsort(given, kind="stable")
    adjusted = np.empty_like(given)
    adjusted[order] = np.minimum(1.0, step(given[order]))
    return Adjusted(dict(zip(names, adjusted.tolist(), strict=True)), undefined)
