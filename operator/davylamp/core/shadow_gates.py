"""Gates on shadow traffic: which e-processes judge them, and what a look counts for each.

A share is tested against its limit; disagreement also against the baseline's with itself; a score by how many pairs
cross each edge upwards and downwards, which is exact for pairs: a request's two answers are never independent.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from davylamp.core.counting import Span, cursors_after, events_of, pods_of
from davylamp.core.model import Variant
from davylamp.core.plan import AbsoluteMargin, Direction, Gate, LimitMargin, SignalKind
from davylamp.core.reading import Reading, SignalReading
from gatestats.counters import pool
from gatestats.limits import LimitDesign
from gatestats.paired import PairedDesign
from gatestats.process import Process
from gatestats.rates import AbsoluteRateDesign
from gatestats.ticks import OneArmCounts, PairedCounts, Tick, TwoArmCounts, Worse

#: The gate that every rollout with shadow traffic has, and whose pairs a step counts.
DISAGREEMENT: Final = "disagreement"
#: Requests that arrived at the comparator; read beside the gates, and judged by nobody.
MIRRORED: Final = "mirrored"

#: Edges at which the comparator counts how scores and confidences move.
SCORE_EDGES: Final = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
CONFIDENCE_EDGES: Final = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)

_RAISED: Final = "raised"
_LOWERED: Final = "lowered"


def edge_text(edge: float) -> str:
    """Return an edge of a score as names and labels have it."""
    return f"{edge:g}"


def moves_of(gate: Gate) -> tuple[tuple[str, float, str], ...]:
    """Return the moves of a score over each edge: the name under which they are read, the edge, raised or lowered."""
    return tuple((_move(gate, edge, move), edge, move) for edge in gate.edges for move in (_RAISED, _LOWERED))


def signal_names(gate: Gate) -> tuple[str, ...]:
    """Return the names under which what a gate looks at is read."""
    return tuple(name for name, _, _ in moves_of(gate)) if gate.kind is SignalKind.SHADOW_MOVES else (gate.name,)


def _move(gate: Gate, edge: float, move: str) -> str:
    return f"{gate.name}@{edge_text(edge)}:{move}"


def shadow_designs(gate: Gate, looks: int | None) -> Mapping[str, Process]:
    """Return the e-processes of a gate on shadow traffic by stream name.

    Raises
    ------
    ValueError
        If its margin is not of the gate's kind.
    """
    match gate.kind, gate.margin:
        case SignalKind.SHADOW_SHARE, LimitMargin(share):
            return {gate.name: LimitDesign(share, Worse.HIGHER, looks)}
        case SignalKind.SHADOW_NOISE, AbsoluteMargin(difference):
            return {gate.name: AbsoluteRateDesign(difference, Worse.HIGHER, looks)}
        case SignalKind.SHADOW_MOVES, AbsoluteMargin(difference):
            return {name: PairedDesign(difference, looks) for name, _, _ in _streams(gate)}
        case _:
            raise ValueError(f"gate {gate.name} is of kind {gate.kind}, which has no margin such as {gate.margin}")


def shadow_ticks(gate: Gate, reading: Reading, span: Span) -> Mapping[str, Tick]:
    """Return what each stream of a gate takes of one look; none if no sample lies in it.

    Raises
    ------
    ValueError
        If the comparator's series are missing or cannot be counted.
    """
    if gate.kind is SignalKind.SHADOW_MOVES:
        return _paired_ticks(gate, reading, span)
    signal = _signal(reading, gate.name)
    candidate = events_of(gate.name, signal, Variant.CANDIDATE, span)
    if candidate is None:
        return {}
    if gate.kind is SignalKind.SHADOW_SHARE:
        return {gate.name: candidate}
    baseline = pool(pods_of(gate.name, signal, Variant.BASELINE, span).values()) or OneArmCounts(0, 0)
    return {gate.name: TwoArmCounts(baseline.events, baseline.total, candidate.events, candidate.total)}


def cursors_of(gate: Gate, reading: Reading, span: Span) -> Mapping[str, float]:
    """Return up to where each target is counted after a look at a gate."""
    after = span.cursors
    for name in signal_names(gate):
        after = cursors_after(name, _signal(reading, name), Span(span.start, span.end, after))
    return after


def trouble_of(gate: Gate, reading: Reading) -> str:
    """Return why the comparator's samples for a gate cannot be used; empty if they can."""
    needed = Variant if gate.kind is SignalKind.SHADOW_NOISE else (Variant.CANDIDATE,)
    troubles = (_signal(reading, name).trouble.get(variant, "") for name in signal_names(gate) for variant in needed)
    return next((text for text in troubles if text), "")


def arrived(reading: Reading, span: Span) -> int:
    """Return how many mirrored requests have arrived and were sampled, >= 0; 0 if that cannot be told."""
    try:
        counts = events_of(MIRRORED, _signal(reading, MIRRORED), Variant.CANDIDATE, span)
    except ValueError:
        return 0
    return 0 if counts is None else counts.total


def _signal(reading: Reading, name: str) -> SignalReading:
    return reading.signals.get(name, SignalReading(targets={}))


def _streams(gate: Gate) -> Iterator[tuple[str, float, Worse]]:
    """Yield each stream of a score: its name, its edge, and the way in which the score moves when it is worse."""
    ways = {Direction.HIGHER: (Worse.HIGHER,), Direction.LOWER: (Worse.LOWER,), Direction.EITHER: tuple(Worse)}
    for edge in gate.edges:
        for worse in ways[gate.worse]:
            yield f"{gate.name}@{edge_text(edge)}:{worse.value}", edge, worse


def _paired_ticks(gate: Gate, reading: Reading, span: Span) -> Mapping[str, Tick]:
    ticks: dict[str, Tick] = {}
    for name, edge, worse in _streams(gate):
        moves = [_move(gate, edge, move) for move in (_RAISED, _LOWERED)]
        raised, lowered = (events_of(move, _signal(reading, move), Variant.CANDIDATE, span) for move in moves)
        if raised is None or lowered is None:
            continue
        if raised.total != lowered.total:
            raise ValueError(f"{gate.name}: {raised.total} and {lowered.total} pairs were counted for edge {edge:g}")
        up, down = raised.events, lowered.events
        ticks[name] = PairedCounts(*((up, down) if worse is Worse.HIGHER else (down, up)), raised.total)
    return ticks
