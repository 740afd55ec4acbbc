"""Where the lab keeps what it builds and what it runs; names of labs."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from e2e.lab.failure import LabError

#: Names the lab that the commands are about, unless one is given.
NAME_VARIABLE: Final = "DAVYLAMP_LAB"
#: Set for every command that runs inside a lab's namespace: the name of that lab.
INSIDE_VARIABLE: Final = "DAVYLAMP_LAB_INSIDE"
DEFAULT_NAME: Final = "default"
GO_MODULES: Final = Path(__file__).parent / "go"

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")


def cache(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of everything that outlives one run: $DAVYLAMP_CACHE, or `davylamp` in the user's cache."""
    if own := environment.get("DAVYLAMP_CACHE"):
        return Path(own).absolute()
    if shared := environment.get("XDG_CACHE_HOME"):
        return Path(shared).absolute() / "davylamp"
    return Path.home() / ".cache" / "davylamp"


def binaries() -> Path:
    """Return the folder of built programs."""
    return cache() / "bin"


def lab_folder(name: str) -> Path:
    """Return the folder of one lab: state, logs, data."""
    return cache() / "labs" / checked_name(name)


def checked_name(name: str) -> str:
    """Return `name` if it can name a lab.

    Raises
    ------
    LabError
        It cannot: it becomes part of file and namespace names.
    """
    if not _NAME.fullmatch(name):
        raise LabError(f"{name!r} cannot name a lab: use 1 to 40 of a-z, 0-9 and '-', neither first nor last a '-'")
    return name


def chosen_name(environment: Mapping[str, str] = os.environ) -> str:
    """Return the name of the lab that the environment asks for."""
    return checked_name(environment.get(NAME_VARIABLE) or DEFAULT_NAME)
