"""Variants, senders and the comparator itself on loopback, over real connections."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import aiohttp

from davylamp.shadow.captures_key import HEADER
from davylamp.shadow.capturing import Redact, keep_nothing
from davylamp.shadow.comparator import Comparator, Ports
from davylamp.shadow.comparison import Comparison, Difference, Kind, Unread
from davylamp.shadow.exchange import Answer, Call, Outcome
from davylamp.shadow.predictions import LabelsService
from davylamp.shadow.receiving import Patience
from davylamp.shadow.room import Room
from davylamp.shadow.task import Rules, Task

HOST = "127.0.0.1"
INFER = "/v2/models/credit/infer"
KEY = "correct-horse-battery"
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"
Behaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Upstream:
    """A variant that answers each request with the same bytes, or behaves as it is told."""

    answer: bytes = OK
    behaviour: Behaviour | None = None
    address: str = ""
    #: Head and body of each request.
    requests: list[tuple[str, bytes]] = field(default_factory=list)
    connections: int = 0

    def lines(self, number: int = -1) -> list[str]:
        """Return the lines of the head of one request."""
        return self.requests[number][0].split("\r\n")

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        self.connections += 1
        try:
            while True:
                self.requests.append(await read_request(reader))
                if self.behaviour is not None:
                    await self.behaviour(reader, writer)
                    return
                writer.write(self.answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()


async def read_request(reader: asyncio.StreamReader) -> tuple[str, bytes]:
    """Return head and body of a request with a length."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    length = re.search(r"content-length: (\d+)", head)
    return head.rstrip("\r\n"), await reader.readexactly(int(length[1]) if length else 0)


@asynccontextmanager
async def upstream(answer: bytes = OK, behaviour: Behaviour | None = None) -> AsyncIterator[Upstream]:
    """Serve a variant on a free port."""
    made = Upstream(answer, behaviour)
    serving: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving.add(task)
        task.add_done_callback(serving.discard)
        await made.serve(reader, writer)

    server = await asyncio.start_server(serve, HOST, 0)
    made.address = f"{HOST}:{server.sockets[0].getsockname()[1]}"
    try:
        yield made
    finally:
        server.close()
        for task in tuple(serving):
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)


def compare(call: Call, first: Outcome, second: Outcome, rules: Rules) -> Comparison:
    """Compare by status and bytes: enough to tell what the server makes of a comparison."""
    del call, rules
    if not (isinstance(first.result, Answer) and first.result.succeeded):
        return Comparison(Kind.STATUS, Unread.BASELINE_FAILED)
    if not (isinstance(second.result, Answer) and second.result.succeeded):
        return Comparison(Kind.STATUS, differences=frozenset({Difference.STATUS}), disagrees=True)
    if first.result.body != second.result.body:
        return Comparison(Kind.RAW, differences=frozenset({Difference.BYTES}), disagrees=True)
    return Comparison(Kind.RAW)


def key_file(folder: Path) -> Path:
    """Write the key of captured pairs, as a Secret brings it."""
    file = folder / "key"
    file.write_text(f"{KEY}\n", "utf-8")
    return file


def task(baseline: str, candidate: str, **others: Any) -> Task:
    """Return a task that compares everything, on a free port."""
    values: dict[str, Any] = {"sample": 1.0, "noise": 0.0, "port": 0, **others}
    return Task("ml", "credit", baseline=baseline, candidate=candidate, **values)


@asynccontextmanager
async def comparing(
    *tasks: Task,
    patience: Patience | None = None,
    room: Room | None = None,
    redact: Redact = keep_nothing,
    compare: Callable[[Call, Outcome, Outcome, Rules], Comparison] = compare,
    key: Path | None = None,
    labels: LabelsService | None = None,
) -> AsyncIterator[Comparator]:
    """Run a comparator on free ports of loopback."""
    comparator = Comparator(
        compare,
        redact=redact,
        ports=Ports(HOST, 0, captures_key=key, labels=labels),
        patience=patience,
        room=room,
        randomness=Random(7),  # noqa: S311 - the same in every run
    )
    await comparator.start()
    try:
        await comparator.set_tasks(tasks)
        yield comparator
    finally:
        await comparator.stop()


def port(comparator: Comparator, rollout: str = "credit") -> int:
    """Return where a rollout's requests are taken over HTTP."""
    ports = comparator.ports_of("ml", rollout)
    assert ports is not None
    return ports[0]


def request(
    body: bytes = b"{}", *, request_id: str = "1", target: str = INFER, method: str = "POST", headers: str = ""
) -> bytes:
    """Return a request on the wire."""
    head = f"{method} {target} HTTP/1.1\r\nhost: credit-shadow\r\nx-request-id: {request_id}\r\n"
    return f"{head}content-length: {len(body)}\r\n{headers}\r\n".encode() + body


async def send(to: int, *parts: bytes, until: bytes = b"\r\n\r\n", answers: int = 1) -> bytes:
    """Send bytes on a connection of their own and return what comes back; empty if the connection ends first."""
    reader, writer = await asyncio.open_connection(HOST, to)
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
        return b"".join([await reader.readuntil(until) for _ in range(answers)])
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""
    finally:
        writer.close()


def value(comparator: Comparator, metric: str, **labels: str) -> float | None:
    """Return a metric's value, of the rollout ml/credit unless the labels say another; None if it is not there."""
    return comparator.registry.get_sample_value(
        f"davylamp_shadow_{metric}", {"namespace": "ml", "rollout": "credit", **labels}
    )


async def counted(comparator: Comparator, metric: str, number: float = 1, **labels: str) -> None:
    """Wait until a counter has reached a number."""
    async with asyncio.timeout(20):
        while (value(comparator, metric, **labels) or 0) < number:  # noqa: ASYNC110 - counters tell nobody
            await asyncio.sleep(0.002)


async def received(comparator: Comparator, outcome: str, number: float = 1) -> None:
    """Wait until so many requests had this outcome."""
    await counted(comparator, "requests_total", number, outcome=outcome)


async def get(comparator: Comparator, path: str, method: str = "GET", *, key: str = "") -> tuple[int, str]:
    """Return status and text of the admin port's answer."""
    headers = {HEADER: key} if key else {}
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, f"http://{HOST}:{comparator.admin_port}{path}", headers=headers) as answer,
    ):
        return answer.status, await answer.text()
