"""Counter selectors as users write them: one metric name and simple label matchers, nothing else.

Rule 1: what is not a plain selector is refused with what to write instead; Davylamp counts the raw samples itself.
Rule 2: namespace, __name__ and le are Davylamp's: a user's matcher cannot widen what a rollout sees.
"""

from typing import Final

import promql_parser

from davylamp.core.reading import Matcher, MatchKind, Selector
from davylamp.errors import SpecError

_OWN_LABELS: Final = ("namespace", "__name__", "le")
_KINDS: Final = {
    "MatchOp.Equal": MatchKind.EQUAL,
    "MatchOp.NotEqual": MatchKind.NOT_EQUAL,
    "MatchOp.Re": MatchKind.MATCHES,
    "MatchOp.NotRe": MatchKind.MATCHES_NOT,
}
_REMEDY: Final = (
    'write the name of a counter, with label matchers if needed, such as credit_approved_total{decision="yes"}'
)
_LONGEST: Final = 1024


def parse_selector(text: str) -> Selector:
    """Read one counter selector.

    Parameters
    ----------
    text
        PromQL of at most 1024 characters, such as ``credit_approved_total{decision="yes"}``.

    Raises
    ------
    SpecError
        If it is anything but a plain selector: a function, a range, an offset, arithmetic, no name.
    """
    if len(text) > _LONGEST:
        raise SpecError(f"a counter selector has at most {_LONGEST} characters, got {len(text)}: {_REMEDY}")
    try:
        tree = promql_parser.parse(text)
    except ValueError as broken:
        raise SpecError(f"{_shown(text)} is not PromQL ({broken}): {_REMEDY}") from None
    if not isinstance(tree, promql_parser.VectorSelector):
        raise SpecError(f"{_shown(text)} is not a plain counter: {_REMEDY}; Davylamp counts the raw samples itself")
    if tree.offset is not None or tree.at is not None:
        raise SpecError(f"{_shown(text)} looks at another time than now: remove offset and @")
    if tree.matchers.or_matchers:
        raise SpecError(f"{_shown(text)} joins matchers by `or`, which Prometheus does not know: write one selector")
    if not tree.name:
        raise SpecError(f"{_shown(text)} has no metric name before the braces: {_REMEDY}")
    matchers = tuple(Matcher(m.name, _KINDS[str(m.op)], m.value) for m in tree.matchers.matchers)
    for matcher in matchers:
        if matcher.label in _OWN_LABELS:
            raise SpecError(f"{_shown(text)}: remove the matcher of {matcher.label}, which Davylamp sets itself")
    return Selector(tree.name, matchers)


def _shown(text: str) -> str:
    return repr(text if len(text) <= 100 else f"{text[:100]}…")
