"""Objects are kept as they are, by an API server that ends watches, forgets versions, hangs and writes garbage."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from davylamp.errors import NotFound, SpecError, Unavailable
from davylamp.runtime import comparator_watch, kube
from davylamp.runtime.catalogue import Name
from davylamp.runtime.comparator_watch import Collection
from davylamp.runtime.kube import Kube
from e2e.lab import Lab
from tests.davylamp.runtime.test_kube import answered_by
from tests.davylamp.runtime.waiting import eventually

Object = dict[str, Any]
PATH = "/apis/davylamp.dev/v1alpha1/namespaces/ml/modelrollouts"


def item(name: str, version: int = 1) -> Object:
    return {"metadata": {"name": name, "namespace": "ml", "resourceVersion": str(version)}}


def event(what: str, name: str, version: int = 1) -> bytes:
    return json.dumps({"type": what, "object": item(name, version)}).encode() + b"\n"


@dataclass
class Server:
    """An API server that answers lists and watches as a test says; each watch is one entry of ``watches``."""

    items: list[Any] = field(default_factory=list)
    #: Lines of each watch; the last watch stays open.
    watches: list[list[bytes]] = field(default_factory=list)
    status: int = 200
    lists: int = 0
    versions: list[str] = field(default_factory=list)
    ending: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            self.lists += 1
            body = {"metadata": {"resourceVersion": str(self.lists)}, "items": self.items}
            return web.json_response(body, status=self.status)
        self.versions.append(request.query["resourceVersion"])
        lines = self.watches.pop(0) if self.watches else []
        answer = web.StreamResponse()
        await answer.prepare(request)
        for line in lines:
            await answer.write(line)
        if not self.watches:
            await self.ending.wait()
        return answer


@dataclass
class Kept:
    """A collection that is being kept, and how often it said that something changed."""

    collection: Collection
    changes: list[set[str]] = field(default_factory=list)

    @property
    def names(self) -> set[str]:
        return {name.name for name in self.collection.objects}

    async def until(self, *names: str) -> None:
        await eventually(lambda: self.names == set(names), f"{names} are known", within=10)


@asynccontextmanager
async def keeping(server: Server, every: int = 30) -> AsyncIterator[Kept]:
    async with answered_by(server.handle) as (client, _):
        kept = Kept(Collection(client, PATH, every, lambda: kept.changes.append(kept.names)))
        task = asyncio.create_task(kept.collection.keep())
        try:
            yield kept
            assert not task.done(), task.exception()
        finally:
            server.ending.set()
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparator_watch, "_FIRST_PAUSE", 0.01)
    monkeypatch.setattr(comparator_watch, "_LONGEST_PAUSE", 0.05)


@pytest.fixture
def logs() -> Iterator[list[Any]]:
    with capture_logs() as lines:
        yield lines


async def test_what_is_listed_is_known_and_what_is_watched_follows_from_its_version() -> None:
    lines = [event("ADDED", "b"), event("MODIFIED", "a", 2), event("DELETED", "a"), event("DELETED", "never")]
    server = Server([item("a")], [lines])
    async with keeping(server) as kept:
        await kept.until("b")
        assert server.versions == ["1"]
        assert kept.changes == [{"a"}, {"a", "b"}, {"a", "b"}, {"b"}, {"b"}]
        assert kept.collection.objects[Name("ml", "b")] == item("b")


async def test_a_watch_that_ends_is_begun_anew_after_a_list_that_shows_what_was_missed() -> None:
    server = Server([item("a")], [[], [event("ADDED", "c")]])
    async with keeping(server) as kept:
        await eventually(lambda: len(server.versions) == 2, "the second watch")
        await kept.until("a", "c")
        assert server.versions == ["1", "2"]


async def test_a_deletion_that_no_watch_has_shown_is_derived_from_the_next_list() -> None:
    server = Server([item("a"), item("b")], [[], [], []])
    async with keeping(server) as kept:
        await kept.until("a", "b")
        server.items = [item("b")]
        server.watches = [[], []]
        server.ending.set()
        await kept.until("b")


@pytest.mark.parametrize(
    "line",
    [
        b"not JSON\n",
        b"[1]\n",
        b'{"type": "ADDED"}\n',
        b'{"type": "ADDED", "object": 7}\n',
        b"[" * 100_000 + b"\n",
        b"x" * 5_000_000,
        b'{"type": "ERROR", "object": {"code": 410, "message": "too old"}}\n',
        b'{"type": "ERROR", "object": {"code": 500}}\n',
        b"\xff\xfe\n",
    ],
)
async def test_garbage_in_a_watch_costs_one_list(line: bytes) -> None:
    server = Server([item("a")], [[line], [event("ADDED", "c")]])
    async with keeping(server) as kept:
        await kept.until("a", "c")
        assert server.lists == 2


async def test_an_event_about_nothing_that_has_a_name_changes_nothing() -> None:
    strange = [
        b'{"type": "BOOKMARK", "object": {"metadata": {"name": "a", "namespace": "ml"}}}\n',
        b'{"type": "ADDED", "object": {"metadata": null}}\n',
        b'{"type": "ADDED", "object": {"metadata": {"name": 7}}}\n',
    ]
    server = Server([item("a"), None, {"metadata": {}}], [[*strange, event("ADDED", "b")]])
    async with keeping(server) as kept:
        await kept.until("a", "b")
        assert len(kept.changes) == 2


async def test_an_outage_changes_nothing_and_is_told_once(logs: list[Any]) -> None:
    server = Server([item("a")], [[], []])
    async with keeping(server) as kept:
        await kept.until("a")
        server.status = 503
        server.ending.set()
        await eventually(lambda: server.lists > 5, "it asks again and again")
        assert kept.names == {"a"}
        assert [line["event"] for line in logs] == ["watch_failed"]
        server.status, server.items = 200, [item("a"), item("b")]
        await kept.until("a", "b")


async def test_a_kind_that_is_not_there_yet_is_found_later() -> None:
    server = Server([item("a")], status=404)
    async with keeping(server) as kept:
        await eventually(lambda: server.lists > 2, "it asks again")
        assert not kept.collection.listed
        server.status = 200
        await kept.until("a")
        assert kept.collection.listed


async def test_an_empty_list_is_a_list() -> None:
    async with keeping(Server()) as kept:
        await eventually(lambda: kept.changes == [set()], "the first list is told")
        assert kept.collection.listed


async def test_a_watch_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kube, "_OVERTIME", 0.1)
    server = Server([item("a")], [[]])
    async with keeping(server, every=1):
        await eventually(lambda: server.lists > 1, "it lists again", within=20)


@pytest.mark.parametrize(
    ("status", "error"), [(410, NotFound), (403, SpecError), (401, Unavailable), (500, Unavailable)]
)
async def test_a_watch_that_is_refused_says_so(status: int, error: type[Exception]) -> None:
    async def refuse(_: web.Request) -> web.StreamResponse:
        return web.json_response({"message": "no"}, status=status)

    async with answered_by(refuse) as (client, failures):
        with pytest.raises(error, match="WATCH"):
            await anext(client.watch(PATH, "1", 30))
        assert failures == [error.__name__]


async def test_what_happens_on_a_real_api_server_is_seen(
    admin_kube: Kube, control_plane: Lab, lab_namespace: str
) -> None:
    path = f"/api/v1/namespaces/{lab_namespace}/configmaps"
    kept = Kept(Collection(admin_kube, path, 1, lambda: None))
    task = asyncio.create_task(kept.collection.keep())
    await eventually(lambda: kept.collection.listed, "it is listed")
    for name in ("a", "b", "c"):
        control_plane.api.create(path, {"metadata": {"name": name}})
        await eventually(lambda name=name: name in kept.names, f"{name} is seen")  # type: ignore[misc]
        control_plane.api.delete(f"{path}/{name}")
        await eventually(lambda name=name: name not in kept.names, f"{name} is gone")  # type: ignore[misc]
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
