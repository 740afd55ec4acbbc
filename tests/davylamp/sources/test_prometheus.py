from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from aiohttp import web

from davylamp.core.reading import Matcher, MatchKind, Selector
from davylamp.errors import SpecError, Unavailable
from davylamp.sources.prometheus import PrometheusSource
from davylamp.sources.settings import PrometheusSettings
from davylamp.sources.transport import retry_after
from tests.davylamp.sources.clocks import HandClock
from tests.davylamp.sources.conftest import Opener
from tests.davylamp.sources.looks import (
    APPROVALS,
    END,
    ERRORS,
    NOW,
    both,
    envelope,
    request,
    texts,
)
from tests.davylamp.sources.servers import Server


async def test_a_look_is_one_query_at_its_end_in_the_body_of_a_post(server: Server, source: PrometheusSource) -> None:
    server.answer(envelope([*both("ok_total", [1, 2]), *both("scored_total", [1]), *both("approved_total", [1])]))

    reading = await source.read(request(ERRORS, APPROVALS))

    assert reading.signals["errors"].trouble == {}
    assert server.queries == texts(request(ERRORS, APPROVALS))
    assert server.forms[0] == {
        "query": server.queries[0],
        "time": f"{NOW:.3f}",
        "timeout": "5000ms",
        "partial_response": "false",
        "deny_partial_response": "1",
        "dedup": "true",
        "max_source_resolution": "0s",
    }
    assert server.headers[0]["Accept-Encoding"] == "identity"
    assert "Authorization" not in server.headers[0]


async def test_the_time_of_evaluation_is_never_after_the_end(server: Server, source: PrometheusSource) -> None:
    await source.read(request(ERRORS, end=END + timedelta(microseconds=1999)))

    assert server.forms[0]["time"] == f"{int(NOW)}.001"


@pytest.mark.parametrize(
    ("status", "answer", "error"),
    [
        (200, {"status": "error", "errorType": "bad_data", "error": "parse error"}, SpecError),
        (400, {"status": "error", "errorType": "bad_data", "error": "parse error"}, SpecError),
        (422, {"status": "error", "errorType": "execution", "error": "too many samples"}, SpecError),
        (401, {"error": "no"}, SpecError),
        (404, {"error": "no"}, SpecError),
        (500, {"error": "no"}, Unavailable),
        (503, {"status": "error", "errorType": "timeout", "error": "query timed out"}, Unavailable),
        (504, {}, Unavailable),
        (200, envelope(warnings=["a store is gone"]), Unavailable),
        (200, {"status": "success", "data": {"resultType": "scalar", "result": [1, "1"]}}, Unavailable),
        (200, {"status": "success"}, Unavailable),
        (200, "text", Unavailable),
    ],
)
async def test_each_answer_is_told_apart_by_what_is_to_be_done(
    server: Server, source: PrometheusSource, status: int, answer: Any, error: type[Exception]
) -> None:
    server.answer(answer, status=status)

    with pytest.raises(error) as raised:
        await source.read(request(ERRORS))

    assert str(raised.value).startswith("the metric source default ")
    assert server.address not in str(raised.value)


async def test_remarks_on_the_query_do_no_harm(server: Server, source: PrometheusSource) -> None:
    server.answer(envelope(both("ok_total", [1, 2]), infos=["PromQL info: metric might not be a counter"]))

    assert (await source.read(request(ERRORS))).signals["errors"].trouble == {}


async def test_a_source_that_was_down_is_read_again_at_once_when_it_is_back(
    server: Server, source: PrometheusSource, clock: HandClock
) -> None:
    server.answer({}, status=503)
    for _ in range(10):
        with pytest.raises(Unavailable):
            await source.read(request(ERRORS))
    assert len(server.forms) == 3

    server.answer(envelope(both("ok_total", [1])))
    clock.advance(1)
    for _ in range(5):
        await source.read(request(ERRORS))

    assert len(server.forms) == 8


