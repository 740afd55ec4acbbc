from __future__ import annotations

from aiohttp import web

from davylamp.sources.prometheus import PrometheusSource
from tests.davylamp.sources.clocks import HandClock
from tests.davylamp.sources.looks import (
    BASELINE,
    CANDIDATE,
    ERRORS,
    LATENCY,
    envelope,
    request,
    series,
)
from tests.davylamp.sources.servers import Server


async def test_no_series_at_all_is_explained_by_what_exists(
    server: Server, source: PrometheusSource, clock: HandClock
) -> None:
    async def probed(asked: web.Request) -> web.StreamResponse:
        if "count by" not in str((await asked.post())["query"]):
            return web.json_response(envelope([series("ok_total", "fp32", [1])]))
        return web.json_response(
            {"status": "success", "data": {"resultType": "vector", "result": [{"metric": {"service": "int8-canary"}}]}}
        )

    server.handler = probed
    for _ in range(2):
        await source.read(request(ERRORS))
    reading = await source.read(request(ERRORS))

    assert reading.signals["errors"].trouble == {
        CANDIDATE: 'no series of failed_total or ok_total with service="int8" in namespace ml has a sample of the last '
        '30 s; the metric exists with service="int8-canary": see that the candidate gets requests and is scraped, or '
        "put metrics.labels right"
    }
    assert [query for query in server.queries if "count by" in query] == [
        'count by (service) ({__name__=~"failed_total|ok_total",namespace="ml"})'
    ]

    clock.advance(31)
    await source.read(request(ERRORS))
    assert len([query for query in server.queries if "count by" in query]) == 2


async def test_nothing_found_in_the_namespace_is_said(source: PrometheusSource) -> None:
    trouble = (await source.read(request(LATENCY))).signals["latency"].trouble

    assert trouble[BASELINE].endswith("in namespace ml no such metric exists at all: is its server scraped?")
    assert "seconds_bucket" in trouble[CANDIDATE]


async def test_an_unanswered_probe_does_not_spoil_the_look(server: Server, source: PrometheusSource) -> None:
    async def no_probe(asked: web.Request) -> web.StreamResponse:
        probe = "count by" in str((await asked.post())["query"])
        return web.json_response(envelope(), status=500 if probe else 200)

    server.handler = no_probe

    trouble = (await source.read(request(ERRORS))).signals["errors"].trouble

    assert trouble[BASELINE].endswith("has a sample of the last 30 s")
