"""A forecast for people, as tables, and for programs, as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from davylamp.core.plan import SignalKind
from davylamp.offline.effects import forgiven, slowdown_of, worse_share
from davylamp.offline.prediction import POWER, Forecast, GateForecast, Prospect
from davylamp.offline.remedies import for_promotion, remedies
from davylamp.offline.simulation import Sample, mean, quantile

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_SIZE: Final = 2.0
_FEW: Final = 0.01


def show(console: Console, title: str, seen: Forecast, samples: Mapping[str, Sample]) -> None:
    """Print a forecast.

    Parameters
    ----------
    console, title
        Where, and what it is about.
    seen
        The forecast.
    samples
        What simulations came to, by the gate that was worse; empty text for an equal candidate.
    """
    for line in _head(title, seen):
        console.print(line)
    console.print(_found(seen))
    console.print(_steps(seen))
    for line in _sight(seen):
        console.print(line)
    if samples:
        console.print(_simulated(seen, samples))


def _head(title: str, seen: Forecast) -> Iterator[str]:
    plan, demand = seen.plan, seen.demand
    ladder = ", ".join(
        f"{'pause' if step.weight is None else str(step.weight)} for {_span(step.bake.total_seconds())}"
        for step in plan.steps
    )
    shares = "".join(f", {name} {100 * share:.3g} %" for name, share in demand.shares.items())
    yield f"{title}: {ladder}; a look every {_span(plan.interval.total_seconds())}"
    yield f"{demand.requests:,.4g} requests a second{shares}"
    for remark in demand.remarks:
        yield f"note: {remark}"
    yield ""
    bound = f"{100 * plan.false_rollback_rate:.3g} %"
    yield (
        f"A healthy variant is rolled back with a chance of at most {bound}: guaranteed for all signals and looks "
        "together, for requests that are independent of each other."
    )
    yield _promotion(seen)
    for remedy in for_promotion(seen):
        yield f"  would help: {remedy}"


def _forgiven(seen: Forecast, gate: GateForecast) -> bool:
    name = gate.gate.name
    return gate.gate.kind is not SignalKind.LATENCY and forgiven(gate.gate, seen.demand.share(name), _SIZE)


def _promotion(seen: Forecast) -> str:
    deadline = f"the deadline ({_span(seen.plan.promotion_deadline.total_seconds())} from the last step on)"
    if seen.chance < _FEW:
        return f"A healthy variant is not promoted before {deadline}."
    average, nearly = (_looks(seen, looks) for looks in (seen.promotion.mean, seen.promotion.quantile(0.9)))
    return (
        f"A healthy variant is promoted before {deadline} with a chance of {_chance(seen.chance)}: after {average} on "
        f"average, in 9 of 10 rollouts within {nearly}."
    )


def _found(seen: Forecast) -> Table:
    headings = ("signal", "worse by", "found after", "9 of 10 within", "bad requests", "requests")
    table = _table("\nA regression that is there from the first traffic on", headings, 4)
    for gate in seen.gates:
        name = gate.gate.name
        if gate.trouble:
            table.add_row(name, gate.trouble, "", "", "", "")
        for prospect in gate.ladder:
            size = f"{prospect.margins:g}x the margin: {_effect(seen, gate, prospect.margins)}"
            if prospect.margins <= 1:
                table.add_row(name, size, "accepted", "", "", "")
            else:
                table.add_row(name, size, *_delays(seen, prospect), f"{prospect.bad:,.0f}", f"{prospect.requests:,.0f}")
            name = ""
    return table


def _delays(seen: Forecast, prospect: Prospect) -> tuple[str, str]:
    if prospect.arrival.surely < _FEW:
        return "not seen", ""
    return _looks(seen, prospect.arrival.mean), _looks(seen, prospect.arrival.quantile(0.9))


def _steps(seen: Forecast) -> Table:
    weights = [f"{100 * stage.weight:.0f} %" for stage in seen.timeline.stages]
    title = (
        "\nTwice the margin, step by step: found after (9 of 10 within) if the weight stayed there; found by its end"
    )
    table = _table(title, ("signal", *weights), len(weights))
    for gate in seen.gates:
        if not gate.trouble:
            cells = [_cell(seen, prospect, found) for (_, prospect), found in zip(gate.steps, gate.found, strict=True)]
            table.add_row(gate.gate.name, *cells)
    return table


def _cell(seen: Forecast, prospect: Prospect, found: float) -> str:
    average, nearly = _delays(seen, prospect)
    return f"{average} ({nearly}); {_chance(found)}" if nearly else f"{average}; {_chance(found)}"


def _sight(seen: Forecast) -> Iterator[str]:
    length = _span(seen.length * seen.plan.interval.total_seconds())
    yield f"\nWithin the time of a healthy rollout ({length}), with a chance of {POWER:.0%}:"
    for gate in seen.gates:
        if gate.trouble:
            continue
        if math.isinf(gate.smallest):
            yield f"  {gate.gate.name}: nothing is seen"
        else:
            size = _effect(seen, gate, gate.smallest)
            yield f"  {gate.gate.name}: {size} is seen ({gate.smallest:.1f}x the margin)"
        if gate.method.startswith("buckets"):
            yield f"    {gate.method}"
        if _forgiven(seen, gate):
            yield (
                "    twice the margin lies within the gate's allowance: such a candidate may be promoted before it is "
                f"found; a lower gates.{gate.gate.name}.allowance prevents that"
            )
        if helping := remedies(seen, gate):
            yield f"    twice the margin would be seen with: {'; or '.join(helping)}"


def _simulated(seen: Forecast, samples: Mapping[str, Sample]) -> Table:
    runs = next(iter(samples.values())).runs
    headings = ("candidate", "what came", "predicted", "simulated", "within the predicted 9 of 10")
    table = _table(f"\n{runs} simulated rollouts each, beside what is predicted", headings, 3)
    for name, sample in samples.items():
        ended = sample.rolled_back if name else sample.promoted
        arrival = seen.promotion if not name else _gate(seen, name).at(_SIZE).arrival
        near = arrival.quantile(0.9)
        within = sum(delay <= near for delay in ended) / sample.runs
        what = f"{len(sample.promoted)} promoted, {len(sample.rolled_back)} rolled back"
        label = f"{name} worse by 2x" if name else "equal"
        table.add_row(label, what, _looks(seen, arrival.mean), _looks(seen, mean(ended)), f"{within:.0%}")
    return table


def plain(title: str, seen: Forecast, samples: Mapping[str, Sample]) -> dict[str, Any]:
    """Return a forecast for JSON; times in seconds, null for what is not within sight."""
    plan = seen.plan
    return {
        "rollout": title,
        "interval": plan.interval.total_seconds(),
        "requestsPerSecond": seen.demand.requests,
        "shares": dict(seen.demand.shares),
        "remarks": list(seen.demand.remarks),
        "falseRollbackRate": {"atMost": plan.false_rollback_rate},
        "promotion": {
            "chanceBeforeDeadline": seen.chance,
            "mean": _seconds(seen, seen.promotion.mean),
            "q90": _seconds(seen, seen.promotion.quantile(0.9)),
            "wouldHelp": list(for_promotion(seen)),
        },
        "healthyRollout": _seconds(seen, seen.length),
        "steps": [
            {"step": s.step, "weight": round(100 * s.weight), "seconds": _seconds(seen, s.looks)}
            for s in seen.timeline.stages
        ],
        "gates": [_plain_gate(seen, gate) for gate in seen.gates],
        "simulation": [_plain_sample(seen, name, sample) for name, sample in samples.items()],
    }


def _plain_gate(seen: Forecast, gate: GateForecast) -> dict[str, Any]:
    return {
        "name": gate.gate.name,
        "method": gate.method,
        "trouble": gate.trouble,
        "regressions": [_plain_prospect(seen, prospect) for prospect in gate.ladder],
        "steps": [
            {"step": stage.step, "foundByItsEnd": found, **_plain_prospect(seen, prospect)}
            for (stage, prospect), found in zip(gate.steps, gate.found, strict=True)
        ],
        "withinAllowance": _forgiven(seen, gate),
        "smallestEffect": None if math.isinf(gate.smallest) else gate.smallest,
        "underpowered": not gate.ladder or gate.at(_SIZE).arrival.by(seen.length) < POWER,
        "proofMean": None if gate.proof is None else _seconds(seen, gate.proof.mean),
        "wouldHelp": list(remedies(seen, gate)),
    }


def _plain_prospect(seen: Forecast, prospect: Prospect) -> dict[str, Any]:
    return {
        "margins": prospect.margins,
        "mean": _seconds(seen, prospect.arrival.mean),
        "q90": _seconds(seen, prospect.arrival.quantile(0.9)),
        "chance": prospect.arrival.surely,
        "badRequests": prospect.bad if prospect.arrival.surely >= _FEW else None,
        "requests": prospect.requests if prospect.arrival.surely >= _FEW else None,
    }


def _plain_sample(seen: Forecast, name: str, sample: Sample) -> dict[str, Any]:
    return {
        "worse": name or None,
        "margins": sample.harm.margins,
        "runs": sample.runs,
        "rolledBack": len(sample.rolled_back),
        "rollbackMean": _seconds(seen, mean(sample.rolled_back)),
        "rollbackQ90": _seconds(seen, quantile(sample.rolled_back, 0.9, sample.runs)),
        "promoted": len(sample.promoted),
        "promotionMean": _seconds(seen, mean(sample.promoted)),
    }


def _gate(seen: Forecast, name: str) -> GateForecast:
    return next(gate for gate in seen.gates if gate.gate.name == name)


def _effect(seen: Forecast, gate: GateForecast, margins: float) -> str:
    if gate.gate.kind is SignalKind.LATENCY:
        return f"{100 * (slowdown_of(gate.gate, margins) - 1):.3g} % slower"
    share = seen.demand.share(gate.gate.name)
    return f"{100 * share:.3g} % to {100 * worse_share(gate.gate, share, margins):.3g} %"


def _looks(seen: Forecast, looks: float) -> str:
    return "longer" if math.isinf(looks) else _span(looks * seen.plan.interval.total_seconds())


def _seconds(seen: Forecast, looks: float) -> float | None:
    return None if math.isinf(looks) else round(looks * seen.plan.interval.total_seconds(), 1)


def _chance(chance: float) -> str:
    if chance > 0.995:
        return "over 99 %"
    return "under 1 %" if chance < _FEW else f"{chance:.0%}".replace("%", " %")


def _span(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _table(title: str, headings: Sequence[str], right: int) -> Table:
    """Return an empty table whose last ``right`` columns hold numbers."""
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="", box=None, padding=(0, 2, 0, 0))
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="right" if place >= len(headings) - right else "left")
    return table
