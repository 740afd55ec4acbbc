"""Shadow traffic: the mirror on the route, and what a step of shadow traffic alone waits for.

Rule 1: a shadow step gives the candidate no live request; it can only keep it from getting any.
Rule 2: a mirror from which nothing arrives shows nothing: the step is never passed in silence.
"""

from datetime import timedelta
from typing import Final

from davylamp.core.case import Case, hold, stay
from davylamp.core.interference import contest
from davylamp.core.model import NONE, Phase, Reason, Verdict
from davylamp.core.moves import Decision, Mirror
from davylamp.core.plan import Shadow
from davylamp.core.world import Extent

#: How long the first mirrored request may take before people are told that none comes.
_PATIENCE: Final = timedelta(minutes=2)
#: How long none may come later, before people are told: a service may be quiet for a while.
_LULL: Final = timedelta(minutes=10)
#: What else shows how two variants differ where a gateway cannot mirror.
ALTERNATIVE: Final = (
    "use a gateway that supports HTTPRouteRequestMirror, or take the shadow step out and compare recorded requests "
    "with `davylamp diff`"
)


def mirror(case: Case) -> Decision | None:
    """Put the mirror on the route where the step asks for it, and take it off where it does not."""
    view, wanted = case.view, case.mirror
    if wanted and case.world.comparator_user:
        return taken(case, Mirror(case.attempt, "") if view.mirror else None)
    on = view.mirror == wanted and view.mirroring is (Extent.ALL if wanted else Extent.NONE)
    if case.progress.step < 0 or on:
        return None
    if not wanted:
        message = f"requests are no longer mirrored to {view.mirror}"
        return stay(case, case.climbing, Reason.STEP_STARTED, message, action=Mirror(case.attempt, ""))
    if case.world.comparator_ready == 0:
        message = (
            f"the comparator, Service {wanted}, has no ready endpoint: install it in this namespace (the chart's value "
            "comparator.enabled), and the step begins by itself"
        )
        return hold(case, Reason.COMPARATOR_NOT_READY, message)
    if view.mirror == wanted:
        return _removed(case, view.editor or "somebody else")
    message = (
        f"requests are mirrored to {wanted}: {case.pair.candidate} and {case.pair.baseline} answer a share of them"
    )
    return stay(case, case.climbing, Reason.SHADOWING, message, action=Mirror(case.attempt, wanted))


def _removed(case: Case, who: str) -> Decision:
    """Respect that somebody took the mirror off; put it back where only some rules are without, as a new one may be."""
    if case.view.mirroring is Extent.NONE:
        message = (
            f"{who} took the mirror to {case.mirror} off route {case.pair.route}: put it back, or take the shadow step "
            "out of the ModelRollout"
        )
        return hold(case, Reason.MIRROR_REMOVED, message)
    undone = f"{who} left a rule of route {case.pair.route} without the mirror to {case.mirror}"
    return contest(case, Reason.MIRROR_REMOVED, undone, Mirror(case.attempt, case.mirror))


def taken(case: Case, action: Mirror | None = None) -> Decision:
    """Hold while the port of the comparator belongs to another rollout, whose pairs these requests would become."""
    message = (
        f"{case.plan.comparator} is used by ModelRollout {case.world.comparator_user}, and a port belongs to one "
        "rollout: wait for its end, or set spec.shadow.comparator.port to another port of the comparator"
    )
    return hold(case, Reason.COMPARATOR_TAKEN, message, action=action)


def begin(case: Case) -> Decision:
    """Begin a step of shadow traffic alone, with its mirror in the same look if somebody listens."""
    step, steps = case.progress.step, len(case.plan.steps)
    shadow, put_on = case.plan.shadow_alone(step), mirror(case)
    share = 0.0 if shadow is None else 100 * shadow.sample
    message = f"step {step + 1} of {steps}: in the shadow, both variants answer {share:.4g} % of the requests"
    action = None if put_on is None else put_on.action
    return stay(case, Phase.PROGRESSING, Reason.SHADOWING, message, action=action, tell=True)


