"""The direction of imports. `make lint` runs the contracts on the code; here they are shown to bite."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.repository.checkout import ROOT, files, text

FORBIDDEN = (
    ("operator/davylamp/core/plan.py", "import asyncio", "core and gatestats touch nothing outside"),
    ("operator/davylamp/core/plan.py", "import davylamp.api", "data flows one way"),
    ("operator/davylamp/ports.py", "import davylamp.runtime", "data flows one way"),
    ("detectors/gatestats/state.py", "import time", "core and gatestats touch nothing outside"),
    (
        "detectors/gatestats/state.py",
        "import davylamp.errors",
        "the statistics know nothing of Kubernetes or of Davylamp",
    ),
    ("operator/davylamp/api/__init__.py", "import kopf", "only the shell knows Kopf"),
)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the packages, to be broken."""
    copy = tmp_path_factory.mktemp("source")
    for path in (Path("pyproject.toml"), *files("operator/davylamp/*.py", "detectors/gatestats/*.py")):
        (copy / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, copy / path)
    return copy


def contracts(source: Path) -> str:
    """Return what import-linter says of a checkout."""
    path = os.pathsep.join([str(source / "operator"), str(source / "detectors")])
    run = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as lint; lint()", "--no-cache"],
        cwd=source,
        env={**os.environ, "PYTHONPATH": path, "NO_COLOR": "1", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    return run.stdout + run.stderr


@pytest.mark.parametrize(("path", "line", "contract"), FORBIDDEN)
def test_an_import_against_the_direction_breaks_its_contract(source: Path, path: str, line: str, contract: str) -> None:
    module = source / path
    before = module.read_text(encoding="utf-8")
    module.write_text(f"{before}\n{line}\n", encoding="utf-8")
    try:
        said = contracts(source)
    finally:
        module.write_text(before, encoding="utf-8")
    assert f"{contract} BROKEN" in said, said


def test_the_statistics_ask_for_nothing_but_numpy_and_scipy() -> None:
    asked = set()
    for path in files("detectors/*.py"):
        for node in ast.walk(ast.parse(text(path))):
            if isinstance(node, ast.Import):
                asked |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                asked.add(node.module.partition(".")[0])
    assert asked - sys.stdlib_module_names == {"gatestats", "numpy", "scipy"}


def test_adapters_do_not_know_each_other() -> None:
    for kind in ("routers", "sources", "notifiers"):
        folder = Path("operator/davylamp") / kind
        for path in files(f"{folder}/*.py"):
            others = {other for other in ("routers", "sources", "notifiers") if other != kind}
            assert [other for other in others if f"davylamp.{other}" in text(path)] == [], path
