"""A server on loopback that answers as a test tells it, over real connections."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.davylamp.sources.looks import envelope

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Server:
    """Where it listens, what it answers, and what it was asked."""

    address: str = ""
    handler: Handler | None = None
    forms: list[dict[str, str]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    def answer(self, answer: Any = None, *, status: int = 200, headers: dict[str, str] | None = None) -> None:
        """Answer every query with this JSON from now on."""

        async def handle(_: web.Request) -> web.StreamResponse:
            return web.json_response(envelope() if answer is None else answer, status=status, headers=headers)

        self.handler = handle

    @property
    def queries(self) -> list[str]:
        """The queries that it was asked."""
        return [form["query"] for form in self.forms]


@asynccontextmanager
async def serving() -> AsyncIterator[Server]:
    """Serve on a free port of loopback."""
    server = Server()
    server.answer()

    async def handle(request: web.Request) -> web.StreamResponse:
        server.forms.append({name: str(value) for name, value in (await request.post()).items()})
        server.headers.append(dict(request.headers))
        assert server.handler is not None
        return await server.handler(request)

    application = web.Application()
    application.router.add_post("/prefix/api/v1/query", handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        server.address = f"http://127.0.0.1:{port}/prefix/"
        yield server
    finally:
        await runner.cleanup()
