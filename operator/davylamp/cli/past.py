"""What commands on history share: manifests from files, times, and where the samples come from."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from davylamp.cli.failure import ExitCode, FailureError

if TYPE_CHECKING:
    from davylamp.errors import DavylampError
    from davylamp.offline.history import History
    from davylamp.offline.rivals import Thresholds
    from davylamp.offline.subject import Subject

#: Where a bearer token for the source is read from: a command line can be seen by everybody on the machine.
TOKEN: Final = "DAVYLAMP_SOURCE_TOKEN"  # noqa: S105 - the name of a variable


class Report(StrEnum):
    """How a result is printed."""

    TABLE = "table"
    JSON = "json"


Source = Annotated[
    str | None,
    typer.Option(
        "--source",
        help="Address of a server that speaks the HTTP API of Prometheus, such as http://localhost:9090. "
        f"A bearer token is taken from ${TOKEN}.",
    ),
]
Policy = Annotated[list[Path] | None, typer.Option("--policy", help="Manifests of the policy. May repeat.")]
Recording = Annotated[Path | None, typer.Option("--recording", help="Read the samples from this file instead.")]
Record = Annotated[
    Path | None, typer.Option("--record", help="Write the samples that were read to this file; with gzip if .gz.")
]
From = Annotated[
    str | None,
    typer.Option(
        "--from", help='Begin: a time such as 2026-11-30T12:00:00Z, or how long ago, such as "2h". Default: 1h.'
    ),
]
To = Annotated[str | None, typer.Option("--to", help="End, written as --from. Default: now.")]
Headers = Annotated[
    list[str] | None, typer.Option("--header", help='Sent with each query, such as "X-Scope-OrgID: ml". May repeat.')
]
Timeout = Annotated[str, typer.Option("--timeout", help="How long the source may be silent.")]
Printed = Annotated[Report, typer.Option("--output", "-o", help="Print the result as a table or as JSON.")]
MaxErrors = Annotated[str, typer.Option("--max-errors", help="Of the threshold rule: largest share of errors.")]
MaxP99 = Annotated[float, typer.Option("--max-p99", help="Of the threshold rule: largest p99 in seconds.")]
FailedChecks = Annotated[
    int, typer.Option("--failed-checks", help="Of the threshold rule: failed checks, one a minute, that roll back.")
]
Files = Annotated[
    list[Path] | None,
    typer.Option("--file", "-f", help="Manifests: the ModelRollout, and what it names. May repeat; - for stdin."),
]
RolloutName = Annotated[str | None, typer.Option("--name", help="Which ModelRollout, if the files hold several.")]
InNamespace = Annotated[
    str | None, typer.Option("--namespace", "-n", help="Namespace, where the manifest names none. Default: default.")
]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where samples come from, as the options say."""

    source: str | None
    recording: Path | None
    record: Path | None
    headers: Sequence[str]
    timeout: str


def manifests(files: Iterable[Path]) -> list[Any]:
    """Return all documents of some files.

    Raises
    ------
    FailureError
        If a file cannot be read, or is not YAML.
    """
    from davylamp.cli.documents import UnreadableError, documents
    from davylamp.cli.texts import read_texts

    found = []
    for name, text in read_texts(files).items():
        try:
            found += [document.value for document in documents(text)]
        except UnreadableError as error:
            raise FailureError(f"{name}:{error.line}: {error}", ExitCode.WRONG) from error
    return found


def moment(text: str, now: datetime, option: str) -> datetime:
    """Return the time that an option means.

    Raises
    ------
    FailureError
        If it is neither a time with an offset nor a duration.
    """
    from davylamp.api.v1alpha1.quantities import parse_duration

    if text == "now":
        return now
    try:
        return now - parse_duration(text.removeprefix("-"))
    except ValueError:
        pass
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        read = None
    if read is None or read.tzinfo is None:
        raise FailureError(
            f"{option} {text[:60]!r} is no time: write one with an offset, such as 2026-11-30T12:00:00Z, or how long "
            'ago it is, such as "90m"',
            ExitCode.WRONG,
        )
    return read.astimezone(UTC)


