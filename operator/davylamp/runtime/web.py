"""Probes and metrics."""

from collections.abc import Callable
from typing import Final

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

_TEXT: Final = "text/plain"


async def serve(
    host: str, port: int, registry: CollectorRegistry, *, alive: Callable[[], bool], ready: Callable[[], bool]
) -> tuple[web.AppRunner, int]:
    """Serve ``/livez``, ``/readyz`` and ``/metrics``.

    Parameters
    ----------
    host, port
        Where; port 0 picks one.
    registry
        Metrics.
    alive, ready
        Whether the loop turns, and whether this process leads or stands by with a recent listing.

    Returns
    -------
    tuple
        The runner, to be cleaned up at the end, and the port.
    """

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    def probe(healthy: Callable[[], bool]) -> Callable[[web.Request], object]:
        async def answer(_: web.Request) -> web.Response:
            fine = healthy()
            return web.Response(text="ok" if fine else "not ok", status=200 if fine else 503, content_type=_TEXT)

        return answer

    application = web.Application(client_max_size=1024)
    application.router.add_get("/metrics", metrics)
    application.router.add_get("/livez", probe(alive))  # type: ignore[arg-type]
    application.router.add_get("/readyz", probe(ready))  # type: ignore[arg-type]
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, host, port)
    await site.start()
    return runner, runner.addresses[0][1]
