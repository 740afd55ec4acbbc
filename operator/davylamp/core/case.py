"""One case to decide: the facts of one look, and the few ways to answer it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from davylamp.core.model import (
    NONE,
    Outcome,
    Pair,
    PastAttempt,
    Phase,
    Progress,
    Quarantine,
    Reason,
    Ruling,
    Severity,
    Verdict,
    Weight,
)
from davylamp.core.moves import Action, Decision, Fact
from davylamp.core.plan import Plan
from davylamp.core.world import RouteView, World

MAX_HISTORY: Final = 10
MAX_QUARANTINE: Final = 16
#: Rollbacks that say nothing about the candidate, so that it is not put into quarantine.
_BLAMELESS: Final = frozenset({Reason.EVIDENCE_TIMEOUT, Reason.SUPERSEDED, Reason.DELETED})
#: How people are told of each situation that is worth a message.
_SEVERITY: Final[Mapping[Reason, Severity]] = {
    Reason.STEP_STARTED: Severity.INFO,
    Reason.PROMOTION_STARTED: Severity.INFO,
    Reason.ALL_GATES_PASSED: Severity.INFO,
    Reason.SUPERSEDED: Severity.INFO,
    Reason.QUARANTINED: Severity.INFO,
    Reason.SUSPICION: Severity.WARNING,
    Reason.DEADLINE: Severity.WARNING,
    Reason.NO_DATA: Severity.WARNING,
    Reason.SOURCE_DOWN: Severity.WARNING,
    Reason.COMPARATOR_NOT_READY: Severity.WARNING,
    Reason.COMPARATOR_TAKEN: Severity.WARNING,
    Reason.MIRROR_SILENT: Severity.WARNING,
    Reason.MIRROR_REMOVED: Severity.WARNING,
    Reason.SLICE_TOO_SMALL: Severity.WARNING,
    Reason.SLICE_ROLLED_BACK: Severity.INCIDENT,
    Reason.ROUTE_LOWERED: Severity.WARNING,
    Reason.ROUTE_RAISED: Severity.WARNING,
    Reason.ROUTE_NOT_ACCEPTED: Severity.WARNING,
    Reason.ROUTE_REPLACED: Severity.WARNING,
    Reason.ROUTE_TAKEN: Severity.WARNING,
    Reason.ROUTE_MISSING: Severity.INCIDENT,
    Reason.ROUTE_UNFIT: Severity.WARNING,
    Reason.ROUTE_CONTESTED: Severity.INCIDENT,
    Reason.BASELINE_NOT_READY: Severity.INCIDENT,
    Reason.REGRESSED: Severity.INCIDENT,
    Reason.CANDIDATE_LOST: Severity.INCIDENT,
    Reason.ERROR_SHARE: Severity.INCIDENT,
    Reason.EVIDENCE_TIMEOUT: Severity.INCIDENT,
}


@dataclass(frozen=True, slots=True)
class Case:
    """All facts of one look: what is planned, where the rollout stands, what the world says, and the time (UTC)."""

    plan: Plan
    progress: Progress
    world: World
    now: datetime

    @property
    def attempt(self) -> str:
        """Id of the attempt that runs; empty before the first."""
        return "" if self.progress.attempt is None else self.progress.attempt.id

    @property
    def view(self) -> RouteView:
        """The route; the rules that come after the trouble rules may ask for it."""
        if not isinstance(self.world.route, RouteView):
            raise ValueError(f"the route cannot be used: {self.world.route.message}")  # noqa: TRY004 - a broken rule order
        return self.world.route

    @property
    def pair(self) -> Pair:
        """What the attempt shares traffic between, whatever the spec says since."""
        return self.plan.pair if self.progress.attempt is None else self.progress.attempt.pair

    @property
    def left_behind(self) -> bool:
        """Whether the route carries Davylamp's marks."""
        return isinstance(self.world.route, RouteView) and self.world.route.marked

    @property
    def traffic(self) -> Weight:
        """The weight that the candidate has on the route; a route that cannot be used gives it none by Davylamp."""
        return self.world.route.weight if isinstance(self.world.route, RouteView) else NONE

    @property
    def mirror(self) -> str:
        """Where requests are to be mirrored to now; empty if nowhere."""
        promoting = self.progress.ruling is not Ruling.CONTINUE
        return "" if promoting or self.plan.shadow_at(self.progress.step) is None else self.plan.comparator

    @property
    def climbing(self) -> Phase:
        """The phase of an attempt that nothing stops."""
        if self.progress.step < 0:
            return Phase.PENDING
        return Phase.PROMOTING if self.progress.ruling is Ruling.PROMOTE else Phase.PROGRESSING

    @property
    def observed(self) -> bool:
        """Whether every gate had complete data at this look."""
        return self.world.judgement.verdict not in {Verdict.NO_DATA, Verdict.SOURCE_DOWN}

    def since(self, moment: datetime | None) -> timedelta:
        """Return the time since ``moment``; zero without one, and never negative."""
        return timedelta(0) if moment is None else max(timedelta(0), self.now - moment)


