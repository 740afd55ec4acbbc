"""Gather all facts of one look before anything is judged."""

import asyncio
from dataclasses import dataclass
from datetime import datetime

from davylamp.api.v1alpha1.convert import pair_ref
from davylamp.core.evidence import learn_baseline, observe, source_down
from davylamp.core.judge import judge
from davylamp.core.model import Pair, RouteTrouble, RouteView, Variant, World
from davylamp.core.plan import Plan
from davylamp.core.reading import Reading
from davylamp.errors import SpecError, Unavailable
from davylamp.ports import Router, RouteRef, RouteState
from davylamp.runtime.blueprint import Blueprint
from davylamp.runtime.catalogue import Catalogue, Object, route_name
from davylamp.runtime.endpoints import Endpoints
from davylamp.runtime.reading import Sources, window_for
from davylamp.runtime.session import Session
from davylamp.runtime.telemetry import Telemetry


@dataclass(frozen=True, slots=True)
class Look:
    """What one look has found: the facts, the route for the next write, and whether raising is safe at all."""

    world: World
    ref: RouteRef
    route: RouteState
    complete: bool


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
        ref = pair_ref(pair, session.name.namespace)
        route, (ready, complete), _ = await asyncio.gather(
            self.router.read(ref), self._ready(session, pair), self._signals(session, plan, blueprint, now)
        )
        route = self._taken(session, manifest, route)
        session.judgement, session.reports = judge(plan, session.evidence, _attempts(session, plan))
        world = World(
            uid=session.uid,
            deleting="deletionTimestamp" in manifest["metadata"],
            route=route.view,
            baseline_ready=ready[Variant.BASELINE],
            candidate_ready=ready[Variant.CANDIDATE],
            judgement=session.judgement,
        )
        return Look(world, ref, route, complete)

    def _taken(self, session: Session, manifest: Object, route: RouteState) -> RouteState:
        """Leave the route to an older rollout, unless this one has its marks on it."""
        rival = self.catalogue.rival(session.uid) if session.uid in self.catalogue.rollouts else None
        attempt = session.progress.attempt
        marked = isinstance(route.view, RouteView) and attempt is not None and route.view.attempt == attempt.id
        if rival is None or marked:
            return route
        message = f"HTTPRoute {route_name(manifest)} is used by ModelRollout {rival}, which is older: wait for its end"
        return RouteState(RouteTrouble(message, taken=True))

    async def _ready(self, session: Session, pair: Pair) -> tuple[dict[Variant, int], bool]:
        names = {Variant.BASELINE: pair.baseline, Variant.CANDIDATE: pair.candidate}
        try:
            counts = await self.endpoints.ready(session.name.namespace)
        except Unavailable:
            return dict.fromkeys(names, 1), False
        return {variant: counts.get(text.rpartition(":")[0], 0) for variant, text in names.items()}, True

    async def _signals(self, session: Session, plan: Plan, blueprint: Blueprint | None, now: datetime) -> None:
        """Advance the evidence by one window, if it is time for one."""
        if blueprint is None or not _needs_signals(session):
            return
        evidence = session.evidence
        early = session.read_at is not None and now - session.read_at < plan.interval * 0.5
        window = window_for(evidence.as_of, now)
        if early or window is None:
            return
        session.read_at = now
        try:
            reading = await self.sources.read(blueprint, session.name.namespace, window)
        except (Unavailable, SpecError) as error:
            self.telemetry.source_errors.labels(blueprint.source).inc()
            session.evidence = source_down(plan, evidence, str(error))
            return
        serving = session.progress.step >= 0 and session.progress.attempt is not None
        session.newest = _newest(reading, Variant.CANDIDATE if serving else Variant.BASELINE)
        if serving:
            session.evidence = observe(plan, evidence, reading, window)
        else:
            session.evidence = learn_baseline(plan, evidence, reading, window)


def _needs_signals(session: Session) -> bool:
    return session.progress.attempt is not None and not session.progress.ended


def _attempts(session: Session, plan: Plan) -> int:
    return next((q.attempts for q in session.progress.quarantine if q.digest == plan.candidate_digest), 0)


def _newest(reading: Reading, variant: Variant) -> datetime | None:
    times = [signal.newest[variant] for signal in reading.signals.values() if variant in signal.newest]
    return max(times, default=None)
