"""The servers of the benchmark of the live path, each a process of its own."""

import asyncio
import sys
import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from aiohttp import web

from davylamp.shadow.comparator import Comparator, Ports, loop_factory
from davylamp.shadow.comparing import compare
from davylamp.shadow.task import Task
from e2e.stage.standin import Behaviour, StandIn

ADMIN_PORT: Final = 8080
MIRROR_PORT: Final = 8090
_SLOW: Final = 5.0


def main(arguments: Sequence[str]) -> None:
    """Serve until killed: ``model ADDRESS``, ``slow ADDRESS`` or ``comparator ADDRESS BASELINE CANDIDATE SAMPLE``."""
    kind, address, *others = arguments
    if kind == "model":
        StandIn(address, kind, Behaviour(delay=timedelta(milliseconds=2))).start()
        threading.Event().wait()
    serving = _slow(address) if kind == "slow" else _comparator(address, *others)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(serving)


async def _comparator(address: str, baseline: str, candidate: str, sample: str) -> None:
    comparator = Comparator(compare, ports=Ports(address, ADMIN_PORT))
    await comparator.start()
    await comparator.set_tasks([Task("live", "credit", MIRROR_PORT, baseline, candidate, float(sample))])
    await asyncio.Event().wait()


async def _slow(address: str) -> None:
    """Take everything at once, and answer it late."""

    async def answer(request: web.Request) -> web.Response:
        await request.read()
        await asyncio.sleep(_SLOW)
        return web.Response(status=202)

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, address, MIRROR_PORT, backlog=1024).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    main(sys.argv[1:])
