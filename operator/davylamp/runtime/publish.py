"""Write what was decided where people and the next leader find it: status, events, metrics, one line of log."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

import structlog

from davylamp.api.v1alpha1.findings import checkpoint_of, signals_of
from davylamp.api.v1alpha1.kinds import API_VERSION, MODEL_ROLLOUT
from davylamp.api.v1alpha1.progress import Shown, to_status
from davylamp.api.v1alpha1.stored import read_status
from davylamp.core.model import Progress, Severity
from davylamp.core.moves import Action, Fact
from davylamp.core.outbox import Outbox, add
from davylamp.core.world import RouteView
from davylamp.errors import DavylampError
from davylamp.runtime.catalogue import Catalogue, Object, path_of
from davylamp.runtime.kube import JSON_PATCH, Kube
from davylamp.runtime.observe import Look
from davylamp.runtime.session import Session
from davylamp.runtime.telemetry import Telemetry

FIELD_MANAGER: Final = "davylamp"
FINALIZER: Final = "davylamp.dev/route"
#: Status fields that hold numbers which move at every look; alone they are written now and then only.
_NUMBERS: Final = ("message", "signals", "evidence")


@dataclass(frozen=True, slots=True)
class Turn:
    """One look at one rollout, from the object as it was read to what was found."""

    session: Session
    manifest: Object
    look: Look
    now: datetime
    epoch: int


@dataclass(frozen=True, slots=True)
class Publisher:
    """Writes status, finalizer and events."""

    kube: Kube
    catalogue: Catalogue
    telemetry: Telemetry
    every: timedelta

    async def status(self, turn: Turn, progress: Progress) -> None:
        """Write the status by compare-and-swap; nothing is sent if it says what is there already.

        Raises
        ------
        Conflict
            If the object changed since it was read.
        Unavailable
            If the API server did not answer; whether it was written is unknown.
        """
        session, manifest = turn.session, turn.manifest
        wanted = to_status(progress, _shown(turn)).manifest()
        if wanted == manifest.get("status"):
            return
        version = manifest["metadata"]["resourceVersion"]
        body = [
            {"op": "test", "path": "/metadata/resourceVersion", "value": version},
            {"op": "add", "path": "/status", "value": wanted},
        ]
        path = path_of(MODEL_ROLLOUT, session.name) + "/status"
        self.catalogue.keep(await self.kube.patch(path, body, JSON_PATCH, FIELD_MANAGER))
        session.written_at = turn.now

    def news(self, turn: Turn, progress: Progress) -> bool:
        """Return whether the status has something new to say beside numbers."""
        wanted = to_status(progress, _shown(turn)).manifest()
        return _without_numbers(wanted) != _without_numbers(turn.manifest.get("status") or {})

    def stale(self, turn: Turn) -> bool:
        """Return whether it is time to write numbers that have changed."""
        written = turn.session.written_at
        return not turn.session.progress.ended and (written is None or turn.now - written >= self.every)

    async def finalizer(self, session: Session, manifest: Object, *, present: bool) -> Object | None:
        """Add or remove Davylamp's finalizer, and return the object then; None if nothing had to be written.

        The object goes with its last finalizer.
        """
        before = manifest["metadata"].get("finalizers") or []
        if (FINALIZER in before) is present:
            return None
        finalizers = [name for name in before if name != FINALIZER]
        body = {
            "metadata": {
                "resourceVersion": manifest["metadata"]["resourceVersion"],
                "finalizers": [*finalizers, FINALIZER] if present else finalizers,
            }
        }
        path = path_of(MODEL_ROLLOUT, session.name)
        answer = await self.kube.patch(path, body, "application/merge-patch+json", FIELD_MANAGER)
        self.catalogue.keep(answer)
        if not present and not finalizers:
            self.catalogue.drop(session.uid)
        return answer

    def collect(self, session: Session, facts: Sequence[Fact], now: datetime) -> tuple[Outbox, tuple[Fact, ...]]:
        """Return the outbox with the facts, and those of them that are new."""
        known = {*session.outbox.told, *(message.fact.key for message in session.outbox.pending)}
        new = tuple(fact for fact in facts if fact.key not in known)
        return add(session.outbox, new, session.channels, now), new

    def withdraw(self, session: Session, facts: Sequence[Fact]) -> None:
        """Take facts back that have not come true, since the decision was given up."""
        keys = {fact.key for fact in facts}
        outbox = session.outbox
        session.outbox = replace(
            outbox,
            pending=tuple(message for message in outbox.pending if message.fact.key not in keys),
            told=tuple(key for key in outbox.told if key not in keys),
        )

    async def events(self, session: Session, manifest: Object, facts: Sequence[Fact], now: datetime) -> None:
        """Write one Event for each new fact; an Event that is lost is lost."""
        for fact in facts:
            try:
                await self.kube.create(
                    f"/api/v1/namespaces/{session.name.namespace}/events", _event(manifest, fact, now)
                )
            except DavylampError as error:
                structlog.get_logger("davylamp").warning("event_lost", rollout=str(session.name), why=str(error))

    def record(self, session: Session, before: Progress, after: Progress, action: Action | None) -> None:
        """Log one line if the decision changed anything, and count it."""
        changed = (before.phase, before.step, before.requested, before.ruling, before.reason) != (
            after.phase,
            after.step,
            after.requested,
            after.ruling,
            after.reason,
        )
        if not changed and action is None:
            return
        name = type(action).__name__ if action is not None else "None"
        self.telemetry.decisions.labels(session.name.namespace, session.name.name, name, after.reason.value).inc()
        structlog.get_logger("davylamp").info(
            "decided",
            rollout=str(session.name),
            attempt=after.attempt.id if after.attempt else None,
            phase=after.phase.value,
            step=after.step,
            weight=after.requested.percent,
            was=before.requested.percent,
            action=name,
            reason=after.reason.value,
            message=after.message,
        )


def _shown(turn: Turn) -> Shown:
    session, view = turn.session, turn.look.world.route
    share = session.evidence.share
    return Shown(
        generation=turn.manifest["metadata"]["generation"],
        epoch=turn.epoch,
        now=turn.now,
        steps=0 if session.plan is None else len(session.plan.steps),
        verdict=session.judgement.verdict if session.judgement.verdicts else None,
        programmed=view.weight if isinstance(view, RouteView) and view.accepted else None,
        observed=None if share is None else round(100 * share, 2),
        signals=signals_of(session.reports),
        evidence=None
        if session.plan is None or session.progress.ended
        else checkpoint_of(session.plan, session.evidence),
        outbox=session.outbox,
        previous=read_status(turn.manifest.get("status") or {}).status.conditions,
    )


def _without_numbers(status: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in status.items() if name not in _NUMBERS}
    kept["conditions"] = [
        {name: value for name, value in condition.items() if name != "message"}
        for condition in status.get("conditions") or []
    ]
    kept["weight"] = {name: value for name, value in (status.get("weight") or {}).items() if name != "observed"}
    kept["step"] = {name: value for name, value in (status.get("step") or {}).items() if name != "bakedSeconds"}
    kept["verdicts"] = [(signal.get("name"), signal.get("verdict")) for signal in status.get("signals") or []]
    return kept


def _event(manifest: Object, fact: Fact, now: datetime) -> dict[str, Any]:
    metadata = manifest["metadata"]
    stamp = now.isoformat(timespec="seconds").replace("+00:00", "Z")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{metadata['name'][:50].rstrip('-.')}.", "namespace": metadata["namespace"]},
        "involvedObject": {
            "apiVersion": API_VERSION,
            "kind": MODEL_ROLLOUT.name,
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
        },
        "reason": fact.key.rpartition("/")[2],
        "message": fact.sentence[:1024],
        "type": "Normal" if fact.severity is Severity.INFO else "Warning",
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "count": 1,
        "source": {"component": "davylamp"},
        "reportingComponent": "davylamp.dev/operator",
    }