def stay(
    case: Case, phase: Phase, reason: Reason, message: str, *, action: Action | None = None, tell: bool = False
) -> Decision:
    """Return the decision that only the situation has changed, with an optional repair of the route.

    Parameters
    ----------
    case
        The facts.
    phase, reason, message
        The situation.
    action
        What is done about it.
    tell
        Whether people are told, once per attempt, step and reason.
    """
    progress = replace(case.progress, phase=phase, reason=reason, message=message)
    return Decision(progress, action, facts(case, reason, message) if tell else ())


def hold(case: Case, reason: Reason, message: str, *, action: Action | None = None, tell: bool = True) -> Decision:
    """Return the decision to hold the weight; the clock of the hold goes on while the reason stays."""
    same = case.progress.hold_reason is reason and case.progress.hold_since is not None
    progress = replace(case.progress, hold_since=case.progress.hold_since if same else case.now, hold_reason=reason)
    return stay(replace(case, progress=progress), Phase.HELD, reason, message, action=action, tell=tell)


def facts(case: Case, reason: Reason, message: str) -> tuple[Fact, ...]:
    """Return what people are told of a situation."""
    key = f"{case.attempt}/{case.progress.step}/{reason.value}"
    return (Fact(key, _SEVERITY.get(reason, Severity.INFO), message),)


def enter(case: Case, step: int, weight: Weight) -> Progress:
    """Return the progress at the beginning of a step; its evidence counts once the gateway has accepted the weight."""
    same = weight == case.progress.requested
    return replace(
        case.progress,
        step=step,
        requested=weight,
        entered_at=case.now,
        accepted_at=case.progress.accepted_at if same else None,
        baked=timedelta(0),
        hold_since=None,
        hold_reason=None,
    )


def unruled(case: Case, step: int, weight: Weight) -> Progress:
    """Return the progress of an attempt that goes back to a lower step: nothing is promoted, nothing was accepted."""
    progress = replace(enter(case, step, weight), accepted_at=None)
    return replace(progress, ruling=Ruling.CONTINUE, ruling_reason=None, ruled_at=None)


def unaccepted(case: Case) -> Case:
    """Return the case with the evidence of its weight to be collected anew, since the route is not as it was asked.

    A pause goes back to the step whose weight it holds, so that this weight bakes again.
    """
    progress, steps = case.progress, case.plan.steps
    at = steps[progress.step] if 0 <= progress.step < len(steps) else None
    pausing = at is not None and at.weight is None and at.shadow is None and progress.requested > NONE
    step = case.plan.rung_below(progress.requested) if pausing else progress.step
    return replace(case, progress=replace(progress, step=step, accepted_at=None, baked=timedelta(0)))


def ruled(case: Case, ruling: Ruling, reason: Reason) -> Progress:
    """Return the progress with a ruling; an earlier rollback stays as it was."""
    if case.progress.ruling is Ruling.ROLLBACK:
        return case.progress
    return replace(case.progress, ruling=ruling, ruling_reason=reason, ruled_at=case.now)


def ended(case: Case, outcome: Outcome) -> Progress:
    """Return the progress of an attempt that is over: history, and quarantine for a candidate that is to blame."""
    progress, attempt = case.progress, case.progress.attempt
    if attempt is None or progress.ended:
        return progress
    reason = progress.ruling_reason or progress.reason
    past = PastAttempt(attempt.id, outcome, reason.value, attempt.started_at, case.now)
    progress = replace(progress, history=(*progress.history, past)[-MAX_HISTORY:], hold_since=None, hold_reason=None)
    if outcome is not Outcome.ROLLED_BACK or reason in _BLAMELESS:
        return progress
    digest = attempt.candidate_digest
    before = next((q.attempts for q in progress.quarantine if q.digest == digest), 0)
    others = tuple(q for q in progress.quarantine if q.digest != digest)
    entry = Quarantine(digest, case.now + case.plan.cooldown, before + 1, reason.value)
    return replace(progress, quarantine=(*others, entry)[-MAX_QUARANTINE:])
