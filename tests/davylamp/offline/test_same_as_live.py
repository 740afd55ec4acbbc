"""The live operator and a replay, on the same raw samples: the same evidence, bit for bit, and the same verdicts.

The live path is the operator's own: its Prometheus source over HTTP, its Observer, its judgement, decision and cuts.
The server answers each query from the series that the replay reads.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, cast

import pytest
from aiohttp import web

from davylamp.core.decide import decide
from davylamp.core.evidence import begin
from davylamp.core.model import NONE, Progress, Verdict
from davylamp.core.moves import Divert, Lower, Mirror, Prepare, Raise, Release, Repoint, Restore
from davylamp.core.outbox import Outbox
from davylamp.core.reading import Reading
from davylamp.core.world import RouteView
from davylamp.offline.history import History
from davylamp.offline.replay import Operator
from davylamp.offline.subject import Subject
from davylamp.ports import RouteRef, RouteState
from davylamp.runtime.blueprint import Blueprint
from davylamp.runtime.engine import Engine, Parts
from davylamp.runtime.observe import Observer
from davylamp.runtime.session import Session
from davylamp.runtime.telemetry import Telemetry
from davylamp.sources.prometheus import PrometheusSource
from davylamp.sources.settings import PrometheusSettings
from tests.davylamp.offline.pasts import BEGINS, ROLLOUT, Past, subject
from tests.simulation_statistics.generator import Scraping
from tests.simulation_statistics.traffic import Buckets, Truth

_RANGE: Final = re.compile(r"(?P<selector>.*)\[(?P<length>\d+)ms\]")
_MANIFEST: Final = ROLLOUT | {"metadata": ROLLOUT["metadata"] | {"uid": "replay", "resourceVersion": "1"}}


@dataclass
class Clock:
    time: datetime = BEGINS

    def now(self) -> datetime:
        return self.time


@asynccontextmanager
async def prometheus(history: History) -> AsyncIterator[str]:
    """Answer range selectors at any moment, as the HTTP API does."""

    async def answer(request: web.Request) -> web.Response:
        form = await request.post()
        asked = _RANGE.fullmatch(str(form["query"]))
        assert asked is not None
        end = float(str(form["time"]))
        low = end - int(asked["length"]) / 1000
        found = [track.between(low, end) for track in history.tracks[asked["selector"]]]
        result = [
            {"metric": dict(some.labels), "values": some.values, "histograms": some.histograms}
            for some in found
            if some
        ]
        return web.json_response({"status": "success", "data": {"resultType": "matrix", "result": result}})

    application = web.Application()
    application.router.add_post("/api/v1/query", answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@dataclass
class Live:
    """The operator's Observer and Engine on a real source; the route and the endpoints are values."""

    subject: Subject
    source: PrometheusSource
    clock: Clock
    candidate_ready: int = 0
    route: RouteView = field(default_factory=lambda: RouteView("route", NONE, prepared=False, accepted=True))
    session: Session = field(init=False)
    rollouts: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        plan = self.subject.plan
        self.session = Session("replay", self.subject.name, Progress(), Outbox(), begin(plan), plan=plan)
        self.engine = Engine(cast("Parts", self))

    async def look(self) -> None:
        parts = cast("Any", self)
        observer = Observer(parts, parts, parts, parts, Telemetry())
        plan, now = self.subject.plan, self.clock.now()
        found = await observer.look(self.session, _MANIFEST, plan, blueprint=self.subject.blueprint, now=now)
        decision = decide(plan, self.session.progress, found.world, now)
        self.engine._begin_anew(self.session, plan, decision)
        self.session.progress = decision.progress
        match decision.action:
            case Prepare(attempt):
                self.route = RouteView("route", NONE, prepared=True, attempt=attempt, asked=NONE, accepted=True)
            case Raise(attempt=attempt, weight=weight) | Lower(attempt, weight, _):
                self.route = RouteView("route", weight, True, weight, attempt, accepted=True)
            case Restore() | Repoint():
                over = isinstance(decision.action, Repoint)
                self.route = RouteView("route", NONE, prepared=False, accepted=True, repointed=over)
            case Mirror() | Divert() | Release() | None:
                pass

    async def read(self, *arguments: Any, **_details: Any) -> RouteState | Reading:
        if isinstance(arguments[0], RouteRef):
            return RouteState(self.route, manifest={"metadata": {}})
        _, _, window = cast("tuple[Blueprint, str, tuple[datetime, datetime]]", arguments)
        return await self.source.read(self.subject.request(window))

    async def ready(self, _: str) -> dict[str, int]:
        return {"fp32": 1, "int8": self.candidate_ready}


@pytest.mark.parametrize(
    ("truth", "buckets", "last"),
    [
        (Truth(100, drift=1.0), Buckets.FINE, Verdict.NON_INFERIOR),
        (Truth(100, drift=1.0, error_odds=6.0), Buckets.FINE, Verdict.REGRESSED),
        (Truth(100, drift=1.0, slowdown=1.4), Buckets.COARSE, Verdict.REGRESSED),
    ],
)
async def test_a_replay_has_the_evidence_and_the_verdicts_of_the_live_operator(
    truth: Truth, buckets: Buckets, last: Verdict
) -> None:
    rollout = subject()
    past = Past(truth, scraping=Scraping(buckets=buckets, missed=0.05, late=0.0, restarts=0.01))
    history = past.history(rollout)
    replayed, seen = Operator(rollout, history), set[Verdict]()
    async with prometheus(history) as address:
        clock = Clock()
        source = PrometheusSource(PrometheusSettings("default", address, queries_per_second=1000), clock)
        live = Live(rollout, source, clock)
        try:
            for number in range(1, 60):
                for moment in replayed.turn(BEGINS + number * rollout.plan.interval):
                    clock.time = moment.at
                    live.candidate_ready = int(replayed.candidate_seen)
                    await live.look()
                    assert live.session.evidence.to_json() == replayed.evidence.to_json()
                    assert live.session.judgement == replayed.judgement
                    assert live.session.progress == replayed.progress
                    seen.update(replayed.judgement.verdicts.values())
                if replayed.progress.ended:
                    break
        finally:
            await source.close()
    assert last in seen
    assert replayed.progress.ended
    assert clock.time - BEGINS > timedelta(seconds=60)
