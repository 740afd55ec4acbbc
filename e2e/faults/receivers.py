"""Local stand-ins of Slack and PagerDuty: they take messages, keep them, and fail when told to."""

import asyncio
import json
import threading
from typing import Any, Final, Self

from aiohttp import web

_START_SECONDS: Final = 10


class Receivers:
    """One server for both; ``with Receivers(port) as receivers`` starts and stops it.

    Parameters
    ----------
    port
        Where it listens, on 127.0.0.1.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self.slack: list[dict[str, Any]] = []
        self.pagerduty: list[dict[str, Any]] = []
        #: So many messages more are answered with 503 and thrown away.
        self.refuse = 0
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"receivers-{port}", daemon=True)

    @property
    def address(self) -> str:
        """What stands for Slack's and PagerDuty's own addresses."""
        return f"http://127.0.0.1:{self.port}"

    def forget(self) -> None:
        """Throw all messages away."""
        self.slack, self.pagerduty, self.refuse = [], [], 0

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._started.wait(_START_SECONDS):
            raise RuntimeError(f"the receivers on port {self.port} did not start within {_START_SECONDS} s")
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_START_SECONDS)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        runner = self._loop.run_until_complete(self._open())
        self._started.set()
        self._loop.run_forever()
        self._loop.run_until_complete(runner.cleanup())
        self._loop.close()

    async def _open(self) -> web.AppRunner:
        application = web.Application()
        application.router.add_post("/v2/enqueue", self._page)
        application.router.add_post("/services/{hook:.*}", self._post)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", self.port, reuse_address=True).start()
        return runner

    def _refused(self) -> bool:
        self.refuse, refused = max(0, self.refuse - 1), self.refuse > 0
        return refused

    async def _page(self, request: web.Request) -> web.Response:
        if self._refused():
            return web.Response(status=503)
        event = json.loads(await request.read())
        self.pagerduty.append(event)
        answer = {"status": "success", "message": "Event processed", "dedup_key": event.get("dedup_key")}
        return web.json_response(answer, status=202)

    async def _post(self, request: web.Request) -> web.Response:
        if self._refused():
            return web.Response(status=503)
        self.slack.append({"hook": request.match_info["hook"], **json.loads(await request.read())})
        return web.Response(text="ok")
