"""What lowers: deletion, rollback, and data that stay away. The fewest preconditions, and first in order."""

from dataclasses import replace

from davylamp.core.attempts import tidying
from davylamp.core.case import Case, ended, facts, hold, ruled, stay
from davylamp.core.model import NONE, Attempt, Outcome, Phase, Reason, Ruling, Verdict
from davylamp.core.moves import Decision, Lower, Release, Restore
from davylamp.core.world import RouteTrouble, RouteView


def let_go(case: Case) -> Decision | None:
    """Give a deleted object's route back to the baseline, verify it, and only then let the object go.

    A promotion that was completed stays; one that was not is taken back. Traffic is lowered first, by a write that
    waits for nothing.
    """
    if not case.world.deleting:
        return None
    phase, view = case.progress.phase, case.world.route
    if not isinstance(view, RouteView) or not _held_by_us(case, view):
        return stay(case, phase, Reason.DELETED, "deleted: the route is clean", action=Release())
    message = "deleted: the baseline gets its route back"
    if case.progress.ended:
        return stay(case, phase, Reason.DELETED, message, action=tidying(case, view))
    lowers = view.weight > NONE and case.progress.requested > NONE and bool(case.attempt)
    action = Lower(case.attempt, NONE, Ruling.ROLLBACK) if lowers else Restore()
    case = replace(case, progress=replace(ruled(case, Ruling.ROLLBACK, Reason.DELETED), requested=NONE))
    return stay(case, Phase.ROLLING_BACK, Reason.DELETED, message, action=action)


def last_act(route: RouteView | RouteTrouble, attempt: Attempt) -> Lower | Restore | None:
    """Return what gives the baseline its route back when an object is gone without having been let go.

    Parameters
    ----------
    route
        As it is now.
    attempt
        The one that was at work when the object went.
    """
    if not isinstance(route, RouteView) or route.attempt != attempt.id:
        return None
    return Lower(attempt.id, NONE, Ruling.ROLLBACK) if route.weight > NONE else Restore()


def _held_by_us(case: Case, view: RouteView) -> bool:
    """Whether anything on the route is Davylamp's; somebody may have taken the marks off and left the weights."""
    serving = case.progress.step >= 0 and not case.progress.ended and not view.repointed and view.weight > NONE
    return view.marked or serving


def finish_rollback(case: Case) -> Decision | None:
    """Carry out a rollback that is decided, be it by status or by the mark on the route."""
    route = case.world.route
    view = route if isinstance(route, RouteView) else None
    marked = view is not None and view.ruling is Ruling.ROLLBACK and view.attempt == case.attempt
    if case.progress.attempt is None or not (case.progress.ruling is Ruling.ROLLBACK or marked):
        return None
    if case.progress.ruling is not Ruling.ROLLBACK:
        return _remembered(case)
    reason = case.progress.ruling_reason or Reason.REGRESSED
    case = replace(case, progress=replace(case.progress, requested=NONE))
    message = case.progress.message
    if view is not None and view.weight > NONE:
        return stay(case, Phase.ROLLING_BACK, reason, message, action=Lower(case.attempt, NONE, Ruling.ROLLBACK))
    if case.left_behind:
        return stay(case, Phase.ROLLING_BACK, reason, message, action=Restore())
    return Decision(replace(ended(case, Outcome.ROLLED_BACK), phase=Phase.ROLLED_BACK, reason=reason))


def _remembered(case: Case) -> Decision:
    """Take over a rollback that only the route remembers: the status that should say so was not written."""
    known = _accusation(case)
    message = f"route {case.pair.route} says that attempt {case.attempt} was rolled back; why was lost in a restart"
    return rollback(case, *(known or (Reason.REGRESSED, message)))


