"""Files to be checked, read within limits."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from davylamp.cli.documents import MAX_BYTES
from davylamp.cli.failure import ExitCode, FailureError

_SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})
_STANDARD_INPUT: Final = "-"


def read_texts(paths: Iterable[Path]) -> dict[str, str]:
    """Return the texts of files by their names; of folders, those of all YAML and JSON files inside.

    Raises
    ------
    FailureError
        If a file is not there, cannot be read, or is not text.
    """
    texts: dict[str, str] = {}
    for path in paths:
        if str(path) == _STANDARD_INPUT:
            texts["standard input"] = sys.stdin.read(MAX_BYTES + 1)
            continue
        for file in _files(path):
            texts[str(file)] = _text(file)
    return texts


def _files(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from sorted(file for file in path.rglob("*") if file.suffix in _SUFFIXES and file.is_file())
    else:
        yield path


def _text(file: Path) -> str:
    try:
        with file.open(encoding="utf-8") as stream:
            return stream.read(MAX_BYTES + 1)
    except UnicodeDecodeError as error:
        raise FailureError(f"{file} is not text in UTF-8", ExitCode.WRONG) from error
    except OSError as error:
        raise FailureError(f"{file} cannot be read: {error.strerror}", ExitCode.WRONG) from error
