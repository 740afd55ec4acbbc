"""Read raw samples from a server that speaks the HTTP API of Prometheus: Prometheus, Thanos, Mimir, VictoriaMetrics.

One instance serves all rollouts that name the same MetricSource, so that they share its limits.
"""

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Final

import structlog

from davylamp.core.reading import Reading, Request
from davylamp.errors import DavylampError, SpecError, Unavailable
from davylamp.ports import Clock
from davylamp.sources.absence import Absence, missing_series, probe_text
from davylamp.sources.answers import Answer
from davylamp.sources.questions import Question, questions
from davylamp.sources.restraint import Breaker, TokenBucket
from davylamp.sources.settings import CredentialReader, PrometheusSettings, no_credentials
from davylamp.sources.targets import Look, sort_answers
from davylamp.sources.transport import TooManyRequestsError, Transport

_log: Final = structlog.get_logger("davylamp.sources.prometheus")
#: Of the line for a source, the share that those may fill who have no traffic to watch.
_STANDING_BACK: Final = 0.2


class PrometheusSource:
    """A `davylamp.ports.MetricSource`.

    Parameters
    ----------
    settings
        How the server is asked.
    clock
        Source of time.
    credentials
        Reads the credentials, anew for each query.
    """

    def __init__(
        self, settings: PrometheusSettings, clock: Clock, credentials: CredentialReader = no_credentials
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._transport = Transport(settings, clock, credentials)
        self._bucket = TokenBucket(settings.queries_per_second, clock)
        self._breaker = Breaker(clock, random.Random())  # noqa: S311 - spreads retries, guards nothing
        self._absence = Absence()

    async def read(self, request: Request) -> Reading:
        """Return the raw samples of one look.

        Raises
        ------
        SpecError
            If the request cannot be asked, or the server refuses it.
        Unavailable
            If the server does not answer, or not in full.
        """
        asked = questions(request)
        answers = await self._ask([question.text for question in asked], request)
        look = Look(request, self._settings, self._transport.skew)
        reading = sort_answers(look, zip(asked, answers, strict=True))
        return await self._with_explanations(reading, request, asked)

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()

    async def _ask(self, texts: Sequence[str], request: Request) -> list[Answer]:
        """Ask all at once; the worst outcome wins."""
        refusal = self._breaker.refusal()
        if refusal is not None:
            raise Unavailable(refusal)
        await self._wait_for_turn(len(texts), serving=request.serving)
        queries = (self._transport.query(text, request.end) for text in texts)
        outcomes = await asyncio.gather(*queries, return_exceptions=True)
        failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        self._report(failures)
        answers = [outcome for outcome in outcomes if isinstance(outcome, Answer)]
        for remark in {remark for answer in answers for remark in answer.remarks}:
            _log.debug("source_remarked", source=self._settings.name, remark=remark)
        return answers

    def _report(self, failures: Sequence[BaseException]) -> None:
        """Tell the breaker how it went, and raise what has to be raised."""
        unexpected = [failure for failure in failures if not isinstance(failure, DavylampError)]
        down = [failure for failure in failures if isinstance(failure, Unavailable)]
        refused = [failure for failure in failures if isinstance(failure, SpecError)]
        if down:
            waits = [failure.retry_after for failure in down if isinstance(failure, TooManyRequestsError)]
            self._breaker.failed(str(down[0]), max(waits, default=None))
        elif not unexpected:
            self._breaker.succeeded()
        for failure in (*unexpected, *down, *refused):
            raise failure

    async def _wait_for_turn(self, count: int, *, serving: bool) -> None:
        wait = self._bucket.reserve(count, self._settings.timeout if serving else self._short_wait(count))
        if wait is None:
            raise Unavailable(
                f"the metric source {self._settings.name} is asked for more than its "
                f"{self._settings.queries_per_second} queries a second: raise queriesPerSecond of the MetricSource, or "
                "make fewer rollouts at once"
            )
        if wait:
            await asyncio.sleep(wait.total_seconds())

    def _short_wait(self, count: int) -> timedelta:
        """Return how long those may stand in line who have no traffic to watch: as long as they need, and little more.

        So they never fill the line, however many they are, and those who watch traffic always find a place in it.
        """
        needed = timedelta(seconds=count / self._settings.queries_per_second)
        return min(self._settings.timeout, max(self._settings.timeout * _STANDING_BACK, needed))

    async def _with_explanations(self, reading: Reading, request: Request, asked: Sequence[Question]) -> Reading:
        """Say what is missing; one cheap query, now and then, finds out why."""
        awaited = {signal.gate for signal in request.signals if signal.awaited}
        missing = [wanted for wanted in missing_series(reading, asked) if wanted[0].gate in awaited]
        due = self._absence.due(missing, self._clock.now())
        if due is not None:
            answer = None
            with suppress(DavylampError):  # the look itself succeeded; the reason can wait
                (answer,) = await self._ask([probe_text(due)], request)
            self._absence.learn(due, answer, self._clock.now())
        return self._absence.explain(reading, request, missing)
