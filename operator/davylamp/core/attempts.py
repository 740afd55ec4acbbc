"""Attempts: when one begins, and when another must."""

from dataclasses import replace

from davylamp.core.case import Case, ended, facts, stay
from davylamp.core.model import (
    Attempt,
    Decision,
    Outcome,
    Phase,
    Progress,
    Reason,
    Restore,
    RouteView,
    Ruling,
)


def rest(case: Case) -> Decision | None:
    """Stay at the end of an attempt, until the spec or the candidate changes and no quarantine speaks against it."""
    if not case.progress.ended:
        return None
    if not _another(case):
        return Decision(case.progress)
    digest = case.plan.candidate_digest
    kept = next((q for q in case.progress.quarantine if q.digest == digest and q.until > case.now), None)
    if kept is None:
        return _new_attempt(case)
    message = (
        f"this candidate was rolled back ({kept.reason}) and stays in quarantine until {kept.until:%Y-%m-%d %H:%M:%S} "
        "UTC: deploy another candidate and change candidate.model.digest, or wait"
    )
    return stay(case, Phase.HELD, Reason.QUARANTINED, message, tell=True)


def supersede(case: Case) -> Decision | None:
    """Give the route back when the spec or the candidate has changed in mid-rollout, then begin a new attempt."""
    if case.progress.attempt is None or not _another(case):
        return None
    route = case.world.route
    if isinstance(route, RouteView) and (route.prepared or route.weight.percent):
        message = "the spec or the candidate changed: traffic goes back to the baseline, then a new attempt begins"
        progress = replace(case.progress, accepted_at=None)
        return stay(
            replace(case, progress=progress), Phase.PENDING, Reason.SUPERSEDED, message, action=Restore(), tell=True
        )
    past = replace(case.progress, ruling_reason=Reason.SUPERSEDED)
    return _new_attempt(replace(case, progress=ended(replace(case, progress=past), Outcome.SUPERSEDED)))


def start(case: Case) -> Decision | None:
    """Begin the first attempt."""
    return _new_attempt(case) if case.progress.attempt is None else None


def _another(case: Case) -> bool:
    attempt = case.progress.attempt
    plan = case.plan
    return attempt is not None and (attempt.spec_hash, attempt.candidate_digest, attempt.pair) != (
        plan.spec_hash,
        plan.candidate_digest,
        plan.pair,
    )


def _new_attempt(case: Case) -> Decision:
    before = case.progress.attempt
    number = 1 if before is None else before.number + 1
    attempt = Attempt(
        id=f"{case.world.uid[:8]}-{number}",
        number=number,
        candidate_digest=case.plan.candidate_digest,
        spec_hash=case.plan.spec_hash,
        started_at=case.now,
        pair=case.plan.pair,
    )
    message = f"attempt {number} begins: {attempt.pair.candidate} beside {attempt.pair.baseline}"
    progress = Progress(
        attempt=attempt,
        phase=Phase.PENDING,
        reason=Reason.ACCEPTED,
        message=message,
        ruling=Ruling.CONTINUE,
        ticked_at=case.now,
        quarantine=case.progress.quarantine,
        history=case.progress.history,
    )
    return Decision(progress, None, facts(replace(case, progress=progress), Reason.ACCEPTED, message))
