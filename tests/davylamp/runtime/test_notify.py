"""Messages to receivers that really listen, with the channels and Secrets of a real API server."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web
from structlog.testing import capture_logs

from davylamp.core.evidence import Evidence
from davylamp.core.model import Attempt, Pair, Phase, Progress, Severity
from davylamp.core.moves import Fact
from davylamp.core.outbox import Channel, Outbox, add
from davylamp.runtime.catalogue import Catalogue, Name
from davylamp.runtime.kube import Kube
from davylamp.runtime.notify import Messenger
from davylamp.runtime.session import Session
from davylamp.runtime.telemetry import Telemetry
from e2e.lab import Lab
from tests.davylamp.runtime.clocks import HandClock

HOOK = "T000/B000/planted-hook-secret"
KEY = "0123456789abcdef0123456789abcdef"
SLACK, PAGER = Channel("ml-slack"), Channel("oncall", Severity.INCIDENT)
BAD = Fact("a-1/0/Regressed", Severity.INCIDENT, "errors 5 % against 1 %")
GOOD = Fact("a-1/2/AllGatesPassed", Severity.INFO, "promoted")


class Receiver:
    """Slack and PagerDuty in one: keeps what it gets, and answers as it is told."""

    def __init__(self) -> None:
        self.address = ""
        self.posts: list[tuple[str, Any]] = []
        self.status: dict[str, int] = {}
        self.headers: dict[str, str] = {}

    async def handle(self, request: web.Request) -> web.Response:
        kind = "slack" if request.path.startswith("/services/") else "pagerDuty"
        status = self.status.get(kind, 202 if kind == "pagerDuty" else 200)
        self.posts.append((kind, json.loads(await request.read())))
        return web.Response(status=status, text="ok", headers=self.headers)

    def got(self, kind: str) -> list[Any]:
        return [body for each, body in self.posts if each == kind]


@pytest_asyncio.fixture
async def receiver() -> AsyncIterator[Receiver]:
    made, application = Receiver(), web.Application()
    application.router.add_post("/{path:.*}", made.handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    made.address = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield made
    await runner.cleanup()


@pytest.fixture
def namespace(control_plane: Lab, lab_namespace: str) -> str:
    """A namespace whose owner lets the operator read Secrets, with a channel of each kind."""
    api = control_plane.api
    api.apply(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "davylamp-secrets", "namespace": lab_namespace},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "davylamp-secrets",
            },
            "subjects": [{"kind": "ServiceAccount", "name": "davylamp", "namespace": "davylamp-system"}],
        }
    )
    channel(control_plane, lab_namespace, "ml-slack", {"slack": {"webhook": {"name": "people", "key": "url"}}})
    channel(control_plane, lab_namespace, "oncall", {"pagerDuty": {"routingKey": {"name": "people", "key": "key"}}})
    return lab_namespace


def channel(lab: Lab, namespace: str, name: str, spec: dict[str, Any]) -> None:
    kind = {"apiVersion": "davylamp.dev/v1alpha1", "kind": "NotificationChannel"}
    lab.api.apply(kind | {"metadata": {"name": name, "namespace": namespace}, "spec": spec})


def secret(lab: Lab, namespace: str, **values: str) -> None:
    data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
    metadata = {"name": "people", "namespace": namespace}
    lab.api.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})


@pytest_asyncio.fixture
async def messenger(
    own_kube: Kube, control_plane: Lab, namespace: str, receiver: Receiver, clock: HandClock
) -> AsyncIterator[Messenger]:
    secret(control_plane, namespace, url=f"{receiver.address}/services/{HOOK}", key=KEY)
    catalogue = Catalogue(own_kube, (namespace,))
    await catalogue.relist()
    endpoints = {"slack": receiver.address, "pagerDuty": receiver.address}
    made = Messenger(own_kube, catalogue, clock, telemetry=Telemetry(), endpoints=endpoints)
    yield made
    await made.close()


@pytest.fixture
def session(namespace: str, clock: HandClock) -> Session:
    attempt = Attempt("a-1", 1, "digest", "hash", clock.now(), Pair("credit", "fp32:80", "int8:80"))
    progress = Progress(attempt=attempt, phase=Phase.ROLLING_BACK, message="m")
    channels = (SLACK, PAGER)
    outbox = add(Outbox(), (BAD,), channels, clock.now())
    return Session("uid", Name(namespace, "credit"), progress, outbox, Evidence(), channels=channels)


@pytest.fixture
def logs() -> Iterator[list[Any]]:
    with capture_logs() as lines:
        yield lines


async def test_each_channel_is_told_once(messenger: Messenger, session: Session, receiver: Receiver) -> None:
    assert await messenger.deliver(session)
    (slack,), (page,) = receiver.got("slack"), receiver.got("pagerDuty")
    assert BAD.sentence in slack["text"]
    assert page["routing_key"] == KEY
    assert page["payload"]["custom_details"]["Candidate"] == "int8:80"
    assert session.outbox.pending == ()
    assert session.outbox.told == (BAD.key,)
    assert not await messenger.deliver(session)
    assert len(receiver.posts) == 2


async def test_a_channel_that_is_down_is_told_later_and_the_other_not_again(
    messenger: Messenger, session: Session, receiver: Receiver, clock: HandClock
) -> None:
    receiver.status["slack"] = 503
    assert await messenger.deliver(session)
    assert session.outbox.pending[0].delivered == ("oncall",)
    del receiver.status["slack"]
    assert not await messenger.deliver(session)
    clock.advance(2)
    assert await messenger.deliver(session)
    assert session.outbox.pending == ()
    assert [len(receiver.got(kind)) for kind in ("slack", "pagerDuty")] == [2, 1]


async def test_a_receiver_that_asks_for_patience_gets_it(
    messenger: Messenger, session: Session, receiver: Receiver, clock: HandClock
) -> None:
    receiver.status, receiver.headers = {"slack": 429}, {"Retry-After": "60"}
    await messenger.deliver(session)
    receiver.status = {}
    clock.advance(59)
    assert not await messenger.deliver(session)
    clock.advance(1)
    assert await messenger.deliver(session)
    assert session.outbox.told == (BAD.key,)


async def test_a_receiver_that_refuses_for_good_is_named_with_why(
    messenger: Messenger, session: Session, receiver: Receiver
) -> None:
    receiver.status["slack"] = 404
    await messenger.deliver(session)
    (lost,) = session.outbox.undelivered
    assert (lost.channel, lost.severity) == ("ml-slack", Severity.INCIDENT)
    assert "make a new incoming webhook" in lost.reason
    assert session.outbox.undelivered_total == 1


async def test_a_channel_that_does_not_exist_yet_is_waited_for(
    messenger: Messenger, session: Session, receiver: Receiver
) -> None:
    session.channels = (Channel("later"),)
    assert await messenger.deliver(session)
    assert session.outbox.pending[0].tries == 1
    assert receiver.posts == []


async def test_only_what_a_channel_wants_is_sent_to_it(
    messenger: Messenger, session: Session, receiver: Receiver, clock: HandClock
) -> None:
    session.progress = replace(session.progress, phase=Phase.PROMOTED)
    session.outbox = add(Outbox(), (GOOD,), session.channels, clock.now())
    await messenger.deliver(session)
    assert [kind for kind, _ in receiver.posts] == ["slack"]
    assert "✔" in receiver.got("slack")[0]["text"]


async def test_what_changes_while_people_are_told_is_not_lost(
    messenger: Messenger, session: Session, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, go_on = asyncio.Event(), asyncio.Event()
    tell = messenger._tell

    async def slow(*arguments: Any) -> Any:
        entered.set()
        await go_on.wait()
        return await tell(*arguments)

    monkeypatch.setattr(messenger, "_tell", slow)
    delivering = asyncio.create_task(messenger.deliver(session))
    await entered.wait()
    session.outbox = add(session.outbox, (GOOD,), session.channels, clock.now())
    go_on.set()
    await delivering
    assert [message.fact for message in session.outbox.pending] == [GOOD]
    assert session.outbox.told == (BAD.key,)


async def test_an_unexpected_error_of_one_channel_costs_the_others_nothing(
    messenger: Messenger, session: Session, monkeypatch: pytest.MonkeyPatch, logs: list[Any]
) -> None:
    find = messenger._notifier

    async def broken(namespace: str, channel: str) -> Any:
        if channel == "ml-slack":
            raise RuntimeError(HOOK)
        return await find(namespace, channel)

    monkeypatch.setattr(messenger, "_notifier", broken)
    await messenger.deliver(session)
    assert session.outbox.pending[0].delivered == ("oncall",)
    assert [line["event"] for line in logs] == ["delivery_failed"]
    assert HOOK not in str(logs)


@pytest.mark.parametrize(
    ("values", "status"),
    [
        ({"url": f"http://elsewhere.example/services/{HOOK}", "key": KEY + "x"}, {}),
        ({"url": f"not an address {HOOK}", "key": f"{KEY} {KEY}"}, {}),
        ({"url": "", "key": ""}, {}),
        ({}, {"slack": 403, "pagerDuty": 400}),
        ({}, {"slack": 302, "pagerDuty": 302}),
        ({}, {"slack": 500, "pagerDuty": 500}),
    ],
)
async def test_no_failure_shows_an_address_or_a_key(
    messenger: Messenger,
    session: Session,
    control_plane: Lab,
    receiver: Receiver,
    logs: list[Any],
    values: dict[str, str],
    status: dict[str, int],
) -> None:
    receiver.status = status
    if values:
        secret(control_plane, session.name.namespace, **values)
    await messenger.deliver(session)
    shown = repr(session) + repr(logs)
    for planted in (HOOK, KEY, "planted"):
        assert planted not in shown
    assert session.outbox.undelivered or session.outbox.pending


async def test_a_channel_that_is_spelt_wrong_is_named_without_what_was_written(
    messenger: Messenger, session: Session, logs: list[Any]
) -> None:
    # As an older CRD may have let through: the address in the open.
    found = {"spec": {"slack": {"webhook": f"https://hooks.slack.com/services/{HOOK}"}}}
    messenger._catalogue._others["NotificationChannel"] = {Name(session.name.namespace, "ml-slack"): found}
    session.channels = (SLACK,)
    await messenger.deliver(session)
    (lost,) = session.outbox.undelivered
    assert "ml-slack" in lost.reason
    assert HOOK not in repr(session) + repr(logs)
