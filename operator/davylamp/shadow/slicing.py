"""Which slices a mirrored request belongs to, and what both variants decided on it.

Rule 1: what is missing, wrong or not declared is `other`; nothing that a request carries makes another slice.
Rule 2: a request is read once, whatever it is sliced by.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from davylamp.core.slices import class_of, slices_of, value_of
from davylamp.jsonpath import query
from davylamp.shadow.comparison import Comparison, Decision
from davylamp.shadow.exchange import Headers, header_of
from davylamp.shadow.task import SlicedBy, Slicing

_NOTHING: Final[Mapping[str, Any]] = {}


def slices_of_request(headers: Headers, body: bytes, slicing: Slicing) -> tuple[str, ...]:
    """Return the labels of the slices that a request belongs to, the whole excluded.

    Parameters
    ----------
    headers, body
        As they arrived, the body decoded.
    slicing
        What is sliced by.
    """
    document = _read(body) if any(each.path or each.tensor for each in slicing.by) else _NOTHING
    values = {each.attribute.name: value_of(each.attribute, _found(headers, document, each)) for each in slicing.by}
    return slices_of(slicing.attributes, slicing.intersections, values, slicing.key)


def _read(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return _NOTHING


def _found(headers: Headers, document: Any, by: SlicedBy) -> object:
    if by.path:
        try:
            node = query(by.path).find_one(document)
        except (ValueError, TypeError, RecursionError):
            return None
        return None if node is None else node.value
    if by.tensor:
        return _in_tensor(document, by)
    return header_of(headers, by.attribute.header)


def _in_tensor(document: Any, by: SlicedBy) -> object:
    inputs = document.get("inputs") if isinstance(document, Mapping) else None
    for each in inputs if isinstance(inputs, list) else ():
        if isinstance(each, Mapping) and each.get("name") == by.tensor:
            return _in_row(each.get("data"), by.column)
    return None


def _in_row(data: Any, column: int) -> object:
    """Return a number of the first row; rows may be nested, or one after the other."""
    row = data
    while isinstance(row, Sequence) and not isinstance(row, str) and row and isinstance(row[0], list):
        row = row[0]
    return row[column] if isinstance(row, list) and column < len(row) else None


def decided(comparison: Comparison, positive: str) -> tuple[str, str] | None:
    """Return the class that each variant decided for, the baseline first; None if there is no single decision.

    The side of a threshold is the positive class, or the empty text for the other.
    """
    if len(comparison.decisions) != 1:
        return None
    first, second = (_class(each, positive) for each in comparison.decisions[0])
    return first, second


def _class(decision: Decision, positive: str) -> str:
    if isinstance(decision, bool):
        return positive if decision else ""
    return class_of(decision)
