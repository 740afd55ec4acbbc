"""Spell selectors in PromQL, with every value quoted: nothing that a user wrote becomes syntax."""

import re
from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from davylamp.core.reading import Matcher, MatchKind

_SPECIAL: Final = re.compile(r"[\\.+*?()|\[\]{}^$]")
_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def any_of(label: str, values: Iterable[str]) -> Matcher:
    """Return a matcher of any of the values, which are taken literally."""
    wanted = sorted(set(values))
    if len(wanted) == 1:
        return Matcher(label, MatchKind.EQUAL, wanted[0])
    return Matcher(label, MatchKind.MATCHES, "|".join(map(literally, wanted)))


def literally(value: str) -> str:
    """Return a regular expression (RE2) that matches the value alone."""
    return _SPECIAL.sub(r"\\\g<0>", value)


def selector_text(matchers: Iterable[Matcher]) -> str:
    """Return an instant selector of the series that all matchers match."""
    return "{" + ",".join(f'{m.label}{m.kind.value}"{m.value.translate(_ESCAPES)}"' for m in matchers) + "}"


def range_text(matchers: Iterable[Matcher], span: timedelta) -> str:
    """Return a range selector that gives the raw samples of the last ``span``, in whole milliseconds, rounded up."""
    milliseconds = -(-span // timedelta(milliseconds=1))
    return f"{selector_text(matchers)}[{milliseconds}ms]"
