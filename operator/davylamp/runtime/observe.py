"""Gather all facts of one look before anything is judged."""

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

import structlog

from davylamp.api.v1alpha1.convert import backend_ref, pair_ref
from davylamp.core.decide import decide
from davylamp.core.evidence import Evidence, source_down
from davylamp.core.judge import judge
from davylamp.core.looking import advance, due_window, serving
from davylamp.core.model import NONE, Outcome, Variant
from davylamp.core.moves import Lower, Release, Restore
from davylamp.core.plan import Plan
from davylamp.core.reading import Reading
from davylamp.core.report import GateReport
from davylamp.core.world import Judgement, RouteTrouble, RouteView, World
from davylamp.errors import Conflict, DavylampError, SpecError, Unavailable
from davylamp.ports import Router, RouteRef, RouteState
from davylamp.runtime.blueprint import Blueprint
from davylamp.runtime.catalogue import Catalogue, Object, route_name
from davylamp.runtime.comparator_ports import ComparatorPorts, claim_of
from davylamp.runtime.endpoints import Endpoints
from davylamp.runtime.reading import Sources
from davylamp.runtime.session import Session, refusal_in_force
from davylamp.runtime.telemetry import Telemetry

_log: Final = structlog.get_logger("davylamp")
_UNEXPECTED: Final = "an unexpected error in Davylamp: see the operator's log, and report it"
_BLIND: Final = "no signal is read, since the spec or its policy cannot be used"
#: Signals that take longer keep no lowering waiting that can do without them.
_PATIENCE: Final = timedelta(milliseconds=500)


@dataclass(frozen=True, slots=True)
class Look:
    """What one look has found: the facts, the route for the next write, and whether raising is safe at all."""

    world: World
    ref: RouteRef
    route: RouteState
    complete: bool


@dataclass(frozen=True, slots=True)
class Sight:
    """What the signals of one look have come to."""

    evidence: Evidence
    read_at: datetime | None
    newest: datetime | None


@dataclass(frozen=True, slots=True)
class Facts:
    """What the API server says: the route, ready endpoints (the comparator's too), and whether they were counted.

    ``comparator_user`` is another rollout that has the comparator's port; empty for none.
    """

    route: RouteState
    ready: Mapping[Variant, int]
    complete: bool
    comparator: int = 0
    comparator_user: str = ""


