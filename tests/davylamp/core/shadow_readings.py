"""Gates on shadow traffic, and raw samples of the comparator, for the tests of their evidence."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Final

from davylamp.core.model import Variant, Weight
from davylamp.core.plan import AbsoluteMargin, Direction, Gate, LimitMargin, Plan, Shadow, SignalKind, Step
from davylamp.core.reading import Reading, SignalReading, Target
from davylamp.core.shadow_gates import MIRRORED, moves_of
from tests.davylamp.core.readings import ERRORS, TICK, counters, pair, plan, steady

DISAGREEMENT: Final = Gate("disagreement", SignalKind.SHADOW_SHARE, Direction.HIGHER, LimitMargin(0.02))
OVER_NOISE: Final = Gate("overNoise", SignalKind.SHADOW_NOISE, Direction.HIGHER, AbsoluteMargin(0.01))
SCORE_SHIFT: Final = Gate(
    "scoreShift", SignalKind.SHADOW_MOVES, Direction.EITHER, AbsoluteMargin(0.02), edges=(0.5, 0.9)
)
CONFIDENCE: Final = Gate("confidence", SignalKind.SHADOW_MOVES, Direction.LOWER, AbsoluteMargin(0.05), edges=(0.9,))
GATES: Final = (DISAGREEMENT, OVER_NOISE, SCORE_SHIFT, CONFIDENCE)
SHADOW: Final = Shadow(0.2, 100, timedelta(minutes=10))
#: Raised and lowered pairs among all, in each tick, by edge.
Moves = Mapping[float, tuple[int, int]]


def shadow_plan(*gates: Gate) -> Plan:
    """Return a plan with a step of shadow traffic alone, one beside 5 %, and one without."""
    steps = (
        Step(None, timedelta(minutes=1), shadow=SHADOW),
        Step(Weight(5), timedelta(minutes=1), 100, SHADOW),
        Step(Weight(50), timedelta(minutes=1), 100),
    )
    return replace(plan(ERRORS, *gates), steps=steps, comparator="davylamp-shadow:8090")


def of_candidate(*targets: Target) -> SignalReading:
    """Return what was found of pairs with the candidate."""
    return SignalReading({Variant.CANDIDATE: targets})


def arrivals(per_tick: int, ticks: int) -> SignalReading:
    """Return requests that arrived and were sampled, beside as many that were not."""
    return pair(steady((0, per_tick), ticks), steady((0, per_tick), ticks))


def moved(gate: Gate, moves: Moves, total: int, ticks: int) -> dict[str, SignalReading]:
    """Return what is read of a score; edges that are not named are crossed by no pair."""
    ways = {"raised": 0, "lowered": 1}
    return {
        name: of_candidate(steady((moves.get(edge, (0, 0))[ways[move]], total), ticks))
        for name, edge, move in moves_of(gate)
    }


def everything(ticks: int, restart: int | None = None) -> Reading:
    """Return readings for all gates; the comparator's counters begin anew after tick ``restart``."""

    def counted(events: int, total: int) -> Target:
        rows = range(ticks + 1)
        since = [tick - restart if restart is not None and tick > restart else tick for tick in rows]
        return counters(*((TICK * tick, events * n, total * n) for tick, n in zip(rows, since, strict=True)))

    moves = {name: of_candidate(counted(3, 400)) for gate in (SCORE_SHIFT, CONFIDENCE) for name, _, _ in moves_of(gate)}
    return Reading(
        {
            "errors": pair(steady((5, 500), ticks), steady((5, 500), ticks)),
            "disagreement": of_candidate(counted(4, 500)),
            "overNoise": pair(counted(1, 25), counted(4, 500)),
            **moves,
            MIRRORED: pair(counted(0, 2000), counted(0, 525)),
        }
    )
