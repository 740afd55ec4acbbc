"""Setting up, as a person on a fresh machine meets it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.repository.checkout import ROOT


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What setting up reads, without the rest."""
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copy(ROOT / "Makefile", tmp_path)
    return tmp_path


def program(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def set_up(checkout: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [checkout / ".ci" / "environment"],
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_python_that_is_too_old_is_refused_with_what_is_needed(checkout: Path) -> None:
    old = program(checkout / "bin" / "python3", 'case "$2" in *exit*) exit 1;; *) echo 3.9.2;; esac')
    run = set_up(checkout, PYTHON=str(old))
    assert run.returncode == 1
    assert run.stderr == f"environment: PYTHON={old} is 3.9.2; Davylamp needs Python 3.11, 3.12 or 3.13\n"


def test_a_path_without_a_fitting_python_is_said_with_the_way_out(checkout: Path) -> None:
    for name in ("python3", "python3.11", "python3.12", "python3.13"):
        program(checkout / "bin" / name, 'case "$2" in *exit*) exit 1;; *) echo 3.10.1;; esac')
    run = set_up(checkout, PATH=f"{checkout / 'bin'}:/usr/bin:/bin")
    assert run.returncode == 1
    assert "python3 is 3.10.1" in run.stderr
    assert "make test PYTHON=" in run.stderr


def test_a_python_without_ensurepip_is_told_which_package_brings_it(checkout: Path) -> None:
    lame = program(checkout / "bin" / "python3", f'case "$2" in *ensurepip*) exit 1;; esac\nexec {sys.executable} "$@"')
    run = set_up(checkout, PYTHON=str(lame))
    assert run.returncode == 1
    assert f"apt install python{sys.version_info[0]}.{sys.version_info[1]}-venv" in run.stderr


def test_the_second_time_nothing_is_done(checkout: Path) -> None:
    program(checkout / ".venv" / "bin" / "python", f'exec {sys.executable} "$@"')
    read = [".ci/environment", ".ci/locks/bootstrap.txt", ".ci/locks/dev.txt", "pyproject.toml"]
    summed = subprocess.run(
        ["cksum"],
        input=b"".join((checkout / name).read_bytes() for name in read),
        capture_output=True,
        check=True,
    )
    (checkout / ".venv" / ".made-from").write_bytes(summed.stdout)
    run = set_up(checkout)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


def test_help_names_every_target_of_the_makefile(checkout: Path) -> None:
    run = subprocess.run(["make"], cwd=checkout, capture_output=True, text=True, check=True)
    for target in (
        "help",
        "demo",
        "test",
        "lint",
        "lab-up",
        "lab-down",
        "lab-exec",
        "clean",
        "test-crash",
        "bench-reaction",
    ):
        assert f"\n  {target} " in run.stdout


def test_a_failing_step_fails_and_says_so(checkout: Path) -> None:
    run = subprocess.run(
        [checkout / ".ci" / "step", "a name", "sh", "-c", "exit 7"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 7
    assert "a name: FAILED, exit code 7" in run.stdout
