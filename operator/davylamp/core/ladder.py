"""What raises: from the first reference on the route, step by step, to the promotion."""

from dataclasses import replace
from datetime import timedelta
from typing import Final

from davylamp.core.attempts import quarantined
from davylamp.core.case import Case, ended, enter, facts, hold, ruled, stay
from davylamp.core.interference import put_beside
from davylamp.core.model import ALL, NONE, Outcome, Phase, Reason, Ruling, Verdict, Weight
from davylamp.core.moves import Decision, Raise, Repoint
from davylamp.core.shadowing import begin, taken, waiting
from davylamp.core.slicing import remark, unfinished
from davylamp.core.world import RouteView

#: How long a gateway may take to accept a route before people are told.
_PATIENCE: Final = timedelta(minutes=2)


def finish_promotion(case: Case) -> Decision | None:
    """End a promoted attempt once the route points to the candidate alone and carries no marks."""
    route = case.world.route
    promoting = case.progress.ruling is Ruling.PROMOTE
    if not isinstance(route, RouteView) or not promoting or not route.repointed:
        return None
    if route.marked and route.attempt is None and route.mirror:
        # Somebody has put back the mirror of a route that was ours: it is taken off, and the promotion stands.
        message = f"requests are no longer mirrored to {route.mirror}"
        return stay(case, Phase.PROMOTING, Reason.ALL_GATES_PASSED, message, action=Repoint())
    if route.marked:
        return None
    message = f"promoted: {case.pair.candidate} serves all traffic of {case.pair.route}{remark(case)}"
    progress = replace(
        ended(case, Outcome.PROMOTED), phase=Phase.PROMOTED, reason=Reason.ALL_GATES_PASSED, message=message
    )
    return Decision(progress, None, facts(case, Reason.ALL_GATES_PASSED, message))


def prepare(case: Case) -> Decision | None:
    """Bring everything into place at weight 0, and take the first step when the baseline can be read."""
    if case.progress.step >= 0:
        return None
    pair = case.pair
    if held := quarantined(case, case.plan.candidate_digest):
        return held
    for ready, name, reason in (
        (case.world.baseline_ready, pair.baseline, Reason.BASELINE_NOT_READY),
        (case.world.candidate_ready, pair.candidate, Reason.CANDIDATE_NOT_READY),
    ):
        lowers = case.view.weight > NONE and case.world.baseline_ready > 0
        if ready == 0 and not lowers:
            message = f"Service {name} has no ready endpoint: deploy it, and the rollout begins by itself"
            return stay(case, Phase.PENDING, reason, message)
    if not case.view.prepared or case.view.attempt != case.attempt or case.view.weight > NONE:
        message = f"{pair.candidate} is put beside {pair.baseline} on route {pair.route}, at weight 0"
        return stay(case, Phase.PENDING, Reason.ACCEPTED, message, action=put_beside(case))
    if not case.view.accepted:
        return _not_accepted(case, Phase.PENDING)
    return _freed(_suspected(case) or _paused(case) or _next(case))


def _blind(case: Case) -> Decision | None:
    """Stay at weight 0 while the baseline's metrics cannot be read; those of the candidate come with its traffic."""
    judgement = case.world.judgement
    if judgement.baseline_readable and judgement.verdict is not Verdict.SOURCE_DOWN:
        return None
    silent = next(iter(judgement.messages.values()), "no metrics of the baseline were read")
    return stay(case, Phase.PENDING, Reason.BASELINE_SILENT, f"the rollout would be blind: {silent}")


def _suspected(case: Case) -> Decision | None:
    judgement = case.world.judgement
    if not judgement.suspicious:
        return None
    strongest = "; ".join(judgement.messages[name] for name in judgement.culprits if name in judgement.messages)
    return hold(case, Reason.SUSPICION, f"evidence of a regression is half the way to its limit: {strongest}")


def accept(case: Case) -> Decision | None:
    """Wait for the gateway to accept the step's weight; evidence counts from then."""
    if case.progress.accepted_at is not None and case.view.accepted:
        return None
    if not case.view.accepted:
        return _not_accepted(case, case.progress.phase)
    progress = replace(case.progress, accepted_at=case.now, baked=timedelta(0))
    message = f"the gateway has accepted {case.progress.requested}: evidence counts from now"
    return stay(replace(case, progress=progress), case.climbing, Reason.STEP_STARTED, message)


