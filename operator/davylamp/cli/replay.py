"""``davylamp replay``: what a policy would have done over history."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from davylamp.cli.options import NoColor
from davylamp.cli.past import (
    FailedChecks,
    Files,
    From,
    Headers,
    InNamespace,
    MaxErrors,
    MaxP99,
    Origin,
    Policy,
    Printed,
    Record,
    Recording,
    Report,
    RolloutName,
    Source,
    Timeout,
    To,
    failed,
    manifests,
    moment,
    past_of,
    tell,
    thresholds_of,
)

if TYPE_CHECKING:
    from rich.table import Table

    from davylamp.offline.replay import Moment, Replay
    from davylamp.offline.rivals import Alarm
    from davylamp.offline.subject import Subject


def replay(  # noqa: PLR0913 - each parameter is an option
    *,
    file: Files = None,
    policy: Policy = None,
    source: Source = None,
    recording: Recording = None,
    begin: From = None,
    end: To = None,
    ladder_at: Annotated[
        str | None,
        typer.Option("--ladder-at", help="When the ladder begins. Default: with the candidate's first requests."),
    ] = None,
    record: Record = None,
    name: RolloutName = None,
    namespace: InNamespace = None,
    header: Headers = None,
    timeout: Timeout = "60s",
    max_errors: MaxErrors = "1%",
    max_p99: MaxP99 = 0.5,
    failed_checks: FailedChecks = 5,
    output: Printed = Report.TABLE,
    no_color: NoColor = False,
) -> None:
    """Run a rollout over the past: what its policy would have done and when, beside what other rules would have done.

    The samples come from a server or from a recording, and go through the code of the live operator. The weight in the
    past is the share that was observed; the ladder begins with the candidate's first requests.
    """
    from davylamp.errors import DavylampError
    from davylamp.offline.replay import counted
    from davylamp.offline.replay import replay as run
    from davylamp.offline.rivals import rivals
    from davylamp.offline.subject import subject_of
    from davylamp.runtime.clock import SystemClock

    thresholds = thresholds_of(max_errors, max_p99, failed_checks)
    origin = Origin(source, recording, record, header or (), timeout)
    try:
        subject = subject_of(manifests([*(file or ()), *(policy or ())]), namespace, name)
        span, history = past_of(subject, (begin, end), origin)
        ladder = None if ladder_at is None else moment(ladder_at, SystemClock().now(), "--ladder-at")
        tell(f"{subject.looks(*span):,} looks over {history.samples:,} samples")
        result = run(subject, history, *span, ladder_at=ladder)
        others: dict[str, Alarm | None] = {}
        if result.began_at is not None:
            seen = list(counted(subject, history, result.baselines, (result.began_at, span[1])))
            others = {title: rule(seen) for title, rule in rivals(subject.plan, thresholds, result.baselines).items()}
    except DavylampError as error:
        raise failed(error) from error
    if output is Report.JSON:
        typer.echo(json.dumps(_plain(subject, result, others), indent=2))
    else:
        _print(subject, result, others, no_color=no_color)


def turns(moments: tuple[Moment, ...]) -> Iterator[Moment]:
    """Yield the looks at which something changed: phase, reason or step."""
    last = None
    for look in moments:
        here = (look.phase, look.reason, look.step)
        if here != last:
            yield look
        last = here


def _print(subject: Subject, result: Replay, others: Mapping[str, Alarm | None], *, no_color: bool) -> None:
    from rich.console import Console

    console = Console(no_color=True if no_color else None, highlight=False, markup=False, emoji=False)
    first, last = result.moments[0].at, result.moments[-1].at
    console.print(f"{subject.name}, {first:%Y-%m-%d %H:%M:%S} to {last:%Y-%m-%d %H:%M:%S} UTC\n")
    console.print(_timeline(result))
    if result.began_at is None:
        console.print("\nThe candidate had no requests in this range: nothing can be said about it.")
        return
    console.print(_rules(result, others))
    for report in result.reports:
        console.print(f"  {report.verdict.value}: {report.sentence}", soft_wrap=False)


def _timeline(result: Replay) -> Table:
    from rich.table import Table

    from davylamp.cli.quantity import e_value

    table = Table(box=None, padding=(0, 2, 0, 0))
    for title in ("time", "phase", "asked", "share", "evidence", "what"):
        table.add_column(title, justify="right" if title in {"asked", "share", "evidence"} else "left")
    for look in turns(result.moments):
        share = "" if look.share is None else f"{look.share:.1%}"
        evidence = e_value(look.log_evidence / 2.302585092994046, "") if look.step >= 0 else ""
        row = (f"{look.at:%H:%M:%S}", look.phase.value, str(look.weight), share, evidence, look.message)
        table.add_row(*row)
    return table


def _rules(result: Replay, others: Mapping[str, Alarm | None]) -> Table:
    from rich.table import Table

    table = Table(title="\nThe same samples by other rules", title_justify="left", box=None, padding=(0, 2, 0, 0))
    for title in ("rule", "would have", "after", "why"):
        table.add_column(title, justify="right" if title == "after" else "left")
    table.add_row("Davylamp", outcome(result), _after(result.began_at, result.ruled_at), result.why)
    for name, alarm in others.items():
        if alarm is None:
            table.add_row(name, "not rolled back", "", "")
        else:
            said = f"{alarm.gate}: {alarm.why}"
            table.add_row(name, "rolled back", _after(result.began_at, alarm.at), said)
    return table


def outcome(result: Replay) -> str:
    """Return in two words what was decided."""
    from davylamp.core.model import Ruling

    match result.ruling:
        case Ruling.ROLLBACK:
            return "rolled back"
        case Ruling.PROMOTE:
            return "promoted"
        case Ruling.CONTINUE:
            return "not decided"


def _after(began: datetime | None, at: datetime | None) -> str:
    from davylamp.cli.quantity import span

    return "" if began is None or at is None else span(at - began)


def _plain(subject: Subject, result: Replay, others: Mapping[str, Alarm | None]) -> dict[str, Any]:
    return {
        "rollout": str(subject.name),
        "ruling": result.ruling.value,
        "ruledAt": _time(result.ruled_at),
        "why": result.why,
        "culprits": list(result.culprits),
        "beganAt": _time(result.began_at),
        "logThreshold": result.log_threshold,
        "rules": [
            {
                "rule": name,
                "rolledBackAt": None if alarm is None else _time(alarm.at),
                "gate": alarm and alarm.gate,
                "why": alarm and alarm.why,
            }
            for name, alarm in others.items()
        ],
        "gates": [
            {"name": report.name, "verdict": report.verdict.value, "sentence": report.sentence}
            for report in result.reports
        ],
        "looks": [_look(look) for look in result.moments],
    }


def _look(look: Moment) -> dict[str, Any]:
    return {
        "at": _time(look.at),
        "phase": look.phase.value,
        "reason": look.reason.value,
        "message": look.message,
        "step": look.step,
        "weight": look.weight.percent,
        "share": look.share,
        "logEvidence": look.log_evidence,
        "verdicts": {name: verdict.value for name, verdict in look.verdicts.items()},
    }


def _time(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()
