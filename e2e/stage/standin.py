"""A model server that answers as it is told, and counts as MLServer does.

Tests that need dozens of rollouts cannot start an MLServer for each variant. This one is a real HTTP server with real
counters behind the real gateway; only the model is missing.
"""

import asyncio
import random
import threading
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final, Self

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest

HTTP_PORT: Final = 8080
METRICS_PORT: Final = 8082
_PATH: Final = "/v2/models/income/infer"
#: Fine enough that a slowdown of 10 % is a shift by one bucket: neighbours differ by a tenth.
_BUCKETS: Final = tuple(round(0.0005 * 1.1**step, 7) for step in range(60))


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How requests are answered.

    Parameters
    ----------
    errors
        Share that fails with status 500, 0..1.
    positives
        Share of positive decisions, 0..1.
    delay
        Time that an answer takes, on average.
    """

    errors: float = 0.0
    positives: float = 0.3
    delay: timedelta = timedelta(0)


class StandIn:
    """One server process' worth of answers, in a thread of its own.

    Parameters
    ----------
    address
        Where it listens, ports 8080 and 8082.
    variant
        Sent back in the header ``x-model-version``.
    behaviour
        How it answers; may be changed while it runs.
    seed
        Of the random decisions.
    """

    def __init__(self, address: str, variant: str, behaviour: Behaviour | None = None, *, seed: int = 0) -> None:
        self.address = address
        self.variant = variant
        self.behaviour = behaviour or Behaviour()
        self._random = random.Random(seed)  # noqa: S311 - decides nothing secret
        registry = CollectorRegistry()
        self._success = Counter("model_infer_request_success", "Answered.", ["model"], registry=registry)
        self._failure = Counter("model_infer_request_failure", "Failed.", ["model"], registry=registry)
        self._scored = Counter("income_scored", "Decisions.", registry=registry)
        self._positive = Counter("income_positive", "Positive decisions.", registry=registry)
        self._seconds = Histogram(
            "rest_server_request_duration_seconds", "Duration.", ["path"], buckets=_BUCKETS, registry=registry
        )
        self._registry = registry
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"standin-{variant}", daemon=True)

    @property
    def metrics(self) -> str:
        """Where Prometheus scrapes it, ``address:port``."""
        return f"{self.address}:{METRICS_PORT}"

    def behave(self, **changes: object) -> None:
        """Change the behaviour from the next request on."""
        self.behaviour = replace(self.behaviour, **changes)  # type: ignore[arg-type]

    def start(self) -> Self:
        """Start serving and return when it does."""
        self._thread.start()
        if not self._started.wait(10):
            raise RuntimeError(f"the stand-in on {self.address} did not start within 10 s")
        return self

    def stop(self) -> None:
        """Stop serving; safe to call twice."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(10)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        runners = self._loop.run_until_complete(self._serve())
        self._started.set()
        self._loop.run_forever()
        for runner in runners:
            self._loop.run_until_complete(runner.cleanup())
        self._loop.close()

    async def _serve(self) -> list[web.AppRunner]:
        answers, metrics = web.Application(), web.Application()
        answers.router.add_post(_PATH, self._infer)
        answers.router.add_get("/v2/health/ready", self._ready)
        metrics.router.add_get("/metrics", self._metrics)
        runners = []
        for application, port in ((answers, HTTP_PORT), (metrics, METRICS_PORT)):
            runner = web.AppRunner(application, access_log=None)
            await runner.setup()
            await web.TCPSite(runner, self.address, port, reuse_address=True).start()
            runners.append(runner)
        return runners

    async def _infer(self, request: web.Request) -> web.Response:
        await request.read()
        behaviour, begun = self.behaviour, self._loop.time()
        if behaviour.delay:
            await asyncio.sleep(behaviour.delay.total_seconds() * self._random.uniform(0.5, 1.5))
        headers = {"x-model-version": self.variant}
        if self._random.random() < behaviour.errors:
            self._failure.labels("income").inc()
            return web.json_response({"error": "told to fail"}, status=500, headers=headers)
        positive = self._random.random() < behaviour.positives
        self._success.labels("income").inc()
        self._scored.inc()
        self._positive.inc(positive)
        self._seconds.labels("/v2/models/{model_name}/infer").observe(self._loop.time() - begun)
        answer = {
            "model_name": "income",
            "outputs": [{"name": "label", "shape": [1], "datatype": "INT64", "data": [int(positive)]}],
        }
        return web.json_response(answer, headers=headers)

    async def _ready(self, _: web.Request) -> web.Response:
        return web.json_response({"ready": True})

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST})
