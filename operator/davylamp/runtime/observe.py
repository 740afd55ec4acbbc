"""Gather all facts of one look before anything is judged."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

import structlog

from davylamp.api.v1alpha1.convert import pair_ref
from davylamp.core.evidence import Evidence, source_down
from davylamp.core.judge import judge
from davylamp.core.looking import advance, due_window, serving
from davylamp.core.model import NONE, Pair, Variant
from davylamp.core.plan import Plan
from davylamp.core.reading import Reading
from davylamp.core.report import GateReport
from davylamp.core.world import Judgement, RouteTrouble, RouteView, World
from davylamp.errors import DavylampError, SpecError, Unavailable
from davylamp.ports import Router, RouteRef, RouteState
from davylamp.runtime.blueprint import Blueprint
from davylamp.runtime.catalogue import Catalogue, Object, route_name
from davylamp.runtime.endpoints import Endpoints
from davylamp.runtime.reading import Sources
from davylamp.runtime.session import Session, refusal_in_force
from davylamp.runtime.telemetry import Telemetry

_log: Final = structlog.get_logger("davylamp")
_UNEXPECTED: Final = "an unexpected error in Davylamp: see the operator's log, and report it"
_BLIND: Final = "no signal is read, since the spec or its policy cannot be used"


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
class Observer:
    """Reads route, endpoints and signals."""

    router: Router
    endpoints: Endpoints
    sources: Sources
    catalogue: Catalogue
    telemetry: Telemetry

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
        ref = replace(pair_ref(pair, session.name.namespace), ladder=plan.weights)
        async with _together() as group:
            reading = group.create_task(self.router.read(ref))
            counting = group.create_task(self._ready(session, pair))
            seeing = group.create_task(self._sight(session, plan, blueprint, now))
        route, (ready, complete), sight = reading.result(), counting.result(), seeing.result()
        session.evidence, session.read_at, session.newest = sight.evidence, sight.read_at, sight.newest
        route = self._taken(session, manifest, route)
        session.judgement, session.reports = _judged(session, plan)
        world = World(
            uid=session.uid,
            deleting="deletionTimestamp" in manifest["metadata"],
            route=route.view,
            baseline_ready=ready[Variant.BASELINE],
            candidate_ready=ready[Variant.CANDIDATE],
            judgement=session.judgement,
            refusal=refusal_in_force(session, route.manifest, now),
        )
        return Look(world, ref, route, complete)

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

    async def _ready(self, session: Session, pair: Pair) -> tuple[dict[Variant, int], bool]:
        names = {Variant.BASELINE: pair.baseline, Variant.CANDIDATE: pair.candidate}
        try:
            counts = await self.endpoints.ready(session.name.namespace)
        except DavylampError:
            return dict.fromkeys(names, 1), False
        return {variant: counts.get(text.rpartition(":")[0], 0) for variant, text in names.items()}, True

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
            # The requests of the last look were counted by the trip wire then.
            return replace(before, evidence=replace(evidence, candidate_errors=None, candidate_requests=None))
        try:
            reading = await self.sources.read(blueprint, session.name.namespace, window)
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


def _judged(session: Session, plan: Plan) -> tuple[Judgement, tuple[GateReport, ...]]:
    """Return what the gates say; if they cannot be judged, nothing was seen."""
    try:
        return judge(plan, session.evidence, _attempts(session, plan))
    except Exception:  # noqa: BLE001 - a fault in here must not keep a lowering from being decided
        _log.exception("judgement_failed", rollout=str(session.name))
        return Judgement(), ()


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
    return next((q.attempts for q in session.progress.quarantine if q.digest == plan.candidate_digest), 0)


def _newest(reading: Reading, variant: Variant) -> datetime | None:
    times = [signal.newest[variant] for signal in reading.signals.values() if variant in signal.newest]
    return max(times, default=None)
