"""``davylamp plan``: what a rollout's gates can and cannot see, before it runs."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from davylamp.cli.failure import ExitCode, FailureError
from davylamp.cli.options import NoColor
from davylamp.cli.past import (
    Files,
    From,
    Headers,
    InNamespace,
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
    past_of,
    tell,
)

if TYPE_CHECKING:
    from davylamp.offline.demand import Demand
    from davylamp.offline.given import Given
    from davylamp.offline.prediction import Forecast
    from davylamp.offline.simulation import Sample, Simulator
    from davylamp.offline.simulation import Source as Traffic
    from davylamp.offline.subject import Subject

Rps = Annotated[
    float | None, typer.Option("--rps", help="Requests a second of both variants together, instead of --source.")
]
ErrorRate = Annotated[
    str | None, typer.Option("--error-rate", help='The baseline\'s share of failed requests, such as "0.5%".')
]
Shares = Annotated[
    list[str] | None,
    typer.Option("--share", help='The baseline\'s share of an own signal: "approvals=30%". May repeat.'),
]
LatencyHistogram = Annotated[
    str | None,
    typer.Option(
        "--latency-histogram",
        help='The baseline\'s durations: "0.05=120,0.1=800,+Inf=10" (requests up to each edge in seconds and over '
        "the one before), or a file with the series of a Prometheus histogram.",
    ),
]
LatencyMedian = Annotated[
    str, typer.Option("--latency-median", help="Without a histogram: the median, of lognormal durations.")
]
Simulate = Annotated[
    int, typer.Option("--simulate", help="Run the rollout so often, healthy and with each regression, beside.")
]
Seed = Annotated[int, typer.Option("--seed", help="Of the simulation.", min=0)]
Plot = Annotated[Path | None, typer.Option("--plot", help="Draw the chances over time into this .svg file.")]

_SIZE: Final = 2.0
_MOST_LOOKS: Final = 3000


def plan(  # noqa: PLR0913 - each parameter is an option
    *,
    file: Files = None,
    policy: Policy = None,
    rps: Rps = None,
    error_rate: ErrorRate = None,
    share: Shares = None,
    latency_histogram: LatencyHistogram = None,
    latency_median: LatencyMedian = "50ms",
    source: Source = None,
    recording: Recording = None,
    begin: From = None,
    end: To = None,
    record: Record = None,
    header: Headers = None,
    timeout: Timeout = "60s",
    simulate: Simulate = 0,
    seed: Seed = 1,
    plot: Plot = None,
    name: RolloutName = None,
    namespace: InNamespace = None,
    output: Printed = Report.TABLE,
    no_color: NoColor = False,
) -> None:
    """Say what a rollout's gates can and cannot see: how soon they find a regression, and promote a healthy variant.

    Traffic is given (--rps, --error-rate, --share) or read from the history of the baseline (--source, --recording).
    With --simulate, whole rollouts run on that traffic through the code that decides in a cluster.
    """
    from davylamp.errors import DavylampError
    from davylamp.offline.given import Given
    from davylamp.offline.prediction import forecast
    from davylamp.offline.shadow_steps import in_the_shadow
    from davylamp.offline.simulation import Simulator
    from davylamp.offline.slice_needs import of_slices
    from davylamp.offline.subject import subject_of

    _check(simulate, plot)
    origin = Origin(source, recording, record, header or (), timeout)
    given = Given(rps, error_rate, tuple(share or ()), latency_histogram, latency_median)
    try:
        subject = subject_of(manifests([*(file or ()), *(policy or ())]), namespace, name)
        demand, traffic = _demand(subject, given, origin, (begin, end))
        asked = subject.blueprint.plan
        remarks = (*demand.remarks, *in_the_shadow(asked, demand.requests), *of_slices(asked))
        demand = replace(demand, remarks=remarks)
        seen = forecast(subject.plan, demand)
        simulator = Simulator(subject.plan, demand, traffic)
        samples = _simulated(seen, simulator, simulate, seed) if simulate else {}
        if plot is not None:
            _draw(plot, str(subject.name), seen)
        _print(str(subject.name), seen, samples, output, no_color=no_color)
    except DavylampError as error:
        raise failed(error) from error


def _check(simulate: int, plot: Path | None) -> None:
    if not 0 <= simulate <= 10_000:
        raise FailureError(f"--simulate must be 0 to 10000 rollouts, got {simulate}", ExitCode.WRONG)
    if plot is not None and plot.suffix.lower() != ".svg":
        raise FailureError(f"--plot draws SVG: name a file that ends in .svg, not {plot.name[:60]!r}", ExitCode.WRONG)


def _demand(
    subject: Subject, given: Given, origin: Origin, times: tuple[str | None, str | None]
) -> tuple[Demand, Traffic | None]:
    """Return the traffic: given, or of the history; gates of pods are scraped apart in either case."""
    from davylamp.offline.past_demand import past_demand

    apart = frozenset(signal.gate for signal in subject.blueprint.signals if not signal.scope.beginnings)
    past = origin.source is not None or origin.recording is not None
    if past == (given.rps is not None):
        raise FailureError(
            "say what the traffic is: --rps NUMBER, or --source URL (or --recording FILE)", ExitCode.WRONG
        )
    if not past:
        return replace(given.demand(subject), apart=apart), None
    span, history = past_of(subject, times, origin)
    learnt = past_demand(subject, history, span)
    return replace(learnt.demand, apart=apart), learnt.source()


def _simulated(seen: Forecast, simulator: Simulator, runs: int, seed: int) -> dict[str, Sample]:
    """Run the rollout with an equal candidate, and with each regression of twice the margin."""
    from davylamp.offline.traffic import Harm

    healthy = seen.promotion.quantile(min(0.99, seen.promotion.surely))
    tell(f"simulating {runs} rollouts of an equal candidate")
    samples = {"": simulator.run(Harm(), runs, _bounded(1.5 * healthy, seen), seed)}
    for gate in seen.gates:
        if not gate.trouble:
            tell(f"simulating {runs} rollouts of a candidate with {gate.gate.name} worse by twice the margin")
            looks = _bounded(2 * gate.at(_SIZE).arrival.quantile(0.9), seen)
            samples[gate.gate.name] = simulator.run(Harm(gate.gate, _SIZE), runs, looks, seed)
    return samples


def _bounded(looks: float, seen: Forecast) -> int:
    most = min(_MOST_LOOKS, seen.timeline.end)
    return most if math.isinf(looks) else min(most, max(math.ceil(looks), seen.timeline.ladder))


def _draw(path: Path, title: str, seen: Forecast) -> None:
    from davylamp.cli.plan_picture import picture

    try:
        path.write_text(picture(title, seen), encoding="utf-8")
    except OSError as error:
        raise FailureError(f"--plot {path}: {error.strerror}", ExitCode.WRONG) from error


def _print(title: str, seen: Forecast, samples: dict[str, Sample], output: Report, *, no_color: bool) -> None:
    from davylamp.cli.plan_view import plain, show

    if output is Report.JSON:
        typer.echo(json.dumps(plain(title, seen, samples), indent=2, allow_nan=False))
        return
    from rich.console import Console

    show(Console(no_color=True if no_color else None, highlight=False, markup=False, emoji=False), title, seen, samples)
