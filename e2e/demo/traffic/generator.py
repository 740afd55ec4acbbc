"""Send requests at a steady rate, whatever comes back (an open loop), and keep the books.

A closed loop would send less to a slow server and so hide that it is slow. Here a request is sent when it is due; if
too many are under way already it is shed and counted, never queued. Nothing is sent twice.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import cycle
from typing import Final, Self

import aiohttp

from e2e.demo.traffic.history import NO_ANSWER, NOBODY, Answer, History, Served

VARIANT_HEADER: Final = "x-model-version"


@dataclass(frozen=True, slots=True)
class Target:
    """Where requests go.

    Parameters
    ----------
    gateway
        The gateway's address, such as ``http://127.0.0.1:8080``.
    host
        The Host header, by which the gateway finds the route.
    path
        The inference path.
    """

    gateway: str
    host: str
    path: str = "/v2/models/income/infer"


@dataclass(frozen=True, slots=True)
class Pace:
    """How hard to push.

    Parameters
    ----------
    rate
        Requests a second, above 0 and at most 2,000.
    duration
        After which it stops by itself; at most one hour.
    in_flight
        At most so many requests without an answer; more are shed.
    timeout
        After which a request counts as unanswered.
    """

    rate: float
    duration: timedelta = timedelta(minutes=30)
    in_flight: int = 64
    timeout: timedelta = timedelta(seconds=5)

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 2000:
            raise ValueError(f"the rate must be above 0 and at most 2000 requests a second, got {self.rate}")
        if not timedelta(0) < self.duration <= timedelta(hours=1):
            raise ValueError(f"the traffic must end within an hour, got {self.duration}")
        if self.in_flight < 1:
            raise ValueError(f"at least one request must be allowed in flight, got {self.in_flight}")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The traffic so far.

    Parameters
    ----------
    asked
        Requests that were due.
    answered
        Requests that are over, with or without an answer.
    shed
        Requests that were due and not sent, since too many were under way.
    in_flight
        Requests under way.
    failed
        Of the answered ones, those with an error or without an answer.
    served
        By variant; ``NOBODY`` for the gateway's own errors and missing answers.
    """

    asked: int
    answered: int
    shed: int
    in_flight: int
    failed: int
    served: dict[str, Served]


class Traffic:
    """A stream of requests; ``async with Traffic(…)`` starts it and stops it at the end.

    Parameters
    ----------
    target
        Where the requests go.
    bodies
        The requests, sent in turn and over again.
    pace
        How hard to push.
    """

    def __init__(self, target: Target, bodies: Sequence[bytes], pace: Pace) -> None:
        if not bodies:
            raise ValueError("there is nothing to send: give at least one body")
        self.history = History()
        self._target = target
        self._bodies = bodies
        self._pace = pace
        self._asked = 0
        self._shed = 0
        self._in_flight = 0
        self._task: asyncio.Task[None] | None = None
        self._pump: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to send, in the background of the running loop; it ends by itself after the pace's duration."""
        if self._task is not None:
            raise RuntimeError("this traffic was started already; make another one")
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Send no more, and wait for what is under way (at most the pace's timeout). Stopping twice does nothing."""
        if self._task is None:
            return
        (self._pump or self._task).cancel()
        await asyncio.wait({self._task})
        if not self._task.cancelled():
            self._task.result()

    async def finished(self) -> None:
        """Wait until the pace's duration is over, and pass on what went wrong in the generator itself."""
        if self._task is not None:
            await self._task

    def snapshot(self) -> Snapshot:
        """Return the books as they stand."""
        served = self.history.by_variant()
        return Snapshot(
            asked=self._asked,
            answered=len(self.history),
            shed=self._shed,
            in_flight=self._in_flight,
            failed=sum(found.failed for found in served.values()),
            served=served,
        )

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def _run(self) -> None:
        timeout = aiohttp.ClientTimeout(total=self._pace.timeout.total_seconds())
        connector = aiohttp.TCPConnector(limit=self._pace.in_flight)
        # Each request stands for another caller: a cookie of one must not choose the variant of the next.
        jar = aiohttp.DummyCookieJar()
        async with (
            aiohttp.ClientSession(connector=connector, timeout=timeout, cookie_jar=jar) as session,
            asyncio.TaskGroup() as group,
        ):
            # Cancelling this one task ends the sending; the group still waits for what is under way.
            self._pump = group.create_task(self._send_when_due(session, group))

    async def _send_when_due(self, session: aiohttp.ClientSession, group: asyncio.TaskGroup) -> None:
        loop = asyncio.get_running_loop()
        # Answers are dated by the loop's clock, which never jumps, laid over the wall's reading at the start.
        zero, wall = loop.time(), datetime.now(UTC)  # noqa: TID251  # the demo is no part of the operator and has no Clock
        total = int(self._pace.duration.total_seconds() * self._pace.rate)
        for number, body in zip(range(total), cycle(self._bodies), strict=False):
            await asyncio.sleep(zero + number / self._pace.rate - loop.time())
            self._asked += 1
            if self._in_flight >= self._pace.in_flight:
                self._shed += 1
                continue
            self._in_flight += 1
            group.create_task(self._send(session, body, wall - timedelta(seconds=zero)))

    async def _send(self, session: aiohttp.ClientSession, body: bytes, epoch: datetime) -> None:
        loop = asyncio.get_running_loop()
        sent = loop.time()
        variant, status, positive = await self._exchange(session, body)
        now = loop.time()
        self._in_flight -= 1
        self.history.record(
            Answer(
                at=epoch + timedelta(seconds=now),
                variant=variant,
                status=status,
                took=timedelta(seconds=now - sent),
                positive=positive,
            )
        )

    async def _exchange(self, session: aiohttp.ClientSession, body: bytes) -> tuple[str, int, bool | None]:
        headers = {"host": self._target.host, "content-type": "application/json", "x-request-id": str(uuid.uuid4())}
        url = self._target.gateway + self._target.path
        try:
            async with session.post(url, data=body, headers=headers, allow_redirects=False) as answer:
                text = await answer.read()
        except (aiohttp.ClientError, TimeoutError):
            return NOBODY, NO_ANSWER, None
        return answer.headers.get(VARIANT_HEADER, NOBODY), answer.status, _decision(answer.status, text)


def _decision(status: int, text: bytes) -> bool | None:
    """Read the decision of an Open Inference Protocol answer; an answer without one has none."""
    if status != 200:
        return None
    try:
        outputs = {output["name"]: output["data"] for output in json.loads(text)["outputs"]}
        return bool(outputs["over_50k"][0])
    except (ValueError, KeyError, TypeError, IndexError):
        return None
