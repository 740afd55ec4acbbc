"""One look: what fails in it, and what that costs. Router, endpoints and sources fail here as they are told."""

import asyncio
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from davylamp.api.v1alpha1.convert import to_plan
from davylamp.api.v1alpha1.rollout import ModelRolloutSpec
from davylamp.core.model import Attempt, Outcome, PastAttempt, Progress, Quarantine, Variant, Verdict, Weight
from davylamp.core.plan import Plan, Shadow, SignalKind, Step
from davylamp.core.reading import Reading, SignalQuery, SignalReading, Target
from davylamp.core.world import RouteTrouble, RouteView
from davylamp.errors import Conflict, SpecError, Unavailable
from davylamp.ports import BackendRef, RouteRef, RouteState
from davylamp.runtime.blueprint import Blueprint
from davylamp.runtime.observe import Look, Observer
from davylamp.runtime.session import Session, open_session, take_plan
from davylamp.runtime.telemetry import Telemetry
from e2e.stage.manifests import model_rollout
from gatestats.counters import Sample
from tests.davylamp.runtime.waiting import eventually

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
MADE = model_rollout("ml", "credit", baseline="fp32", candidate="int8")
MANIFEST = MADE | {"metadata": MADE["metadata"] | {"uid": "u", "resourceVersion": "7", "generation": 1}}


@dataclass
class World:
    """Route, endpoints and source at once; each fails if an error is set."""

    route: RouteState | Exception = field(default_factory=lambda: RouteState(RouteTrouble("missing", missing=True)))
    endpoints: dict[str, int] | Exception = field(default_factory=lambda: {"fp32": 2, "int8": 1})
    signals: Exception | None = None
    hold: asyncio.Event | None = None
    windows: list[Any] = field(default_factory=list)
    cut: bool = False
    routes_read: int = 0
    serving: bool | None = None
    asked: list[str] = field(default_factory=list)
    rollouts: dict[str, Any] = field(default_factory=dict)

    async def read(self, *arguments: Any, **details: Any) -> Any:
        if isinstance(arguments[0], RouteRef):
            self.routes_read += 1
            return _given(self.route)
        self.windows.append(arguments[2])
        self.asked = [query.gate for query in arguments[0].signals]
        self.serving = details["serving"]
        try:
            if self.hold is not None:
                await self.hold.wait()
        except asyncio.CancelledError:
            self.cut = True
            raise
        if self.signals is not None:
            raise self.signals
        return reading(arguments[2][1])

    async def ready(self, _: str) -> Any:
        return _given(self.endpoints)


def _given(value: Any) -> Any:
    if isinstance(value, Exception):
        raise value
    return value


def reading(end: datetime) -> Reading:
    """Return what a source finds: 100 requests a second, of which the candidate fails 90."""
    at = end.timestamp()

    def target(failed: int) -> tuple[Target, ...]:
        def counter(each: int) -> dict[str, tuple[Sample, ...]]:
            return {"a": tuple(Sample(at - back, float(each * (1000 - back))) for back in (20, 10, 1))}

        return (Target("a", events=counter(failed), total=counter(100)),)

    targets = {Variant.BASELINE: target(0), Variant.CANDIDATE: target(90)}
    newest = dict.fromkeys(Variant, end - timedelta(seconds=1))
    return Reading({"errors": SignalReading(targets, newest)})


@pytest.fixture
def plan() -> Plan:
    made = to_plan(ModelRolloutSpec.parse(MANIFEST["spec"]), None)
    return replace(made, gates=tuple(gate for gate in made.gates if gate.name == "errors"))


@pytest.fixture
def session(plan: Plan) -> Session:
    made = open_session(MANIFEST)
    attempt = Attempt("u-1", 1, plan.candidate_digest, plan.spec_hash, NOW, plan.pair)
    made.progress = Progress(attempt=attempt, step=0, requested=Weight(20))
    take_plan(made, plan, MANIFEST)
    return made


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def logs() -> Iterator[list[Any]]:
    with capture_logs() as lines:
        yield lines


