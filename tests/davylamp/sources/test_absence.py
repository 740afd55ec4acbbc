from __future__ import annotations

from dataclasses import replace

from aiohttp import web

from davylamp.core.reading import Matcher, MatchKind, Request, Scope, Selector
from davylamp.sources.prometheus import PrometheusSource
from tests.davylamp.sources.clocks import HandClock
from tests.davylamp.sources.looks import APPROVALS, BASELINE, CANDIDATE, ERRORS, LATENCY, envelope, request, series
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


async def explained(server: Server, source: PrometheusSource, asked: Request, *existing: dict[str, str]) -> str:
    """Return what is said of the candidate when these labels exist, and nothing was found."""

    async def probed(query: web.Request) -> web.StreamResponse:
        result = [{"metric": labels} for labels in existing] if "count by" in str((await query.post())["query"]) else []
        return web.json_response({"status": "success", "data": {"resultType": "vector", "result": result}})

    server.handler = probed
    (signal,) = (await source.read(asked)).signals.values()
    return signal.trouble[CANDIDATE]


async def test_series_without_a_fresh_sample_are_told_from_a_wrong_label(
    server: Server, source: PrometheusSource
) -> None:
    assert "have no sample that new" in await explained(server, source, request(ERRORS), {"service": "int8"})


async def test_matchers_that_nothing_fits_are_told_from_a_wrong_label(server: Server, source: PrometheusSource) -> None:
    narrow = Selector("scored_total", (Matcher("decision", MatchKind.EQUAL, "yse"),))
    asked = request(replace(APPROVALS, total=(narrow,)))

    said = await explained(server, source, asked, {"service": "int8"})

    assert 'no series of scored_total{decision="yse"} with service="int8"' in said
    assert said.endswith("series with these labels exist, but none that its other matchers fit")


async def test_of_a_gateways_clusters_only_those_of_the_namespace_are_shown(
    server: Server, source: PrometheusSource
) -> None:
    clusters = {BASELINE: {"cluster": "ml_a_80"}, CANDIDATE: {"cluster": "ml_b_80"}}
    asked = request(replace(ERRORS, scope=Scope("cluster", ("{namespace}_",)), variants=clusters))

    said = await explained(server, source, asked, {"cluster": "secret_x_80"}, {"cluster": "ml_a_80"})

    assert 'exists with cluster="ml_a_80"' in said
    assert "secret" not in said
    assert server.queries[-1] == 'count by (cluster) ({__name__=~"failed_total|ok_total",cluster=~"(ml_).*"})'


async def test_of_many_labels_a_few_are_shown(server: Server, source: PrometheusSource) -> None:
    said = await explained(server, source, request(ERRORS), *({"service": f"s{place:03}"} for place in range(2000)))

    assert said.count("service=") == 6
    assert len(said) < 500
