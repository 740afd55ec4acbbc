"""What every detector refuses, and the value that stands for "nothing was observed"."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gatestats.arrays import FloatArray, as_array
from gatestats.ticks import refuse_bad_count

#: Numbers beyond this size, or nearer to 0 where they divide, would overflow when they are squared and added up.
_LARGEST = 1e100


@dataclass(frozen=True, slots=True)
class NoData:
    """There is no number, and why.

    Parameters
    ----------
    why
        What is missing, a sentence without a full stop.
    """

    why: str


@dataclass(frozen=True, slots=True)
class Undefined:
    """One part of a result that does not exist, and why.

    Parameters
    ----------
    name
        What it would have been, such as ``"group b: true positive rate"``.
    why
        What is missing, a sentence without a full stop.
    """

    name: str
    why: str


def checked_counts(name: str, counts: Sequence[int]) -> FloatArray:
    """Return counts as doubles, shape (n,); ValueError unless all are whole numbers >= 0 and there is at least one."""
    if not len(counts):
        raise ValueError(f"{name} must hold at least one count, got none")
    for index, count in enumerate(counts):
        refuse_bad_count(f"{name}[{index}]", count)
    return as_array(counts)


def checked_pair(baseline: Sequence[int], candidate: Sequence[int]) -> tuple[FloatArray, FloatArray]:
    """Return the counts of both variants, each shape (J,); ValueError if they are not on the same bins."""
    if len(baseline) != len(candidate):
        raise ValueError(
            f"both variants must be counted in the same bins, got {len(baseline)} of the baseline "
            f"and {len(candidate)} of the candidate"
        )
    return checked_counts("baseline", baseline), checked_counts("candidate", candidate)


def nothing_counted(baseline: FloatArray, candidate: FloatArray) -> NoData | None:
    """Return what is missing if a variant has no counts, else None."""
    for name, counts in (("baseline", baseline), ("candidate", candidate)):
        if not counts.any():
            return NoData(f"the {name} has no counts")
    return None


def checked_values(name: str, values: Sequence[float]) -> FloatArray:
    """Return numbers as doubles, shape (n,), n >= 0; ValueError as in `refuse_bad_value`."""
    for index, value in enumerate(values):
        refuse_bad_value(f"{name}[{index}]", value)
    return as_array(values)


def refuse_bad_value(name: str, value: float) -> None:
    """Raise ValueError unless ``value`` is finite and at most 1e100 in size."""
    if not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number, got {value}")
    if abs(value) > _LARGEST:
        raise ValueError(f"{name} must be at most {_LARGEST} in size, got {value}")


def refuse_below(name: str, value: float, least: float) -> None:
    """Raise ValueError unless ``value`` is finite and at least ``least``."""
    if not (math.isfinite(value) and value >= least):
        raise ValueError(f"{name} must be finite and at least {least}, got {value}")


def refuse_not_positive(name: str, value: float) -> None:
    """Raise ValueError unless ``value`` is above 0, and within 1e-100..1e100."""
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be finite and above 0, got {value}")
    if not 1 / _LARGEST <= value <= _LARGEST:
        raise ValueError(f"{name} must be in {1 / _LARGEST}..{_LARGEST}, got {value}")


def refuse_bad_alpha(alpha: float) -> None:
    """Raise ValueError unless ``alpha`` lies in (0, 1)."""
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must lie between 0 and 1, both excluded, got {alpha}")


def refuse_bad_draws(draws: int) -> None:
    """Raise ValueError unless ``draws`` is a whole number of at least 99."""
    if type(draws) is not int or draws < 99:
        raise ValueError(f"draws must be a whole number of at least 99, got {draws!r}")
