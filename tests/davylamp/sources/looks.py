"""Requests and answers for tests, in few words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from davylamp.core.model import Variant
from davylamp.core.plan import SignalKind
from davylamp.core.reading import Reading, Request, Selector, SignalQuery
from davylamp.sources.answers import read_answer
from davylamp.sources.questions import Question, questions
from davylamp.sources.settings import PrometheusSettings
from davylamp.sources.targets import Look, sort_answers

BASELINE, CANDIDATE = Variant.BASELINE, Variant.CANDIDATE
#: The look is (END - 10 s, END], with samples from END - 30 s on; END is a whole second.
END = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
NOW = END.timestamp()
VARIANTS = {BASELINE: {"service": "fp32"}, CANDIDATE: {"service": "int8"}}
SETTINGS = PrometheusSettings("default", "http://127.0.0.1:1", timeout=timedelta(seconds=5))

ERRORS = SignalQuery(
    "errors",
    SignalKind.ERRORS,
    events=(Selector("failed_total"),),
    total=(Selector("ok_total"), Selector("failed_total")),
)
APPROVALS = SignalQuery(
    "approvals", SignalKind.COUNTER, events=(Selector("approved_total"),), total=(Selector("scored_total"),)
)
LATENCY = SignalQuery("latency", SignalKind.LATENCY, histogram=Selector("seconds"))


def request(*signals: SignalQuery, **changes: Any) -> Request:
    """Return a look at signals of namespace ml."""
    window = {"start": END - timedelta(seconds=10), "end": END, "lookback": timedelta(seconds=20)}
    return Request(**{"namespace": "ml", "variants": VARIANTS, "signals": signals, **window, **changes})


def series(metric: str, service: str, values: Any, *, replica: str = "a", **labels: str) -> dict[str, Any]:
    """Return one series as the API spells it; plain numbers become samples a second apart, the last at END."""
    name = {"__name__": metric, "namespace": "ml", "service": service, "instance": f"{service}-{replica}:80", **labels}
    return {"metric": name, "values": samples(values) if isinstance(values, (list, tuple)) else values}


def samples(values: Sequence[Any]) -> list[Any]:
    """Return samples one second apart, the last of them at END."""
    return [[NOW - len(values) + 1 + place, str(value)] for place, value in enumerate(values)]


def both(metric: str, values: Any, **labels: str) -> list[dict[str, Any]]:
    """Return a series of each variant."""
    return [series(metric, service, values, **labels) for service in ("fp32", "int8")]


def envelope(result: Sequence[Any] = (), **more: Any) -> dict[str, Any]:
    """Return an answer of the API."""
    return {"status": "success", "data": {"resultType": "matrix", "result": list(result)}, **more}


def read(asked: Request, result: Sequence[Any], settings: PrometheusSettings = SETTINGS) -> Reading:
    """Return the reading that an answer with these series makes, given to every question."""
    answer = read_answer(json.dumps(envelope(result)).encode())
    return sort_answers(Look(asked, settings), [(question, answer) for question in questions(asked)])


def texts(asked: Request) -> list[str]:
    """Return the queries of a look."""
    return [question.text for question in questions(asked)]


def asked_of(asked: Request) -> tuple[Question, ...]:
    """Return the questions of a look."""
    return questions(asked)


def counts(samples_of: Mapping[Any, Any]) -> list[list[float]]:
    """Return the values of counters, by series."""
    return [[sample.value for sample in samples_of[key]] for key in sorted(samples_of)]