async def look(world: World, session: Session, plan: Plan, now: datetime = NOW, *, blind: bool = False) -> Look:
    parts = cast("Any", world)
    observer = Observer(parts, parts, parts, parts, Telemetry())
    drawn = None if blind else Blueprint(plan, "default", (), {}, ())
    return await observer.look(session, MANIFEST, plan, blueprint=drawn, now=now)


async def test_without_the_route_nothing_is_taken_over_and_nothing_goes_on(
    world: World, session: Session, plan: Plan
) -> None:
    world.route, world.hold = Unavailable("away"), asyncio.Event()
    before = session.evidence
    with pytest.raises(Unavailable, match="away"):
        await look(world, session, plan)
    assert session.evidence is before
    assert session.read_at is None
    assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]


async def test_a_slow_source_is_cut_off_when_the_route_cannot_be_read(
    world: World, session: Session, plan: Plan
) -> None:
    world.hold = asyncio.Event()

    async def fails_later(_: RouteRef) -> RouteState:
        await eventually(lambda: world.windows, "the source is asked")
        raise Unavailable("away")

    parts = cast("Any", world)
    router = type("Router", (), {"read": staticmethod(fails_later)})()
    observer = Observer(router, parts, parts, parts, Telemetry())
    with pytest.raises(Unavailable):
        await observer.look(session, MANIFEST, plan, blueprint=Blueprint(plan, "d", (), {}, ()), now=NOW)
    assert world.cut


def serving(weight: int = 20) -> RouteState:
    """Return a route that gives the candidate of attempt u-1 this weight."""
    view = RouteView("r", Weight(weight), prepared=True, asked=Weight(20), attempt="u-1", accepted=True)
    return RouteState(view, manifest={"metadata": {}})


async def test_a_candidate_that_is_lost_does_not_wait_for_a_source_that_hangs(
    world: World, session: Session, plan: Plan
) -> None:
    world.hold, world.route, world.endpoints = asyncio.Event(), serving(), {"fp32": 2}
    seen = await asyncio.wait_for(look(world, session, plan), 60)
    assert seen.world.candidate_ready == 0
    assert world.cut
    assert session.read_at is None


async def test_a_candidate_that_is_lost_while_a_source_hangs_is_seen_within_a_tick(
    world: World, session: Session, plan: Plan
) -> None:
    world.hold, world.route = asyncio.Event(), serving()
    looking = asyncio.create_task(look(world, session, replace(plan, interval=timedelta(seconds=0.1))))
    await eventually(lambda: world.windows, "the source is asked")
    world.endpoints = {"fp32": 2}
    seen = await asyncio.wait_for(looking, 60)
    assert seen.world.candidate_ready == 0


@pytest.mark.parametrize("change", [{"deletionTimestamp": "2026-11-30T12:00:00Z"}, {"generation": 2}])
async def test_a_deletion_or_another_spec_ends_the_wait_for_a_source_that_hangs(
    world: World, session: Session, plan: Plan, change: dict[str, Any]
) -> None:
    world.hold, world.route = asyncio.Event(), serving()
    looking = asyncio.create_task(look(world, session, plan))
    await eventually(lambda: world.windows, "the source is asked")
    world.rollouts["u"] = MANIFEST | {"metadata": MANIFEST["metadata"] | change}
    with pytest.raises(Conflict, match="changed"):
        await asyncio.wait_for(looking, 60)
    assert world.cut


async def test_a_source_that_is_slow_is_waited_for_while_nothing_is_to_be_lowered(
    world: World, session: Session, plan: Plan
) -> None:
    world.hold, world.route = asyncio.Event(), serving()
    looking = asyncio.create_task(look(world, session, replace(plan, interval=timedelta(seconds=0.1))))
    await eventually(lambda: world.routes_read > 2, "the route is read at every tick")
    world.hold.set()
    seen = await looking
    assert session.read_at == NOW
    assert len(world.windows) == 1
    assert seen.world.judgement.verdict is not Verdict.SOURCE_DOWN


