"""Turn raw samples into evidence: one e-process per stream, advanced tick by tick.

Rule 1: evidence is a function of the raw samples and the windows they are cut into; a replay gives the same bits.
Rule 2: windows join without gap or overlap while the weight stays; a change of weight starts a new stratum, and the
window in which it happened is dropped.
Rule 3: what cannot be counted is said, with the series' name, and changes no state.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, assert_never

from davylamp.core import method
from davylamp.core.counting import Cursors, Span, buckets_of, counted_apart, cursors_after, pods_of
from davylamp.core.latency import ENOUGH, Baseline, latency_design
from davylamp.core.method import Pods, seen_by
from davylamp.core.model import Variant
from davylamp.core.plan import (
    AbsoluteMargin,
    Direction,
    Gate,
    LimitMargin,
    OddsRatioMargin,
    Plan,
    RelativeMargin,
    SignalKind,
    SlowdownMargin,
)
from davylamp.core.reading import Reading, SignalReading
from davylamp.core.shadow_gates import shadow_designs
from davylamp.core.slice_gates import SIGNALS as SLICE_SIGNALS
from davylamp.core.slice_gates import slice_designs
from gatestats.buckets import edges_of, rebucket
from gatestats.counters import pool
from gatestats.method import Choice
from gatestats.non_inferiority import ErrorRateDesign
from gatestats.odds_ratio import OddsRatioDesign
from gatestats.pods import Spread
from gatestats.process import Process
from gatestats.rates import AbsoluteRateDesign, RelativeRateDesign
from gatestats.state import State
from gatestats.ticks import OneArmCounts, TwoArmCounts, TwoArmHistogram, Worse

#: Difference of error shares that promotion forgives when the gate does not say.
DEFAULT_ALLOWANCE: Final = 0.005

Window = tuple[datetime, datetime]


@dataclass(frozen=True, slots=True)
class Stream:
    """One e-process: its gate, its design and its state so far."""

    gate: str
    design: Process
    state: State


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a gate has no usable data at this look.

    Parameters
    ----------
    sentence
        What is missing or wrong, and what to do.
    variant
        Whose data; None if it cannot be told, or the source is the trouble.
    source
        Whether the source did not answer, or not in full.
    """

    sentence: str
    variant: Variant | None = None
    source: bool = False


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that was seen of one attempt.

    Parameters
    ----------
    as_of
        Time up to which samples are counted, UTC; None before the first look.
    streams
        By stream name.
    baselines
        The baseline's histogram of before the rollout, by latency gate, frozen when the first weight is given.
    samples
        Requests of (baseline, candidate) since the step was accepted, by gate.
    cursors
        Up to where each target is counted, see `davylamp.core.counting`.
    planned
        Looks that the plan expected when the attempt began, see `Plan.planned_looks`: another interval in mid-rollout
        changes no process that is under way. None for an open end.
    spreads
        How the baseline's pods differed before the rollout, by gate.
    methods
        Which test judges a gate, chosen when the candidate's first series are seen.
    labelled
        Requests of this attempt whose label has come, of those that both variants answered.
    mirrored_at
        End of the last look of this step in which mirrored requests had arrived, UTC; None if none have.
    troubles
        By gate, of the last look; a gate without trouble had data.
    candidate_errors, candidate_requests
        Of the last look, by the errors gate; None if unknown.
    share
        The candidate's share of the requests of the last look, 0..1; None if unknown.
    """

    as_of: datetime | None = None
    streams: Mapping[str, Stream] = field(default_factory=dict)
    baselines: Mapping[str, Baseline] = field(default_factory=dict)
    samples: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    cursors: Cursors = field(default_factory=dict)
    planned: int | None = None
    spreads: Mapping[str, Spread] = field(default_factory=dict)
    methods: Mapping[str, Choice] = field(default_factory=dict)
    mirrored_at: datetime | None = None
    labelled: int = 0
    troubles: Mapping[str, Trouble] = field(default_factory=dict)
    candidate_errors: int | None = None
    candidate_requests: int | None = None
    share: float | None = None

    def to_json(self) -> str:
        """Return the part that must survive a restart as one line of JSON."""
        return json.dumps(
            {
                "streams": {name: stream.state.to_json() for name, stream in self.streams.items()},
                "baselines": {name: baseline.to_plain() for name, baseline in self.baselines.items()},
                "samples": {name: list(counts) for name, counts in self.samples.items()},
                "cursors": dict(self.cursors),
                "planned": self.planned,
                "labelled": self.labelled,
                "mirrored_at": self.mirrored_at and self.mirrored_at.timestamp(),
                **method.to_plain(self.spreads, self.methods),
            },
            allow_nan=False,
            separators=(",", ":"),
        )


def begin(plan: Plan) -> Evidence:
    """Return the evidence of an attempt before its first look."""
    return with_streams(plan, Evidence(planned=plan.planned_looks))


def new_stratum(evidence: Evidence, as_of: datetime) -> Evidence:
    """Return the evidence after a change of weight: counting goes on at ``as_of``, samples of the step start at 0.

    Pairs by slice are counted on without a gap: they are of the same requests, whatever the weight.
    """
    cursors = {name: time for name, time in evidence.cursors.items() if name.startswith(SLICE_SIGNALS)}
    return replace(evidence, as_of=as_of, samples={}, cursors=cursors, mirrored_at=None)


def observe(plan: Plan, evidence: Evidence, reading: Reading, window: Window) -> Evidence:
    """Return the evidence after one more look.

    Parameters
    ----------
    plan, evidence
        What is judged, and what was seen before.
    reading
        Raw samples of all gates.
    window
        Start and end of the look, (start, end], UTC; the start is ``evidence.as_of`` unless a stratum was cut.
    """
    seen = replace(evidence, as_of=window[1], troubles={}, candidate_errors=None, candidate_requests=None, share=None)
    for gate in plan.live_gates:
        span = Span(*window, seen.cursors)
        signal = reading.signals.get(gate.name, SignalReading(targets={}))
        trouble = next((Trouble(text, variant) for variant, text in sorted(signal.trouble.items())), None)
        seen = _with_method(plan, seen, gate, signal)
        try:
            seen = with_trouble(seen, gate, trouble) if trouble else _look(seen, gate, signal, span)
        except ValueError as unusable:
            seen = with_trouble(seen, gate, Trouble(str(unusable)))
    return seen if seen.baselines == evidence.baselines else with_streams(plan, seen)


def learn_baseline(plan: Plan, evidence: Evidence, reading: Reading, window: Window) -> Evidence:
    """Return the evidence after a look before any traffic: only the baseline's histograms and its presence count."""
    seen = replace(evidence, as_of=window[1], troubles={})
    for gate in plan.live_gates:
        span = Span(*window, seen.cursors)
        signal = reading.signals.get(gate.name, SignalReading(targets={}))
        text = signal.trouble.get(Variant.BASELINE)
        try:
            if text:
                seen = with_trouble(seen, gate, Trouble(text, Variant.BASELINE))
            elif gate.kind is SignalKind.LATENCY:
                seen = _learn_histogram(seen, gate, signal, span)
            else:
                known = seen.spreads.get(gate.name, Spread())
                spread = method.learn_spread(known, gate, signal, Span(*window, {}), interval=plan.interval)
                seen = replace(seen, spreads={**seen.spreads, gate.name: spread})
        except ValueError as unusable:
            seen = with_trouble(seen, gate, Trouble(str(unusable), Variant.BASELINE))
    return with_streams(plan, seen)