@dataclass(frozen=True, slots=True)
class Observer:
    """Reads route, endpoints and signals."""

    router: Router
    endpoints: Endpoints
    sources: Sources
    catalogue: Catalogue
    telemetry: Telemetry
    ports: ComparatorPorts = field(default_factory=ComparatorPorts)

    async def look(
        self, session: Session, manifest: Object, plan: Plan, *, blueprint: Blueprint | None, now: datetime
    ) -> Look:
        """Return all facts.

        Parameters
        ----------
        session, manifest
            What is known of the rollout; its evidence is advanced.
        plan
            What it runs by.
        blueprint
            What is read; None if the spec is broken, and nothing is.
        now
            Time of the look.

        Raises
        ------
        Unavailable
            If the route cannot be read: without it there is nothing to decide about.
        """
        attempt = session.progress.attempt
        pair = plan.pair if attempt is None or session.progress.ended else attempt.pair
        ref = replace(
            pair_ref(pair, session.name.namespace),
            ladder=plan.weights,
            comparator=backend_ref(plan.comparator) if plan.comparator else None,
        )
        seeing = asyncio.create_task(self._sight(session, plan, blueprint, now))
        try:
            facts = await self._facts(session, manifest, ref, plan)
            while not await _arrived(seeing):
                judgement, _ = _judged(session, plan, _uncounted(session.evidence))
                if _lowers(plan, session, _world(session, manifest, facts, judgement=judgement, now=now), now):
                    break
                await self._tick(seeing, session, manifest, plan.interval)
                facts = await self._facts(session, manifest, ref, plan)
            unread = Sight(_uncounted(session.evidence), session.read_at, session.newest)
            sight = seeing.result() if seeing.done() else unread
        finally:
            seeing.cancel()
            await asyncio.gather(seeing, return_exceptions=True)
        session.evidence, session.read_at, session.newest = sight.evidence, sight.read_at, sight.newest
        session.judgement, session.reports = _judged(session, plan, session.evidence)
        return Look(
            _world(session, manifest, facts, judgement=session.judgement, now=now), ref, facts.route, facts.complete
        )

    async def _facts(self, session: Session, manifest: Object, ref: RouteRef, plan: Plan) -> Facts:
        async with _together() as group:
            reading = group.create_task(self.router.read(ref))
            counting = group.create_task(self._ready(session))
        counts, route = counting.result(), self._taken(session, manifest, reading.result())
        user = self._comparator_user(session, plan, route)
        if counts is None:
            ready = dict.fromkeys(Variant, 1)
            return Facts(route, ready, complete=False, comparator=1, comparator_user=user)
        ready = {
            Variant.BASELINE: counts.get(ref.baseline.name, 0),
            Variant.CANDIDATE: counts.get(ref.candidate.name, 0),
        }
        listening = counts.get(plan.comparator.rpartition(":")[0], 0)
        return Facts(route, ready, complete=True, comparator=listening, comparator_user=user)

    async def _tick(self, seeing: asyncio.Task[Sight], session: Session, manifest: Object, interval: timedelta) -> None:
        """Wait for the signals until the route and the endpoints are due again; a changed wish does not wait.

        Raises
        ------
        Conflict
            If the ModelRollout was changed or deleted meanwhile: look anew.
        """
        for _ in range(math.ceil(interval / _PATIENCE)):
            if await _arrived(seeing):
                return
            newest = self.catalogue.rollouts.get(session.uid, manifest)
            if _wish(newest) != _wish(manifest):
                raise Conflict("the ModelRollout changed while its metric source was waited for")

    def _taken(self, session: Session, manifest: Object, route: RouteState) -> RouteState:
        """Leave the route to an older rollout, or to one at work on it, unless the marks on it are this one's."""
        view, attempt = route.view, session.progress.attempt
        marked = isinstance(view, RouteView) and attempt is not None and view.attempt == attempt.id
        if marked or session.uid not in self.catalogue.rollouts:
            return route
        user, why = self.catalogue.rival(session.uid), "which is older"
        over = session.progress.ended or "deletionTimestamp" in manifest["metadata"]
        if user is None and isinstance(view, RouteView) and view.attempt and (over or view.weight > NONE):
            user, why = self.catalogue.owner(view.attempt, session.uid), "which was here first"
        if user is None:
            return route
        message = f"HTTPRoute {route_name(manifest)} is used by ModelRollout {user}, {why}: wait for its end"
        return RouteState(RouteTrouble(message, taken=True))

    def _comparator_user(self, session: Session, plan: Plan, route: RouteState) -> str:
        """Return which other rollout has the port of the comparator; empty if none has."""
        rollouts = self.catalogue.rollouts
        self.ports.note(session.uid, claim_of(plan, session.progress, route.view), rollouts)
        return str(self.ports.user(session.uid, plan.comparator, rollouts) or "")

    async def _ready(self, session: Session) -> Mapping[str, int] | None:
        """Return the ready endpoints of each Service of the namespace; None if they cannot be counted."""
        try:
            return await self.endpoints.ready(session.name.namespace)
        except DavylampError:
            return None

    async def _sight(self, session: Session, plan: Plan, blueprint: Blueprint | None, now: datetime) -> Sight:
        """Return the evidence, advanced by one window if it is time for one.

        Nothing is changed here: a look that cannot read the route ends, and its samples are read again by the next. No
        fault in here keeps a lowering from being decided.
        """
        evidence = session.evidence
        before = Sight(evidence, session.read_at, session.newest)
        if not _needs_signals(session):
            return before
        if blueprint is None:
            return replace(before, evidence=source_down(plan, evidence, _BLIND))
        window = due_window(evidence, session.read_at, now, plan.interval)
        if window is None:
            return replace(before, evidence=_uncounted(evidence))
        try:
            reading = await self.sources.read(
                blueprint.at(session.progress), session.name.namespace, window, serving=serving(session.progress)
            )
            return _advanced(session, plan, reading, window)
        except (Unavailable, SpecError) as error:
            self.telemetry.source_errors.labels(blueprint.source).inc()
            return replace(before, evidence=source_down(plan, evidence, str(error)), read_at=now)
        except Exception:  # noqa: BLE001 - as the docstring says
            _log.exception("signals_failed", rollout=str(session.name))
            return replace(before, evidence=source_down(plan, evidence, _UNEXPECTED), read_at=now)


