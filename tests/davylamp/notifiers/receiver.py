"""A receiver of messages on the loopback interface, that answers as it is told and keeps what it got."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer

from davylamp.core.model import Severity
from davylamp.notifiers import NOTIFIERS, Destination
from davylamp.ports import Message, Notifier

ROUTING_KEY = "0123456789abcdef0123456789abcdef"
WEBHOOK_SECRET = "/services/T00000000/B00000000/planted-and-secret"
PLANTED = (ROUTING_KEY, WEBHOOK_SECRET, "planted-and-secret")


@dataclass
class Receiver:
    """What is answered, and what was received."""

    status: int | None = None
    text: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    hang: bool = False
    received: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    origin: str = ""

    async def handle(self, request: web.Request) -> web.Response:
        self.received.append((request.path, await request.json()))
        if self.hang:
            await asyncio.Event().wait()
        pager = request.path.startswith("/v2/")
        return web.Response(
            status=self.status or (202 if pager else 200),
            text=self.text if self.text is not None else '{"status":"success"}' if pager else "ok",
            headers=self.headers,
        )

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [body for _, body in self.received]

    def credential(self, kind: str) -> str:
        return f"{self.origin}{WEBHOOK_SECRET}" if kind == "slack" else ROUTING_KEY

    def notifier(self, kind: str, session: aiohttp.ClientSession) -> Notifier:
        return NOTIFIERS[kind](session, Destination(self.credential(kind), endpoint=self.origin))


@asynccontextmanager
async def listening() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", receiver.handle)
    async with TestServer(app, shutdown_timeout=0.1) as server:
        receiver.origin = f"http://{server.host}:{server.port}"
        yield receiver


def message(**changes: Any) -> Message:
    values: dict[str, Any] = {
        "key": "uid/1/step-2/Regressed",
        "incident": "uid/1",
        "severity": Severity.INCIDENT,
        "rollout": "ml/credit",
        "sentence": "errors: 4.1 % of 1200 requests against 0.9 % of 9800; evidence 214 of 100",
        "at": datetime(2026, 1, 1, 12, 30, tzinfo=UTC),
        "details": {"candidate": "credit-int8:8080", "step": "2/4"},
    }
    return Message(**values | changes)
