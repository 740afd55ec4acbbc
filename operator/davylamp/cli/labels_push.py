"""Push a table of labels to the service that joins them."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from itertools import islice
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import typer

from davylamp.cli.failure import ExitCode, FailureError
from davylamp.cli.labels_table import Columns, Row, rows_of
from davylamp.cli.quantity import counted

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["Columns", "Target", "push_file"]

_SECONDS: Final = 60
#: Between two tries, in seconds; each is twice the one before.
_FIRST_PAUSE: Final = 0.5
_LAST_PAUSE: Final = 16.0
_MOST_OF_AN_ANSWER: Final = 65_536
#: Refusals that pass by themselves.
_PASSING: Final = frozenset({408, 429, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class Target:
    """Where to.

    Parameters
    ----------
    url
        Of the service.
    token_file
        File whose first line is a token.
    batch
        Labels in one request.
    """

    url: str
    token_file: Path
    batch: int


class _TryAgain(Exception):  # noqa: N818 - no error yet
    """The service did not answer, or asks to come back."""


def push_file(file: Path, columns: Columns, target: Target) -> None:
    """Push all rows of a table and say what became of them.

    Parameters
    ----------
    file
        The table.
    columns
        Which of its columns are meant.
    target
        Where to.

    Raises
    ------
    FailureError
        If the file or a row is wrong, or the service does not answer or refuses. What was pushed stays pushed.
    """
    service = _Service(target)
    rows = rows_of(file, columns)
    told: Counter[str] = Counter()
    with _progress() as progress:
        bar = progress.add_task(f"pushing {file.name}", total=None)
        try:
            while batch := list(islice(rows, target.batch)):
                told.update(service.take(batch))
                progress.advance(bar, len(batch))
        finally:
            service.close()
            if told:
                progress.stop()
                typer.echo(_summary(told))
    if not told:
        raise FailureError(f"{file} holds no label", ExitCode.WRONG)


def _summary(told: Counter[str]) -> str:
    shares = ", ".join(f"{times:,} {word}" for word, times in told.items() if times)
    return f"{counted(sum(told.values()), 'label')}: {shares}"


class _Service:
    """Posts batches over one connection, again where that may help: what comes twice is counted once."""

    def __init__(self, target: Target) -> None:
        parts = urlsplit(target.url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise FailureError(f"--url must be such as http://host:8080, got {target.url!r}", ExitCode.WRONG)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._connection = kind(parts.hostname, parts.port, timeout=_SECONDS)
        self._path = f"{parts.path.rstrip('/')}/labels"
        self._url = target.url
        self._headers = {"Content-Type": "application/json", "Authorization": f"Bearer {_token(target.token_file)}"}

    def take(self, batch: Sequence[Row]) -> dict[str, int]:
        """Post a batch and return how many labels became what."""
        body = json.dumps({"labels": [row.item for row in batch]}).encode()
        status, answer = self._answered(body)
        if status != 200:
            where = f" ({batch[0].place} to {batch[-1].place})"
            code = ExitCode.WRONG if status == 400 else ExitCode.REFUSED
            raise FailureError(f"{self._url} refuses with {status}{where}: {answer.get('error', 'no reason')}", code)
        return {word: times for word, times in answer.items() if isinstance(times, int)}

    def _answered(self, body: bytes) -> tuple[int, dict[str, Any]]:
        pause = _FIRST_PAUSE
        while True:
            try:
                return self._posted(body)
            except _TryAgain as failed:
                if pause > _LAST_PAUSE:
                    raise FailureError(f"{self._url} does not answer: {failed}", ExitCode.UNREACHABLE) from failed
            Event().wait(pause)
            pause *= 2

    def _posted(self, body: bytes) -> tuple[int, dict[str, Any]]:
        try:
            self._connection.request("POST", self._path, body, self._headers)
            answer = self._connection.getresponse()
            text = answer.read(_MOST_OF_AN_ANSWER)
        except (OSError, HTTPException) as failed:
            self._connection.close()
            raise _TryAgain(str(failed) or type(failed).__name__) from failed
        if answer.status in _PASSING:
            raise _TryAgain(f"status {answer.status}")
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        return answer.status, found if isinstance(found, dict) else {}

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _token(file: Path) -> str:
    try:
        lines = file.read_text("ascii").split()
    except (OSError, UnicodeDecodeError) as failed:
        raise FailureError(f"--token-file: {file} cannot be read as text", ExitCode.WRONG) from failed
    if not lines:
        raise FailureError(f"--token-file: {file} is empty", ExitCode.WRONG)
    return lines[0]


def _progress() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(file=sys.stderr, highlight=False, markup=False)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
