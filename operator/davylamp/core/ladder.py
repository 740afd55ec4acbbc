"""What raises: from the first reference on the route, step by step, to the promotion."""

from dataclasses import replace
from datetime import timedelta
from typing import Final

from davylamp.core.case import Case, ended, enter, facts, hold, ruled, stay
from davylamp.core.model import (
    ALL,
    NONE,
    Decision,
    Outcome,
    Phase,
    Prepare,
    Raise,
    Reason,
    Repoint,
    RouteView,
    Ruling,
    Weight,
)

#: How long a gateway may take to accept a route before people are told.
_PATIENCE: Final = timedelta(minutes=2)


def finish_promotion(case: Case) -> Decision | None:
    """End a promoted attempt once the route points to the candidate alone."""
    route = case.world.route
    if not isinstance(route, RouteView) or not route.repointed or case.progress.ruling is not Ruling.PROMOTE:
        return None
    message = f"promoted: {case.plan.pair.candidate} serves all traffic of {case.plan.pair.route}"
    progress = replace(
        ended(case, Outcome.PROMOTED), phase=Phase.PROMOTED, reason=Reason.ALL_GATES_PASSED, message=message
    )
    return Decision(progress, None, facts(case, Reason.ALL_GATES_PASSED, message))


def prepare(case: Case) -> Decision | None:
    """Bring everything into place at weight 0, and take the first step when the baseline can be read."""
    if case.progress.step >= 0:
        return None
    pair, judgement = case.plan.pair, case.world.judgement
    for ready, name, reason in (
        (case.world.baseline_ready, pair.baseline, Reason.BASELINE_NOT_READY),
        (case.world.candidate_ready, pair.candidate, Reason.CANDIDATE_NOT_READY),
    ):
        if ready == 0:
            message = f"Service {name} has no ready endpoint: deploy it, and the rollout begins by itself"
            return stay(case, Phase.PENDING, reason, message)
    if not case.view.prepared or case.view.attempt != case.attempt or case.view.weight > NONE:
        message = f"{pair.candidate} is put beside {pair.baseline} on route {pair.route}, at weight 0"
        return stay(case, Phase.PENDING, Reason.ACCEPTED, message, action=Prepare(case.attempt))
    if not case.view.accepted:
        return _not_accepted(case, Phase.PENDING)
    if not judgement.baseline_readable:
        silent = next(iter(judgement.messages.values()), "no metrics of the baseline were read")
        return stay(case, Phase.PENDING, Reason.BASELINE_SILENT, f"the rollout would be blind: {silent}")
    return _paused(case) or _next(case)


def accept(case: Case) -> Decision | None:
    """Wait for the gateway to accept the step's weight; evidence counts from then."""
    if case.progress.accepted_at is not None and case.view.accepted:
        return None
    if not case.view.accepted:
        return _not_accepted(case, case.progress.phase)
    progress = replace(case.progress, accepted_at=case.now, baked=timedelta(0))
    message = f"the gateway has accepted {case.progress.requested}: evidence counts from now"
    phase = Phase.PROMOTING if case.progress.ruling is Ruling.PROMOTE else Phase.PROGRESSING
    return stay(replace(case, progress=progress), phase, Reason.STEP_STARTED, message)


def climb(case: Case) -> Decision | None:
    """Go on to the next step when this one has baked, has its samples, and no gate is worse than Inconclusive."""
    if not case.observed:
        return stay(case, Phase.PROGRESSING, Reason.SAMPLING, "waiting for the first requests of the candidate")
    case = replace(case, progress=replace(case.progress, hold_since=None, hold_reason=None))
    if case.world.candidate_ready == 0 or case.world.baseline_ready == 0:
        lost = case.plan.pair.baseline if case.world.baseline_ready == 0 else case.plan.pair.candidate
        return hold(case, Reason.BASELINE_NOT_READY, f"Service {lost} has no ready endpoint: the weight is held")
    if case.world.judgement.suspicious:
        strongest = "; ".join(case.world.judgement.messages.values())
        return hold(case, Reason.SUSPICION, f"evidence of a regression is half the way to its limit: {strongest}")
    return _waiting(case) or _paused(case) or _promotion(case) or _next(case)


