"""A Prometheus as far as a rollout by the mlserver preset asks it: counters that go up in real time, twice a second."""

import asyncio
import re
import threading
from dataclasses import dataclass, field
from typing import Any, Final, Self

from aiohttp import web

from e2e.lab.waiting import stopwatch

_PAUSE: Final = 0.5
_NAMESPACE: Final = re.compile(r'namespace="([^"]+)"')
_RANGE: Final = re.compile(r"\[(\d+)ms\]|\[(\d+)s\]")
_EDGES: Final = tuple(round(0.001 * 1.1**step, 7) for step in range(24))


@dataclass
class Stream:
    """The traffic of one Service, and its counters as they were scraped."""

    rate: float
    errors: float = 0.0
    good: float = 0.0
    bad: float = 0.0
    history: list[tuple[float, int, int]] = field(default_factory=list)

    def scrape(self, at: float, passed: float) -> None:
        self.good += self.rate * passed * (1 - self.errors)
        self.bad += self.rate * passed * self.errors
        self.history = [*self.history[-400:], (at, int(self.good), int(self.bad))]


class Prometheus:
    """One server in a thread of its own; ``with Prometheus() as prometheus`` starts and stops it."""

    def __init__(self) -> None:
        self.streams: dict[tuple[str, str], Stream] = {}
        #: HTTP status of every answer.
        self.status = 200
        #: Namespaces whose questions are never answered.
        self.silent: set[str] = set()
        self.headers: list[dict[str, str]] = []
        self.questions = 0
        self.address = ""
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="prometheus", daemon=True)

    def serve(self, namespace: str, *services: str, rate: float = 300) -> None:
        """Let Services have traffic from now on."""
        for service in services:
            self.streams[namespace, service] = Stream(rate)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        runner = self._loop.run_until_complete(self._open())
        scraping = self._loop.create_task(self._scrape())
        self._started.set()
        self._loop.run_forever()
        scraping.cancel()
        self._loop.run_until_complete(asyncio.gather(scraping, return_exceptions=True))
        self._loop.run_until_complete(runner.cleanup())
        self._loop.close()

    async def _open(self) -> web.AppRunner:
        application = web.Application()
        application.router.add_post("/api/v1/query", self._answer)
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.address = f"http://127.0.0.1:{runner.addresses[0][1]}"
        return runner

    async def _scrape(self) -> None:
        elapsed, before, start = stopwatch(), 0.0, _wall()
        while True:
            now = elapsed()
            for stream in list(self.streams.values()):
                stream.scrape(round(start + now, 3), now - before)
            before = now
            await asyncio.sleep(_PAUSE)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        form = await request.post()
        self.questions += 1
        self.headers.append(dict(request.headers))
        query, at = str(form["query"]), float(str(form["time"]))
        namespace = found.group(1) if (found := _NAMESPACE.search(query)) else ""
        if namespace in self.silent:
            await asyncio.sleep(30)
        if self.status != 200:
            return web.json_response({"status": "error", "errorType": "internal"}, status=self.status)
        result = [
            series
            for (where, service), stream in self.streams.items()
            if where == namespace
            for series in _series(namespace, service, stream, at)
            if series["metric"]["__name__"] in query and series["values"]
        ]
        return web.json_response({"status": "success", "data": {"resultType": "matrix", "result": result}})


def _series(namespace: str, service: str, stream: Stream, at: float) -> list[dict[str, Any]]:
    labels = {"namespace": namespace, "service": service, "instance": f"{service}:8082"}
    past = [entry for entry in stream.history if at - 90 < entry[0] <= at]

    def series(name: str, values: list[int], **more: str) -> dict[str, Any]:
        samples = [[entry[0], str(value)] for entry, value in zip(past, values, strict=True)]
        return {"metric": {"__name__": name, **labels, **more}, "values": samples}

    buckets = [
        series(
            "rest_server_request_duration_seconds_bucket",
            [good * min(place, len(_EDGES)) // len(_EDGES) for _, good, _ in past],
            le=edge,
            path="/v2/models/income/infer",
        )
        for place, edge in enumerate([*map(str, _EDGES), "+Inf"], start=1)
    ]
    return [
        series("model_infer_request_success_total", [good for _, good, _ in past]),
        series("model_infer_request_failure_total", [bad for _, _, bad in past]),
        *buckets,
    ]


def _wall() -> float:
    from davylamp.runtime.clock import SystemClock

    return SystemClock().now().timestamp()
