"""What the engine remembers of one rollout between two looks. Losing it costs time, never safety."""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

import structlog

from davylamp.api.v1alpha1.convert import gates_hash
from davylamp.api.v1alpha1.messages import to_outbox
from davylamp.api.v1alpha1.progress import to_progress
from davylamp.api.v1alpha1.stored import read_status
from davylamp.core.checkpoint import resume
from davylamp.core.evidence import Evidence, Trouble, begin
from davylamp.core.model import Progress
from davylamp.core.outbox import Channel, Outbox
from davylamp.core.plan import Plan
from davylamp.core.report import GateReport
from davylamp.core.world import Judgement
from davylamp.runtime.catalogue import Name, Object, name_of

#: A change of the route that was refused for good is tried again after this time.
_REFUSED_FOR: Final = timedelta(seconds=30)
_UNREAD: Final = Trouble("not read since the operator started", source=True)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A change of the route that was refused for good.

    Parameters
    ----------
    why
        In words for people.
    generations
        Of the route and of the ModelRollout when it was refused; with others, the change is tried again.
    until
        When it is tried again in any case: an admission policy or a right may have changed, which no object here shows.
    """

    why: str
    generations: tuple[object, object]
    until: datetime


@dataclass(slots=True)
class Session:
    """One rollout in the memory of this process.

    Parameters
    ----------
    uid, name
        Of the ModelRollout.
    progress, evidence, outbox
        Where it stands, what was seen, and what is on its way to people.
    plan
        The last plan that could be made.
    judgement, reports
        What the gates said at the last look.
    channels
        Who is told.
    read_at
        When the signals were read last; None if not yet by this process.
    newest
        Time of the newest sample of the candidate, or of the baseline before any traffic.
    written_at
        When its status was written last.
    failures
        Looks in a row that failed.
    rolled_back_at
        When a rollback was decided whose route does not show it yet.
    generation
        Of the spec that was looked at last.
    refusal
        The last change of the route, if it was refused for good.
    """

    uid: str
    name: Name
    progress: Progress
    outbox: Outbox
    evidence: Evidence
    plan: Plan | None = None
    judgement: Judgement = field(default_factory=Judgement)
    reports: tuple[GateReport, ...] = ()
    channels: tuple[Channel, ...] = ()
    read_at: datetime | None = None
    newest: datetime | None = None
    written_at: datetime | None = None
    failures: int = 0
    rolled_back_at: datetime | None = None
    generation: int = 0
    refusal: Refusal | None = None


def open_session(manifest: Object) -> Session:
    """Return what a stored status says, damaged or not.

    Bad ticks in a row begin anew: those that were stored may be of long ago, or be nothing but damage.
    """
    stored = read_status(manifest.get("status") or {})
    return Session(
        uid=manifest["metadata"]["uid"],
        name=name_of(manifest),
        progress=replace(to_progress(stored), error_ticks=0),
        outbox=to_outbox(stored.status),
        evidence=Evidence(),
    )


def take_plan(session: Session, plan: Plan, manifest: Object) -> None:
    """Let a session run by a plan; evidence of other gates counts for nothing.

    The first plan after a start takes the stored evidence up. It counts as not read until this process has read.
    """
    before, session.plan = session.plan, plan
    if before is None:
        session.evidence = _stored_evidence(plan, manifest)
    elif gates_hash(before) != gates_hash(plan):
        session.evidence = begin(plan)


def note_refusal(session: Session, why: str, route: Object, now: datetime) -> None:
    """Remember that a change of the route was refused for good, so that it is not asked for at every look.

    Parameters
    ----------
    session
        Of the rollout.
    why
        In words for people.
    route
        As it was when the change was asked for.
    now
        Time of the look.
    """
    generations = (_generation(route), session.generation)
    session.refusal = Refusal(why, generations, now + _REFUSED_FOR)


def refusal_in_force(session: Session, route: Object, now: datetime) -> str:
    """Return why the route cannot be changed as the ladder asks; empty if nothing is known to speak against it."""
    refusal = session.refusal
    if refusal is None or now >= refusal.until or refusal.generations != (_generation(route), session.generation):
        session.refusal = None
        return ""
    return refusal.why


def _generation(route: Object) -> object:
    metadata = route.get("metadata")
    return metadata.get("generation") if isinstance(metadata, dict) else None


def start_evidence(session: Session, plan: Plan) -> None:
    """Begin anew, as for a new attempt."""
    session.evidence = begin(plan)
    session.judgement, session.reports, session.read_at = Judgement(), (), None


def _stored_evidence(plan: Plan, manifest: Object) -> Evidence:
    checkpoint = read_status(manifest.get("status") or {}).status.evidence
    unread = {gate.name: _UNREAD for gate in plan.gates}
    if checkpoint is None or checkpoint.design != gates_hash(plan):
        return replace(begin(plan), troubles=unread)
    try:
        evidence = resume(plan, checkpoint.state, checkpoint.as_of)
    except (ValueError, ArithmeticError, LookupError, TypeError) as damaged:
        structlog.get_logger("davylamp").warning("evidence_lost", why=str(damaged))
        evidence = begin(plan)
    return replace(evidence, troubles=unread)
