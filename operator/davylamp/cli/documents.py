"""YAML that somebody else wrote, read within limits, each value with its line."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml

MAX_BYTES: Final = 1 << 20
MAX_DOCUMENTS: Final = 500
MAX_DEPTH: Final = 40

Location = tuple[str | int, ...]


class UnreadableError(ValueError):
    """A text is not YAML, or not within the limits; the line counts from 1."""

    def __init__(self, text: str, line: int) -> None:
        super().__init__(text)
        self.line = line


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a file.

    Parameters
    ----------
    value
        What it holds.
    lines
        The line of each value, counted from 1, by its path.
    """

    value: Any
    lines: Mapping[Location, int]

    def line(self, path: Location) -> int:
        """Return the line of a value, or of the nearest thing around it that is there."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def documents(text: str) -> tuple[Document, ...]:
    """Return the documents of a text; empty ones are left out.

    Raises
    ------
    UnreadableError
        If the text is not YAML, is too large or too deep, repeats a key or uses aliases: these can make a small text
        fill the memory, and a manifest has no need of them.
    """
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise UnreadableError(f"the file is larger than {MAX_BYTES} bytes", 1)
    try:
        return tuple(document for document in _read(text) if document.value is not None)
    except UnreadableError:
        raise
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise UnreadableError(f"this is not YAML: {error.problem or error.context}", line) from None
    except yaml.YAMLError as error:
        raise UnreadableError(f"this is not YAML: {str(error).splitlines()[0]}", 1) from None
    except RecursionError:
        raise UnreadableError(f"values lie more than {MAX_DEPTH} deep", 1) from None
    except ValueError as error:
        raise UnreadableError(f"a value cannot be read: {error}", 1) from None


def _read(text: str) -> list[Document]:
    loader = _Loader(text)
    found: list[Document] = []
    while loader.check_node():
        if len(found) == MAX_DOCUMENTS:
            raise UnreadableError(f"the file has more than {MAX_DOCUMENTS} documents", loader.line + 1)
        node = loader.get_node()
        if node is not None:
            found.append(Document(loader.construct_document(node), dict(_lines(node, ()))))
    return found


class _Loader(yaml.SafeLoader):
    """The safe loader, without aliases and merges, repeated keys and deep nests."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise UnreadableError("aliases (*name) are not taken: write the value out", self._here())
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise UnreadableError(f"values lie more than {MAX_DEPTH} deep", self._here())
        node: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def _here(self) -> int:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]  # the stubs leave it out
        line: int = event.start_mark.line
        return line + 1

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002 - as PyYAML declares it
        seen = set()
        for key, _ in node.value:
            name = str(key.value)
            if name in seen:
                raise UnreadableError(f"the key {name[:100]!r} stands here twice", key.start_mark.line + 1)
            seen.add(name)
        return super().construct_mapping(node, deep=deep)


def _lines(node: yaml.Node, path: Location) -> Iterator[tuple[Location, int]]:
    yield path, node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            place = (*path, str(key.value))
            yield from _lines(value, place)
            yield place, key.start_mark.line + 1
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield from _lines(value, (*path, index))
