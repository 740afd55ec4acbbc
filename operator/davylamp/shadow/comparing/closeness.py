"""How far numbers are apart: tolerance, absolute difference, and steps of floating point."""

import numpy as np

from davylamp.shadow.comparing.findings import Findings
from davylamp.shadow.comparison import Difference
from davylamp.shadow.formats.reading import Array
from davylamp.shadow.task import Rules


def look_at_distance(first: Array, second: Array, rules: Rules, findings: Findings) -> None:
    """Compare floats element by element.

    Parameters
    ----------
    first, second
        Float64 of the same shape. NaN equals NaN, and an infinity itself.
    rules
        With the tolerances.
    findings
        Where differences and distances go.
    """
    finite = np.isfinite(first) & np.isfinite(second)
    if not finite.all():
        same = (first == second) | (np.isnan(first) & np.isnan(second))
        findings.differ(Difference.NOT_FINITE, not (same | finite).all())
        first, second = first[finite], second[finite]
    apart: Array = np.abs(second - first)
    findings.differ(Difference.VALUES, (apart > rules.absolute + rules.relative * np.abs(first)).any())
    if apart.size:
        findings.distance.add(float(apart.max()), float(apart.sum()), apart.size)


def ulps(first: Array, second: Array, datatype: str) -> float | None:
    """Return the most steps of floating point between two numbers of the same place; None if none can be compared.

    Parameters
    ----------
    first, second
        Floats of the same type and shape.
    datatype
        FP16, FP32 or FP64; BF16 for bfloat16 held as FP32.
    """
    finite = np.isfinite(first) & np.isfinite(second)
    if not finite.any():
        return None
    low, high = _steps(first[finite]), _steps(second[finite])
    apart = (np.maximum(low, high) - np.minimum(low, high)).view(np.uint64)
    return float(apart.max()) / (1 << 16 if datatype == "BF16" else 1)


def _steps(numbers: Array) -> Array:
    """Return for each float its place in the order of all floats of its type; both zeros have place 0."""
    size = numbers.dtype.itemsize
    bits = np.ascontiguousarray(numbers).view(f"i{size}").astype(np.int64)
    magnitude = bits & ((1 << (8 * size - 1)) - 1)
    return np.where(bits < 0, -magnitude, magnitude)
