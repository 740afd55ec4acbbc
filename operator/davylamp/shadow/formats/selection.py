"""JSONPath (RFC 9535): what of a document is compared, and what is not."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import jsonpath_rfc9535 as jsonpath
from jsonpath_rfc9535 import JSONPathError, JSONPathNode, JSONPathQuery

from davylamp.errors import SpecError
from davylamp.shadow.formats.arrays import columns_of
from davylamp.shadow.formats.parsing import within_bounds
from davylamp.shadow.formats.reading import Document, Fault, Tensors, UnreadableError


@lru_cache(maxsize=1024)
def query(path: str) -> JSONPathQuery:
    """Read a JSONPath.

    Raises
    ------
    SpecError
        If it is none.
    """
    try:
        return jsonpath.compile(path)
    except (JSONPathError, ValueError, RecursionError) as error:
        raise SpecError(f"{path[:100]!r} is no JSONPath: {str(error)[:200]}") from None


def matches(document: Any, path: str) -> list[JSONPathNode]:
    """Return what a path finds.

    Parameters
    ----------
    document
        Within the bounds.
    path
        The JSONPath.

    Raises
    ------
    SpecError
        If it is none.
    UnreadableError
        If looking for it takes more levels than are read.
    """
    try:
        return list(query(path).finditer(document))
    except (JSONPathError, RecursionError):
        raise UnreadableError(Fault.BOUND) from None


def without(document: Any, paths: Sequence[str]) -> Any:
    """Return the document without what the paths find; it is changed in place.

    Raises
    ------
    UnreadableError
        If nothing is left, or if it is over a bound.
    """
    if not paths:
        return document
    within_bounds(document)
    nodes = [node for path in paths for node in matches(document, path)]
    if any(node.parent is None for node in nodes):
        raise UnreadableError(Fault.FORM)
    _remove(nodes)
    return document


def selected(document: Any, paths: Sequence[str]) -> Tensors | Document:
    """Return what the paths find: arrays, if that is what each of them finds, so that they can decide.

    Raises
    ------
    UnreadableError
        If they find nothing, or if the document is over a bound.
    """
    within_bounds(document)
    found = {path: [node.value for node in matches(document, path)] for path in paths}
    if not any(found.values()):
        raise UnreadableError(Fault.FORM)
    return columns_of(found) or Document(found)


def _remove(nodes: Iterable[JSONPathNode]) -> None:
    """Remove entries of lists all at once, so that the places of the rest stay what they are until then."""
    lists: dict[int, tuple[list[Any], set[int | str]]] = {}
    for node in nodes:
        holder = node.parent.value if node.parent is not None else None
        key = node.location[-1]
        if isinstance(holder, dict):
            holder.pop(key, None)
        elif isinstance(holder, list):
            lists.setdefault(id(holder), (holder, set()))[1].add(key)
    for holder, places in lists.values():
        holder[:] = [entry for place, entry in enumerate(holder) if place not in places]
