"""Slices: groups of requests whose members must not pay for the speed-up.

A request's attributes come from its header, its body, or bins of a number in it. Every value that was not declared is
``other``, so that the number of slices is known beforehand, and nobody can make more of them by what they send.
Protected values become labels of metrics by a keyed hash: whoever may read the ModelRollout knows the key and the
values, and nobody else learns them from a metric, a log or an event.
"""

import hmac
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Final

#: All requests, whatever their attributes.
WHOLE: Final = ""
#: Values that were not declared, or are missing.
OTHER: Final = "other"
#: Slices of a rollout, the whole not counted.
MOST: Final = 64
_HASHED: Final = 8
_WHOLE: Final = re.compile(r"(-?\d{1,18})\.0{1,18}", re.ASCII)
_WORDS: Final = {"true": "1", "false": "0"}


@dataclass(frozen=True, slots=True)
class Attribute:
    """What a request is sliced by.

    Parameters
    ----------
    name
        As labels and messages show it.
    values
        Those that have a slice of their own; for numbers, the texts of the bins (see `bins_of`).
    edges
        Of the bins, rising; empty for an attribute that is no number.
    protected
        Whether its values are shown as keyed hashes.
    header
        The request header that carries it, lower case; empty if a gateway cannot see it.
    """

    name: str
    values: tuple[str, ...]
    edges: tuple[float, ...] = ()
    protected: bool = True
    header: str = ""


@dataclass(frozen=True, slots=True)
class Slice:
    """A group of requests: the declared value of each attribute that it is made by.

    Parameters
    ----------
    label
        As metrics carry it.
    parts
        Pairs of attribute and value, sorted by attribute.
    """

    label: str
    parts: tuple[tuple[str, str], ...]


def bins_of(edges: Iterable[float]) -> tuple[str, ...]:
    """Return the texts of the bins between edges: below the first, from each edge up to the next, from the last on."""
    texts = [f"{edge:g}" for edge in edges]
    middle = [f"{low}-{high}" for low, high in pairwise(texts)]
    return (f"<{texts[0]}", *middle, f">={texts[-1]}") if texts else ()


def value_of(attribute: Attribute, found: object) -> str:
    """Return the declared value that a request has; `OTHER` for any other and for none.

    Parameters
    ----------
    attribute
        What is asked for.
    found
        What the request says: a text, a number, a truth value, or None.
    """
    if attribute.edges:
        return _bin(attribute, found)
    if isinstance(found, bool):
        text = str(found).lower()
    elif isinstance(found, float) and found.is_integer():
        text = str(int(found))
    else:
        text = str(found)
    return text if found is not None and text in attribute.values else OTHER


def class_of(text: str) -> str:
    """Return a class as both sides of a join write it: ``True`` and ``1.0`` are the class ``1``."""
    whole = _WHOLE.fullmatch(text)
    return whole[1] if whole else _WORDS.get(text.lower(), text)


def _bin(attribute: Attribute, found: object) -> str:
    try:
        number = float(str(found))
    except ValueError:
        return OTHER
    if math.isnan(number):
        return OTHER
    place = sum(number >= edge for edge in attribute.edges)
    return bins_of(attribute.edges)[place]


def label_of(parts: Iterable[tuple[Attribute, str]], key: str) -> str:
    """Return what metrics call a slice: ``race=Black,sex=Female``, protected values as keyed hashes.

    Parameters
    ----------
    parts
        Each attribute with its declared value.
    key
        Of the hash: the uid of the ModelRollout.
    """
    return ",".join(sorted(f"{attribute.name}={_shown(attribute, value, key)}" for attribute, value in parts))


def _shown(attribute: Attribute, value: str, key: str) -> str:
    if not attribute.protected or value == OTHER:
        return value
    digest = hmac.digest(key.encode(), f"{attribute.name}={value}".encode(), "sha256")
    return f"~{digest.hex()[:_HASHED]}"


def declared(attributes: Iterable[Attribute], intersections: Iterable[tuple[str, ...]], key: str) -> tuple[Slice, ...]:
    """Return every slice that is judged: of each attribute alone, then of each intersection; `OTHER` is none."""
    return tuple(_made(combination, key) for combination in _combinations(attributes, intersections))


def slices_of(
    attributes: Iterable[Attribute], intersections: Iterable[tuple[str, ...]], values: Mapping[str, str], key: str
) -> tuple[str, ...]:
    """Return the labels of the slices that one request belongs to, `OTHER` ones included, the whole excluded.

    Parameters
    ----------
    attributes, intersections
        What is sliced by.
    values
        The request's declared value of each attribute, by its name, see `value_of`.
    key
        Of the hash.
    """
    by_name = {attribute.name: attribute for attribute in attributes}
    groups = [*((name,) for name in by_name), *intersections]
    return tuple(label_of(((by_name[name], values.get(name, OTHER)) for name in group), key) for group in groups)


def _made(combination: tuple[tuple[Attribute, str], ...], key: str) -> Slice:
    parts = tuple(sorted((attribute.name, value) for attribute, value in combination))
    return Slice(label_of(combination, key), parts)


def _combinations(
    attributes: Iterable[Attribute], intersections: Iterable[tuple[str, ...]]
) -> Iterator[tuple[tuple[Attribute, str], ...]]:
    by_name = {attribute.name: attribute for attribute in attributes}
    for group in [*((name,) for name in by_name), *intersections]:
        yield from product(*([(by_name[name], value) for value in by_name[name].values] for name in group))
