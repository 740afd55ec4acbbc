"""JSONPath (RFC 9535): what of a document is compared, and what is not.

Rule 1: a path costs no more than a bounded number of looks, whatever it says and wherever it is used.
Rule 2: which paths may be written at all, `davylamp.jsonpath` says.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from jsonpath_rfc9535 import JSONPathNode
from jsonpath_rfc9535.segments import JSONPathRecursiveDescentSegment
from jsonpath_rfc9535.selectors import FilterSelector, IndexSelector, JSONPathSelector, NameSelector

from davylamp.jsonpath import query
from davylamp.shadow.formats.arrays import columns_of
from davylamp.shadow.formats.parsing import within_bounds
from davylamp.shadow.formats.reading import Document, Fault, Tensors, UnreadableError

#: Values that all paths together may look at in one document: each half a microsecond or so.
MOST_LOOKS: Final = 1_000_000
#: For how many looks one of a filter counts.
_FILTER: Final = 4
#: Values that all paths together may find on their way: each some hundred bytes.
MOST_FOUND: Final = 100_000


class _Search:
    """Looks for paths in one document, within the bounds for all of them.

    Parameters
    ----------
    document
        Within the bounds.
    """

    def __init__(self, document: Any) -> None:
        self._document = document
        self._looks = 0
        self._found = 0

    def found(self, path: str) -> list[JSONPathNode]:
        """Return what a path finds, in the order of the document."""
        nodes = [JSONPathNode(value=self._document, location=(), parent=None, root=self._document)]
        for segment in query(path).segments:
            reached = self._with_all_inside(nodes) if isinstance(segment, JSONPathRecursiveDescentSegment) else nodes
            nodes = [
                child for node in reached for selector in segment.selectors for child in self._chosen(node, selector)
            ]
        return nodes

    def _with_all_inside(self, nodes: list[JSONPathNode]) -> Iterator[JSONPathNode]:
        pending = nodes[::-1]
        while pending:
            node = pending.pop()
            yield node
            value: Any = node.value
            if isinstance(value, dict | list):
                self._look(len(value))
                entries = value.items() if isinstance(value, dict) else enumerate(value)
                holders = [(key, entry) for key, entry in entries if isinstance(entry, dict | list)]
                pending.extend(node.new_child(entry, key, node) for key, entry in reversed(holders))

    def _chosen(self, node: JSONPathNode, selector: JSONPathSelector) -> list[JSONPathNode]:
        value: Any = node.value
        one = isinstance(selector, NameSelector | IndexSelector) or not isinstance(value, dict | list)
        self._look((1 if one else len(value)) * (_FILTER if isinstance(selector, FilterSelector) else 1))
        chosen = list(selector.resolve(node))
        self._found += len(chosen)
        if self._found > MOST_FOUND:
            raise UnreadableError(Fault.BOUND)
        return chosen

    def _look(self, times: int) -> None:
        self._looks += times
        if self._looks > MOST_LOOKS:
            raise UnreadableError(Fault.BOUND)


def matches(document: Any, paths: Sequence[str]) -> dict[str, list[JSONPathNode]]:
    """Return what each path finds.

    Parameters
    ----------
    document
        Within the bounds.
    paths
        JSONPaths.

    Raises
    ------
    SpecError
        If one of them is none.
    UnreadableError
        If it takes too much to look for them.
    """
    search = _Search(document)
    return {path: search.found(path) for path in paths}


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
    nodes = [node for found in matches(document, paths).values() for node in found]
    if any(node.parent is None for node in nodes):
        raise UnreadableError(Fault.FORM)
    _remove(nodes)
    return document


def selected(document: Any, paths: Sequence[str]) -> Tensors | Document:
    """Return what the paths find: arrays, if that is what each of them finds, so that they can decide.

    Raises
    ------
    UnreadableError
        If they find nothing, or if the document, or all that is found in it, is over a bound.
    """
    within_bounds(document)
    found = {path: [node.value for node in nodes] for path, nodes in matches(document, paths).items()}
    if not any(found.values()):
        raise UnreadableError(Fault.FORM)
    # Paths may find the same places again and again.
    within_bounds(found, most_values=MOST_LOOKS)
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
