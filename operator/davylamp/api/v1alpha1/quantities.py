"""Percentages and durations as people write them in resources.

One grammar for the CRDs (CEL), the engine and the command line. It is strict on purpose: Python's own ``int`` and
``float`` accept ``1_000`` and non-ASCII digits, and Go's durations know no days.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from davylamp.api.v1alpha1.rules import Rule, Spelling

#: Up to four decimals: a hundredth of a basis point is finer than any traffic can tell.
PERCENT_PATTERN: Final = r"^(100(\.0{1,4})?|[0-9]{1,2}(\.[0-9]{1,4})?)%$"
#: Whole days, or hours, minutes and seconds in this order.
DURATION_PATTERN: Final = (
    r"^([0-9]{1,3}d|[0-9]{1,4}h([0-9]{1,2}m)?([0-9]{1,2}s)?|[0-9]{1,5}m([0-9]{1,2}s)?|[0-9]{1,6}s)$"
)
PERCENT_LENGTH: Final = 9
DURATION_LENGTH: Final = 12

_EXAMPLES: Final = ("5s", "5m", "1h30m", "7d")
_PERCENT: Final = re.compile(PERCENT_PATTERN, re.ASCII)
_DURATION: Final = re.compile(DURATION_PATTERN, re.ASCII)
_PART: Final = re.compile(r"([0-9]+)([dhms])", re.ASCII)
_SECONDS: Final = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}


def parse_percent(text: str) -> float:
    """Return the share that a percentage such as ``"2.5%"`` means.

    Parameters
    ----------
    text
        ASCII digits, at most four decimals, ``%``; from ``0%`` to ``100%``.

    Returns
    -------
    float
        In [0, 1].

    Raises
    ------
    ValueError
        If ``text`` is anything else.
    """
    if not _PERCENT.fullmatch(text):
        raise ValueError(f'write a percentage from 0% to 100% such as "2.5%", not {text[:40]!r}')
    return float(text[:-1]) / 100


def format_percent(share: float) -> str:
    """Return a share in [0, 1] as the shortest percentage with at most four decimals."""
    if not 0 <= share <= 1:
        raise ValueError(f"a share lies between 0 and 1, got {share}")
    return f"{share * 100:.4f}".rstrip("0").rstrip(".") + "%"


def parse_duration(text: str) -> timedelta:
    """Return the span that a duration such as ``"30s"``, ``"1h30m"`` or ``"7d"`` means.

    Parameters
    ----------
    text
        Whole days, or hours, minutes and seconds in this order; ASCII digits without a sign.

    Raises
    ------
    ValueError
        If ``text`` is anything else.
    """
    if not _DURATION.fullmatch(text):
        raise ValueError(f'write a duration such as "30s", "5m", "1h30m" or "7d", not {text[:40]!r}')
    return timedelta(seconds=sum(int(number) * _SECONDS[unit] for number, unit in _PART.findall(text)))


def format_duration(span: timedelta) -> str:
    """Return a span of whole seconds (>= 0) in the grammar that `parse_duration` reads.

    Fractions of a second are rounded up, so that a remaining time never shows as over before it is.
    """
    if span < timedelta(0):
        raise ValueError(f"a duration is not negative, got {span}")
    rest = math.ceil(span.total_seconds())
    if rest and rest % 86_400 == 0 and rest // 86_400 <= 999:
        return f"{rest // 86_400}d"
    parts = []
    for unit in "hms":
        number, rest = divmod(rest, _SECONDS[unit])
        if number:
            parts.append(f"{number}{unit}")
    return "".join(parts) or "0s"


def cel_seconds(path: str) -> str:
    """Return a CEL expression for the seconds of a string field that holds a duration; CEL itself knows no days."""
    days = f"int({path}.substring(0, {path}.size() - 1)) * {_SECONDS['d']}"
    return f"({path}.endsWith('d') ? {days} : duration({path}).getSeconds())"


@dataclass(frozen=True, slots=True)
class PercentBetween(Spelling):
    """Marks a string field as a percentage between two limits.

    Attributes
    ----------
    low, high
        Limits as percentages, ``high`` included.
    open_low
        Whether ``low`` itself is refused.
    example
        What the message shows.
    """

    low: str
    high: str
    open_low: bool = False
    example: str = "1%"

    def longest(self) -> int:
        """Return the length of the longest text, in characters."""
        return PERCENT_LENGTH

    def rule(self) -> Rule:
        """Return what the API server checks."""
        number = "double(self.substring(0, self.size() - 1))"
        over = ">" if self.open_low else ">="
        limits = f"{number} {over} {float(self.low[:-1])} && {number} <= {float(self.high[:-1])}"
        return Rule(f"self.matches(r'{PERCENT_PATTERN}') && {limits}", self._message())

    def check(self, text: str) -> str:
        """Return ``text``, or raise ValueError that says what to write instead."""
        share, low = parse_percent(text), parse_percent(self.low)
        if share < low or (self.open_low and share == low) or share > parse_percent(self.high):
            raise ValueError(f"{self._message()}, not {text}")
        return text

    def _message(self) -> str:
        limits = f"above {self.low} and up to {self.high}" if self.open_low else f"from {self.low} to {self.high}"
        return f'write a percentage {limits}, such as "{self.example}"'


@dataclass(frozen=True, slots=True)
class DurationBetween(Spelling):
    """Marks a string field as a duration between two limits, both included."""

    low: str
    high: str

    def longest(self) -> int:
        """Return the length of the longest text, in characters."""
        return DURATION_LENGTH

    def rule(self) -> Rule:
        """Return what the API server checks."""
        span = cel_seconds("self")
        low, high = (int(parse_duration(limit).total_seconds()) for limit in (self.low, self.high))
        return Rule(f"self.matches(r'{DURATION_PATTERN}') && {span} >= {low} && {span} <= {high}", self._message())

    def check(self, text: str) -> str:
        """Return ``text``, or raise ValueError that says what to write instead."""
        if not parse_duration(self.low) <= parse_duration(text) <= parse_duration(self.high):
            raise ValueError(f"{self._message()}, not {text}")
        return text

    def _message(self) -> str:
        low, high = parse_duration(self.low), parse_duration(self.high)
        examples = [f'"{text}"' for text in _EXAMPLES if low <= parse_duration(text) <= high]
        return f"write a duration from {self.low} to {self.high}, such as {' or '.join(examples)}"
