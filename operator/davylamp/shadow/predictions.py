"""What both variants decided, sent on to where labels come: in batches, off the way of comparing.

Rule 1: what does not fit into the buffer is dropped, the newest first, and counted; comparing never waits.
Rule 2: what the service did not take is sent again, for it counts each request once; what it refuses is not.
Rule 3: callers choose ids and models their classes, and a wrong one refuses its whole batch: what could not be stored
is not sent, and of a batch that is refused each half is tried alone, so that nobody takes others' evidence away.
"""

import asyncio
import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from random import Random
from typing import Any, Final

import aiohttp
import structlog
from prometheus_client import CollectorRegistry, Counter

#: Predictions in one request, as the service takes them, and in memory.
_BATCH: Final = 1000
_MOST: Final = 20_000
_EVERY: Final = 0.5
_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 30.0
_TIMEOUT: Final = 10.0
#: Characters of an id, as the service takes them.
_LONGEST: Final = 256
_TRY_AGAIN: Final = frozenset(
    {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}
)
#: What is said of a body, of which a part may be taken.
_OF_THE_BODY: Final = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE})
_log: Final = structlog.get_logger("davylamp")


@dataclass(frozen=True, slots=True)
class LabelsService:
    """Where predictions go.

    Parameters
    ----------
    url
        Of the service, without a path.
    token_file
        File with the bearer token, read anew for each request; None to send none.
    """

    url: str
    token_file: Path | None = None


class Predictions:
    """The buffer and its sender.

    Parameters
    ----------
    service
        Where they go.
    registry
        Where they are counted.
    randomness
        Spreads what is tried again.
    """

    def __init__(self, service: LabelsService, registry: CollectorRegistry, randomness: Random) -> None:
        self._service = service
        self._randomness = randomness
        self._waiting: deque[Mapping[str, Any]] = deque()
        self._counts = Counter(
            "davylamp_shadow_predictions",
            "Predictions for labels to join, by what became of them.",
            ("outcome",),
            registry=registry,
        )
        for outcome in ("sent", "dropped", "refused", "without_id", "wrong_id"):
            self._counts.labels(outcome)

    def add(self, prediction: Mapping[str, Any]) -> None:
        """Take one, if there is a place for it and a label could find it."""
        if not prediction["id"]:
            self._counts.labels("without_id").inc()
        elif len(prediction["id"]) > _LONGEST or not prediction["id"].isprintable():
            self._counts.labels("wrong_id").inc()
        elif len(self._waiting) >= _MOST:
            self._counts.labels("dropped").inc()
        else:
            self._waiting.append(prediction)

    async def run(self) -> None:
        """Send until cancelled."""
        timeout = aiohttp.ClientTimeout(total=_TIMEOUT)
        async with aiohttp.ClientSession(timeout=timeout, trust_env=False) as session:
            while True:
                await asyncio.sleep(_EVERY)
                while self._waiting:
                    batch = [self._waiting.popleft() for _ in range(min(_BATCH, len(self._waiting)))]
                    await self._deliver(session, batch)

    async def _deliver(self, session: aiohttp.ClientSession, batch: list[Mapping[str, Any]]) -> None:
        pause = _FIRST_PAUSE
        while True:
            try:
                status = await self._post(session, batch)
            # A token that is no text is a ValueError; it may be put right in its file.
            except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
                trouble = type(error).__name__
            else:
                if status < HTTPStatus.MULTIPLE_CHOICES:
                    self._counts.labels("sent").inc(len(batch))
                    return
                if status < HTTPStatus.INTERNAL_SERVER_ERROR and status not in _TRY_AGAIN:
                    if status in _OF_THE_BODY and len(batch) > 1:
                        middle = len(batch) // 2
                        await self._deliver(session, batch[:middle])
                        await self._deliver(session, batch[middle:])
                        return
                    self._counts.labels("refused").inc(len(batch))
                    _log.error("predictions_refused", status=status, count=len(batch))
                    return
                trouble = str(status)
            if pause == _FIRST_PAUSE:
                _log.warning("predictions_not_taken", why=trouble)
            await asyncio.sleep(pause * (0.5 + self._randomness.random() / 2))
            pause = min(_LONGEST_PAUSE, 2 * pause)

    async def _post(self, session: aiohttp.ClientSession, batch: list[Mapping[str, Any]]) -> int:
        headers = {"content-type": "application/json"}
        if self._service.token_file is not None:
            token = self._service.token_file.read_text(encoding="utf-8").split()
            headers["authorization"] = f"Bearer {token[0] if token else ''}"
        body = json.dumps({"predictions": batch}, allow_nan=False).encode()
        url = f"{self._service.url.rstrip('/')}/predictions"
        async with session.post(url, data=body, headers=headers, allow_redirects=False) as answer:
            await answer.read()
            return answer.status
