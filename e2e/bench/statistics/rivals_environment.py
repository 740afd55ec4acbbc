"""The environment of the tools that are compared with, installed once from its lock into the user's cache."""

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
_LOCK: Final = CHECKOUT / ".ci" / "locks" / "rivals.txt"


class NotInstalledError(RuntimeError):
    """The tools could not be installed; the message holds the installer's last words."""


def rivals_python(progress: Progress) -> Path:
    """Return the Python that has the tools, installing them on first use (about a minute).

    Raises
    ------
    NotInstalledError
        If a package cannot be had or does not match its hash.
    """
    about = f"{platform.python_implementation()} {platform.python_version()} {platform.machine()}"
    key = hashlib.sha256(_LOCK.read_bytes() + about.encode()).hexdigest()[:16]

    def build(folder: Path) -> None:
        progress("other tools: installing their environment (once)")
        _uv("venv", "--allow-existing", "--relocatable", "--no-project", "--python", sys.executable, str(folder))
        _uv(
            *("pip", "install", "--python", str(folder / "bin" / "python"), "--no-deps", "--require-hashes"),
            *(
                "--only-binary",
                ":all:",
                "-r",
                str(_LOCK),
            ),
        )

    return kept(cache() / f"venv-rivals-{key}", build, progress=progress) / "bin" / "python"


def _uv(*arguments: str) -> None:
    command = [uv.find_uv_bin(), "--no-progress", *arguments]
    run = subprocess.run(command, check=False, capture_output=True, text=True, cwd=CHECKOUT)
    if run.returncode:
        raise NotInstalledError(
            f"the other tools could not be installed (uv {arguments[0]} ended with {run.returncode}). Is a package "
            f"index reachable? Its last words:\n{run.stderr[-1500:]}"
        )
