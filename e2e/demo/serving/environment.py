"""The model servers' own Python environment, installed once from its lock into the user's cache."""

from __future__ import annotations

import hashlib
import platform
import subprocess
import sys
from pathlib import Path
from typing import Final

import uv

from e2e.demo.serving.kept import Progress, kept
from e2e.lab.places import cache

CHECKOUT: Final = Path(__file__).resolve().parents[3]
_LOCK: Final = CHECKOUT / ".ci" / "locks" / "modelserver.txt"
_CORRECTIONS: Final = CHECKOUT / ".ci" / "locks" / "modelserver.uv.toml"


class EnvironmentBuildError(RuntimeError):
    """The environment could not be installed; the message holds the installer's last words."""


def environment_key() -> str:
    """Return what the environment depends on, as a short hash: lock, corrections, Python version and machine."""
    parts = hashlib.sha256()
    for source in (_LOCK, _CORRECTIONS):
        parts.update(source.read_bytes())
    parts.update(f"{platform.python_implementation()} {platform.python_version()} {platform.machine()}".encode())
    return parts.hexdigest()[:16]


def ensure_environment(progress: Progress = print) -> Path:
    """Return the Python of the model servers' environment, installing it on first use (about a minute).

    Raises
    ------
    EnvironmentBuildError
        If a package cannot be had or does not match its hash.
    """

    def build(folder: Path) -> None:
        progress("model servers: installing their environment (once, about 500 MB)")
        _install(folder)
        progress("model servers: environment ready")

    folder = cache() / f"venv-modelserver-{environment_key()}"
    return kept(folder, build, progress=progress) / "bin" / "python"


def _install(folder: Path) -> None:
    _uv("venv", "--allow-existing", "--relocatable", "--no-project", "--python", sys.executable, str(folder))
    _uv(
        *("pip", "install", "--python", str(folder / "bin" / "python"), "--config-file", str(_CORRECTIONS)),
        # The lock is complete: nothing is resolved, nothing is built from source.
        *("--no-deps", "--require-hashes", "--only-binary", ":all:", "-r", str(_LOCK)),
        # Eight servers start at once; each would compile the same files otherwise.
        "--compile-bytecode",
    )


def _uv(*arguments: str) -> None:
    run = subprocess.run(
        [uv.find_uv_bin(), "--no-progress", *arguments], check=False, capture_output=True, text=True, cwd=CHECKOUT
    )
    if run.returncode:
        raise EnvironmentBuildError(
            f"the model servers' environment could not be installed (uv {arguments[0]} ended with {run.returncode}). "
            f"Is a package index reachable? Its last words:\n{run.stderr[-2000:]}"
        )
