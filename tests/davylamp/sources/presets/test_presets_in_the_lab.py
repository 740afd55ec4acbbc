"""The presets against real MLServer processes behind a real Envoy: every request is found, by both."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest_asyncio

from davylamp.core.model import Variant
from davylamp.core.reading import Reading, Request
from davylamp.sources.presets import OwnCounter, Side, queries
from e2e.demo.models.artifacts import ensure_models
from e2e.demo.serving.faults import write_fault_share
from e2e.demo.serving.process import ModelServer, ServerSpec
from e2e.demo.traffic.bodies import request_bodies
from e2e.lab import Lab
from gatestats.counters import count_events
from gatestats.histogram_counters import classic_gains
from tests.davylamp.sources.conftest import Opener
from tests.davylamp.sources.looks import BASELINE, CANDIDATE, SETTINGS

SIDES = {BASELINE: Side("income-fp32", 8080), CANDIDATE: Side("income-int8", 8080)}
POSITIVE = OwnCounter("positive", "income_positive_total", "income_scored_total")
Outcomes = Counter[tuple[str, int]]


@pytest_asyncio.fixture
async def served(lab: Lab, lab_namespace: str, tmp_path: Path) -> AsyncIterator[str]:
    """Two variants behind a route of equal weights, and scraped; yields the host of the route."""
    models = ensure_models(lambda _: None)
    write_fault_share(tmp_path / "faults", 0.3)
    targets = {}
    async with AsyncExitStack() as stack:
        for version, service in (("fp32", "income-fp32"), ("int8", "income-int8")):
            address = lab.address()
            faults = tmp_path / "faults" if version == "int8" else None
            spec = ServerSpec(models.onnx(version), version, address, fault_file=faults)
            await stack.enter_async_context(ModelServer(spec, models.python, tmp_path / f"{version}.log"))
            lab.publish_service(lab_namespace, service, 8080, [address])
            targets[f"{address}:8082"] = {"namespace": lab_namespace, "service": service}
        lab.api.apply(route(lab, lab_namespace))
        await asyncio.to_thread(lab.scrape, lab_namespace, targets)
        yield f"{lab_namespace}.test"
        await asyncio.to_thread(lab.scrape, lab_namespace, {})


def route(lab: Lab, namespace: str) -> dict[str, object]:
    backends = [{"name": side.service, "port": side.port, "weight": 50} for side in SIDES.values()]
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": "income", "namespace": namespace},
        "spec": {
            "parentRefs": [lab.gateway],
            "hostnames": [f"{namespace}.test"],
            "rules": [{"backendRefs": backends}],
        },
    }


async def ask(lab: Lab, host: str, bodies: tuple[bytes, ...]) -> Outcomes:
    """Send requests through the gateway and return how they ended, by variant and status."""
    outcomes: Outcomes = Counter()
    async with aiohttp.ClientSession(headers={"Host": host, "Content-Type": "application/json"}) as session:
        for body in bodies:
            async with session.post(f"{lab.gateway_url}/v2/models/income/infer", data=body) as answer:
                await answer.read()
                outcomes[answer.headers.get("x-model-version", ""), answer.status] += 1
    return outcomes


async def until_served(lab: Lab, host: str, body: bytes) -> None:
    """Wait until the gateway has answered for both variants, with success and failure: then all series exist."""
    seen: set[tuple[str, int]] = set()
    while not seen >= {("fp32", 200), ("int8", 200), ("int8", 500)}:
        try:
            seen |= (await ask(lab, host, (body,))).keys()
        except aiohttp.ClientConnectionError:
            await asyncio.sleep(0.05)  # no listener yet


async def all_scraped(lab: Lab, namespace: str) -> datetime:
    """Return a time by which every target was scraped after now, and Envoy has timed all it counts.

    Envoy adds its histograms up every 5 s only.
    """
    (now,) = await asyncio.to_thread(lab.query, "vector(time())")
    mine = f'{{envoy_cluster_name=~"{namespace}_.*"}}'
    timed_all = f"sum(envoy_cluster_upstream_rq_time_count{mine}) == sum(envoy_cluster_upstream_rq_xx{mine})"
    query = f'min(timestamp(up{{job!=""}})) and on() {timed_all}'
    async with asyncio.timeout(30):
        while True:
            found = await asyncio.to_thread(lab.query, query)
            if found and float(found[0]["value"][1]) > float(now["value"][1]):
                return datetime.fromtimestamp(float(found[0]["value"][0]), UTC)
            await asyncio.sleep(0.1)


async def test_both_presets_find_every_request_and_every_failure(
    lab: Lab, lab_namespace: str, served: str, opened: Opener
) -> None:
    bodies = request_bodies(ensure_models(lambda _: None).held_out().features, limit=151)
    await until_served(lab, served, bodies[0])
    start = await all_scraped(lab, lab_namespace)
    outcomes = await ask(lab, served, bodies[1:])
    end = await all_scraped(lab, lab_namespace)
    source = opened(replace(SETTINGS, address=lab.prometheus_url, queries_per_second=1000))

    for preset in ("mlserver", "envoy"):
        signals = queries(preset, [POSITIVE], lab_namespace, SIDES)
        request = Request(lab_namespace, {}, signals, start, end, timedelta(seconds=20))
        reading = await source.read(request)
        for variant, version in ((BASELINE, "fp32"), (CANDIDATE, "int8")):
            failed, total = outcomes[version, 500], outcomes[version, 200] + outcomes[version, 500]
            assert counted(reading, variant, "errors", request) == (failed, total)
            assert timed(reading, variant, request) == total
            # A row that is scored is a request that succeeded.
            assert counted(reading, variant, "positive", request)[1] == total - failed
        assert reading.signals["errors"].trouble == {}


def counted(reading: Reading, variant: Variant, gate: str, request: Request) -> tuple[int, int]:
    (target,) = reading.signals[gate].targets[variant]
    counts = count_events(dict(target.events), dict(target.total), (request.start.timestamp(), request.end.timestamp()))
    assert counts is not None
    return counts.events, counts.total


def timed(reading: Reading, variant: Variant, request: Request) -> int:
    (target,) = reading.signals["latency"].targets[variant]
    gains = classic_gains(target.buckets, (request.start.timestamp(), request.end.timestamp()))
    assert gains is not None
    return sum(gains.values())
