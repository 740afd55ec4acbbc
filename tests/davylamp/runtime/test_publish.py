"""What is written where people find it, on a real API server with the operator's own rights."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from davylamp.core.model import Phase, Progress, Reason, Severity, Verdict, Weight
from davylamp.core.moves import Fact, Raise
from davylamp.core.outbox import Channel
from davylamp.core.world import Judgement, RouteTrouble, World
from davylamp.errors import Conflict
from davylamp.ports import BackendRef, RouteRef, RouteState
from davylamp.runtime.catalogue import Catalogue
from davylamp.runtime.clock import SystemClock
from davylamp.runtime.kube import Kube
from davylamp.runtime.observe import Look
from davylamp.runtime.publish import FINALIZER, Publisher, Turn
from davylamp.runtime.session import Session, open_session
from davylamp.runtime.telemetry import Telemetry
from tests.davylamp.runtime.premises import Object, Premises

FACT = Fact("a-1/0/Regressed", Severity.INCIDENT, "errors 5 % against 1 %\nsecond line " + "x" * 2000)
NOTE = Fact("a-1/0/StepStarted", Severity.INFO, "step 1 of 2")


@pytest.fixture
def catalogue(own_kube: Kube, lab_namespace: str) -> Catalogue:
    return Catalogue(own_kube, (lab_namespace,))


@pytest.fixture
def publisher(own_kube: Kube, catalogue: Catalogue) -> Publisher:
    return Publisher(own_kube, catalogue, Telemetry(), timedelta(seconds=10))


def turned(manifest: Object, session: Session | None = None, **changes: Any) -> Turn:
    route = RouteTrouble("not looked at")
    world = World(manifest["metadata"]["uid"], deleting=False, route=route, baseline_ready=1, candidate_ready=1,
                  judgement=Judgement())  # fmt: skip
    name = manifest["metadata"]["name"]
    ref = RouteRef(manifest["metadata"]["namespace"], name, BackendRef("a", 1), BackendRef("b", 1))
    look = Look(world, ref, RouteState(route), complete=True)
    return replace(Turn(session or open_session(manifest), manifest, look, SystemClock().now(), 7), **changes)


async def test_a_status_is_written_once_and_the_catalogue_knows_it(
    publisher: Publisher, catalogue: Catalogue, premises: Premises
) -> None:
    turn = turned(premises.rollout())
    progress = Progress(phase=Phase.PENDING, reason=Reason.ACCEPTED, message="seen")
    await publisher.status(turn, progress)
    stored = premises.lab.api.get(premises.path())
    assert (stored["status"]["phase"], stored["status"]["reason"], stored["status"]["epoch"]) == (
        "Pending",
        "Accepted",
        7,
    )
    assert catalogue.rollouts[turn.session.uid] == stored
    assert turn.session.written_at == turn.now
    # The same again changes nothing.
    await publisher.status(replace(turn, manifest=stored), progress)
    assert premises.lab.api.get(premises.path()) == stored


async def test_a_status_is_never_written_over_a_changed_object(publisher: Publisher, premises: Premises) -> None:
    turn = turned(premises.rollout())
    premises.lab.api.apply(premises.manifest(paused=True))
    with pytest.raises(Conflict):
        await publisher.status(turn, Progress(message="late"))
    assert "status" not in premises.lab.api.get(premises.path())


async def test_numbers_alone_are_no_news_and_are_written_now_and_then(publisher: Publisher, premises: Premises) -> None:
    turn = turned(premises.rollout())
    progress = Progress(message="baking at 20 % for 1 of 60 s")
    await publisher.status(turn, progress)
    turn = replace(turn, manifest=premises.lab.api.get(premises.path()))
    more = replace(progress, message="baking at 20 % for 2 of 60 s", baked=timedelta(seconds=2))
    assert not publisher.news(turn, more)
    assert publisher.news(turn, replace(more, phase=Phase.HELD))
    assert publisher.news(turn, replace(more, reason=Reason.SAMPLING))
    assert publisher.news(turn, replace(more, requested=Weight(5)))
    turn.session.outbox = replace(turn.session.outbox, told=("a",))
    assert publisher.news(turn, more)
    assert not publisher.stale(turn)
    assert publisher.stale(replace(turn, now=turn.now + timedelta(seconds=10)))


async def test_a_verdict_is_news(publisher: Publisher, premises: Premises) -> None:
    turn = turned(premises.rollout())
    await publisher.status(turn, Progress())
    turn = replace(turn, manifest=premises.lab.api.get(premises.path()))
    assert not publisher.news(turn, Progress())
    turn.session.judgement = Judgement(verdicts={"errors": Verdict.NO_DATA})
    assert publisher.news(turn, Progress())


async def test_the_finalizer_is_put_and_taken_beside_those_of_others(
    publisher: Publisher, catalogue: Catalogue, premises: Premises
) -> None:
    premises.rollout()
    manifest = premises.lab.api.merge(premises.path(), {"metadata": {"finalizers": ["example.org/other"]}})
    session = open_session(manifest)
    marked = await publisher.finalizer(session, manifest, present=True)
    assert marked is not None
    assert premises.lab.api.get(premises.path())["metadata"]["finalizers"] == ["example.org/other", FINALIZER]
    assert await publisher.finalizer(session, marked, present=True) is None
    freed = await publisher.finalizer(session, marked, present=False)
    assert freed is not None
    assert premises.lab.api.get(premises.path())["metadata"]["finalizers"] == ["example.org/other"]
    assert session.uid in catalogue.rollouts
    assert await publisher.finalizer(session, freed, present=False) is None


async def test_an_object_goes_with_its_last_finalizer(
    publisher: Publisher, catalogue: Catalogue, premises: Premises
) -> None:
    manifest = premises.rollout()
    session = open_session(manifest)
    await publisher.finalizer(session, manifest, present=True)
    premises.lab.api.delete(premises.path())
    manifest = premises.lab.api.get(premises.path())
    await publisher.finalizer(session, manifest, present=False)
    assert premises.lab.api.find(premises.path()) is None
    assert session.uid not in catalogue.rollouts


async def test_a_fact_is_new_once(publisher: Publisher, premises: Premises) -> None:
    session, now = open_session(premises.rollout()), SystemClock().now()
    session.channels = (Channel("ml-slack"),)
    session.outbox, new = publisher.collect(session, (FACT, NOTE), now)
    assert new == (FACT, NOTE)
    session.outbox, new = publisher.collect(session, (FACT, NOTE), now)
    assert new == ()
    assert [message.fact for message in session.outbox.pending] == [FACT, NOTE]


@pytest.mark.parametrize("channels", [(), (Channel("ml-slack"),)])
async def test_a_fact_that_did_not_come_true_is_taken_back_and_may_come_again(
    publisher: Publisher, premises: Premises, channels: tuple[Channel, ...]
) -> None:
    session, now = open_session(premises.rollout()), SystemClock().now()
    session.channels = channels
    session.outbox, _ = publisher.collect(session, (FACT,), now)
    before = session.outbox
    session.outbox, new = publisher.collect(session, (NOTE,), now)
    publisher.withdraw(session, new)
    assert session.outbox == before
    session.outbox, new = publisher.collect(session, (NOTE,), now)
    assert new == (NOTE,)


async def test_each_fact_becomes_an_event_about_the_rollout(publisher: Publisher, premises: Premises) -> None:
    manifest = premises.rollout()
    await publisher.events(open_session(manifest), manifest, (FACT, NOTE), SystemClock().now())
    (bad,), (good,) = premises.events("Regressed"), premises.events("StepStarted")
    assert (bad["type"], good["type"]) == ("Warning", "Normal")
    assert bad["involvedObject"]["uid"] == manifest["metadata"]["uid"]
    assert len(bad["message"]) == 1024
    assert good["source"] == {"component": "davylamp"}


@pytest.mark.parametrize("name", ["a" * 49 + "-b", "a" * 49 + ".b", "a" * 63])
async def test_an_event_has_a_name_whatever_the_rollout_is_called(
    publisher: Publisher, premises: Premises, name: str
) -> None:
    premises.route("credit")
    manifest = premises.lab.api.apply(premises.manifest(name, route={"gatewayAPI": {"httpRoute": "credit"}}))
    await publisher.events(open_session(manifest), manifest, (NOTE,), SystemClock().now())
    assert len(premises.events("StepStarted")) == 1


async def test_an_event_that_cannot_be_written_is_lost_and_nothing_else(
    publisher: Publisher, premises: Premises, own_kube: Kube
) -> None:
    manifest = premises.rollout()
    own_kube._api.configuration.host = "https://127.0.0.1:1"
    await publisher.events(open_session(manifest), manifest, (NOTE,), SystemClock().now())
    assert not premises.events("StepStarted")


async def test_only_a_change_makes_a_line_and_a_count(publisher: Publisher, premises: Premises) -> None:
    session = open_session(premises.rollout())
    before = Progress()

    def count(action: str, reason: str) -> float:
        labels = (session.name.namespace, session.name.name, action, reason)
        return float(publisher.telemetry.decisions.labels(*labels)._value.get())

    publisher.record(session, before, replace(before, message="other numbers"), None)
    assert count("None", "Accepted") == 0
    publisher.record(session, before, replace(before, reason=Reason.BAKING), None)
    assert count("None", "Baking") == 1
    publisher.record(session, before, before, Raise("a-1", Weight(20)))
    assert count("Raise", "Accepted") == 1
