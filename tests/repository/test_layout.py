from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.repository.checkout import ROOT, files

TOP_LEVEL = {
    ".ci",
    ".gitignore",
    "CHANGELOG.md",
    "LICENSE",
    "Makefile",
    "README.md",
    "charts",
    "crds",
    "detectors",
    "docs",
    "e2e",
    "manifests",
    "operator",
    "pyproject.toml",
    "tests",
}
WHERE_OPERATOR_IS = "import collections, operator; print(operator.__file__)"


def test_nothing_lies_at_the_top_that_does_not_belong_there() -> None:
    assert {path.parts[0] for path in files()} - TOP_LEVEL == set()


def test_the_folder_operator_is_no_package() -> None:
    """It would shadow the standard library's `operator` wherever the checkout is first on the path."""
    assert not (ROOT / "operator" / "__init__.py").exists()


def test_the_folder_detectors_is_no_package() -> None:
    assert not (ROOT / "detectors" / "__init__.py").exists()


@pytest.mark.parametrize("folder", [".", "operator", "detectors"])
@pytest.mark.parametrize("options", [("-S",), ("-S", "-E"), ()])
def test_the_standard_librarys_operator_is_found_from_everywhere(folder: str, options: tuple[str, ...]) -> None:
    run = subprocess.run(
        [sys.executable, *options, "-c", WHERE_OPERATOR_IS],
        cwd=ROOT / folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert not Path(run.stdout.strip()).is_relative_to(ROOT)


def test_a_package_named_operator_would_be_noticed(tmp_path: Path) -> None:
    (tmp_path / "operator").mkdir()
    (tmp_path / "operator" / "__init__.py").touch()
    run = subprocess.run(
        [sys.executable, "-S", "-c", WHERE_OPERATOR_IS], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert run.returncode != 0 or Path(run.stdout.strip()).is_relative_to(tmp_path)


def test_every_folder_of_tests_is_a_package() -> None:
    folders = {parent for path in files("tests/*.py") for parent in path.parents if parent.parts[:1] == ("tests",)}
    assert [folder for folder in sorted(folders) if not (ROOT / folder / "__init__.py").exists()] == []


def test_no_module_is_named_as_one_of_the_standard_library() -> None:
    modules = [path for path in files("*.py") if path.stem in sys.stdlib_module_names and path.stem != "__main__"]
    assert modules == []


@pytest.mark.parametrize("name", ["utils", "util", "helpers", "helper", "common", "manager", "base", "misc"])
def test_no_module_has_a_name_that_says_nothing(name: str) -> None:
    assert [path for path in files("*.py") if path.stem == name] == []
