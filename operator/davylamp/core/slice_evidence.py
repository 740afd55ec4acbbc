"""Evidence on slices: one more look at what both variants decided on the same requests.

Rule 1: pairs count whenever their labels come, also after the step in which the requests were served.
Rule 2: all gates on slices advance together or not at all, since they share their counts.
Rule 3: labels that have not come yet are no trouble, and no success either: promotion waits for them.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from davylamp.core.counting import Span
from davylamp.core.evidence import Evidence, Stream, Trouble, with_trouble
from davylamp.core.model import Progress, Ruling, Variant
from davylamp.core.plan import Gate, Plan
from davylamp.core.reading import Reading
from davylamp.core.slice_gates import cursors_of, labels_counted, slice_designs, slice_ticks, sliced_of, trouble_of
from gatestats.ticks import Tick

Window = tuple[datetime, datetime]


def slicing(plan: Plan, progress: Progress) -> bool:
    """Whether slices are looked at: from the first step on, until anything is decided."""
    running = progress.attempt is not None and progress.ruling is Ruling.CONTINUE
    return running and progress.step >= 0 and bool(plan.slice_gates)


def served_as(progress: Progress) -> str:
    """Return under which name pairs of an attempt are counted; empty without an attempt.

    A slice that is sent to the baseline alone begins another count, without the requests of that slice.
    """
    if progress.attempt is None:
        return ""
    return progress.attempt.id + "+" * len(progress.diverted)


def begin_without(plan: Plan, evidence: Evidence) -> Evidence:
    """Return the evidence after a slice was sent to the baseline: all gates on slices begin anew, without it."""
    streams = dict(evidence.streams)
    for gate in plan.slice_gates:
        for name, design in slice_designs(gate, evidence.planned).items():
            streams[name] = Stream(gate.name, design, design.start())
    return replace(evidence, streams=streams, labelled=0)


def observe_slices(plan: Plan, evidence: Evidence, reading: Reading, window: Window) -> Evidence:
    """Return the evidence after a look at all slices.

    Parameters
    ----------
    plan, evidence
        What is judged, and what was seen before, the rest of this look included.
    reading
        Raw samples, those of slices among them.
    window
        Start and end of the look, (start, end], UTC.
    """
    span = Span(*window, evidence.cursors)
    gates = plan.slice_gates
    trouble = next((text for gate in gates if (text := trouble_of(gate, reading))), "")
    ticks: dict[str, Mapping[str, Tick]] = {}
    counted = 0
    if not trouble:
        try:
            ticks = {gate.name: slice_ticks(gate, reading, span) for gate in gates}
            counted = labels_counted(reading, span)
        except ValueError as unusable:
            trouble = str(unusable)
    if trouble:
        for gate in gates:
            evidence = with_trouble(evidence, gate, Trouble(trouble, Variant.CANDIDATE))
        return evidence
    streams = dict(evidence.streams)
    for name, tick in (each for found in ticks.values() for each in found.items()):
        streams[name] = replace(streams[name], state=streams[name].design.update(streams[name].state, tick))
    cursors = cursors_of(reading, span)
    return replace(evidence, streams=streams, cursors=cursors, labelled=evidence.labelled + counted)


def too_small(plan: Plan, evidence: Evidence, diverted: tuple[str, ...] = ()) -> Mapping[str, int]:
    """Return the gates whose slices have too few pairs to be judged, with how many they have.

    None of them is before enough labels have come in all: until then it is not known which slices are small.
    """
    if plan.slices is None or evidence.labelled < plan.slices.min_labels:
        return {}
    support = {gate.name: support_of(gate, evidence) for gate in watched(plan, diverted)}
    return {name: pairs for name, pairs in support.items() if pairs < plan.slices.min_support}


def support_of(gate: Gate, evidence: Evidence) -> int:
    """Return the pairs of the slice that a gate has seen; for a gate with several streams, the fewest."""
    streams = (stream for stream in evidence.streams.values() if stream.gate == gate.name)
    found = (stream.design.estimate(stream.state) for stream in streams)
    return min((0 if each is None else each.candidate_total for each in found), default=0)


def watched(plan: Plan, diverted: tuple[str, ...]) -> tuple[Gate, ...]:
    """Return the gates on slices that the candidate still serves."""
    parts = {sliced_of(gate).slice.label: set(sliced_of(gate).slice.parts) for gate in plan.slice_gates}
    gone = [parts[label] for label in diverted if label in parts]
    return tuple(
        gate for gate in plan.slice_gates if not any(part <= parts[sliced_of(gate).slice.label] for part in gone)
    )
