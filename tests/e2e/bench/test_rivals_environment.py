"""The environment of the other tools: its lock, and what is said when it cannot be installed."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from e2e.bench.statistics import rivals_environment
from e2e.bench.statistics.rivals_environment import CHECKOUT, NotInstalledError, rivals_python


def test_the_lock_holds_what_the_group_asks_for_on_every_python() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
    lines = (CHECKOUT / ".ci" / "locks" / "rivals.txt").read_text(encoding="utf-8").splitlines()
    locked = [Requirement(line.removesuffix(" \\")) for line in lines if not line.startswith(" ")]
    for text in project["dependency-groups"]["rivals"]:
        wanted = Requirement(text)
        for version in ("3.11.0", "3.12.0", "3.13.0"):
            python = {"python_full_version": version, "python_version": version[:4]}
            if wanted.marker is not None and not wanted.marker.evaluate(python):
                continue
            found = [
                pin
                for pin in locked
                if canonicalize_name(pin.name) == canonicalize_name(wanted.name)
                and (pin.marker is None or pin.marker.evaluate(python))
            ]
            assert len(found) == 1, (text, version)
            assert wanted.specifier.contains(str(found[0].specifier).removeprefix("=="))


def test_what_cannot_be_installed_is_said_with_the_installers_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = tmp_path / "rivals.txt"
    lock.write_text("river==0.23.0 --hash=sha256:zz\n", encoding="utf-8")
    monkeypatch.setattr(rivals_environment, "_LOCK", lock)
    monkeypatch.setenv("DAVYLAMP_CACHE", str(tmp_path / "cache"))
    said: list[str] = []
    with pytest.raises(NotInstalledError, match="uv pip ended with"):
        rivals_python(said.append)
    assert said == ["other tools: installing their environment (once)"]
    assert [path.name for path in (tmp_path / "cache").iterdir() if path.is_dir()] == []