def _waiting(case: Case) -> Decision | None:
    """Return what this step still waits for."""
    plan, progress = case.plan, case.progress
    promoting = progress.ruling is Ruling.PROMOTE
    step = None if progress.step >= len(plan.steps) else plan.steps[progress.step]
    bake = plan.promotion_bake if promoting or step is None else step.bake
    phase = Phase.PROMOTING if promoting else Phase.PROGRESSING
    if progress.baked < bake:
        text = f"{progress.requested} for {progress.baked.total_seconds():.0f} of {bake.total_seconds():.0f} s"
        if step is not None and step.weight is None:
            return stay(case, Phase.PAUSED, Reason.PAUSED_BY_STEP, f"the ladder pauses at {text}")
        return stay(case, phase, Reason.BAKING, f"baking at {text}")
    if step is not None and not promoting and case.world.judgement.samples < step.min_samples:
        text = f"{case.world.judgement.samples:,} of {step.min_samples:,} requests of each variant"
        return stay(case, phase, Reason.SAMPLING, f"{text} at {progress.requested}")
    return None


def _paused(case: Case) -> Decision | None:
    if not case.plan.paused:
        return None
    message = f"spec.paused keeps the weight from rising above {case.progress.requested}; rolling back goes on"
    return stay(case, Phase.PAUSED, Reason.PAUSED_BY_SPEC, message)


def _promotion(case: Case) -> Decision | None:
    """Return the moves at the end of the ladder: prove, promote, re-point."""
    if case.progress.ruling is Ruling.PROMOTE:
        message = f"promotion: the route points to {case.plan.pair.candidate} alone"
        return stay(case, Phase.PROMOTING, Reason.ALL_GATES_PASSED, message, action=Repoint())
    if case.progress.step < len(case.plan.steps) - 1:
        return None
    judgement = case.world.judgement
    proofs = "; ".join(judgement.messages[name] for name in sorted(judgement.required) if name in judgement.messages)
    if not judgement.proven:
        limit = case.plan.promotion_deadline
        if case.since(case.progress.entered_at) >= limit:
            hours = limit.total_seconds() / 3600
            return hold(case, Reason.DEADLINE, f"not proven to be no worse within {hours:g} h: {proofs}")
        return stay(case, Phase.PROGRESSING, Reason.PROVING, f"proving that the candidate is no worse: {proofs}")
    return _raise(case, len(case.plan.steps), ALL, f"all gates passed: {proofs}")


def _next(case: Case) -> Decision:
    step = case.progress.step + 1
    weight = case.plan.steps[step].weight
    if weight is None:
        progress = enter(case, step, case.progress.requested)
        message = f"the ladder pauses for {case.plan.steps[step].bake.total_seconds():.0f} s"
        return stay(replace(case, progress=progress), Phase.PAUSED, Reason.PAUSED_BY_STEP, message)
    message = f"step {step + 1} of {len(case.plan.steps)}: the candidate gets {weight}"
    return _raise(case, step, weight, message)


def _raise(case: Case, step: int, weight: Weight, message: str) -> Decision:
    """Return the decision to give more weight. With the weight there already, only the step changes."""
    promoting = step == len(case.plan.steps)
    reason = Reason.PROMOTION_STARTED if promoting else Reason.STEP_STARTED
    action = None if weight == case.progress.requested else Raise(case.attempt, weight)
    progress = enter(case, step, weight)
    if promoting:
        progress = ruled(replace(case, progress=progress), Ruling.PROMOTE, Reason.ALL_GATES_PASSED)
    phase = Phase.PROMOTING if promoting else Phase.PROGRESSING
    progress = replace(progress, phase=phase, reason=reason, message=message)
    return Decision(progress, action, facts(replace(case, progress=progress), reason, message))


def _not_accepted(case: Case, phase: Phase) -> Decision:
    attempt = case.progress.attempt
    waited = case.since(case.progress.entered_at or (None if attempt is None else attempt.started_at))
    message = f"the gateway has not accepted route {case.plan.pair.route}: {case.view.acceptance}"
    if waited >= _PATIENCE:
        return hold(case, Reason.ROUTE_NOT_ACCEPTED, message)
    return stay(case, phase, Reason.ROUTE_NOT_ACCEPTED, message)