def _advanced(session: Session, plan: Plan, reading: Reading, window: tuple[datetime, datetime]) -> Sight:
    newest = _newest(reading, Variant.CANDIDATE if serving(session.progress) else Variant.BASELINE)
    return Sight(advance(plan, session.progress, session.evidence, (reading, window)), window[1], newest)


def _uncounted(evidence: Evidence) -> Evidence:
    """Return what was seen before this look, whose requests the trip wire has counted then."""
    return replace(evidence, candidate_errors=None, candidate_requests=None)


def _judged(session: Session, plan: Plan, evidence: Evidence) -> tuple[Judgement, tuple[GateReport, ...]]:
    """Return what the gates say; if they cannot be judged, nothing was seen."""
    try:
        return judge(plan, evidence, _attempts(session, plan), session.progress.diverted)
    except Exception:  # noqa: BLE001 - a fault in here must not keep a lowering from being decided
        _log.exception("judgement_failed", rollout=str(session.name))
        return Judgement(), ()


def _world(session: Session, manifest: Object, facts: Facts, *, judgement: Judgement, now: datetime) -> World:
    return World(
        uid=session.uid,
        deleting="deletionTimestamp" in manifest["metadata"],
        route=facts.route.view,
        baseline_ready=facts.ready[Variant.BASELINE],
        candidate_ready=facts.ready[Variant.CANDIDATE],
        judgement=judgement,
        refusal=refusal_in_force(session, facts.route.manifest, now),
        comparator_ready=facts.comparator,
        comparator_user=facts.comparator_user,
    )


def _lowers(plan: Plan, session: Session, world: World, now: datetime) -> bool:
    """Whether what is known without this look's signals is enough to take traffic back."""
    return isinstance(decide(plan, session.progress, world, now).action, Lower | Restore | Release)


def _wish(manifest: Object) -> tuple[object, bool]:
    metadata = manifest["metadata"]
    return metadata.get("generation"), "deletionTimestamp" in metadata


async def _arrived(seeing: asyncio.Task[Sight]) -> bool:
    """Wait a little for the signals, and return whether they are there."""
    await asyncio.wait({seeing}, timeout=_PATIENCE.total_seconds())
    return seeing.done()


@contextlib.asynccontextmanager
async def _together() -> AsyncIterator[asyncio.TaskGroup]:
    """Run tasks of which the first failure ends all, and is raised as it is: none goes on behind the next look."""
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from failures.exceptions[0].__cause__


def _needs_signals(session: Session) -> bool:
    return session.progress.attempt is not None and not session.progress.ended


def _attempts(session: Session, plan: Plan) -> int:
    """Return the earlier attempts with the candidate; the one that has put it into quarantine is not earlier itself."""
    progress = session.progress
    entry = next((q for q in progress.quarantine if q.digest == plan.candidate_digest), None)
    if entry is None:
        return 0
    attempt = progress.attempt
    own = (
        attempt is not None
        and attempt.candidate_digest == entry.digest
        and any(
            past.attempt == attempt.id and past.outcome is Outcome.ROLLED_BACK and past.reason == entry.reason
            for past in progress.history
        )
    )
    return entry.attempts - own


def _newest(reading: Reading, variant: Variant) -> datetime | None:
    times = [signal.newest[variant] for signal in reading.signals.values() if variant in signal.newest]
    return max(times, default=None)