async def test_waiting_for_a_source_does_not_count_bad_requests_twice(
    world: World, session: Session, plan: Plan
) -> None:
    world.route = serving()
    await look(world, session, plan, NOW - timedelta(seconds=10))
    first = await look(world, session, plan)
    assert (first.world.judgement.candidate_errors or 0) > 0
    world.hold, world.endpoints = asyncio.Event(), {"fp32": 2}
    cut = await look(world, session, plan, NOW + timedelta(seconds=10))
    assert cut.world.judgement.candidate_errors is None


async def test_endpoints_that_cannot_be_read_forbid_raising_and_nothing_else(
    world: World, session: Session, plan: Plan
) -> None:
    for error in (Unavailable("away"), SpecError("forbidden")):
        world.endpoints = error
        seen = await look(world, session, plan)
        assert not seen.complete
        assert (seen.world.baseline_ready, seen.world.candidate_ready) == (1, 1)


async def test_the_comparators_endpoints_are_counted_and_the_route_is_told_where_it_is(
    world: World, session: Session, plan: Plan
) -> None:
    mirroring = replace(plan, comparator="davylamp-shadow:8090")
    for endpoints, ready in (({"davylamp-shadow": 3}, 3), ({"davylamp-shadow": 0}, 0), ({}, 0)):
        world.endpoints = {"fp32": 2, "int8": 1} | endpoints
        seen = await look(world, session, mirroring)
        assert (seen.world.comparator_ready, seen.ref.comparator) == (ready, BackendRef("davylamp-shadow", 8090))
    assert (await look(world, session, plan)).ref.comparator is None


async def test_a_comparator_whose_endpoints_cannot_be_read_is_not_said_to_have_none(
    world: World, session: Session, plan: Plan
) -> None:
    world.endpoints = Unavailable("away")
    seen = await look(world, session, replace(plan, comparator="davylamp-shadow:8090"))
    assert (seen.world.comparator_ready, seen.complete) == (1, False)


async def test_the_comparator_is_read_while_its_step_mirrors_requests(
    world: World, session: Session, plan: Plan
) -> None:
    shadow = Step(Weight(20), timedelta(minutes=1), shadow=Shadow(0.2, 100, timedelta(hours=1)))
    mirroring = replace(plan, steps=(shadow, *plan.steps[1:]), comparator="davylamp-shadow:8090")
    pairs = SignalQuery("disagreement", SignalKind.COUNTER)
    for step, read in ((0, ["disagreement"]), (1, [])):
        session.progress = replace(session.progress, step=step)
        session.read_at = None
        drawn = Blueprint(mirroring, "default", (), {}, (), shadow=(pairs,))
        parts = cast("Any", world)
        observer = Observer(parts, parts, parts, parts, Telemetry())
        await observer.look(session, MANIFEST, mirroring, blueprint=drawn, now=NOW + timedelta(minutes=step))
        assert world.asked == read


async def test_a_service_that_does_not_exist_has_no_endpoints(world: World, session: Session, plan: Plan) -> None:
    world.endpoints = {"fp32": 2}
    seen = await look(world, session, plan)
    assert seen.complete
    assert (seen.world.baseline_ready, seen.world.candidate_ready) == (2, 0)


@pytest.mark.parametrize("error", [Unavailable("no answer"), SpecError("bad query"), RuntimeError("a bug")])
async def test_a_source_that_fails_in_any_way_is_down_and_blames_nobody(
    world: World, session: Session, plan: Plan, error: Exception, logs: list[Any]
) -> None:
    world.signals = error
    seen = await look(world, session, plan)
    assert seen.world.judgement.verdict is Verdict.SOURCE_DOWN
    assert seen.world.judgement.candidate_errors is None
    assert session.evidence.as_of is None
    message = next(iter(seen.world.judgement.messages.values()))
    expected = "an unexpected error in Davylamp" if isinstance(error, RuntimeError) else str(error)
    assert expected in message
    assert bool(logs) is isinstance(error, RuntimeError)


