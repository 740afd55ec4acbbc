"""Resources to start from, and ways to spoil them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import yaml

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
CRDS = Path(__file__).parents[3] / "crds"

Manifest = dict[str, Any]
Change = Callable[[Manifest], None]


def examples() -> dict[str, Manifest]:
    """Every document of docs/examples, by file and place."""
    return copy.deepcopy(_read())


@cache
def _read() -> dict[str, Manifest]:
    return {
        f"{path.stem}-{index}": document
        for path in sorted(EXAMPLES.glob("*.yaml"))
        for index, document in enumerate(yaml.safe_load_all(path.read_text()))
    }


def example(name: str) -> Manifest:
    return copy.deepcopy(_read()[name])


def rollout() -> Manifest:
    """The full example."""
    return example("classifier-0")


def smallest() -> Manifest:
    return example("smallest-0")


def place(manifest: Manifest, path: str) -> tuple[Any, Any]:
    """Return the container and the key that a path such as ``spec.steps.0.weight`` ends at."""
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    container: Any = manifest
    for part in parents:
        container = container[part]
    return container, last


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the way to each place inside a document, the document itself first."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, child in children for found in paths(child, (*path, key)))]


def put(path: str, value: Any) -> Change:
    def change(manifest: Manifest) -> None:
        container, key = place(manifest, path)
        container[key] = value

    return change


def drop(path: str) -> Change:
    def change(manifest: Manifest) -> None:
        container, key = place(manifest, path)
        del container[key]

    return change


def append(path: str, value: Any) -> Change:
    def change(manifest: Manifest) -> None:
        container, key = place(manifest, path)
        container[key].append(value)

    return change


def changed(manifest: Manifest, *changes: Change) -> Manifest:
    manifest = copy.deepcopy(manifest)
    for change in changes:
        change(manifest)
    return manifest