def roll_back(case: Case) -> Decision | None:
    """Take the traffic back when the candidate is worse, gone, or grossly broken.

    The alarm counts at weight 0 as well, since somebody may have lowered the weight by hand: it must not rise again.
    """
    accusation = _accusation(case)
    if accusation is None or isinstance(case.world.route, RouteTrouble):
        return None
    reason, message = accusation
    if case.world.baseline_ready == 0 and case.traffic > NONE:
        return hold(
            case,
            Reason.BASELINE_NOT_READY,
            f"{message}; but the baseline {case.pair.baseline} has no ready endpoint, so taking the traffic back "
            "would be an outage: bring the baseline up, and the rollback follows by itself",
        )
    return rollback(case, reason, message)


def rollback(case: Case, reason: Reason, message: str) -> Decision:
    """Return the decision to roll back: final for this attempt. A route that never was Davylamp's is left alone."""
    progress = replace(
        ruled(case, Ruling.ROLLBACK, reason),
        requested=NONE,
        phase=Phase.ROLLING_BACK,
        reason=reason,
        message=message,
        hold_since=None,
        hold_reason=None,
    )
    action = Lower(case.attempt, NONE, Ruling.ROLLBACK) if case.traffic > NONE or case.left_behind else None
    return Decision(progress, action, facts(case, reason, message))


def unobserved(case: Case) -> Decision | None:
    """Hold while data are missing; after the time that the policy allows, fail safe. The candidate is not blamed."""
    if case.progress.step < 0 or case.view.weight == NONE or case.observed:
        return None
    down = case.world.judgement.verdict is Verdict.SOURCE_DOWN
    reason = Reason.SOURCE_DOWN if down else Reason.NO_DATA
    if not down and _young(case):
        return None
    since = case.progress.hold_since if case.progress.hold_reason in {Reason.SOURCE_DOWN, Reason.NO_DATA} else case.now
    away = case.since(since)
    what = _missing(case)
    limit = case.plan.no_data_roll_back_after
    if limit is not None and away >= limit and case.world.baseline_ready > 0:
        message = f"no complete data for {away.total_seconds():.0f} s (limit {limit.total_seconds():.0f} s): {what}"
        return rollback(case, Reason.EVIDENCE_TIMEOUT, message)
    progress = replace(case.progress, hold_since=since, hold_reason=reason)
    return stay(
        replace(case, progress=progress),
        Phase.HELD,
        reason,
        f"the weight is held, since {what}",
        tell=away >= case.plan.no_data_tell_after,
    )


def _young(case: Case) -> bool:
    """Whether series may still be on their way: a variant's appear with its requests, a comparator's with its step."""
    judgement, few = case.world.judgement, 3 * case.plan.interval
    missing = {name for name, verdict in judgement.verdicts.items() if verdict is Verdict.NO_DATA}
    watched = case.since(case.progress.accepted_at)
    if missing and missing <= judgement.shadow:
        watched = min(watched, case.since(case.progress.entered_at))
    return watched < few


def _missing(case: Case) -> str:
    judgement = case.world.judgement
    bad = [name for name, verdict in judgement.verdicts.items() if verdict in {Verdict.NO_DATA, Verdict.SOURCE_DOWN}]
    return judgement.messages.get(bad[0], "data are missing") if bad else "no gate was read"


def _accusation(case: Case) -> tuple[Reason, str] | None:
    """Return why the traffic must go back, or None."""
    judgement, wires = case.world.judgement, case.plan.trip_wires
    if case.world.candidate_ready == 0 and case.traffic > NONE and case.progress.step >= 0:
        return Reason.CANDIDATE_LOST, (
            f"the candidate {case.pair.candidate} has no ready endpoint while it has {case.traffic} of the traffic"
        )
    if judgement.regressed:
        blamed = "; ".join(judgement.messages[name] for name in judgement.culprits if name in judgement.messages)
        return Reason.REGRESSED, blamed or "the evidence of a regression crossed its limit"
    if case.progress.error_ticks >= wires.ticks:
        errors, requests = judgement.candidate_errors or 0, judgement.candidate_requests or 0
        share = f"{errors} of {requests} requests" if requests else "the candidate's requests"
        return Reason.ERROR_SHARE, (
            f"{share} failed, over the hard limit of {wires.error_share:.0%} for {wires.ticks} ticks in a row"
        )
    return None
