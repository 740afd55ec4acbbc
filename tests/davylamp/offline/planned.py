"""Rollouts and traffic that plans are made for."""

import math
from dataclasses import replace
from datetime import timedelta
from typing import Final

from davylamp.core.model import Pair, Weight
from davylamp.core.plan import (
    AbsoluteMargin,
    Direction,
    Gate,
    OddsRatioMargin,
    Plan,
    SignalKind,
    SlowdownMargin,
    Step,
    TripWires,
)
from davylamp.offline.demand import Demand, Durations, lognormal

INTERVAL: Final = timedelta(seconds=10)
ERRORS: Final = Gate("errors", SignalKind.ERRORS, Direction.HIGHER, OddsRatioMargin(1.25))
LATENCY: Final = Gate("latency", SignalKind.LATENCY, Direction.HIGHER, SlowdownMargin(0.1))
APPROVALS: Final = Gate("approvals", SignalKind.COUNTER, Direction.LOWER, AbsoluteMargin(0.02))
GATES: Final = (ERRORS, LATENCY, APPROVALS)
#: Native, schema 3, around a median of 12 ms.
_NATIVE_EDGES: Final = (*(2 ** (k / 8) for k in range(-76, -16)), math.inf)


def planned(bake: int = 6, gates: tuple[Gate, ...] = GATES, weights: tuple[int, ...] = (5, 10, 25, 50)) -> Plan:
    """Return a ladder, ``bake`` looks at each weight."""
    return Plan(
        spec_hash="",
        candidate_digest="",
        pair=Pair("r", "b:80", "c:80"),
        steps=tuple(Step(Weight(percent), bake * INTERVAL) for percent in weights),
        gates=gates,
        interval=INTERVAL,
        false_rollback_rate=0.01,
        false_promotion_rate=0.05,
        promotion_bake=INTERVAL,
        promotion_deadline=timedelta(hours=4),
        cooldown=timedelta(hours=1),
        no_data_tell_after=timedelta(hours=1),
        no_data_roll_back_after=None,
        trip_wires=TripWires(1.0, 1000, 10),
    )


def native() -> Durations:
    """Return durations of a native histogram."""
    return replace(lognormal(_NATIVE_EDGES, 0.012, 0.5), native=True)


def pods(requests: float = 100.0) -> Demand:
    """Return traffic that is counted by pods, each scraped at its own moment."""
    names = frozenset(gate.name for gate in GATES)
    return Demand(requests, {"errors": 0.01, "approvals": 0.3}, native(), apart=names)


def gateway(requests: float = 100.0) -> Demand:
    """Return traffic of which a gateway counts all but the own signal."""
    return replace(pods(requests), apart=frozenset({"approvals"}))
