"""What is shipped, built as a release would be, without a network."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.repository.checkout import ROOT, files

SHIPPED = ("operator", "detectors", "crds", "manifests", "charts")
COMMANDS = ("davylamp", "kubectl-davylamp")


def build(source: Path, target: str, destination: Path) -> Path:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(destination)],
        cwd=source,
        check=True,
        capture_output=True,
    )
    (built,) = destination.iterdir()
    return built


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, "sdist", tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel is built from the source distribution, as installers do: what that lacks is missed here."""
    unpacked = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as archive:
        archive.extractall(unpacked, filter="data")
    (source,) = unpacked.iterdir()
    return build(source, "wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run(
        [
            sys.executable,
            "-m",
            "uv",
            "pip",
            "install",
            "-q",
            "--offline",
            "--no-deps",
            "--target",
            str(folder),
            str(wheel),
        ],
        check=True,
    )
    return folder


def run(installed: Path, *command: str) -> str:
    """Run a command in a Python that has what is locked, and Davylamp from the wheel alone."""
    path = os.pathsep.join([str(installed), sysconfig.get_path("purelib")])
    finished = subprocess.run(
        command, cwd=installed, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def test_the_wheel_has_the_two_packages_at_its_top(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {"davylamp", "gatestats"}


def test_the_wheel_has_every_module_and_the_marks_of_types(wheel: Path) -> None:
    ours = {path.relative_to(path.parts[0]).as_posix() for path in files("operator/davylamp", "detectors/gatestats")}
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert ours == packed
    assert {"davylamp/py.typed", "gatestats/py.typed"} <= packed


def test_the_source_distribution_has_what_is_shipped_and_nothing_that_lies_about(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        packed = {Path(*Path(name).parts[1:]).as_posix() for name in archive.getnames()}
    shipped = {path.as_posix() for path in files(*SHIPPED)}
    alone = {"README.md", "LICENSE", "CHANGELOG.md", "pyproject.toml", "PKG-INFO", ".gitignore"}
    assert packed == shipped | alone


def test_the_licence_is_in_the_wheel(wheel: Path) -> None:
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in zipfile.ZipFile(wheel).namelist())
    assert "Apache License" in (ROOT / "LICENSE").read_text(encoding="utf-8")


def test_both_packages_are_imported_from_the_wheel(installed: Path) -> None:
    out = run(
        installed, sys.executable, "-c", "import davylamp, gatestats; print(davylamp.__file__, gatestats.__file__)"
    )
    assert [Path(name).parent.parent for name in out.split()] == [installed, installed]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_installed_commands_run(installed: Path, command: str) -> None:
    assert "safe rollouts of optimised models" in run(installed, str(installed / "bin" / command), "--help")