def past_of(
    subject: Subject, times: tuple[str | None, str | None], origin: Origin, back: timedelta | None = None
) -> tuple[tuple[datetime, datetime], History]:
    """Return the range of the looks and the samples of it; and write them to a file if that is asked for.

    Parameters
    ----------
    subject
        What is looked at.
    times
        ``--from`` and ``--to``; by default those of the recording, or the last hour.
    origin
        Where the samples come from.
    back
        How far the first look reaches back; None for that of a rollout.

    Raises
    ------
    FailureError
        If the options do not name one source, or a time cannot be read.
    DavylampError
        If the source does not answer, or not in full, or the range does not fit.
    """
    from davylamp.offline.recording import covered, read_recording, write_recording
    from davylamp.runtime.clock import SystemClock

    if (origin.source is None) == (origin.recording is None):
        raise FailureError("name one place of the samples: --source URL or --recording FILE", ExitCode.WRONG)
    now = SystemClock().now()
    held = None if origin.recording is None else read_recording(origin.recording)
    default = held.looks if held is not None and held.looks is not None else (now - timedelta(hours=1), now)
    begin, end = (
        usual if text is None else moment(text, now, option)
        for text, usual, option in zip(times, default, ("--from", "--to"), strict=True)
    )
    subject.looks(begin, end)
    reach = subject.reach(begin) if back is None else subject.reach(begin, back)
    if held is not None:
        covered(held, reach, end)
    history = held or _fetched(subject, (reach, end), origin)
    if origin.record is not None:
        write_recording(origin.record, replace(history, looks=(begin, end)))
        tell(f"{history.samples:,} samples are in {origin.record}")
    return (begin, end), history


def _fetched(subject: Subject, span: tuple[datetime, datetime], origin: Origin) -> History:
    from davylamp.offline.server import Server, fetch

    address = origin.source or ""
    if not address.startswith(("http://", "https://")):
        raise FailureError(f"--source {address[:100]!r} must begin with http:// or https://", ExitCode.WRONG)
    server = Server(address, _headers(origin.headers), _duration(origin.timeout, "--timeout"))
    return fetch(server, subject.selectors(span[1]), span, tell)


def _headers(given: Iterable[str]) -> dict[str, str]:
    headers = {}
    for text in given:
        name, colon, value = text.partition(":")
        if not colon or not name.strip():
            raise FailureError(f'--header {text[:40]!r} is not written as "Name: value"', ExitCode.WRONG)
        headers[name.strip()] = value.strip()
    if token := os.environ.get(TOKEN):
        headers["Authorization"] = f"Bearer {token}"
    return headers


def _duration(text: str, option: str) -> timedelta:
    from davylamp.api.v1alpha1.quantities import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise FailureError(f"{option}: {error}", ExitCode.WRONG) from error


def thresholds_of(errors: str, p99: float, checks: int) -> Thresholds:
    """Return the limits of the threshold rule.

    Raises
    ------
    FailureError
        If one is out of range.
    """
    from davylamp.api.v1alpha1.quantities import parse_percent
    from davylamp.offline.rivals import Thresholds

    if not 0 < p99 < 1e6:  # also refuses NaN
        raise FailureError(f"--max-p99 must be seconds above 0 and below 1e6, got {p99}", ExitCode.WRONG)
    try:
        return Thresholds(parse_percent(errors), timedelta(seconds=p99), checks)
    except ValueError as error:
        raise FailureError(f"the threshold rule: {error}", ExitCode.WRONG) from error


def failed(error: DavylampError) -> FailureError:
    """Return how a command ends by an error of the samples or of the spec."""
    from davylamp.errors import Unavailable

    return FailureError(str(error), ExitCode.UNREACHABLE if isinstance(error, Unavailable) else ExitCode.WRONG)


def tell(text: str) -> None:
    """Say what is going on, where it does not mix with the result."""
    sys.stderr.write(f"{text}\n")