def source_down(plan: Plan, evidence: Evidence, sentence: str) -> Evidence:
    """Return the evidence after a look that the source did not answer: nothing is known, and nothing is counted."""
    troubles = {gate.name: Trouble(sentence, source=True) for gate in plan.gates}
    return replace(evidence, troubles=troubles, candidate_errors=None, candidate_requests=None, share=None)


def designs(
    gate: Gate, baseline: Baseline | None, choice: Choice | None = None, *, looks: int | None = None
) -> Mapping[str, Process]:
    """Return the e-processes of a gate by stream name; none for a latency gate whose baseline is not known yet.

    Parameters
    ----------
    gate
        What is judged.
    baseline
        The baseline's histogram, for a latency gate.
    choice
        Which test judges a gate on counters; None if that is not known yet.
    looks
        Within which late changes are expected; None for an open end.
    """
    if gate.shadow:
        return shadow_designs(gate, looks)
    if gate.sliced is not None:
        return slice_designs(gate, looks)
    if gate.kind is SignalKind.LATENCY:
        latency = None if baseline is None else latency_design(baseline, slowdown(gate), looks)
        return {} if latency is None else {gate.name: latency.process}
    if gate.worse is Direction.EITHER:
        return {
            f"{gate.name}:{worse.value}": method.with_method(_rate_design(gate, worse, looks), choice, worse, looks)
            for worse in Worse
        }
    worse = Worse(gate.worse.value)
    return {gate.name: method.with_method(_rate_design(gate, worse, looks), choice, worse, looks)}


def slowdown(gate: Gate) -> float:
    """Return the margin of a latency gate as a ratio above 1."""
    if not isinstance(gate.margin, SlowdownMargin):
        message = f"gate {gate.name} reads latency, so its margin must be a slowdown, got {gate.margin}"
        raise ValueError(message)  # noqa: TRY004 - the value of a gate is wrong, not a caller's type
    return 1 + gate.margin.part


def _rate_design(gate: Gate, worse: Worse, looks: int | None) -> Process:
    match gate.margin:
        case OddsRatioMargin(ratio) if gate.kind is SignalKind.ERRORS:
            return ErrorRateDesign(ratio, gate.allowance or DEFAULT_ALLOWANCE, worse, planned_ticks=looks)
        case OddsRatioMargin(ratio):
            return OddsRatioDesign(ratio, worse, looks)
        case AbsoluteMargin(difference):
            return AbsoluteRateDesign(difference, worse, looks)
        case RelativeMargin(part):
            return RelativeRateDesign(part, worse, looks)
        case SlowdownMargin() | LimitMargin():
            raise ValueError(f"gate {gate.name} reads a share, so its margin cannot be a slowdown or a limit")
        case never:
            assert_never(never)


