"""How to have answers read and compared."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from davylamp.shadow.comparing import compare
from davylamp.shadow.comparison import Comparison
from davylamp.shadow.exchange import Answer, Failure, Headers, Outcome, Protocol
from davylamp.shadow.formats import read_both
from davylamp.shadow.formats.reading import Reading
from davylamp.shadow.task import Rules
from e2e.bench.answers import JSON_TYPE, answer, call

RULES: Final = Rules()


def reading(target: str, body: Any, headers: Headers = JSON_TYPE, rules: Rules = RULES) -> Reading:
    """Return what one answer says."""
    given = body if isinstance(body, Answer) else answer(body, headers)
    return read_both(call(target, given.protocol), given, given, rules)[0]


def compared(target: str, first: Any, second: Any, **rules: Any) -> Comparison:
    """Compare two answers: bodies, whole answers, or failures."""
    sides = [side if isinstance(side, (Answer, Failure)) else answer(side) for side in (first, second)]
    protocol = next((side.protocol for side in sides if isinstance(side, Answer)), Protocol.HTTP)
    before, after = (Outcome(side, 0.1) for side in sides)
    return compare(call(target, protocol), before, after, replace(RULES, **rules))
