"""Probes and metrics."""

from collections.abc import Callable
from typing import Final

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from davylamp.errors import SpecError

_TEXT: Final = "text/plain"


async def serve(
    host: str, port: int, registry: CollectorRegistry, *, alive: Callable[[], str], ready: Callable[[], str]
) -> tuple[web.AppRunner, int]:
    """Serve ``/livez``, ``/readyz`` and ``/metrics``.

    Parameters
    ----------
    host, port
        Where; port 0 picks one.
    registry
        Metrics.
    alive, ready
        Why the loop does not turn, and why this process neither leads nor stands by; empty if all is well.

    Returns
    -------
    tuple
        The runner, to be cleaned up at the end, and the port.

    Raises
    ------
    SpecError
        If the port cannot be had.
    """

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    def probe(trouble: Callable[[], str]) -> Callable[[web.Request], object]:
        async def answer(_: web.Request) -> web.Response:
            why = trouble()
            return web.Response(text=why or "ok", status=503 if why else 200, content_type=_TEXT)

        return answer

    application = web.Application(client_max_size=1024)
    application.router.add_get("/metrics", metrics)
    application.router.add_get("/livez", probe(alive))  # type: ignore[arg-type]
    application.router.add_get("/readyz", probe(ready))  # type: ignore[arg-type]
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError as taken:
        await runner.cleanup()
        raise SpecError(f"DAVYLAMP_LISTEN: cannot listen on {host}:{port}: {taken.strerror}") from taken
    return runner, runner.addresses[0][1]
