"""Probes, metrics and captured pairs."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from davylamp.shadow.captures_key import CapturesKey

#: Returns what is kept of a namespace's rollout; None if nothing is to be.
Captures = Callable[[str, str], list[dict[str, Any]] | None]


@dataclass(frozen=True, slots=True)
class Pages:
    """What is shown.

    Parameters
    ----------
    registry
        Metrics.
    ready
        Why this process cannot take requests yet; empty if it can.
    captures
        Finds captured pairs.
    key
        Says who may see them.
    """

    registry: CollectorRegistry
    ready: Callable[[], str]
    captures: Captures
    key: CapturesKey

    def application(self) -> web.Application:
        """Return what serves ``/healthz``, ``/readyz``, ``/metrics`` and ``/captures/<namespace>/<rollout>``."""
        application = web.Application(client_max_size=1024)
        application.router.add_get("/metrics", self._metrics)
        application.router.add_get("/healthz", self._alive)
        application.router.add_get("/readyz", self._readiness)
        application.router.add_get("/captures/{namespace}/{rollout}", self._captured, allow_head=False)
        return application

    async def _metrics(self, _: web.Request) -> web.Response:
        # In a thread: the series of many rollouts take a tenth of a second to write, and that would be in some latency.
        text = await asyncio.to_thread(generate_latest, self.registry)
        return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _alive(self, _: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def _readiness(self, _: web.Request) -> web.Response:
        why = self.ready()
        return web.Response(text=why or "ok", status=503 if why else 200)

    async def _captured(self, request: web.Request) -> web.StreamResponse:
        namespace, rollout = request.match_info["namespace"], request.match_info["rollout"]
        refusal = await asyncio.to_thread(self.key.refusal, request.headers, namespace)
        if refusal:
            return web.json_response({"error": refusal}, status=403)
        pairs = self.captures(namespace, rollout)
        if pairs is None:
            return web.json_response({"error": "no pairs of this rollout are captured"}, status=404)
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})
        await answer.prepare(request)
        # One by one, for all of them may be megabytes, and others wait while they are written.
        await answer.write(b'{"pairs": [')
        for number, pair in enumerate(tuple(pairs)):
            await answer.write((", " * bool(number) + json.dumps(pair, allow_nan=False)).encode())
        await answer.write(b"]}")
        await answer.write_eof()
        return answer


async def serve(host: str | None, port: int, pages: Pages) -> tuple[web.AppRunner, int]:
    """Serve pages.

    Parameters
    ----------
    host, port
        Where; None for all addresses, port 0 picks one.
    pages
        What is shown.

    Returns
    -------
    tuple
        The runner, to be cleaned up at the end, and the port.

    Raises
    ------
    OSError
        If the port cannot be had.
    """
    runner = web.AppRunner(pages.application(), access_log=None, shutdown_timeout=0.5)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError:
        await runner.cleanup()
        raise
    return runner, runner.addresses[0][1]