def with_streams(plan: Plan, evidence: Evidence) -> Evidence:
    """Return the evidence with one stream for each e-process of the plan; what fits to it is kept."""
    streams: dict[str, Stream] = {}
    for gate in plan.gates:
        baseline, choice = evidence.baselines.get(gate.name), evidence.methods.get(gate.name)
        made = designs(gate, baseline, choice, looks=evidence.planned)
        for name, design in made.items():
            known = evidence.streams.get(name)
            kept = known is not None and known.design == design
            streams[name] = known if known is not None and kept else Stream(gate.name, design, design.start())
    return replace(evidence, streams=streams)


def with_trouble(evidence: Evidence, gate: Gate, trouble: Trouble) -> Evidence:
    """Return the evidence with what keeps a gate from being seen at this look."""
    return replace(evidence, troubles={**evidence.troubles, gate.name: trouble})


def _with_method(plan: Plan, evidence: Evidence, gate: Gate, signal: SignalReading) -> Evidence:
    """Return the evidence with the gate's test chosen, once the candidate's first series are there."""
    if gate.kind is SignalKind.LATENCY or gate.name in evidence.methods:
        return evidence
    choice = method.choose(gate, signal, evidence.spreads.get(gate.name))
    if choice is None:
        return evidence
    return with_streams(plan, replace(evidence, methods={**evidence.methods, gate.name: choice}))


def _look(evidence: Evidence, gate: Gate, signal: SignalReading, span: Span) -> Evidence:
    if gate.kind is SignalKind.LATENCY:
        return _look_at_latency(evidence, gate, signal, span)
    pods = [pods_of(gate.name, signal, variant, span) for variant in Variant]
    apart = counted_apart(gate.name, signal, span)
    evidence = replace(evidence, cursors=cursors_after(gate.name, signal, span))
    if not any(pods):
        return evidence
    baseline, candidate = (pool(arm.values()) or OneArmCounts(0, 0) for arm in pods)
    tick = TwoArmCounts(baseline.events, baseline.total, candidate.events, candidate.total, apart=apart)
    seen = _advance(evidence, gate, tick, Pods(pods[0], pods[1], f"{gate.name}/{span.end.isoformat()}"))
    seen = _counted(seen, gate, baseline.total, candidate.total)
    if gate.kind is SignalKind.ERRORS:
        total = baseline.total + candidate.total
        share = candidate.total / total if total else None
        seen = replace(seen, candidate_errors=candidate.events, candidate_requests=candidate.total, share=share)
    return seen


def _look_at_latency(evidence: Evidence, gate: Gate, signal: SignalReading, span: Span) -> Evidence:
    arms = [buckets_of(gate.name, signal, variant, span) for variant in Variant]
    apart = counted_apart(gate.name, signal, span)
    known = evidence.baselines.get(gate.name)
    if known is None or known.total < ENOUGH:
        # What was learnt before the rollout is lost. The baseline still serves, and what it shows up to now may fix
        # the scores for what comes after.
        return _learn_histogram(evidence, gate, signal, span)
    evidence = replace(evidence, cursors=cursors_after(gate.name, signal, span))
    design = latency_design(known, slowdown(gate))
    if arms == [None, None] or design is None:
        return evidence
    baseline, candidate = (rebucket(known.edges, arm or {}) for arm in arms)
    tick = design.tick(TwoArmHistogram(known.edges, baseline, candidate, apart=apart))
    seen = _advance(evidence, gate, tick)
    return _counted(seen, gate, sum(baseline), sum(candidate))


def _learn_histogram(evidence: Evidence, gate: Gate, signal: SignalReading, span: Span) -> Evidence:
    buckets = buckets_of(gate.name, signal, Variant.BASELINE, span)
    evidence = replace(evidence, cursors=cursors_after(gate.name, signal, span))
    if not buckets or not sum(buckets.values()):
        return evidence
    known = evidence.baselines.get(gate.name)
    edges = edges_of(buckets) if known is None else known.edges
    counts = rebucket(edges, buckets)
    if known is not None:
        counts = tuple(before + now for before, now in zip(known.counts, counts, strict=True))
    return replace(evidence, baselines={**evidence.baselines, gate.name: Baseline(edges, counts)})


def _advance(
    evidence: Evidence, gate: Gate, tick: TwoArmCounts | TwoArmHistogram, pods: Pods | None = None
) -> Evidence:
    streams = {
        name: replace(stream, state=stream.design.update(stream.state, seen_by(stream.design, tick, pods)))
        if stream.gate == gate.name
        else stream
        for name, stream in evidence.streams.items()
    }
    return replace(evidence, streams=streams)


def _counted(evidence: Evidence, gate: Gate, baseline: int, candidate: int) -> Evidence:
    before = evidence.samples.get(gate.name, (0, 0))
    return replace(evidence, samples={**evidence.samples, gate.name: (before[0] + baseline, before[1] + candidate)})