def climb(case: Case) -> Decision | None:
    """Go on to the next step when this one has baked, has its samples, and no gate is worse than Inconclusive."""
    if not case.observed and case.progress.requested > NONE:
        return stay(case, case.climbing, Reason.SAMPLING, "waiting for the first requests of the candidate")
    for ready, name, reason in (
        (case.world.baseline_ready, case.pair.baseline, Reason.BASELINE_NOT_READY),
        (case.world.candidate_ready, case.pair.candidate, Reason.CANDIDATE_NOT_READY),
    ):
        if ready == 0:
            return hold(case, reason, f"Service {name} has no ready endpoint: the weight is held")
    holds = _suspected(case) or _waiting(case) or waiting(case) or _paused(case)
    return _freed(holds or _promotion(case) or _next(case))


def _freed(decision: Decision) -> Decision:
    """Return the decision with the clock of a hold stopped, unless the weight is held still."""
    if decision.progress.phase is Phase.HELD:
        return decision
    return replace(decision, progress=replace(decision.progress, hold_since=None, hold_reason=None))


def _waiting(case: Case) -> Decision | None:
    """Return what this step still waits for."""
    plan, progress, phase = case.plan, case.progress, case.climbing
    step = None if progress.step >= len(plan.steps) else plan.steps[progress.step]
    bake = plan.promotion_bake if step is None else step.bake
    if progress.baked < bake:
        text = f"{progress.requested} for {progress.baked.total_seconds():.0f} of {bake.total_seconds():.0f} s"
        if step is not None and step.weight is None and step.shadow is None:
            return stay(case, Phase.PAUSED, Reason.PAUSED_BY_STEP, f"the ladder pauses at {text}")
        return stay(case, phase, Reason.BAKING, f"baking at {text}")
    needed = 0 if step is None else plan.samples_at(progress.step)
    if case.world.judgement.samples < needed:
        text = f"{case.world.judgement.samples:,} of {needed:,} requests of each variant"
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
        message = f"promotion: the route points to {case.pair.candidate} alone"
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
    if waits := unfinished(case):
        return waits
    return _raise(case, len(case.plan.steps), ALL, f"all gates passed{remark(case)}: {proofs}")


def _next(case: Case) -> Decision:
    step = case.progress.step + 1
    weight = case.plan.steps[step].weight
    if case.plan.comparator and case.plan.shadow_at(step) is not None and case.world.comparator_user:
        return taken(case)
    if weight is None:
        progress = enter(case, step, case.progress.requested)
        if case.plan.steps[step].shadow is not None:
            return begin(replace(case, progress=progress))
        message = f"the ladder pauses for {case.plan.steps[step].bake.total_seconds():.0f} s"
        return stay(replace(case, progress=progress), Phase.PAUSED, Reason.PAUSED_BY_STEP, message)
    message = f"step {step + 1} of {len(case.plan.steps)}: the candidate gets {weight}"
    if case.progress.requested == NONE and (blind := _blind(case)):
        return blind
    return _raise(case, step, weight, message)


def _raise(case: Case, step: int, weight: Weight, message: str) -> Decision:
    """Return the decision to give more weight. With the weight there already, only the step changes."""
    promoting = step == len(case.plan.steps)
    reason = Reason.PROMOTION_STARTED if promoting else Reason.STEP_STARTED
    unmirror = bool(case.view.mirror) and (promoting or case.plan.shadow_at(step) is None)
    action = None if weight == case.progress.requested else Raise(case.attempt, weight, unmirror)
    progress = enter(case, step, weight)
    if promoting:
        progress = ruled(replace(case, progress=progress), Ruling.PROMOTE, Reason.ALL_GATES_PASSED)
    phase = Phase.PROMOTING if promoting else Phase.PROGRESSING
    progress = replace(progress, phase=phase, reason=reason, message=message)
    return Decision(progress, action, facts(replace(case, progress=progress), reason, message))


def _not_accepted(case: Case, phase: Phase) -> Decision:
    """Wait for the gateway; a person is told after a while."""
    known = case.progress.hold_reason is Reason.ROUTE_NOT_ACCEPTED
    since = (case.progress.hold_since if known else None) or case.now
    message = f"the gateway has not accepted route {case.pair.route}: {case.view.acceptance}"
    progress = replace(case.progress, hold_since=since, hold_reason=Reason.ROUTE_NOT_ACCEPTED)
    waited = case.since(since) >= _PATIENCE
    case = replace(case, progress=progress)
    return stay(case, Phase.HELD if waited else phase, Reason.ROUTE_NOT_ACCEPTED, message, tell=waited)
