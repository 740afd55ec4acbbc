"""JSON as servers really send it, within bounds.

Rule 1: nothing here trusts a body; whatever it holds leads to a value or to `UnreadableError`.
Rule 2: what walks through a whole document first lets `within_bounds` walk through it.
"""

import json
import math
from itertools import chain
from typing import Any, Final

import orjson

from davylamp.shadow.formats.reading import Fault, UnreadableError

MOST_DEPTH: Final = 64
MOST_KEYS: Final = 10_000
#: Objects and lists, which cost more than numbers and texts.
MOST_CONTAINERS: Final = 50_000


def parsed(body: bytes) -> Any:
    """Read JSON; of a key that comes twice, the last one counts.

    Bare NaN and Infinity, a byte order mark, UTF-16 and lone surrogates are read too, by the slower parser.

    Raises
    ------
    UnreadableError
        If it is not JSON, or too deep.
    """
    try:
        return orjson.loads(body)
    except ValueError:
        pass
    try:
        return json.loads(body)
    except RecursionError:
        raise UnreadableError(Fault.BOUND) from None
    except ValueError:  # also a number of thousands of digits, and bytes that are no text
        raise UnreadableError(Fault.FORM) from None


def within_bounds(value: Any, *, most_values: float = math.inf) -> Any:
    """Return the document, if it is neither too deep nor has too many keys, objects or lists.

    Parameters
    ----------
    value
        As `parsed` returns it.
    most_values
        Of any kind, each as often as it stands there; without a limit the size of the body is one.

    Raises
    ------
    UnreadableError
        If it is over a bound.
    """
    keys = containers = values = 0
    level = [value]
    for _ in range(MOST_DEPTH + 1):
        objects = [entry for entry in level if type(entry) is dict]
        lists = [entry for entry in level if type(entry) is list]
        keys += sum(map(len, objects))
        containers += len(level)
        values += sum(map(len, objects)) + sum(map(len, lists))
        if keys > MOST_KEYS or containers > MOST_CONTAINERS or values > most_values:
            break
        inside = chain(chain.from_iterable(lists), chain.from_iterable(entry.values() for entry in objects))
        level = [entry for entry in inside if type(entry) is list or type(entry) is dict]
        if not level:
            return value
    raise UnreadableError(Fault.BOUND)


def flattened(data: list[Any]) -> list[Any]:
    """Return the elements of lists in lists, in order.

    Raises
    ------
    UnreadableError
        If lists and other things stand side by side, or if it is too deep.
    """
    for _ in range(MOST_DEPTH):
        if not data or type(data[0]) is not list:
            return data
        if set(map(type, data)) != {list}:
            raise UnreadableError(Fault.FORM)
        data = list(chain.from_iterable(data))
    raise UnreadableError(Fault.BOUND)


def spelled(value: Any) -> str:
    """Return JSON in one spelling: keys sorted, no spaces; NaN and Infinity as bare words.

    Parameters
    ----------
    value
        Within the bounds.
    """
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