def waiting(case: Case) -> Decision | None:
    """Return what a step still waits for on shadow traffic; None if it waits for nothing, or mirrors nothing."""
    shadow = case.plan.shadow_at(case.progress.step)
    if shadow is None or not case.mirror:
        return None
    alone = case.plan.shadow_alone(case.progress.step) is not None
    judgement, asked = case.world.judgement, case.progress.requested
    if alone and judgement.shadow_verdict in {Verdict.NO_DATA, Verdict.SOURCE_DOWN} and asked == NONE:
        # What cannot be read does not say that nothing arrives.
        return _unobserved(case, shadow)
    if judgement.pairs < shadow.min_pairs:
        reason, message = Reason.SAMPLING, _pairs(case, shadow)
    elif case.plan.proves_shadow(case.progress.step) and not judgement.shadow_proven:
        reason, message = Reason.PROVING, f"proving on shadow traffic that the candidate is no worse: {_proofs(case)}"
    else:
        return None
    return _late(case, shadow) or _silent(case) or stay(case, case.climbing, reason, message)


def _silent(case: Case) -> Decision | None:
    """Hold, and tell people, when no mirrored request arrives any more; without traffic the first takes as long."""
    judgement, quiet = case.world.judgement, _watched(case)
    if judgement.mirrored_at is not None:
        quiet = min(quiet, case.since(judgement.mirrored_at))
    patience = _LULL if judgement.mirrored else _PATIENCE
    if quiet < patience:
        return None
    message = (
        f"{case.mirror} has had no mirrored request to replay for {_minutes(patience)}: either the route has no "
        "traffic, or none on the paths of spec.shadow (its davylamp_shadow_requests_total says so), or the gateway "
        f"does not mirror; {ALTERNATIVE}"
    )
    return hold(case, Reason.MIRROR_SILENT, message)


def _watched(case: Case) -> timedelta:
    """Return how long the mirror of this step has been looked at; its weight may have been accepted steps before."""
    return min(case.since(case.progress.accepted_at), case.since(case.progress.entered_at))


def _unobserved(case: Case, shadow: Shadow) -> Decision:
    """Wait for the comparator's metrics: they come with its first scrape, and then their absence is told."""
    judgement = case.world.judgement
    missing = [
        judgement.messages.get(name, f"{name} was not read")
        for name in sorted(judgement.shadow)
        if judgement.verdicts.get(name) in {Verdict.NO_DATA, Verdict.SOURCE_DOWN}
    ]
    message = f"the comparator's metrics are awaited: {missing[0] if missing else 'no gate was read'}"
    if _watched(case) < _PATIENCE:
        return stay(case, Phase.PROGRESSING, Reason.SAMPLING, message)
    down = judgement.shadow_verdict is Verdict.SOURCE_DOWN
    return _late(case, shadow) or hold(case, Reason.SOURCE_DOWN if down else Reason.NO_DATA, message)


def _late(case: Case, shadow: Shadow) -> Decision | None:
    """Hold, and tell people, when a step has waited for shadow traffic as long as it may."""
    if case.since(case.progress.entered_at) < shadow.max_duration:
        return None
    message = (
        f"not shown on shadow traffic to be no worse within {_minutes(shadow.max_duration)} "
        f"({_pairs(case, shadow)}): {_proofs(case)}"
    )
    return hold(case, Reason.DEADLINE, message)


def _pairs(case: Case, shadow: Shadow) -> str:
    return f"{case.world.judgement.pairs:,} of {shadow.min_pairs:,} shadow pairs"


def _proofs(case: Case) -> str:
    judgement = case.world.judgement
    names = sorted(judgement.shadow & judgement.required) or sorted(judgement.shadow)
    open_ones = [name for name in names if judgement.verdicts.get(name) is not Verdict.NON_INFERIOR]
    return "; ".join(judgement.messages.get(name, f"{name} was not read") for name in open_ones or names)


def _minutes(span: timedelta) -> str:
    return f"{span.total_seconds() / 60:g} min"
