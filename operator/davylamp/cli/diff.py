"""Compare two variants by the same requests, without a cluster; or show pairs that a comparator has kept."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from davylamp.cli.failure import ExitCode, FailureError
from davylamp.cli.options import Context, Kubeconfig, Namespace, NoColor, complete_names

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
    name: Annotated[
        str | None,
        typer.Argument(
            help="ModelRollout whose disagreeing pairs are fetched from its comparator.", autocompletion=complete_names
        ),
    ] = None,
    *,
    baseline: Annotated[
        str | None, typer.Option("--baseline", help="Where the baseline is: http://HOST:PORT or grpc://HOST:PORT.")
    ] = None,
    candidate: Annotated[str | None, typer.Option("--candidate", help="Where the candidate is.")] = None,
    requests: Annotated[
        Path | None,
        typer.Option(
            "--requests",
            help='File of requests, one JSON object a line: {"method", "path", "headers", "body" or "body_base64"}. '
            '"-" for the standard input.',
        ),
    ] = None,
    rules: Annotated[
        Path | None,
        typer.Option("--rules", help="Manifest of the ModelRollout or policy that says how answers are compared."),
    ] = None,
    max_disagreement: Annotated[
        str | None,
        typer.Option("--max-disagreement", help="Largest share of disagreeing pairs. Default: the rules', or 2%."),
    ] = None,
    concurrency: Annotated[int, typer.Option("--concurrency", min=1, max=256, help="Requests at once.")] = 4,
    report: Annotated[
        Path | None, typer.Option("--report", help="Write the result to this file as JSON; - for standard output.")
    ] = None,
    show: Annotated[int, typer.Option("--show", min=0, max=1000, help="How many pairs are shown side by side.")] = 3,
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
    console = Console(no_color=True if no_color else None, highlight=False, markup=False, emoji=False)
    given = (baseline, candidate, requests)
    if name is not None:
        if any(option is not None for option in (*given, rules, max_disagreement, report)):
            raise FailureError("give a NAME, or --baseline, --candidate and --requests", ExitCode.WRONG)
        _show_captures(name, (kubeconfig, context, namespace), console, show)
        return
    if baseline is None or candidate is None or requests is None:
        raise FailureError("give --baseline, --candidate and --requests, or the NAME of a ModelRollout", ExitCode.WRONG)
    summary, manner = _compare((baseline, candidate), requests, rules, (max_disagreement, concurrency, show))
    _tell(summary, manner, console, report)
    raise typer.Exit(_code(summary))


def _require_shadow() -> None:
    try:
        import davylamp.cli.diff_run
    except ModuleNotFoundError as missing:
        text = f"{missing.name} is not installed: this command needs davylamp[shadow]"
        raise FailureError(text, ExitCode.WRONG) from missing
    del davylamp


def _compare(
    urls: tuple[str, str], file: Path, rules: Path | None, options: tuple[str | None, int, int]
) -> tuple[Summary, Manner]:
    from dataclasses import replace

    from davylamp.cli.diff_requests import read_requests
    from davylamp.cli.diff_rules import manner_of
    from davylamp.cli.diff_run import place_of, run
    from davylamp.cli.diff_summary import Summary

    limit, concurrency, show = options
    manner = manner_of(rules)
    places = (place_of("--baseline", urls[0]), place_of("--candidate", urls[1]))
    if places[0].protocol is not places[1].protocol:
        raise FailureError("--baseline and --candidate must speak the same protocol", ExitCode.WRONG)
    summary = Summary(manner.limit if limit is None else _percent(limit), manner.slowdown, show)
    found = read_requests(file, places[0].protocol)
    with _progress(len(found)) as advanced:

        def seen(pair: Pair) -> None:
            summary.add(pair)
            advanced()

        run(found, places, rules=manner.rules, replay=replace(manner.replay, concurrency=concurrency), seen=seen)
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
    if report is None or str(report) != "-":
        for example in examples:
            console.print(drawn(example))
        console.print()
        console.print(summary_view(summary))


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
