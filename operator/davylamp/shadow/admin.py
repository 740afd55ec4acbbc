"""Probes, metrics and captured pairs."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

#: Returns what is kept of a namespace's rollout; None if nothing is to be.
Captures = Callable[[str, str], list[dict[str, Any]] | None]


async def serve(
    host: str | None, port: int, registry: CollectorRegistry, *, ready: Callable[[], str], captures: Captures
) -> tuple[web.AppRunner, int]:
    """Serve ``/healthz``, ``/readyz``, ``/metrics`` and ``/captures/<namespace>/<rollout>``.

    Parameters
    ----------
    host, port
        Where; None for all addresses, port 0 picks one.
    registry
        Metrics.
    ready
        Why this process cannot take requests yet; empty if it can.
    captures
        Finds captured pairs.

    Returns
    -------
    tuple
        The runner, to be cleaned up at the end, and the port.

    Raises
    ------
    OSError
        If the port cannot be had.
    """

    async def metrics(_: web.Request) -> web.Response:
        # In a thread: the series of many rollouts take a tenth of a second to write, and that would be in some latency.
        text = await asyncio.to_thread(generate_latest, registry)
        return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def alive(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def readiness(_: web.Request) -> web.Response:
        why = ready()
        return web.Response(text=why or "ok", status=503 if why else 200)

    async def captured(request: web.Request) -> web.StreamResponse:
        pairs = captures(request.match_info["namespace"], request.match_info["rollout"])
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

    application = web.Application(client_max_size=1024)
    application.router.add_get("/metrics", metrics)
    application.router.add_get("/healthz", alive)
    application.router.add_get("/readyz", readiness)
    application.router.add_get("/captures/{namespace}/{rollout}", captured, allow_head=False)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.5)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError:
        await runner.cleanup()
        raise
    return runner, runner.addresses[0][1]
