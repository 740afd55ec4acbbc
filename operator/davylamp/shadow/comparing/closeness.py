"""How far numbers are apart: tolerance, absolute difference, and steps of floating point."""

from dataclasses import dataclass

import numpy as np

from davylamp.shadow.comparing.findings import Findings
from davylamp.shadow.comparison import Difference
from davylamp.shadow.formats.reading import Array
from davylamp.shadow.task import Rules


@dataclass(frozen=True, slots=True, eq=False)
class Floats:
    """The same output of both answers, side by side so that one pass of numpy looks at both.

    Parameters
    ----------
    both
        Float64; the first axis is the side, the baseline's first, the others are those of the output.
    finite
        Where both sides are; of the output's shape.
    whole
        Whether they are finite everywhere.
    """

    both: Array
    finite: Array
    whole: bool


def side_by_side(first: Array, second: Array) -> Array:
    """Return two arrays of the same shape as one, with the side as the first axis."""
    both = np.empty((2, *first.shape), np.result_type(first, second))
    both[0] = first
    both[1] = second
    return both


def floats_of(both: Array) -> Floats:
    """Return two sides with what is known of them."""
    wide = both.astype(np.float64)
    finite = np.isfinite(wide)
    whole = bool(finite.all())
    return Floats(wide, finite[0] & finite[1], whole)


def look_at_distance(floats: Floats, rules: Rules, findings: Findings) -> None:
    """Compare element by element; NaN equals NaN, and an infinity itself.

    Parameters
    ----------
    floats
        Both sides.
    rules
        With the tolerances.
    findings
        Where differences and distances go.
    """
    first, second = floats.both
    if not floats.whole:
        same = (first == second) | (np.isnan(first) & np.isnan(second))
        findings.differ(Difference.NOT_FINITE, not (same | floats.finite).all())
        first, second = first[floats.finite], second[floats.finite]
    if not first.size:
        return
    apart = np.abs(second - first)
    largest = float(apart.max())
    if largest > rules.absolute:
        findings.differ(Difference.VALUES, (apart > rules.absolute + rules.relative * np.abs(first)).any())
    findings.distance.add(largest, float(apart.sum()), apart.size)


def ulps(both: Array, datatype: str, floats: Floats) -> float | None:
    """Return the most steps of floating point between two numbers of the same place; None if none can be compared.

    Parameters
    ----------
    both
        Two sides of the same type of float.
    datatype
        FP16, FP32 or FP64; BF16 for bfloat16 held as FP32.
    floats
        What is known of them.
    """
    if not floats.whole:
        both = both[:, floats.finite]
    if not both.size:
        return None
    first, second = _steps(both)
    apart = np.maximum(first, second) - np.minimum(first, second)  # up to 2^64, so it has to be read without a sign
    return float(apart.view(np.uint64).max()) / (1 << 16 if datatype == "BF16" else 1)


def _steps(numbers: Array) -> Array:
    """Return for each float its place in the order of all floats of its type; both zeros have place 0."""
    size = numbers.dtype.itemsize
    bits = numbers.view(f"i{size}").astype(np.int64)
    return np.where(bits < 0, -(1 << (8 * size - 1)) - bits, bits)
