from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.repository.checkout import ROOT, files

LOCKS = ROOT / ".ci" / "locks"
PIN = re.compile(r"([a-z0-9][a-z0-9.-]*(?:\[[a-z,]+\])?)==(\S+)(?: ; [^\\]+)? \\")
HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}( \\)?")


def pins(lock: str) -> dict[str, set[Version]]:
    """Return the versions of each package; several where they depend on the Python version or the machine."""
    found: dict[str, set[Version]] = {}
    for line in (LOCKS / lock).read_text(encoding="utf-8").splitlines():
        if pin := PIN.fullmatch(line):
            found.setdefault(canonicalize_name(pin[1].partition("[")[0]), set()).add(Version(pin[2]))
    return found


def declared() -> Iterator[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"]
    for group in (project["project"]["dependencies"], *extras.values(), project["dependency-groups"]["dev"]):
        yield from map(Requirement, group)


def written(lock: str) -> Iterator[Requirement]:
    for line in (LOCKS / lock).read_text(encoding="utf-8").splitlines():
        if wanted := line.partition("#")[0].strip():
            yield Requirement(wanted)


@pytest.mark.parametrize("lock", sorted(path.name for path in LOCKS.glob("*.txt")))
def test_a_lock_holds_pins_and_hashes_and_no_address(lock: str) -> None:
    lines = (LOCKS / lock).read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if not (PIN.fullmatch(line) or HASH.fullmatch(line))] == []


@pytest.mark.parametrize("wanted", sorted(set(map(str, declared()))))
def test_the_lock_satisfies_what_the_project_declares(wanted: str) -> None:
    requirement = Requirement(wanted)
    versions = pins("dev.txt").get(canonicalize_name(requirement.name), set())
    assert versions
    assert all(requirement.specifier.contains(version) for version in versions)


def test_the_model_servers_lock_satisfies_what_they_need() -> None:
    locked = pins("modelserver.txt")
    for requirement in written("modelserver.in"):
        versions = locked.get(canonicalize_name(requirement.name), set())
        assert versions, requirement
        assert all(requirement.specifier.contains(version) for version in versions), requirement


def test_the_installer_is_the_one_of_the_lock() -> None:
    bootstrap = (LOCKS / "bootstrap.txt").read_text(encoding="utf-8")
    assert set(pins("bootstrap.txt")) == {"uv"}
    assert bootstrap in (LOCKS / "dev.txt").read_text(encoding="utf-8")


def test_the_oldest_python_of_the_lock_is_the_projects() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert Requirement(f"python{project['project']['requires-python']}").specifier.contains("3.11.0")
    assert "--python-version 3.11" in (ROOT / "Makefile").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", files("*go.sum"), ids=str)
def test_a_go_sum_has_no_address(path: object) -> None:
    assert "://" not in (ROOT / str(path)).read_text(encoding="utf-8")
