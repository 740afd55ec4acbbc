"""Compare two variants by the same requests, without a cluster; or show pairs that a comparator has kept."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from davylamp.cli.diff_options import (
    Again,
    Baseline,
    CaFile,
    Candidate,
    Concurrency,
    MaxDisagreement,
    Name,
    Page,
    Report,
    Requests,
    RulesFile,
    Show,
)
from davylamp.cli.failure import ExitCode, FailureError
from davylamp.cli.options import Context, Kubeconfig, Namespace, NoColor

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from davylamp.cli.diff_rules import Manner
    from davylamp.cli.diff_summary import Pair, Summary
    from davylamp.cli.diff_view import Example

#: How the command ends; scripts may rely on it.
ENDINGS = (
    "Exit codes: 0 the disagreements are shown to be within the limit; 1 they are not; 2 they could not be compared. "
    "With NAME: 0 pairs were shown; others as for get."
)


def diff(  # noqa: PLR0913 - each parameter is an option
    name: Name = None,
    *,
    baseline: Baseline = None,
    candidate: Candidate = None,
    requests: Requests = None,
    rules: RulesFile = None,
    max_disagreement: MaxDisagreement = None,
    concurrency: Concurrency = 4,
    ca_file: CaFile = None,
    aa: Again = False,
    report: Report = None,
    html: Page = None,
    show: Show = 3,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    no_color: NoColor = False,
) -> None:
    """Let two variants answer the same requests and compare their answers, as the comparator does it in a cluster.

    With NAME instead, show disagreeing pairs that the comparators keep of a rollout.
    """
    from rich.console import Console

    _require_shadow()
    # The report alone, where it goes to the standard output; a page is written all the same.
    shown = StringIO() if str(report) == "-" else None
    plain = True if no_color else None
    console = Console(file=shown, no_color=plain, highlight=False, markup=False, emoji=False, record=html is not None)
    if name is not None:
        if any((baseline, candidate, requests, rules, max_disagreement, ca_file, aa, report)):
            raise FailureError("give a NAME, or --baseline, --candidate and --requests", ExitCode.WRONG)
        _show_captures(name, (kubeconfig, context, namespace), console, show)
        _save(console, html)
        return
    if baseline is None or candidate is None or requests is None:
        raise FailureError("give --baseline, --candidate and --requests, or the NAME of a ModelRollout", ExitCode.WRONG)
    asking = Asking((baseline, candidate), requests, rules, max_disagreement, concurrency, ca_file, aa, show)
    summary, manner = _compare(asking)
    _tell(summary, manner, console, report)
    _save(console, html)
    raise typer.Exit(_code(summary))


@dataclass(frozen=True, slots=True)
class Asking:
    """What is asked for, as the options have it."""

    urls: tuple[str, str]
    requests: Path
    rules: Path | None
    limit: str | None
    concurrency: int
    ca_file: Path | None
    again: bool
    show: int


def _require_shadow() -> None:
    try:
        import davylamp.cli.diff_run
    except ModuleNotFoundError as missing:
        text = f"{missing.name} is not installed: this command needs davylamp[shadow]"
        raise FailureError(text, ExitCode.WRONG) from missing
    del davylamp


def _compare(asking: Asking) -> tuple[Summary, Manner]:
    from dataclasses import replace

    from davylamp.cli.diff_requests import read_requests
    from davylamp.cli.diff_rules import manner_of
    from davylamp.cli.diff_run import Course, place_of, run
    from davylamp.cli.diff_summary import Summary

    manner = manner_of(asking.rules)
    first, second = asking.urls
    places = (place_of("--baseline", first, asking.ca_file), place_of("--candidate", second, asking.ca_file))
    if places[0].protocol is not places[1].protocol:
        raise FailureError("--baseline and --candidate must speak the same protocol", ExitCode.WRONG)
    limit = manner.limit if asking.limit is None else _percent(asking.limit)
    summary = Summary(limit, manner.slowdown, asking.show)
    found = read_requests(asking.requests, places[0].protocol)
    with _progress(len(found)) as advanced:

        def seen(pair: Pair) -> None:
            summary.add(pair)
            advanced()

        replay = replace(manner.replay, concurrency=asking.concurrency)
        again = summary.add_again if asking.again else None
        run(found, places, Course(manner.rules, replay, seen, again))
    return summary, manner


@contextmanager
def _progress(total: int) -> Iterator[Callable[[], None]]:
    """Show how far it is: a bar on a terminal, elsewhere a line for each tenth."""
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

        columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("comparing", total=total)
            yield lambda: bar.advance(task)
        return
    done = 0

    def advanced() -> None:
        nonlocal done
        done += 1
        if done * 10 // total != (done - 1) * 10 // total:
            sys.stderr.write(f"{done:,} of {total:,} requests\n")

    yield advanced


def _tell(summary: Summary, manner: Manner, console: Console, report: Path | None) -> None:
    from davylamp.cli.diff_view import drawn, example_of, summary_view

    examples = [example_of(pair, manner.redact) for pair in summary.examples]
    if report is not None:
        _write(report, summary, examples)
    for example in examples:
        console.print(drawn(example))
    console.print()
    console.print(summary_view(summary))


def _save(console: Console, page: Path | None) -> None:
    if page is None:
        return
    try:
        console.save_html(str(page))
    except OSError as error:
        raise FailureError(f"{page} cannot be written: {error.strerror}", ExitCode.WRONG) from error


def _write(report: Path, summary: Summary, examples: list[Example]) -> None:
    text = json.dumps(summary.manifest() | {"examples": [each.manifest() for each in examples]}, indent=2)
    if str(report) == "-":
        typer.echo(text)
        return
    try:
        report.write_text(text + "\n", encoding="utf-8", errors="replace")
    except OSError as error:
        raise FailureError(f"{report} cannot be written: {error.strerror}", ExitCode.WRONG) from error


def _code(summary: Summary) -> int:
    from davylamp.cli.diff_summary import Ending

    match summary.ending:
        case Ending.WITHIN:
            return 0
        case Ending.OVER | Ending.TOO_FEW:
            return 1
        case Ending.NOTHING:
            return 2


def _percent(text: str) -> float:
    from davylamp.api.v1alpha1.quantities import parse_percent

    try:
        return parse_percent(text)
    except ValueError as error:
        raise FailureError(f"--max-disagreement: {error}", ExitCode.WRONG) from error


def _show_captures(name: str, where: tuple[str | None, str | None, str | None], console: Console, show: int) -> None:
    from davylamp.cli.cluster import Cluster
    from davylamp.cli.diff_captures import captures
    from davylamp.cli.diff_view import drawn
    from davylamp.cli.kubeconfig import Choice, connect
    from davylamp.cli.quantity import counted

    found = captures(Cluster(connect(Choice(*where))), name)
    for example in found.examples[:show]:
        console.print(drawn(example))
    more = len(found.examples) - show
    kept = counted(len(found.examples), "disagreeing pair")
    sys.stderr.write(f"{kept} kept by {counted(found.asked, 'replica')}{f', {more:,} not shown' if more > 0 else ''}\n")
    if found.partly:
        sys.stderr.write(f"{found.partly}\n")
