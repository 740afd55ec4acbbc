"""What may stand nowhere in the project."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.repository.checkout import files, text

# Written in pieces, so that this file does not find itself.
REGISTRIES = (
    "py" + r"pi\.org",
    "python" + r"hosted\.org",
    "proxy" + r"\.golang",
    "sum" + r"\.golang",
    "npm" + r"js\.org",
    "gh" + r"cr\.io",
    "docker" + r"\.io",
    "qu" + r"ay\.io",
    "g" + r"cr\.io",
    "registry" + r"\.k8s",
)
INDEX_OPTIONS = (
    "--(extra-)?index" + "-url",
    "--find" + "-links",
    "--trusted" + "-host",
    "^" + "-[if] ",
    "index" + "-url *=",
    "GO" + "PROXY=",
    "GO" + "SUMDB=",
)


def hits(pattern: str, paths: tuple[Path, ...]) -> list[str]:
    compiled = re.compile(pattern, re.MULTILINE | re.IGNORECASE)
    return [f"{path}: {found[0]!r}" for path in paths for found in compiled.finditer(text(path))]


@pytest.mark.parametrize("registry", REGISTRIES)
def test_no_package_registry_is_named(registry: str) -> None:
    assert hits(registry, files()) == []


@pytest.mark.parametrize("option", INDEX_OPTIONS)
def test_no_package_index_is_chosen_for_the_user(option: str) -> None:
    assert hits(option, files(".ci", "Makefile", "*.toml", "*.txt", "*.in", "e2e", "docs", "*Dockerfile*")) == []


def test_no_path_of_one_machine_is_named() -> None:
    assert hits(r"(?<![\w.}/])/(wo" + r"rk|ro" + r"ot|ho" + r"me/\w+)/", files()) == []


def test_nothing_is_left_for_later() -> None:
    assert hits(r"\b(TO" + "DO|FIX" + r"ME|XX" + r"X)\b", files("*.py", "*.md", "*.yaml", "Makefile", ".ci")) == []
