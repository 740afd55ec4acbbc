"""Two answers side by side, and what many of them came to, as people see it in a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from davylamp.cli.diff_summary import CONFIDENCE, Ending, Pair, Summary, spread
from davylamp.cli.quantity import Unit, value
from davylamp.shadow.exchange import Answer, Outcome
from davylamp.shadow.formats.redaction import redacted
from davylamp.shadow.formats.side_by_side import Line, differences_of

#: Places of one pair that are shown.
MOST_LINES: Final = 20
_STYLES: Final = {Ending.WITHIN: "green", Ending.OVER: "red", Ending.TOO_FEW: "yellow", Ending.NOTHING: "red"}


@dataclass(frozen=True, slots=True)
class Side:
    """What became of a request at one variant.

    Parameters
    ----------
    said
        Status or failure.
    seconds
        How long it took.
    body
        As text, redacted; None if there is no answer, or none that is text.
    """

    said: str
    seconds: float
    body: str | None


@dataclass(frozen=True, slots=True)
class Example:
    """One pair that people look at."""

    title: str
    differences: tuple[str, ...]
    baseline: Side
    candidate: Side

    @property
    def lines(self) -> tuple[Line, ...]:
        """Where the bodies differ; none where one is not there."""
        left, right = self.baseline.body, self.candidate.body
        return () if left is None or right is None else differences_of(left, right)

    def manifest(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            "request": self.title,
            "differences": list(self.differences),
            "baseline": {"said": self.baseline.said, "seconds": self.baseline.seconds},
            "candidate": {"said": self.candidate.said, "seconds": self.candidate.seconds},
            "lines": [{"path": each.path, "baseline": each.left, "candidate": each.right} for each in self.lines],
        }


def example_of(pair: Pair, redact: tuple[str, ...]) -> Example:
    """Return a pair as it is shown, without what JSONPaths find."""
    call, comparison = pair.request.call, pair.comparison
    return Example(
        title=f"line {pair.request.line}: {call.method} {call.target}",
        differences=tuple(sorted(difference.value for difference in comparison.differences)),
        baseline=_side(pair.baseline, redact),
        candidate=_side(pair.candidate, redact),
    )


def _side(outcome: Outcome, redact: tuple[str, ...]) -> Side:
    result = outcome.result
    if isinstance(result, Answer):
        body = redacted(result.body, result.header("content-type"), redact)
        return Side(f"status {result.status}", outcome.seconds, body)
    return Side(result.value, outcome.seconds, None)


def captured(pair: dict[str, Any]) -> Example:
    """Return a pair that a comparator has kept, as its admin port serves it."""
    request = pair["request"]
    mark = f", {request['id']}" if request.get("id") else ""
    return Example(
        title=f"{request['method']} {request['path']}{mark}",
        differences=tuple(map(str, pair["differences"])),
        baseline=_captured_side(pair["baseline"]),
        candidate=_captured_side(pair["candidate"]),
    )


def _captured_side(side: dict[str, Any]) -> Side:
    said = str(side["failure"]) if "failure" in side else f"status {side['status']}"
    body = side.get("text")
    return Side(said, float(side["seconds"]), None if body is None else str(body))


def drawn(example: Example) -> RenderableType:
    """Return a pair side by side."""
    table = Table(box=None, padding=(0, 2, 0, 2), pad_edge=True)
    for title, style in (("", "cyan"), ("baseline", "green"), ("candidate", "red")):
        table.add_column(Text(title), style=style, overflow="fold")
    for row in _rows(example):
        table.add_row(*(Text("absent", style="dim") if cell is None else Text(cell) for cell in row))
    heading = Text(f"\n{_clean(example.title)}", style="bold")
    return Group(heading, Text("  " + (", ".join(example.differences) or "no difference"), style="yellow"), table)


def _rows(example: Example) -> Iterator[tuple[str | None, ...]]:
    sides = (example.baseline, example.candidate)
    yield "answer", *(f"{side.said} in {value(side.seconds, Unit.SECONDS)}" for side in sides)
    lines = example.lines
    for line in lines[:MOST_LINES]:
        yield line.path, line.left, line.right
    if len(lines) > MOST_LINES:
        yield f"and {len(lines) - MOST_LINES:,} more places", "", ""


def _clean(text: str) -> str:
    """Return text that cannot move about in a terminal."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


def summary_view(summary: Summary) -> RenderableType:
    """Return what all pairs came to."""
    counts = _table("", "pairs", "share", f"at most ({CONFIDENCE:.0%})")
    rows = {
        "disagree": "disagreements",
        "the baseline with itself": "baselineWithItself",
        f"slower by {100 * summary.slowdown:.4g} %": "slower",
    }
    for name, share in rows.items():
        said = summary.manifest()[share]
        if said["total"]:
            of = f"{said['events']:,} of {said['total']:,}"
            counts.add_row(name, of, f"{100 * said['share']:.3g} %", f"{100 * said['atMost']:.3g} %")
    parts: list[RenderableType] = [counts]
    parts += _counts("difference", summary.differences) + _counts("not compared", summary.incomparable)
    parts += [_latencies(summary)] if summary.timed else []
    parts += [_measures(summary)] if summary.measures else []
    return Group(*parts, Text(f"\n{summary.sentence}", style=f"bold {_STYLES[summary.ending]}"))


def _table(*titles: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for number, title in enumerate(titles):
        table.add_column(title, justify="right" if number else "left")
    return table


def _counts(title: str, counts: Any) -> list[RenderableType]:
    table = _table(title, "pairs")
    for name, number in counts.most_common():
        table.add_row(name, f"{number:,}")
    return [Text(), table] if counts else []


def _latencies(summary: Summary) -> RenderableType:
    table = _table("latency", "median", "p95", "greatest")
    for side, said in summary.manifest()["latency"].items():
        table.add_row(side, *(value(said[name], Unit.SECONDS) for name in ("median", "p95", "greatest")))
    return Group(Text(), table)


def _measures(summary: Summary) -> RenderableType:
    table = _table("measure", "pairs", "least", "median", "greatest")
    for name, values in sorted(summary.measures.items()):
        said = spread(values)
        numbers = (f"{said[key]:.4g}" for key in ("least", "median", "greatest"))
        table.add_row(name, f"{len(values):,}", *numbers)
    return Group(Text(), table)
