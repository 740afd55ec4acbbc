"""``davylamp calibrate``: how alike the baseline's pods are, and which margins that leaves."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from davylamp.cli.failure import ExitCode, FailureError
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
    past_of,
    tell,
    thresholds_of,
)

if TYPE_CHECKING:
    from rich.table import Table

    from davylamp.offline.calibrate import Calibration, Gauged
    from davylamp.offline.subject import Subject


def calibrate(  # noqa: PLR0913 - each parameter is an option
    *,
    file: Files = None,
    service: Annotated[
        str | None, typer.Option("--service", help="Instead of a rollout: a Service, with Davylamp's default gates.")
    ] = None,
    port: Annotated[int, typer.Option("--port", help="Port of the Service.", min=1, max=65535)] = 8080,
    preset: Annotated[str, typer.Option("--preset", help="Whose metrics the Service has.")] = "mlserver",
    source: Source = None,
    recording: Recording = None,
    begin: From = None,
    end: To = None,
    record: Record = None,
    name: RolloutName = None,
    namespace: InNamespace = None,
    header: Headers = None,
    timeout: Timeout = "60s",
    halves: Annotated[int, typer.Option("--halves", help="Runs of half against half, at most.", min=1, max=1000)] = 10,
    seed: Annotated[int, typer.Option("--seed", help="Of the random halves.", min=0)] = 1,
    max_errors: MaxErrors = "1%",
    max_p99: MaxP99 = 0.5,
    failed_checks: FailedChecks = 5,
    output: Printed = Report.TABLE,
    no_color: NoColor = False,
) -> None:
    """Compare the baseline's pods with each other: how much they differ, and what margin that makes necessary.

    One half of them plays the candidate. Whatever alarms then, alarms falsely: Davylamp and other rules are counted.
    """
    from davylamp.errors import DavylampError
    from davylamp.offline.calibrate import Trial
    from davylamp.offline.calibrate import calibrate as measure

    trial = Trial(halves, seed, thresholds_of(max_errors, max_p99, failed_checks))
    origin = Origin(source, recording, record, header or (), timeout)
    try:
        subject = _subject(file or (), service, (namespace, name), (port, preset))
        span, history = past_of(subject, (begin, end), origin, back=timedelta(0))
        found = measure(subject, history, span, trial, progress=tell)
    except DavylampError as error:
        raise failed(error) from error
    if output is Report.JSON:
        typer.echo(json.dumps(_plain(subject, found), indent=2))
    else:
        _print(subject, found, no_color=no_color)


def _subject(
    files: Sequence[Any], service: str | None, place: tuple[str | None, str | None], how: tuple[int, str]
) -> Subject:
    from davylamp.offline.subject import DEFAULT_NAMESPACE, rollout_of_service, subject_of

    if bool(files) == bool(service):
        raise FailureError("name what is calibrated: -f FILE with a ModelRollout, or --service NAME", ExitCode.WRONG)
    namespace, name = place
    if service:
        return subject_of([rollout_of_service(service, how[0], namespace or DEFAULT_NAMESPACE, how[1])])
    return subject_of(manifests(files), namespace, name)


def shares(found: Calibration) -> Mapping[str, tuple[int, int]]:
    """Return, by rule, how many A/A runs raised an alarm, and how many there were."""
    counts: dict[str, tuple[int, int]] = {}
    for run in found.runs:
        for rule, gate in run.alarms.items():
            alarms, total = counts.get(rule, (0, 0))
            counts[rule] = (alarms + (gate is not None), total + 1)
    return counts


def advice(gauged: Gauged) -> str:
    """Return what to write into the spec for a gate, in one line."""
    from davylamp.offline.spread import spelled, wide_enough

    gate, spread = gauged.gate, gauged.spread
    if gauged.trouble or spread is None:
        return (
            gauged.trouble
            or "not enough to say: it takes at least 2 pods with requests, and 2 whole minutes in which all have some"
        )
    have, pods = spelled(gate.margin), max(gauged.margins)
    need = gauged.margins[pods]
    if _uneventful(gauged):
        return (
            "not enough to say: the range has no event, or nothing but events; choose a longer one. Until then the "
            f"margin {have} and the allowance of the gate stand untried"
        )
    if need is None:
        return "no margin is wide enough: make the pods alike first (nodes, limits, warm-up)"
    if not spread.seen:
        return f"margin {have} can stay: the pods do not differ by more than chance (sd {_high(gauged)})"
    if wide_enough(gate.margin, need):
        return f"margin {have} can stay with {pods} pods of the candidate: their spread needs {spelled(need)}"
    where = gate.name if gate.name in {"errors", "latency"} else f"metrics: {gate.name}"
    return f"write gates: {where}: margin: {spelled(need)} (it is {have}), with {pods} pods of the candidate"


def _print(subject: Subject, found: Calibration, *, no_color: bool) -> None:
    from rich.console import Console

    from davylamp.cli.quantity import counted

    console = Console(no_color=True if no_color else None, highlight=False, markup=False, emoji=False)
    console.print(f"{subject.plan.pair.baseline} in {subject.name.namespace}: {counted(len(found.pods), 'pod')}\n")
    for caution in found.cautions:
        console.print(f"Caution: {caution}.\n")
    console.print(_gates(found))
    console.print("\nFor the spec")
    for gauged in found.gauged:
        console.print(f"  {gauged.gate.name}: {advice(gauged)}")
    if found.runs:
        half = len(found.runs[0].candidate)
        console.print(f"\nHalf against half, {counted(len(found.pods) - half, 'pod')} against {half}: false alarms")
        for rule, (alarms, total) in shares(found).items():
            console.print(f"  {alarms} of {total}  {rule}")
        console.print("  The runs share their samples, so that one bad pod or hour counts in many of them.")


def _gates(found: Calibration) -> Table:
    from rich.table import Table

    from davylamp.offline.spread import spelled

    table = Table(box=None, padding=(0, 2, 0, 0))
    for title in ("gate", "mean", "pods differ by (sd)", "chance?", "phi", "margin needed by number of candidate pods"):
        table.add_column(title)
    for each in found.gauged:
        if each.spread is None:
            table.add_row(each.gate.name, "", "not measured", "", _phi(each), "")
            continue
        if _uneventful(each):
            table.add_row(each.gate.name, _mean(each), "cannot be seen", "", _phi(each), "")
            continue
        needed = "; ".join(
            f"{number}: {'none is wide enough' if margin is None else spelled(margin)}"
            for number, margin in each.margins.items()
        )
        p = f"p = {each.spread.p:.2g}"
        table.add_row(each.gate.name, _mean(each), _sd(each), p, _phi(each), needed)
    return table


def _mean(each: Gauged) -> str:
    assert each.spread is not None  # noqa: S101 - asked by the caller
    return f"{1000 * math.exp(each.spread.mean):.3g} ms" if _latency(each) else f"{each.spread.mean:.3%}"


def _sd(each: Gauged) -> str:
    assert each.spread is not None  # noqa: S101 - asked by the caller
    sd = f"{math.expm1(each.spread.sd):.2%}" if _latency(each) else f"{100 * each.spread.sd:.3g} pt"
    return f"{sd}, {_high(each)}"


def _high(each: Gauged) -> str:
    assert each.spread is not None  # noqa: S101 - asked by the caller
    high = each.spread.sd_high
    return f"at most {math.expm1(high):.2%}" if _latency(each) else f"at most {100 * high:.3g} pt"


def _phi(each: Gauged) -> str:
    found = each.dispersion
    return "" if found is None else f"{found.phi:.2f} ± {found.standard_error:.2f}"


def _uneventful(each: Gauged) -> bool:
    """Whether a share is nought or all, so that its pods cannot differ and no odds follow from it."""
    return each.spread is not None and not _latency(each) and each.spread.mean in {0.0, 1.0}


def _latency(each: Gauged) -> bool:
    from davylamp.core.plan import SignalKind

    return each.gate.kind is SignalKind.LATENCY


def _plain(subject: Subject, found: Calibration) -> dict[str, Any]:
    from davylamp.offline.spread import spelled

    return {
        "baseline": subject.plan.pair.baseline,
        "namespace": subject.name.namespace,
        "pods": list(found.pods),
        "cautions": list(found.cautions),
        "gates": [
            {
                "name": each.gate.name,
                "margin": spelled(each.gate.margin),
                "trouble": each.trouble or None,
                "spread": each.spread
                and {
                    "mean": each.spread.mean,
                    "sd": each.spread.sd,
                    "sdHigh": each.spread.sd_high,
                    "p": each.spread.p,
                    "pods": each.spread.pods,
                    "blocks": each.spread.blocks,
                },
                "phi": each.dispersion and each.dispersion.phi,
                "phiStandardError": each.dispersion and each.dispersion.standard_error,
                "marginNeeded": {str(n): margin and spelled(margin) for n, margin in each.margins.items()},
                "advice": advice(each),
            }
            for each in found.gauged
        ],
        "falseAlarms": [
            {"rule": rule, "alarms": alarms, "runs": total} for rule, (alarms, total) in shares(found).items()
        ],
        "runs": [{"candidate": list(run.candidate), "alarms": dict(run.alarms)} for run in found.runs],
    }
