"""A model server that answers as it is told, and counts as MLServer does.

Tests that need dozens of rollouts cannot start an MLServer for each variant. This one is a real HTTP server with real
counters behind the real gateway; only the model is missing.

What it decides is a function of the request's id, as a model's decision is one of its input: two of them decide the
same about the same request, but for the share in which one is told to differ.
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
#: What the comparator marks its own requests with.
_SHADOW: Final = "x-davylamp-shadow"
_PATH: Final = "/v2/models/income/infer"
_THRESHOLD: Final = 0.5
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
    differing
        Share of the decisions that are not those of the others, 0..1.
    page
        Whether it answers with a web page, as a proxy before a lost model does.
    """

    errors: float = 0.0
    positives: float = 0.3
    delay: timedelta = timedelta(0)
    differing: float = 0.0
    page: bool = False


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
        Of what is random: delays, errors, and decisions about requests without an id.
    """

    def __init__(self, address: str, variant: str, behaviour: Behaviour | None = None, *, seed: int = 0) -> None:
        self.address = address
        self.variant = variant
        self.behaviour = behaviour or Behaviour()
        #: Requests that somebody waited for, and those of the comparator.
        self.live = 0
        self.shadowed = 0
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

    def forget(self) -> None:
        """Begin to count live and shadowed requests anew."""
        self.live = self.shadowed = 0

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
            # Whoever is told to hang does so no longer than somebody waits.
            runner = web.AppRunner(application, access_log=None, handler_cancellation=True)
            await runner.setup()
            await web.TCPSite(runner, self.address, port, reuse_address=True).start()
            runners.append(runner)
        return runners

    async def _infer(self, request: web.Request) -> web.Response:
        await request.read()
        behaviour, begun = self.behaviour, self._loop.time()
        shadowed = _SHADOW in request.headers
        self.shadowed += shadowed
        self.live += not shadowed
        if behaviour.delay:
            await asyncio.sleep(behaviour.delay.total_seconds() * self._random.uniform(0.5, 1.5))
        headers = {"x-model-version": self.variant}
        if self._random.random() < behaviour.errors:
            self._failure.labels("income").inc()
            return web.json_response({"error": "told to fail"}, status=500, headers=headers)
        if behaviour.page:
            return web.Response(text="<html><body>no model here</body></html>", content_type="text/html")
        score = self._score(request.headers.get("x-request-id"), behaviour)
        self._success.labels("income").inc()
        self._scored.inc()
        self._positive.inc(score >= _THRESHOLD)
        self._seconds.labels("/v2/models/{model_name}/infer").observe(self._loop.time() - begun)
        return web.json_response(_answer(score), headers=headers)

    def _score(self, request_id: str | None, behaviour: Behaviour) -> float:
        """Return how likely the positive class is for a request."""
        chance = self._random if request_id is None else random.Random(request_id)  # noqa: S311 - no secret
        positive = (chance.random() < behaviour.positives) is not (chance.random() < behaviour.differing)
        return chance.uniform(_THRESHOLD + 0.1, 1) if positive else chance.uniform(0, _THRESHOLD - 0.1)

    async def _ready(self, _: web.Request) -> web.Response:
        return web.json_response({"ready": True})

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST})


def _answer(score: float) -> dict[str, object]:
    decided = [
        {"name": "label", "shape": [1], "datatype": "INT64", "data": [int(score >= _THRESHOLD)]},
        {"name": "probability", "shape": [1], "datatype": "FP64", "data": [score]},
    ]
    return {"model_name": "income", "outputs": decided}
