"""The doors of the service: labels from users, predictions from comparators, probes and metrics for the cluster.

Rule 1: a body is bounded in bytes, items and time before it is read, and who sends it is known before it is parsed.
Rule 2: 2xx means that it is on disk. Whatever else is answered, it may be sent again.
"""

import asyncio
from collections import Counter as Counts
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client import Counter as Requests

from davylamp.errors import SpecError, Unavailable
from davylamp.labels.authentication import SIGNATURE, Keys
from davylamp.labels.events import read_labels
from davylamp.labels.messages import parse_predictions
from davylamp.labels.records import Arrival, Taken
from davylamp.labels.writing import Writer

#: Of a body, uncompressed.
MOST_BYTES: Final = 4 * 1024 * 1024
_SECONDS_TO_SEND: Final = 30
_SECONDS_TO_COME_BACK: Final = "2"
#: What a label that was sent can be told; unknown it is only later.
_TOLD: Final = tuple(each for each in Arrival if each is not Arrival.UNKNOWN)


@dataclass(frozen=True, slots=True)
class Inside:
    """What is behind the doors.

    Parameters
    ----------
    writer
        Takes messages.
    keys
        Who may post.
    now
        The clock.
    registry
        Metrics.
    ready
        Says why nothing can be taken; empty if it can.
    """

    writer: Writer
    keys: Keys
    now: Callable[[], datetime]
    registry: CollectorRegistry
    ready: Callable[[], str]


class Doors:
    """Answers requests.

    Parameters
    ----------
    inside
        What is behind them.
    """

    def __init__(self, inside: Inside) -> None:
        self._inside = inside
        meaning = "Requests, by path and status."
        self._requests = Requests("davylamp_label_requests", meaning, ("path", "code"), registry=inside.registry)

    def application(self) -> web.Application:
        """Return the application."""
        made = web.Application(client_max_size=MOST_BYTES, middlewares=[self._counting])
        made.router.add_post("/labels", self._labels)
        made.router.add_post("/predictions", self._predictions)
        made.router.add_get("/metrics", self._metrics)
        made.router.add_get("/healthz", _alive)
        made.router.add_get("/readyz", self._ready)
        return made

    async def _labels(self, request: web.Request) -> web.Response:
        body = await self._body(request)
        headers = {name.lower(): value for name, value in request.headers.items()}
        arrivals = Counts(await self._inside.writer.take(read_labels(headers, request.content_type, body)))
        return web.json_response({each.value: arrivals[each] for each in _TOLD})

    async def _predictions(self, request: web.Request) -> web.Response:
        taken = Counts(await self._inside.writer.take(parse_predictions(await self._body(request))))
        return web.json_response({each.value: taken[each] for each in Taken})

    async def _body(self, request: web.Request) -> bytes:
        """Return the body of a request from somebody who may post."""
        known = self._inside.keys.token_fits(request.headers.get("Authorization", ""))
        signature = request.headers.get(SIGNATURE, "")
        if not known and not signature:
            raise web.HTTPUnauthorized(text="bring a token or a signature", headers={"WWW-Authenticate": "Bearer"})
        try:
            async with asyncio.timeout(_SECONDS_TO_SEND):
                body = await request.read()
        except TimeoutError:
            raise web.HTTPRequestTimeout(text=f"the body took longer than {_SECONDS_TO_SEND} s") from None
        if not known and not self._inside.keys.signature_fits(signature, body, self._inside.now()):
            raise web.HTTPUnauthorized(text="the signature is wrong or too old", headers={"WWW-Authenticate": "Bearer"})
        return body

    async def _metrics(self, _: web.Request) -> web.Response:
        text = await asyncio.to_thread(generate_latest, self._inside.registry)
        return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _ready(self, _: web.Request) -> web.Response:
        why = self._inside.ready()
        return web.Response(text=why or "ok", status=503 if why else 200)

    @web.middleware
    async def _counting(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        path = request.match_info.route.resource.canonical if request.match_info.route.resource else "other"
        answer = await _answered(request, handler)
        self._requests.labels(path, str(answer.status)).inc()
        return answer


async def _alive(_: web.Request) -> web.Response:
    return web.Response(text="ok")


async def _answered(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Return what a handler answers, errors as JSON of one sentence."""
    try:
        return await handler(request)
    except SpecError as wrong:
        return web.json_response({"error": str(wrong)}, status=400)
    except Unavailable as failed:
        headers = {"Retry-After": _SECONDS_TO_COME_BACK}
        return web.json_response({"error": str(failed)}, status=503, headers=headers)
    except web.HTTPException as refused:
        headers = {name: value for name, value in refused.headers.items() if name in {"WWW-Authenticate", "Allow"}}
        return web.json_response({"error": refused.text}, status=refused.status, headers=headers)
