"""Counters as people name them: ``credit_scored_total{answer="fallback"}``."""

from __future__ import annotations

import ast
import re
from typing import Final

from davylamp.core.reading import Matcher, MatchKind, Selector

#: Labels that Davylamp sets or reads itself.
OWN_LABELS: Final = ("namespace", "__name__", "le")

_SELECTOR: Final = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?", re.ASCII | re.DOTALL)
_MATCHER: Final = re.compile(
    r"\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*(\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')\s*(?:,|$)", re.ASCII
)


def parse_selector(text: str) -> Selector:
    """Return the selector that a counter's name with label matchers means.

    Raises
    ------
    ValueError
        If it is more than that, or matches a label that Davylamp sets itself.
    """
    parts = _SELECTOR.fullmatch(text)
    if parts is None:
        raise ValueError(f"write the name of a counter, with label matchers if needed, not {text[:60]!r}")
    return Selector(parts[1], _matchers(parts[2] or ""))


def _matchers(text: str) -> tuple[Matcher, ...]:
    matchers = []
    rest = text.strip()
    while rest:
        found = _MATCHER.match(rest)
        if found is None:
            raise ValueError(f'write label matchers such as answer="fallback", with commas between, not {rest[:60]!r}')
        if found[1] in OWN_LABELS:
            raise ValueError(f"remove the matcher for {found[1]}: Davylamp sets it itself")
        matchers.append(Matcher(found[1], MatchKind(found[2]), _unquoted(found[3])))
        rest = rest[found.end() :].strip()
    return tuple(matchers)


def _unquoted(quoted: str) -> str:
    """Return what a string of PromQL means; its escapes are Go's, of which Python knows all that occur."""
    try:
        value = ast.literal_eval(quoted)
    except (SyntaxError, ValueError) as error:
        raise ValueError(f"the label value {quoted[:60]} is not a string of PromQL") from error
    return str(value)
