"""The table at the end, and the report file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from e2e.demo.receivers import Received
from e2e.demo.results import Result, as_json
from e2e.demo.scenario import PROMOTED, ROLLED_BACK
from e2e.demo.traffic.generator import Snapshot
from e2e.demo.traffic.history import NOBODY, Served

_STYLES: Final = {PROMOTED: "bold green", ROLLED_BACK: "bold red"}
_NONE: Final = "-"
#: From this many columns on, sentences fit beside the numbers.
_WIDE: Final = 110
_LEGEND: Final = (
    "Seconds count from the moment at which the candidate was bad and had traffic: the first mirrored request (pruned),"
    " or the switch that made its servers fail (flaky). Weight 0 is when the API server showed the route without it, or"
    " without the mirror. Bad requests are live ones: pruned is found in the shadow and answers none."
)


def write_report(file: Path, results: Iterable[Result]) -> None:
    """Write the table as JSON, whole or not at all."""
    part = file.with_name(f".{file.name}.part")
    part.write_text(json.dumps(as_json(results), indent=2) + "\n", encoding="utf-8")
    part.replace(file)


def print_results(console: Console, results: Sequence[Result]) -> None:
    """Print the table; where it has no room for the reasons, they stand below."""
    wide = console.width >= _WIDE
    table = Table(title="What became of the three", title_justify="left", title_style="bold", box=SIMPLE)
    for heading in ("rollout", "outcome", *(["reason"] if wide else [])):
        table.add_column(heading, no_wrap=heading != "reason")
    for heading in ("detected", "weight 0", "last bad\nanswer", "bad\nrequests", "failed"):
        table.add_column(heading, justify="right", no_wrap=True)
    for found in results:
        outcome = Text(found.outcome, style=_STYLES.get(found.outcome, "bold yellow"))
        times = (found.detection_seconds, found.rollback_seconds, found.last_bad_seconds)
        counts = (f"{found.bad_requests:,}", f"{found.failed_requests:,}")
        reason = [Text(found.reason)] if wide else []
        table.add_row(found.rollout, outcome, *reason, *(seconds(value) for value in times), *counts)
    console.print(table)
    if not wide:
        for found in results:
            console.print(Text(f"{found.rollout}: {found.reason}"))
    console.print(Text(_LEGEND), style="dim")


def print_messages(console: Console, received: Sequence[Received]) -> None:
    """Print one line for each message."""
    console.print(Text("What people were told", style="bold"))
    for message in received:
        who = f"{message.receiver} ({message.kind or 'unknown'})"
        mistake = f" [{message.mistake}]" if message.mistake else ""
        line = f"{message.at:%H:%M:%S} {who:28} {message.rollout:7} {message.text}{mistake}"
        console.print(Text(line), no_wrap=True, overflow="ellipsis" if console.is_terminal else "ignore", crop=False)


def traffic_line(books: Sequence[Snapshot]) -> str:
    """Return what became of all requests, in one sentence."""
    asked, answered, failed, shed = (
        sum(getattr(book, name) for book in books) for name in ("asked", "answered", "failed", "shed")
    )
    unserved = sum(book.served.get(NOBODY, Served()).requests for book in books)
    text = f"{asked:,} requests were due, {answered:,} were answered, {failed:,} with an error"
    return f"{text} ({unserved:,} of these by no model server), {shed:,} were not sent, since too many were under way"


def seconds(value: float | None) -> str:
    """Return a time for people."""
    return _NONE if value is None else f"{value:.1f} s"