async def test_gates_that_cannot_be_judged_were_not_seen(
    world: World, session: Session, plan: Plan, monkeypatch: pytest.MonkeyPatch, logs: list[Any]
) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("davylamp.runtime.observe.judge", broken)
    seen = await look(world, session, plan)
    assert seen.world.judgement.verdict is Verdict.NO_DATA
    assert session.reports == ()
    assert [line["event"] for line in logs] == ["judgement_failed"]


async def test_a_rollout_whose_spec_is_broken_is_blind_and_never_fine(
    world: World, session: Session, plan: Plan
) -> None:
    seen = await look(world, session, plan, blind=True)
    assert world.windows == []
    assert seen.world.judgement.verdict is Verdict.SOURCE_DOWN


@pytest.mark.parametrize(("step", "serves"), [(-1, False), (0, True)])
async def test_a_source_is_told_whether_there_is_traffic_to_watch(
    world: World, session: Session, plan: Plan, step: int, serves: bool
) -> None:
    session.progress = replace(session.progress, step=step)
    await look(world, session, plan)
    assert world.serving is serves


async def test_windows_of_looks_join(world: World, session: Session, plan: Plan) -> None:
    for seconds in (0, 10, 20):
        await look(world, session, plan, NOW + timedelta(seconds=seconds))
    assert [end for _, end in world.windows[:-1]] == [start for start, _ in world.windows[1:]]


async def test_the_requests_of_one_window_are_counted_by_the_trip_wire_once(
    world: World, session: Session, plan: Plan
) -> None:
    await look(world, session, plan, NOW - timedelta(seconds=10))
    first = await look(world, session, plan)
    assert (first.world.judgement.candidate_requests or 0) > 0
    # A hint makes another look within the same tick.
    again = await look(world, session, plan, NOW + timedelta(seconds=0.1))
    assert again.world.judgement.candidate_requests is None
    assert again.world.judgement.verdict == first.world.judgement.verdict
    assert len(world.windows) == 2


async def test_an_attempt_keeps_its_threshold_when_it_puts_its_candidate_into_quarantine(
    world: World, session: Session, plan: Plan
) -> None:
    await look(world, session, plan)
    (before,) = session.reports
    assert session.progress.attempt is not None
    past = PastAttempt("u-1", Outcome.ROLLED_BACK, "Regressed", NOW, NOW)
    entry = Quarantine(plan.candidate_digest, NOW + timedelta(hours=1), 1, "Regressed")
    session.progress = replace(session.progress, history=(past,), quarantine=(entry,))
    await look(world, session, plan, NOW + timedelta(seconds=10))
    assert [report.non_inferiority_threshold for report in session.reports] == [before.non_inferiority_threshold]


@pytest.mark.parametrize("reason", ["Regressed", "EvidenceTimeout"])
async def test_an_attempt_after_a_quarantine_needs_twice_the_evidence(
    world: World, session: Session, plan: Plan, reason: str
) -> None:
    await look(world, session, plan)
    (before,) = session.reports
    attempt = session.progress.attempt
    assert attempt is not None
    entry = Quarantine(plan.candidate_digest, NOW, 1, "Regressed")
    # What ended without blame has put nobody into quarantine, so the entry is another attempt's.
    name = "earlier" if reason == "Regressed" else attempt.id
    past = PastAttempt(name, Outcome.ROLLED_BACK, reason, NOW, NOW)
    session.progress = replace(session.progress, history=(past,), quarantine=(entry,))
    await look(world, session, plan, NOW + timedelta(seconds=10))
    (after,) = session.reports
    assert after.non_inferiority_threshold == pytest.approx((before.non_inferiority_threshold or 0) + math.log10(2))


async def test_a_rollout_that_is_over_reads_nothing(world: World, session: Session, plan: Plan) -> None:
    session.progress = Progress()
    await look(world, session, plan)
    assert world.windows == []
