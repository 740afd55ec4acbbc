"""Run a command of davylamp inside this process."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from davylamp.cli.app import run


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> Ended:
    capsys.readouterr()
    with pytest.raises(SystemExit) as left:
        run(arguments)
    printed = capsys.readouterr()
    return Ended(int(left.value.code or 0), printed.out, printed.err)
