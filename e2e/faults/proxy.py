"""A proxy that a test puts between Davylamp and a server, and through which it makes faults.

It speaks plain HTTP to Davylamp, since who is asked is known by the network namespace, and HTTP or TLS to the server.
Credentials are passed on and stored nowhere.
"""

import asyncio
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

import aiohttp
from aiohttp import web
from yarl import URL

from e2e.faults.calls import Answer, Answered, Call, Fault, Forward
from e2e.lab.waiting import stopwatch

_PASSED_ON: Final = ("authorization", "accept", "content-type", "user-agent")
_PASSED_BACK: Final = ("Content-Type", "Retry-After", "Date")
_START_SECONDS: Final = 10


class Proxy:
    """One proxy in a thread of its own; ``with Proxy(…) as proxy`` starts and stops it.

    Parameters
    ----------
    server
        Where calls are sent on to, such as ``https://127.0.0.1:6443``.
    port
        Where it listens, on 127.0.0.1.
    authority
        Certificates that vouch for the server; None for plain HTTP.
    """

    def __init__(self, server: str, port: int, *, authority: Path | None = None) -> None:
        self.port = port
        #: What becomes of each call; None passes everything on.
        self.fault: Fault | None = None
        self._server = server
        self._trust = None if authority is None else ssl.create_default_context(cafile=str(authority))
        self._calls: list[Call] = []
        self._answered: list[Answered] = []
        #: Seconds since the proxy was made.
        self.elapsed = stopwatch()
        self._streams: set[asyncio.Task[object]] = set()
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"proxy-{port}", daemon=True)

    @property
    def address(self) -> str:
        """Where Davylamp is to send its calls."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def calls(self) -> tuple[Call, ...]:
        """All calls so far, in the order in which they came."""
        return tuple(self._calls)

    @property
    def answered(self) -> tuple[Answered, ...]:
        """All calls that were answered so far, in the order of their answers; watches are not among them."""
        return tuple(self._answered)

    def forget(self) -> None:
        """Begin to count anew, and pass everything on."""
        self.fault = None
        self._calls, self._answered = [], []

    def cut_watches(self) -> None:
        """Close every connection of a watch, as a load balancer does now and then."""
        self._loop.call_soon_threadsafe(lambda: [stream.cancel() for stream in self._streams])

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._started.wait(_START_SECONDS):
            raise RuntimeError(f"the proxy on port {self.port} did not start within {_START_SECONDS} s")
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_START_SECONDS)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._open())
        self._started.set()
        self._loop.run_forever()
        self._loop.run_until_complete(self._close())
        self._loop.close()

    async def _open(self) -> None:
        self._connector = aiohttp.TCPConnector(limit=0, ssl=True if self._trust is None else self._trust)
        self._client = aiohttp.ClientSession(connector=self._connector, timeout=aiohttp.ClientTimeout(total=None))
        application = web.Application(client_max_size=16 * 2**20)
        application.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True).start()

    async def _close(self) -> None:
        await self._runner.cleanup()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        # Without a farewell, as above.
        await self._connector.close(abort_ssl=True)
        await self._client.close()
        await asyncio.sleep(0)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        call = Call(request.method, request.path, request.query_string, await request.read())
        self._calls.append(call)
        headers = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
        if call.watches:
            return await self._stream(request, call, headers)
        fault = self.fault
        try:
            forward = self._forward(call, headers)
            answer = await (forward() if fault is None else fault(call, forward))
        except (aiohttp.ClientError, OSError):
            answer = None
        if answer is None:
            return _dropped(request)
        self._answered.append(Answered(call, answer.status, self.elapsed()))
        return web.Response(body=answer.body, status=answer.status, headers=dict(answer.headers))

    def _forward(self, call: Call, headers: dict[str, str]) -> Forward:
        async def forward() -> Answer:
            url = _url(self._server, call)
            async with self._client.request(call.method, url, data=call.body or None, headers=headers) as answer:
                kept = {name: answer.headers[name] for name in _PASSED_BACK if name in answer.headers}
                return Answer(answer.status, await answer.read(), kept)

        return forward

    async def _stream(self, request: web.Request, call: Call, headers: dict[str, str]) -> web.StreamResponse:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a handler always runs in a task
        self._streams.add(task)
        try:
            async with self._client.get(_url(self._server, call), headers=headers) as upstream:
                try:
                    return await _passed_on(request, upstream)
                finally:
                    # Without a farewell by TLS, which would take longer than the loop may live.
                    if upstream.connection is not None and upstream.connection.transport is not None:
                        upstream.connection.transport.abort()
        except (aiohttp.ClientError, OSError):
            return _dropped(request)
        finally:
            self._streams.discard(task)


async def _passed_on(request: web.Request, upstream: aiohttp.ClientResponse) -> web.StreamResponse:
    """Hand a stream on, piece by piece."""
    answer = web.StreamResponse(status=upstream.status)
    answer.content_type = upstream.content_type
    await answer.prepare(request)
    async for piece in upstream.content.iter_any():
        await answer.write(piece)
    return answer


def _url(server: str, call: Call) -> URL:
    return URL(f"{server}{call.path}" + (f"?{call.query}" if call.query else ""), encoded=True)


def _dropped(request: web.Request) -> web.StreamResponse:
    """Close the connection without an answer."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=502)


def on_calls(wanted: Callable[[Call], bool], fault: Fault) -> Fault:
    """Return a fault that comes over some calls only; the others are passed on."""

    async def chosen(call: Call, forward: Forward) -> Answer | None:
        return await (fault(call, forward) if wanted(call) else forward())

    return chosen
