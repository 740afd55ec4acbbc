"""Where an attempt stands, as a status and back.

Rule 1: reading never raises. Rule 2: what is lost or damaged leads to less traffic for the candidate, never to more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from davylamp.api.v1alpha1 import conditions
from davylamp.api.v1alpha1.messages import messages_of, undelivered_of
from davylamp.api.v1alpha1.status import (
    MAX_FIGHTS,
    MAX_MESSAGE,
    MAX_SIGNALS,
    Attempt,
    Checkpoint,
    Condition,
    Decision,
    Hold,
    ModelRolloutStatus,
    Pair,
    PastAttempt,
    Quarantined,
    Signal,
    StepStatus,
    WeightStatus,
)
from davylamp.api.v1alpha1.stored import StoredStatus
from davylamp.core import model as core
from davylamp.core.case import MAX_HISTORY, MAX_QUARANTINE
from davylamp.core.outbox import MAX_TOLD, Outbox

#: Longer bakes than this cannot be asked for, seconds.
_LONGEST_BAKE: Final = 90 * 86_400.0
#: Situations that do not pass by themselves: kstatus calls them failed, so that a pipeline does not wait for them.
_STALLED: Final = frozenset(
    {
        core.Reason.INVALID_SPEC,
        core.Reason.ROUTE_UNFIT,
        core.Reason.ROUTE_TAKEN,
        core.Reason.ROUTE_CONTESTED,
    }
)
#: Situations that may pass by themselves, as when a deployment makes objects anew, but not after this time.
_STALLED_LATER: Final = frozenset({core.Reason.ROUTE_MISSING})
_LATER: Final = timedelta(minutes=5)
#: Situations in which a person has the next move.
_NEEDS_PERSON: Final = frozenset(
    {
        core.Reason.PAUSED_BY_SPEC,
        core.Reason.DEADLINE,
        core.Reason.ROUTE_LOWERED,
        core.Reason.QUARANTINED,
        core.Reason.SLICE_ROLLED_BACK,
    }
)


@dataclass(frozen=True, slots=True)
class Shown:
    """What a status shows beside the progress of the attempt.

    Parameters
    ----------
    generation
        Generation of the spec that was looked at.
    epoch
        Epoch of the leader that writes, >= 0.
    now
        Time of the look, UTC.
    steps
        Number of steps of the plan, >= 1; 0 if there is no plan.
    verdict
        Worst verdict of all gates; None if nothing was judged.
    programmed
        The candidate's weight on the route, as read and accepted by the gateway; None if unknown.
    observed
        The candidate's share of requests in percent, 0..100; None if unknown.
    signals
        What each gate sees.
    evidence
        Checkpoint of the evidence; None to keep none.
    outbox
        Messages on their way to people, and which facts were told.
    previous
        Conditions of the last status.
    """

    generation: int
    epoch: int
    now: datetime
    steps: int = 0
    verdict: core.Verdict | None = None
    programmed: core.Weight | None = None
    observed: float | None = None
    signals: Sequence[Signal] = ()
    evidence: Checkpoint | None = None
    outbox: Outbox = field(default_factory=Outbox)
    previous: tuple[Condition, ...] = ()


def to_status(progress: core.Progress, shown: Shown) -> ModelRolloutStatus:
    """Return the status of a rollout, cut to what the schema takes; the oldest entries go first."""
    return ModelRolloutStatus(
        observed_generation=shown.generation,
        conditions=_conditions(progress, shown),
        phase=progress.phase,
        verdict=shown.verdict,
        reason=progress.reason.value,
        message=progress.message[:MAX_MESSAGE],
        epoch=shown.epoch,
        attempt=_attempt(progress.attempt),
        step=_step(progress, shown.steps),
        weight=WeightStatus(
            requested=progress.requested.percent,
            programmed=None if shown.programmed is None else shown.programmed.percent,
            observed=shown.observed,
        ),
        decision=_decision(progress),
        hold=_hold(progress),
        fights=progress.fights[-MAX_FIGHTS:],
        error_ticks=progress.error_ticks or None,
        diverted=progress.diverted,
        signals=tuple(shown.signals)[:MAX_SIGNALS],
        evidence=shown.evidence,
        quarantine=_quarantine(progress.quarantine),
        outbox=messages_of(shown.outbox),
        told=shown.outbox.told[-MAX_TOLD:],
        undelivered=undelivered_of(shown.outbox),
        undelivered_total=shown.outbox.undelivered_total or None,
        history=tuple(_past(past) for past in progress.history[-MAX_HISTORY:]),
    )


def to_progress(stored: StoredStatus) -> core.Progress:
    """Return where the attempt stood when the status was written.

    If anything that safety rests on was damaged, the asked weight counts as 0, the step as not entered, and the message
    says what was damaged: the decision then lowers what the route shows, and begins anew. A final ruling that can be
    read stays: a rollback is carried out, and what was promoted is not taken back.
    """
    status = stored.status
    ruling = _ruling(status)
    trusted = stored.safe or (ruling is not None and ruling.verdict is not core.Ruling.CONTINUE)
    step = status.step if trusted else None
    return core.Progress(
        attempt=_core_attempt(status),
        phase=status.phase or core.Phase.PENDING,
        reason=_reason(status.reason) if trusted else core.Reason.INTERNAL_ERROR,
        message=(status.message or "") if trusted else _damage(stored),
        ruling=core.Ruling.CONTINUE if ruling is None else ruling.verdict,
        ruling_reason=None if ruling is None else _reason(ruling.reason),
        ruled_at=None if ruling is None else ruling.at,
        step=-1 if step is None else step.index,
        requested=core.Weight(status.weight.requested) if status.weight and trusted else core.NONE,
        entered_at=None if step is None else step.entered_at,
        accepted_at=None if step is None else step.accepted_at,
        baked=timedelta(0) if step is None else timedelta(seconds=min(step.baked_seconds, _LONGEST_BAKE)),
        hold_since=None if status.hold is None else status.hold.since,
        hold_reason=None if status.hold is None else _reason(status.hold.reason),
        fights=status.fights,
        error_ticks=status.error_ticks or 0,
        diverted=tuple(sorted(set(status.diverted))),
        quarantine=tuple(core.Quarantine(q.digest, q.until, q.attempts, q.reason) for q in status.quarantine),
        history=tuple(
            core.PastAttempt(p.attempt, p.outcome, p.reason, p.started_at, p.ended_at) for p in status.history
        ),
    )


def _damage(stored: StoredStatus) -> str:
    fields = ", ".join(damage.field for damage in stored.damages)
    return f"the stored status was damaged ({fields}); the candidate begins again from weight 0"[:MAX_MESSAGE]


def _reason(word: str | None) -> core.Reason:
    """Return the reason that a word means; what another version wrote is not known here."""
    try:
        return core.Reason(word or core.Reason.ACCEPTED)
    except ValueError:
        return core.Reason.INTERNAL_ERROR


def _ruling(status: ModelRolloutStatus) -> Decision | None:
    """Return the decision about the attempt that runs; one about another attempt rules nothing."""
    decision, attempt = status.decision, status.attempt
    return None if decision is None or (attempt and decision.id != attempt.id) else decision


def _core_attempt(status: ModelRolloutStatus) -> core.Attempt | None:
    if status.attempt is None:
        return None
    a = status.attempt
    pair = core.Pair(a.pair.route, a.pair.baseline, a.pair.candidate)
    return core.Attempt(a.id, a.number, a.candidate_digest, a.spec_hash, a.started_at, pair)


def _conditions(progress: core.Progress, shown: Shown) -> tuple[Condition, ...]:
    situation = conditions.Situation(
        progress.reason.value, progress.message, shown.generation, shown.now, shown.previous
    )
    if progress.phase not in core.TERMINAL and _stalled(progress, shown.now):
        return conditions.stalled(situation)
    if progress.phase in {core.Phase.PAUSED, core.Phase.HELD} and progress.reason in _NEEDS_PERSON:
        return conditions.waiting_for_person(situation)
    return conditions.for_phase(progress.phase, situation)


def _stalled(progress: core.Progress, now: datetime) -> bool:
    late = progress.hold_since is not None and now - progress.hold_since >= _LATER
    return progress.reason in _STALLED or (progress.reason in _STALLED_LATER and late)


def _attempt(attempt: core.Attempt | None) -> Attempt | None:
    if attempt is None:
        return None
    return Attempt(
        id=attempt.id,
        number=attempt.number,
        candidate_digest=attempt.candidate_digest,
        spec_hash=attempt.spec_hash,
        started_at=attempt.started_at,
        pair=Pair(route=attempt.pair.route, baseline=attempt.pair.baseline, candidate=attempt.pair.candidate),
    )


def _step(progress: core.Progress, steps: int) -> StepStatus | None:
    if progress.entered_at is None:
        return None
    return StepStatus(
        index=progress.step,
        summary=f"{min(progress.step + 1, steps)}/{steps}",
        entered_at=progress.entered_at,
        accepted_at=progress.accepted_at,
        baked_seconds=progress.baked.total_seconds(),
    )


def _decision(progress: core.Progress) -> Decision | None:
    undecided = progress.ruling is core.Ruling.CONTINUE and progress.ruled_at is None
    if progress.attempt is None or undecided:
        return None
    return Decision(
        id=progress.attempt.id,
        verdict=progress.ruling,
        reason=(progress.ruling_reason or progress.reason).value,
        at=progress.ruled_at or progress.attempt.started_at,
    )


def _hold(progress: core.Progress) -> Hold | None:
    if progress.hold_since is None:
        return None
    return Hold(since=progress.hold_since, reason=(progress.hold_reason or progress.reason).value)


def _quarantine(entries: Sequence[core.Quarantine]) -> tuple[Quarantined, ...]:
    """Return one entry for each digest, since the schema tells them apart by it; the latest counts."""
    latest = {entry.digest: entry for entry in entries}
    return tuple(
        Quarantined(digest=entry.digest, until=entry.until, attempts=entry.attempts, reason=entry.reason)
        for entry in list(latest.values())[-MAX_QUARANTINE:]
    )


def _past(past: core.PastAttempt) -> PastAttempt:
    return PastAttempt(
        attempt=past.attempt,
        outcome=past.outcome,
        reason=past.reason,
        started_at=past.started_at,
        ended_at=past.ended_at,
    )
