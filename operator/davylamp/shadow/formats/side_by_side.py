"""Where two bodies differ, line by line, for people to look at."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import Any, Final

from jsonpath_rfc9535.serialize import canonical_string

from davylamp.shadow.formats.parsing import parsed, spelled, within_bounds
from davylamp.shadow.formats.reading import UnreadableError

MOST_LINES: Final = 1000
MOST_CHARACTERS: Final = 200
_ABSENT: Final = object()


@dataclass(frozen=True, slots=True)
class Line:
    """One place where two bodies differ.

    Parameters
    ----------
    path
        JSONPath of the place; of text, the number of its line, from 1.
    left, right
        What stands there, on one line and cut if it is long; None where the place is absent.
    """

    path: str
    left: str | None
    right: str | None


def differences_of(first: str, second: str) -> tuple[Line, ...]:
    """Return where two bodies differ, in order: place by place of JSON, line by line of anything else.

    Parameters
    ----------
    first, second
        As they were kept, redacted.
    """
    try:
        left, right = (within_bounds(parsed(side.encode("utf-8", "surrogatepass"))) for side in (first, second))
    except UnreadableError:
        return tuple(islice(_text_lines(first, second), MOST_LINES))
    return tuple(islice(_lines("$", left, right), MOST_LINES))


def _text_lines(first: str, second: str) -> Iterator[Line]:
    for number, (left, right) in enumerate(zip_longest(first.splitlines(), second.splitlines()), start=1):
        if left != right:
            yield Line(str(number), *(None if side is None else _cut(side) for side in (left, right)))


def _lines(path: str, left: Any, right: Any) -> Iterator[Line]:
    """Yield differences; the depth of documents is bounded, so this calls itself for each level."""
    if type(left) is dict and type(right) is dict:
        for key in (*left, *(key for key in right if key not in left)):
            yield from _lines(f"{path}[{canonical_string(key)}]", left.get(key, _ABSENT), right.get(key, _ABSENT))
    elif type(left) is list and type(right) is list:
        for place, (before, after) in enumerate(zip_longest(left, right, fillvalue=_ABSENT)):
            yield from _lines(f"{path}[{place}]", before, after)
    elif (shown := _shown(left)) != (other := _shown(right)):
        yield Line(path, *(None if side is None else _cut(side) for side in (shown, other)))


def _shown(value: Any) -> str | None:
    return None if value is _ABSENT else spelled(value)


def _cut(text: str) -> str:
    """Return text that a terminal shows as it is: control characters cannot move about in it."""
    clean = "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text[:MOST_CHARACTERS]
    )
    return clean if len(text) <= MOST_CHARACTERS else f"{clean}…"
