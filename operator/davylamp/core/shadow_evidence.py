"""Evidence from shadow traffic: one more look at the comparator's counters."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from davylamp.core.counting import Span, cursors_after
from davylamp.core.evidence import Evidence, Trouble, with_trouble
from davylamp.core.model import Progress, Ruling, Variant
from davylamp.core.plan import Gate, Plan
from davylamp.core.reading import Reading
from davylamp.core.shadow_gates import MIRRORED, arrived, cursors_of, shadow_ticks, trouble_of
from gatestats.ticks import OneArmCounts, PairedCounts, Tick, TwoArmCounts

Window = tuple[datetime, datetime]


def shadowing(plan: Plan, progress: Progress) -> bool:
    """Whether both variants answer mirrored requests at this step; once anything is decided, none is mirrored."""
    running = progress.attempt is not None and progress.ruling is Ruling.CONTINUE
    return running and bool(plan.comparator) and plan.shadow_at(progress.step) is not None


def new_shadow_step(plan: Plan, evidence: Evidence) -> Evidence:
    """Return the evidence at the beginning of a step that mirrors requests: its pairs are counted from 0."""
    ours = {MIRRORED, *(gate.name for gate in plan.shadow_gates)}
    samples = {name: counts for name, counts in evidence.samples.items() if name not in ours}
    return replace(evidence, samples=samples, mirrored_at=None)


def observe_shadow(plan: Plan, evidence: Evidence, reading: Reading, window: Window) -> Evidence:
    """Return the evidence after a look at shadow traffic.

    Parameters
    ----------
    plan, evidence
        What is judged, and what was seen before, the live traffic of this look included.
    reading
        Raw samples, the comparator's among them.
    window
        Start and end of the look, (start, end], UTC.
    """
    seen = evidence
    for gate in plan.shadow_gates:
        if trouble := trouble_of(gate, reading):
            seen = with_trouble(seen, gate, Trouble(trouble, Variant.CANDIDATE))
            continue
        span = Span(*window, seen.cursors)
        try:
            seen = _advanced(seen, gate, shadow_ticks(gate, reading, span))
            seen = replace(seen, cursors=cursors_of(gate, reading, span))
        except ValueError as unusable:
            seen = with_trouble(seen, gate, Trouble(str(unusable), Variant.CANDIDATE))
    return _with_arrivals(seen, reading, window)


def _advanced(evidence: Evidence, gate: Gate, ticks: Mapping[str, Tick]) -> Evidence:
    streams = dict(evidence.streams)
    for name, tick in ticks.items():
        stream = streams[name]
        streams[name] = replace(stream, state=stream.design.update(stream.state, tick))
    before = evidence.samples.get(gate.name, (0, 0))
    added = _totals(next(iter(ticks.values()), None))
    samples = {**evidence.samples, gate.name: (before[0] + added[0], before[1] + added[1])}
    return replace(evidence, streams=streams, samples=samples)


def _totals(tick: Tick | None) -> tuple[int, int]:
    match tick:
        case OneArmCounts() | PairedCounts():
            return 0, tick.total
        case TwoArmCounts():
            return tick.baseline_total, tick.candidate_total
        case _:
            return 0, 0


def _with_arrivals(evidence: Evidence, reading: Reading, window: Window) -> Evidence:
    span = Span(*window, evidence.cursors)
    before, more = evidence.samples.get(MIRRORED, (0, 0)), arrived(reading, span)
    samples = {**evidence.samples, MIRRORED: (0, before[1] + more)}
    signal = reading.signals.get(MIRRORED)
    cursors = evidence.cursors if signal is None else cursors_after(MIRRORED, signal, span)
    return replace(evidence, samples=samples, cursors=cursors, mirrored_at=window[1] if more else evidence.mirrored_at)
