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
from davylamp.core.world import Judgement
from gatestats.combine import culprits, log_threshold, weighted_mean


def limits(plan: Plan, attempts: int) -> Limits:
    """Return the thresholds; a candidate that is tried again pays for promotion with half the budget each time.

    Parameters
    ----------
    plan
        Rates.
    attempts
        Earlier attempts with the same candidate, >= 0.
    """
    promotion = plan.false_promotion_rate / 2.0 ** min(attempts, 32)
    return Limits(log_threshold(plan.false_rollback_rate), log_threshold(promotion))


def judge(plan: Plan, evidence: Evidence, attempts: int = 0) -> tuple[Judgement, tuple[GateReport, ...]]:
    """Return what the gates say, for the decision and for people.

    Parameters
    ----------
    plan
        Gates and rates.
    evidence
        What was seen.
    attempts
        Earlier attempts with the same candidate, >= 0.
    """
    thresholds = limits(plan, attempts)
    log_e = {name: stream.design.log_e(stream.state) for name, stream in evidence.streams.items()}
    weights = stream_weights(plan, evidence.streams)
    mean = weighted_mean(log_e, weights) if log_e else 0.0
    reached = min(mean, thresholds.rollback)
    suspects = _suspects(evidence.streams, log_e, reached) if mean >= thresholds.rollback / 2 else ()
    guilty = suspects if mean >= thresholds.rollback else ()
    reports = tuple(
        report(gate, evidence, Limits(thresholds.rollback, thresholds.promotion, weights), gate.name in guilty)
        for gate in plan.gates
    )
    judgement = Judgement(
        verdicts={each.name: each.verdict for each in reports},
        required=frozenset(gate.name for gate in plan.gates if gate.required),
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
    )
    return judgement, reports


def stream_weights(plan: Plan, streams: Mapping[str, Stream]) -> dict[str, float]:
    """Return the weight of each stream: the same for every gate of the plan, shared by the gate's directions.

    Weights are fixed before any evidence: a gate whose stream does not exist keeps its weight and leaves it unused.
    """
    count = {gate.name: sum(stream.gate == gate.name for stream in streams.values()) for gate in plan.gates}
    return {name: 1 / len(plan.gates) / count[stream.gate] for name, stream in streams.items()}


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