async def test_too_many_requests_are_answered_by_silence_as_long_as_the_server_says(
    server: Server, source: PrometheusSource, clock: HandClock
) -> None:
    server.answer({}, status=429, headers={"Retry-After": "20"})
    for _ in range(3):
        with pytest.raises(Unavailable, match="asked too often"):
            await source.read(request(ERRORS))
    clock.advance(19)
    with pytest.raises(Unavailable, match="asked again in 1 s"):
        await source.read(request(ERRORS))
    assert len(server.forms) == 1

    clock.advance(1.1)
    server.answer(envelope(both("ok_total", [1])))
    await source.read(request(ERRORS))


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, 5),
        ("", 5),
        ("7", 7),
        ("0", 1),
        ("-3", 5),
        ("3600", 60),
        ("1e9", 5),
        ("9" * 400, 5),
        ("soon", 5),
        ("Mon, 30 Nov 2026 12:00:30 GMT", 30),
        ("Mon, 30 Nov 2026 11:00:00 GMT", 1),
        ("Mon, 30 Nov 2099 12:00:00 GMT", 60),
        ("Mon, 99 Nov 2026 12:00:00 GMT", 5),
    ],
)
def test_a_server_is_left_alone_for_1_to_60_seconds(header: str | None, seconds: float) -> None:
    assert retry_after(header, END) == timedelta(seconds=seconds)


async def test_more_looks_than_the_limit_allows_are_refused_and_not_sent(
    server: Server, settings: PrometheusSettings, opened: Opener
) -> None:
    server.answer(envelope(both("ok_total", [1])))
    source = opened(replace(settings, queries_per_second=3, timeout=timedelta(seconds=0.5)))

    outcomes = await asyncio.gather(*(source.read(request(ERRORS)) for _ in range(20)), return_exceptions=True)

    refused = [str(outcome) for outcome in outcomes if isinstance(outcome, Unavailable)]
    assert len(refused) == 16
    assert "more than its 3 queries a second: raise queriesPerSecond" in refused[0]
    assert len(server.forms) == 4


async def test_those_who_wait_to_begin_never_fill_the_line_before_those_who_watch_traffic(
    server: Server, settings: PrometheusSettings, opened: Opener
) -> None:
    server.answer(envelope(both("ok_total", [1])))
    source = opened(replace(settings, queries_per_second=20, timeout=timedelta(seconds=1)))
    waiting, watching = replace(request(ERRORS), serving=False), request(ERRORS)

    outcomes = await asyncio.gather(
        *(source.read(each) for each in [*[waiting] * 60, *[watching] * 10]), return_exceptions=True
    )

    assert [isinstance(outcome, Unavailable) for outcome in outcomes] == [False] * 24 + [True] * 36 + [False] * 10


async def test_a_low_limit_lets_those_who_wait_to_begin_have_their_turn(
    server: Server, settings: PrometheusSettings, opened: Opener
) -> None:
    server.answer(envelope(both("ok_total", [1])))
    source = opened(replace(settings, queries_per_second=4, timeout=timedelta(seconds=0.5)))
    waiting = replace(request(ERRORS), serving=False)

    outcomes = await asyncio.gather(*(source.read(waiting) for _ in range(6)), return_exceptions=True)

    assert [isinstance(outcome, Unavailable) for outcome in outcomes] == [False] * 5 + [True]


async def test_the_worst_outcome_of_several_queries_wins(server: Server, source: PrometheusSource) -> None:
    async def one_fails(asked: web.Request) -> web.StreamResponse:
        wild = "=~" in str((await asked.post())["query"]).split("kind", 1)[-1]
        return web.json_response({} if wild else {"status": "error", "error": "x"}, status=503 if wild else 400)

    server.handler = one_fails
    wild = Selector("approved_total", (Matcher("kind", MatchKind.MATCHES, "a.*"),))

    with pytest.raises(Unavailable):
        await source.read(request(replace(APPROVALS, events=(wild,))))
