"""What would help a rollout that sees too little: more traffic, more weight, a longer bake, each with its number."""

import math
from collections.abc import Iterator
from typing import Final

from davylamp.core.plan import SignalKind
from davylamp.offline.arrival import Arrival
from davylamp.offline.demand import Demand
from davylamp.offline.prediction import POWER, Forecast, GateForecast, Scope
from davylamp.offline.timeline import Stage, alone, timeline
from gatestats.planning import invert

#: Traffic is multiplied by at most ten to this power.
_MOST: Final = 3.0
_BEST: Final = 0.5
#: Less than a tenth more is no advice: chance decides that far.
_LEAST: Final = math.log10(1.1)
_COARSE: Final = "buckets too coarse"


def remedies(forecast: Forecast, seen: GateForecast) -> tuple[str, ...]:
    """Return what would let a gate find twice its margin within a healthy rollout's time; empty if it does already.

    Parameters
    ----------
    forecast
        Of the whole rollout.
    seen
        Of the gate.
    """
    if seen.trouble or not seen.ladder or seen.at(2.0).arrival.by(forecast.length) >= POWER:
        return ()
    return tuple(_for_gate(forecast, seen))


def _for_gate(forecast: Forecast, seen: GateForecast) -> Iterator[str]:
    plan, seconds = forecast.plan, forecast.plan.interval.total_seconds()
    last = forecast.timeline.stages[-1].weight
    needed = seen.at(2.0).arrival.quantile(POWER)
    if math.isfinite(needed):
        more = math.ceil(needed) - forecast.length
        yield f"{_time(more * seconds)} more at {last:.0%} (bake of the last step)"
    factor = invert(lambda power: _power(forecast, seen, 10**power), POWER, (0.0, _MOST), 0.02)
    if math.isfinite(factor):
        yield f"{10**factor:.1f} times the traffic"
    if last < _BEST:
        stage = Stage(len(plan.steps), _BEST, 1, 1)
        scope = Scope(plan, forecast.demand, forecast.timeline)
        better = scope.prospect(seen.gate, 2.0, alone(stage, forecast.timeline.end, forecast.timeline.planned)).arrival
        if better.surely >= POWER:
            yield f"{_BEST:.0%} weight finds it after {_time(better.mean * seconds)}"
    if seen.gate.kind is SignalKind.LATENCY and seen.method.startswith(_COARSE):
        yield "finer buckets, or native histograms"


def for_promotion(forecast: Forecast) -> tuple[str, ...]:
    """Return what would let a healthy variant be promoted before the deadline; empty if it is with 80 % already."""
    if forecast.chance >= POWER:
        return ()
    proofs: dict[str, Arrival] = {
        seen.gate.name: seen.proof for seen in forecast.gates if seen.proof is not None and seen.gate.required
    }
    blind = [seen.gate.name for seen in forecast.gates if seen.trouble and seen.gate.required]
    if blind:
        return (f"{blind[0]} proves nothing: mend it, or set its requiredForPromotion to false",)
    slowest = min(proofs, key=lambda name: proofs[name].by(forecast.timeline.end))
    coarse = any(seen.gate.name == slowest and seen.method.startswith(_COARSE) for seen in forecast.gates)
    found = [f"{slowest} is the slowest to prove: a wider margin, or requiredForPromotion: false"]
    if coarse:
        found.append(f"for {slowest}: finer buckets, or native histograms")
    factor = invert(lambda power: _promoted(forecast, forecast.demand.times(10**power)), POWER, (0.0, _MOST), 0.02)
    if _LEAST < factor < math.inf:
        found.append(f"{10**factor:.1f} times the traffic")
    return tuple(found)


def _power(forecast: Forecast, seen: GateForecast, factor: float) -> float:
    scope = Scope(forecast.plan, forecast.demand.times(factor), forecast.timeline)
    return scope.power(seen.gate, 2.0, forecast.length)


def _promoted(forecast: Forecast, demand: Demand) -> float:
    scope = Scope(forecast.plan, demand, timeline(forecast.plan, demand))
    return scope.promotion().by(scope.timeline.end)


def _time(seconds: float) -> str:
    minutes = seconds / 60
    if minutes < 2:
        return f"{seconds:.0f} s"
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h"
