"""Turn evidence into a verdict per gate.

Rule 1: rollback is decided on one weighted mean over all streams, so that the false rollback rate holds for the whole
rollout: every gate, direction and look together, under any dependence.
Rule 2: promotion is decided gate by gate; absence of an alarm is never evidence.
Rule 3: a gate without data says so; it is neither good nor bad.
"""

from collections.abc import Mapping

from davylamp.core.evidence import Evidence, Stream
from davylamp.core.latency import ENOUGH
from davylamp.core.model import Variant
from davylamp.core.plan import Plan, SignalKind
from davylamp.core.report import GateReport, Limits, baseline_total, report
from davylamp.core.shadow_gates import DISAGREEMENT, MIRRORED
from davylamp.core.slice_evidence import too_small, watched
from davylamp.core.slices import WHOLE
from davylamp.core.world import Judgement
from gatestats.combine import culprits, log_threshold, weighted_mean


def limits(plan: Plan, attempts: int, diverted: int = 0) -> Limits:
    """Return the thresholds.

    A candidate that is tried again pays for promotion with half the budget each time. Where slices can be sent to the
    baseline alone, the rate of false rollbacks is spent in halves, one on each of what may follow one another.

    Parameters
    ----------
    plan
        Rates.
    attempts
        Earlier attempts with the same candidate, >= 0.
    diverted
        Slices that were sent to the baseline, >= 0.
    """
    promotion = plan.false_promotion_rate / 2.0 ** min(attempts, 32)
    halvings = min(diverted + 1, 32) if plan.slices is not None and plan.slices.diversions else 0
    return Limits(log_threshold(plan.false_rollback_rate / 2.0**halvings), log_threshold(promotion))


def judge(
    plan: Plan, evidence: Evidence, attempts: int = 0, diverted: tuple[str, ...] = ()
) -> tuple[Judgement, tuple[GateReport, ...]]:
    """Return what the gates say, for the decision and for people.

    Parameters
    ----------
    plan
        Gates and rates.
    evidence
        What was seen.
    attempts
        Earlier attempts with the same candidate, >= 0.
    diverted
        Labels of the slices that the candidate serves no more; their gates are not judged.
    """
    thresholds = limits(plan, attempts, len(diverted))
    slices = {gate.name for gate in plan.slice_gates}
    away = slices - {gate.name for gate in watched(plan, diverted)}
    streams = {name: stream for name, stream in evidence.streams.items() if stream.gate not in away}
    log_e = {name: stream.design.log_e(stream.state) for name, stream in streams.items()}
    weights = stream_weights(plan, evidence.streams)
    mean = _mean(streams, log_e, weights)
    suspects = _suspects(streams, log_e, min(mean, thresholds.rollback)) if mean >= thresholds.rollback / 2 else ()
    guilty = suspects if mean >= thresholds.rollback else ()
    reports = tuple(
        report(gate, evidence, Limits(thresholds.rollback, thresholds.promotion, weights), gate.name in guilty)
        for gate in plan.gates
        if gate.name not in away
    )
    small = too_small(plan, evidence, diverted)
    others = {name: stream for name, stream in streams.items() if stream.gate not in slices}
    slices_alone = _mean(others, log_e, weights) < thresholds.rollback
    judgement = Judgement(
        verdicts={each.name: each.verdict for each in reports},
        required=frozenset(each.name for each in reports if each.required and each.name not in small),
        log_evidence=mean,
        log_threshold=thresholds.rollback,
        culprits=suspects,
        messages={each.name: each.sentence for each in reports},
        samples=_least_samples(plan, evidence),
        candidate_errors=evidence.candidate_errors,
        candidate_requests=evidence.candidate_requests,
        baseline_readable=_baseline_readable(plan, evidence),
        shadow=frozenset(gate.name for gate in plan.shadow_gates),
        pairs=evidence.samples.get(DISAGREEMENT, (0, 0))[1],
        mirrored=evidence.samples.get(MIRRORED, (0, 0))[1],
        mirrored_at=evidence.mirrored_at,
        small=small,
        regressed_slices=regressed_slices(plan, guilty) if slices_alone else (),
    )
    return judgement, reports


def _mean(streams: Mapping[str, Stream], log_e: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """Return the evidence of some streams together, by the weights that they have among all."""
    if not streams:
        return 0.0
    return weighted_mean({name: log_e[name] for name in streams}, {name: weights[name] for name in streams})


def stream_weights(plan: Plan, streams: Mapping[str, Stream]) -> dict[str, float]:
    """Return the weight of each stream: the same for every gate of the plan, shared by the gate's directions.

    All gates on slices have half of the weight together, however many there are. Weights are fixed before any evidence:
    a gate whose stream does not exist keeps its weight and leaves it unused.
    """
    sliced, others = len(plan.slice_gates), len(plan.gates) - len(plan.slice_gates)
    share = 1.0 if not sliced or not others else 0.5
    count = {gate.name: sum(stream.gate == gate.name for stream in streams.values()) for gate in plan.gates}
    gates = {gate.name: share / (others if gate.sliced is None else sliced) for gate in plan.gates}
    return {name: gates[stream.gate] / count[stream.gate] for name, stream in streams.items()}


def regressed_slices(plan: Plan, guilty: tuple[str, ...]) -> tuple[str, ...]:
    """Return the slices whose going back to the baseline takes back all that has regressed; empty if there are none.

    Everybody's rates fall with those of a slice, and are counted anew without it.
    """
    if plan.slices is None or not guilty:
        return ()
    blamed = [gate.sliced.slice if gate.sliced else None for gate in plan.gates if gate.name in guilty]
    if None in blamed:
        return ()
    found = {each.label: set(each.parts) for each in blamed if each is not None and each.label != WHOLE}
    seen = {label for label in found if label in plan.slices.diversions}
    covered = all(any(found[label] <= parts for label in seen) for parts in found.values())
    return tuple(sorted(seen)) if covered else ()


def _suspects(streams: Mapping[str, Stream], log_e: Mapping[str, float], reached: float) -> tuple[str, ...]:
    """Return the gates that a closed test names at the evidence reached; at least that of the strongest stream."""
    closed = culprits(log_e)
    order = sorted(log_e, key=lambda name: -log_e[name])
    named = [name for name in order if closed[name] >= reached] or order[:1]
    return tuple(dict.fromkeys(streams[name].gate for name in named))


def _least_samples(plan: Plan, evidence: Evidence) -> int:
    """Return the requests at this step of the variant that has served fewer, by the gates that count requests."""
    counted = [min(evidence.samples.get(gate.name, (0, 0))) for gate in plan.gates if gate.kind is SignalKind.ERRORS]
    live = (min(evidence.samples.get(gate.name, (0, 0))) for gate in plan.live_gates)
    return min(counted, default=min(live, default=0))


def _baseline_readable(plan: Plan, evidence: Evidence) -> bool:
    troubled = [t for t in evidence.troubles.values() if t.variant is not Variant.CANDIDATE]
    ready = [
        gate.kind is not SignalKind.LATENCY or baseline_total(evidence, gate.name) >= ENOUGH for gate in plan.gates
    ]
    return evidence.as_of is not None and not troubled and all(ready)
