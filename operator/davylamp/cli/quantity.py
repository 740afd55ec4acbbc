"""Numbers as people read them."""

from datetime import datetime, timedelta
from enum import Enum
from typing import Final

from davylamp.api.v1alpha1.status import Signal

#: Beyond this power of ten an e-value is shown by its exponent alone.
_LONG: Final = 4


class Unit(Enum):
    """What the value of a signal is counted in."""

    SHARE = "share"
    SECONDS = "seconds"


def unit_of(signal: Signal) -> Unit:
    """Return the unit of a signal's values: a share of events, or a latency."""
    sides = [side for side in (signal.baseline, signal.candidate) if side is not None]
    return Unit.SHARE if any(side.events is not None for side in sides) else Unit.SECONDS


def value(number: float, unit: Unit) -> str:
    """Return a share in percent or a latency with its unit, in about three digits."""
    match unit:
        case Unit.SHARE:
            return f"{_digits(100 * number)} %"
        case Unit.SECONDS:
            return f"{_digits(1000 * number)} ms" if abs(number) < 1 else f"{_digits(number)} s"


def difference(number: float, unit: Unit, minus: str) -> str:
    """Return a difference with its sign; of shares in percentage points."""
    text = f"{_digits(100 * abs(number))} pt" if unit is Unit.SHARE else value(abs(number), unit)
    return (minus if number < 0 else "+") + text


def limits(low: float | None, high: float | None, unit: Unit, minus: str) -> str:
    """Return the limits of a difference in the unit of `difference`: in square brackets, or the one that there is."""
    factor = 100 if unit is Unit.SHARE else 1000

    def limit(number: float) -> str:
        return ("+" if number >= 0 else minus) + _digits(abs(number) * factor)

    if low is None or high is None:
        return f"at least {limit(low)}" if low is not None else f"at most {limit(high)}" if high is not None else ""
    return f"[{limit(low)}, {limit(high)}]"


def e_value(log10: float | None, unknown: str) -> str:
    """Return an e-value of which the log10 is known, in at most five characters."""
    if log10 is None:
        return unknown
    if log10 >= _LONG:
        return f"1e{min(log10, 999):.0f}"
    if log10 < -2:
        return "<0.01"
    return _digits(10**log10, longest=3)


def count(number: float) -> str:
    """Return a count with separators."""
    return f"{number:,.0f}"


def counted(number: int, noun: str) -> str:
    """Return a count of things with their name, in the plural that takes an s."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def age(since: datetime, now: datetime) -> str:
    """Return the time since then in its two greatest units, as kubectl does."""
    return span(now - since)


def span(length: timedelta) -> str:
    """Return a length of time in its two greatest units; a negative one as 0s."""
    seconds = max(0, int(length.total_seconds()))
    for unit, size, part, part_size in (("d", 86_400, "h", 3_600), ("h", 3_600, "m", 60), ("m", 60, "s", 1)):
        if seconds >= size:
            rest = seconds % size // part_size
            return (
                f"{seconds // size}{unit}{rest}{part}" if rest and seconds < 10 * size else f"{seconds // size}{unit}"
            )
    return f"{seconds}s"


def _digits(number: float, *, longest: int = 2) -> str:
    """Return a number in about three digits, with at most ``longest`` decimals."""
    size = abs(number)
    decimals = 0 if size >= 100 else 1 if size >= 10 else 2
    return f"{number:,.{min(decimals, longest)}f}"
