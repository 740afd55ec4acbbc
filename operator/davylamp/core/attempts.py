"""Attempts: when one begins, and when another must."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from davylamp.core.case import Case, ended, facts, stay, unruled
from davylamp.core.model import (
    ALL,
    NONE,
    Attempt,
    Outcome,
    PastAttempt,
    Phase,
    Progress,
    Quarantine,
    Reason,
    Ruling,
)
from davylamp.core.moves import Decision, Lower, Repoint, Restore
from davylamp.core.world import RouteView


def rest(case: Case) -> Decision | None:
    """Stay at the end of an attempt, until the spec or the candidate changes and no quarantine speaks against it.

    What a late write of a former leader leaves on the route is taken off again.
    """
    past = _end(case.progress)
    if past is None:
        return None
    if past.outcome is Outcome.SUPERSEDED or _another(case):
        return _begin(case)
    phase = Phase.PROMOTED if past.outcome is Outcome.PROMOTED else Phase.ROLLED_BACK
    view = case.world.route
    if isinstance(view, RouteView) and view.attempt == case.attempt:
        return stay(case, phase, case.progress.reason, case.progress.message, action=tidying(case, view))
    if case.progress.phase is phase:
        return Decision(case.progress)
    reason = case.progress.ruling_reason or Reason.ACCEPTED
    return stay(case, phase, reason, f"attempt {case.attempt} ended: {past.outcome.value} ({past.reason})")


def tidying(case: Case, view: RouteView) -> Repoint | Restore:
    """Return what takes marks off a route whose attempt is over: all traffic of a promoted candidate stays."""
    past = _end(case.progress)
    promoted = past is not None and past.outcome is Outcome.PROMOTED
    return Repoint() if view.repointed or (promoted and view.weight == ALL) else Restore()


def supersede(case: Case) -> Decision | None:
    """Give the route back when the spec or the candidate has changed in mid-rollout, then begin a new attempt.

    Traffic is lowered first, by a write that waits for nothing. The ruling stays open: if the change is taken back
    before the route is, the attempt goes on, from weight 0.
    """
    if case.progress.attempt is None or not _another(case):
        return None
    if case.left_behind or (case.progress.step >= 0 and case.traffic > NONE):
        message = "the spec or the candidate changed: traffic goes back to the baseline, then a new attempt begins"
        lowers = case.traffic > NONE and case.progress.requested > NONE
        action = Lower(case.attempt, NONE, Ruling.CONTINUE) if lowers else Restore()
        back = replace(case, progress=unruled(case, -1, NONE))
        return stay(back, Phase.PENDING, Reason.SUPERSEDED, message, action=action, tell=True)
    past = replace(case.progress, ruling_reason=Reason.SUPERSEDED)
    return _begin(replace(case, progress=ended(replace(case, progress=past), Outcome.SUPERSEDED)))


def start(case: Case) -> Decision | None:
    """Begin the first attempt, or the next one if the status that counted them is lost."""
    return _begin(case) if case.progress.attempt is None else None


def quarantined(case: Case, digest: str) -> Decision | None:
    """Hold while a candidate is in quarantine."""
    kept = next((q for q in case.progress.quarantine if q.digest == digest and q.until > case.now), None)
    return None if kept is None else _held(case, kept)


def _held(case: Case, kept: Quarantine) -> Decision:
    message = (
        f"this candidate was rolled back ({kept.reason}) and stays in quarantine until {kept.until:%Y-%m-%d %H:%M:%S} "
        "UTC: deploy another candidate and change candidate.model.digest, or wait"
    )
    return stay(case, Phase.HELD, Reason.QUARANTINED, message, tell=True)


def _end(progress: Progress) -> PastAttempt | None:
    return next((p for p in progress.history if progress.attempt and p.attempt == progress.attempt.id), None)


def _another(case: Case) -> bool:
    attempt = case.progress.attempt
    plan = case.plan
    return attempt is not None and (attempt.spec_hash, attempt.candidate_digest, attempt.pair) != (
        plan.spec_hash,
        plan.candidate_digest,
        plan.pair,
    )


def _begin(case: Case) -> Decision:
    return quarantined(case, case.plan.candidate_digest) or _new_attempt(case)


def _new_attempt(case: Case) -> Decision:
    number = _next_number(case)
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


def _next_number(case: Case) -> int:
    """Return the number of the attempt that begins.

    Where the status that counted is lost, the history and the marks on the route still tell. A rollback that stands on
    the route is taken over by its own number, so that it is carried out and remembered.
    """
    if case.progress.attempt is not None:
        return case.progress.attempt.number + 1
    view = case.world.route
    marked = view.attempt if isinstance(view, RouteView) else None
    known = [*(past.attempt for past in case.progress.history), *([marked] if marked else [])]
    last = max(_numbers(case.world.uid, known), default=0)
    rolled_back = isinstance(view, RouteView) and view.ruling is Ruling.ROLLBACK
    return last if rolled_back and f"{case.world.uid[:8]}-{last}" == marked else last + 1


def _numbers(uid: str, ids: Iterable[str]) -> Iterator[int]:
    """Return the numbers in ids of this object's attempts; what is stored may be damaged."""
    for each in ids:
        start, _, number = each.rpartition("-")
        if start == uid[:8] and number.isascii() and number.isdigit() and len(number) <= 9:
            yield int(number)
