"""The source against a real Prometheus that scrapes real targets."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import pytest_asyncio

from davylamp.core.plan import SignalKind
from davylamp.core.reading import Matcher, MatchKind, Reading, Request, Selector, SignalQuery, Target
from davylamp.errors import SpecError, Unavailable
from davylamp.sources.prometheus import PrometheusSource
from davylamp.sources.settings import Credentials
from e2e.lab import Lab
from gatestats.counters import count_events
from gatestats.histogram_counters import NativeSample, classic_gains, native_gains
from gatestats.ticks import OneArmCounts
from tests.davylamp.sources.conftest import Opener
from tests.davylamp.sources.exporter import Exporter, Page, exporting
from tests.davylamp.sources.looks import BASELINE, CANDIDATE, SETTINGS

SIGNALS = (
    SignalQuery(
        "errors",
        SignalKind.ERRORS,
        events=(Selector("exact_failed_total"),),
        total=(Selector("exact_ok_total"), Selector("exact_failed_total")),
    ),
    SignalQuery(
        "approvals",
        SignalKind.COUNTER,
        events=(Selector("exact_scored_total", (Matcher("decision", MatchKind.MATCHES, "y.*"),)),),
        total=(Selector("exact_scored_total"),),
    ),
    SignalQuery("latency", SignalKind.LATENCY, histogram=Selector("exact_seconds")),
)


@pytest_asyncio.fixture
async def source(lab: Lab, opened: Opener) -> AsyncIterator[PrometheusSource]:
    yield opened(replace(SETTINGS, address=lab.prometheus_url, queries_per_second=1000))


async def now_of(lab: Lab) -> datetime:
    """Return the time by Prometheus' clock."""
    (sample,) = await asyncio.to_thread(lab.query, "vector(time())")
    return datetime.fromtimestamp(float(sample["value"][1]), UTC)


class Truth:
    """Counters of one process, and what they gained as far as any scrape could see."""

    def __init__(self, seed: int) -> None:
        self._draws = random.Random(seed)  # noqa: S311 - test data
        self.gained: Counter[str] = Counter()

    def pages(self, count: int, *, missed: Sequence[int] = (), restarts: Sequence[int] = ()) -> list[Page]:
        """Return the pages of that many scrapes, the first of which only shows where counting begins.

        Errors are first seen at the fifth. What was gained between the last scrape and a restart, nobody ever saw.
        """
        # Enough behind it that every restart is a fall.
        counters = Counter(dict.fromkeys(self._gains(errors=False), 1000))
        unseen: Counter[str] = Counter()
        pages: list[Page] = [dict(counters)]
        for place in range(1, count):
            if place in restarts:
                counters, unseen = Counter(), Counter()
            gains = self._gains(errors=place >= 4)
            counters.update(gains)
            unseen.update(gains)
            if place in missed:
                pages.append(None)
                continue
            pages.append(dict(counters))
            self.gained.update(unseen)
            unseen = Counter()
        return pages

    def _gains(self, *, errors: bool) -> dict[str, int]:
        fast, slow, failed = (self._draws.randrange(5) for _ in range(3))
        ok = fast + slow
        gains = {
            "exact_ok_total": ok,
            'exact_scored_total{decision="yes"}': fast,
            'exact_scored_total{decision="no"}': slow,
            'exact_seconds_bucket{le="1"}': fast,
            'exact_seconds_bucket{le="2.5"}': ok,
            'exact_seconds_bucket{le="+Inf"}': ok,
        }
        return gains | ({"exact_failed_total": failed} if errors else {})


async def test_what_is_counted_over_many_looks_is_exactly_what_was_counted_in_the_target(
    lab: Lab, source: PrometheusSource, lab_namespace: str
) -> None:
    truths = {service: Truth(seed) for seed, service in enumerate(("fp32", "int8"))}
    exporters = {
        "fp32": Exporter(truths["fp32"].pages(9, missed=(2, 6), restarts=(3, 7))),
        "int8": Exporter(truths["int8"].pages(9, missed=(3,), restarts=(4,))),
    }
    async with exporting(*exporters.values()):
        start = await now_of(lab)
        labels = {
            exporter.address: {"namespace": lab_namespace, "service": service}
            for service, exporter in exporters.items()
        }
        await asyncio.to_thread(lab.scrape, lab_namespace, labels)
        for exporter in exporters.values():
            await exporter.all_served.wait()
        end = await now_of(lab)
        await asyncio.to_thread(lab.scrape, lab_namespace, {})

    for stride in (0.3, 1.7):
        counted = await look_by_look(source, lab_namespace, (start, end), timedelta(seconds=stride))
        for service, truth in truths.items():
            gained, scored = truth.gained, truth.gained["exact_ok_total"]
            assert counted[service] == {
                "errors": (gained["exact_failed_total"], scored),
                "approvals": (gained['exact_scored_total{decision="yes"}'], scored),
                "latency": (gained['exact_seconds_bucket{le="1"}'], scored),
            }


async def look_by_look(
    source: PrometheusSource, namespace: str, span: tuple[datetime, datetime], stride: timedelta
) -> dict[str, dict[str, tuple[int, int]]]:
    """Return counts of each service and gate over looks that join; the total of errors without the failures."""
    sums: dict[str, dict[str, tuple[int, int]]] = {
        service: dict.fromkeys(("errors", "approvals", "latency"), (0, 0)) for service in ("fp32", "int8")
    }
    start, end = span
    while start < end:
        request = request_of(namespace, start, min(start + stride, end))
        reading = await source.read(request)
        for variant, service in ((BASELINE, "fp32"), (CANDIDATE, "int8")):
            for gate, signal in reading.signals.items():
                for target in signal.targets.get(variant, ()):
                    gained = counts_of(target, gate, request)
                    before = sums[service][gate]
                    sums[service][gate] = (before[0] + gained[0], before[1] + gained[1])
        start = request.end
    return sums


def request_of(namespace: str, start: datetime, end: datetime) -> Request:
    variants = {BASELINE: {"service": "fp32"}, CANDIDATE: {"service": "int8"}}
    return Request(namespace, variants, SIGNALS, start, end, timedelta(seconds=15))


def counts_of(target: Target, gate: str, request: Request) -> tuple[int, int]:
    window = (request.start.timestamp(), request.end.timestamp())
    if gate == "latency":
        gained = classic_gains(target.buckets, window) or {}
        return gained.get((0.0, 1.0), 0), sum(gained.values())
    counted = count_events(dict(target.events), dict(target.total), window) or OneArmCounts(0, 0)
    return counted.events, counted.total - (counted.events if gate == "errors" else 0)


async def test_a_native_histogram_counts_as_the_classic_one_beside_it(
    lab: Lab, source: PrometheusSource, lab_namespace: str
) -> None:
    # Prometheus exports its own times as native histograms; one server under two names makes two variants.
    services = {"127.0.0.1:9090": "fp32", "localhost:9090": "int8"}
    labels = {address: {"namespace": lab_namespace, "service": service} for address, service in services.items()}
    await asyncio.to_thread(lab.scrape, lab_namespace, labels)
    metric = "prometheus_http_request_duration_seconds"
    queries = Matcher("handler", MatchKind.EQUAL, "/api/v1/query")
    signals = (
        SignalQuery("latency", SignalKind.LATENCY, histogram=Selector(metric, (queries,))),
        SignalQuery(
            "count",
            SignalKind.COUNTER,
            events=(Selector(f"{metric}_count", (queries,)),),
            total=(Selector(f"{metric}_count", (queries,)),),
        ),
    )

    async def look() -> tuple[Reading, Request]:
        end = await now_of(lab)
        start = end - timedelta(seconds=20)
        asked = replace(request_of(lab_namespace, start, end), signals=signals)
        return await source.read(asked), asked

    reading, asked = await look()
    while native_count(reading, asked) < 20:  # each look is a query that is counted
        reading, asked = await look()
    await asyncio.to_thread(lab.scrape, lab_namespace, {})

    (target,) = reading.signals["count"].targets[BASELINE]
    classic = counts_of(target, "count", asked)[1]
    assert reading.signals["latency"].trouble == {}
    assert native_count(reading, asked) == classic
    assert all(not target.buckets for target in reading.signals["latency"].targets[BASELINE])


def native_count(reading: Reading, request: Request) -> int:
    targets = reading.signals["latency"].targets.get(BASELINE, ())
    window = (request.start.timestamp(), request.end.timestamp())
    gains = [native_gains([NativeSample(*sample) for sample in target.native], window) for target in targets]
    return sum(sum(gain.values()) for gain in gains if gain)


async def test_labels_that_fit_nothing_are_told_what_there_is_in_the_namespace_alone(
    lab: Lab, source: PrometheusSource, lab_namespace: str
) -> None:
    exporter, foreign = Exporter([{"exact_ok_total": 1}]), Exporter([{"exact_ok_total": 1}])
    async with exporting(exporter, foreign):
        await asyncio.to_thread(
            lab.scrape,
            lab_namespace,
            {
                exporter.address: {"namespace": lab_namespace, "service": "int8-canary"},
                foreign.address: {"namespace": "other", "service": "secret"},
            },
        )
        end = await now_of(lab)
        reading = await source.read(request_of(lab_namespace, end - timedelta(seconds=5), end))
        await asyncio.to_thread(lab.scrape, lab_namespace, {})

    trouble = reading.signals["errors"].trouble[CANDIDATE]
    assert 'the metric exists with service="int8-canary"' in trouble
    assert "secret" not in trouble


async def test_a_query_that_prometheus_refuses_is_for_a_person_to_put_right(
    lab: Lab, source: PrometheusSource, lab_namespace: str
) -> None:
    broken = Selector("exact_ok_total", (Matcher("a", MatchKind.MATCHES, "("),))
    signal = SignalQuery("x", SignalKind.COUNTER, events=(broken,), total=(broken,))
    end = await now_of(lab)
    asked = replace(request_of(lab_namespace, end - timedelta(seconds=5), end), signals=(signal,))

    with pytest.raises(SpecError, match=r"the metric source default refuses the query \(400\): .*parse error"):
        await source.read(asked)


async def test_a_prometheus_that_hangs_is_unavailable_and_read_again_at_once_when_it_goes_on(
    lab: Lab, opened: Opener, lab_namespace: str
) -> None:
    source = opened(replace(SETTINGS, address=lab.prometheus_url, timeout=timedelta(seconds=1)))
    end = await now_of(lab)
    asked = request_of(lab_namespace, end - timedelta(seconds=5), end)
    await source.read(asked)

    with lab.component("prometheus").frozen(), pytest.raises(Unavailable, match="does not answer within 1 s"):
        await source.read(asked)
    await asyncio.to_thread(lab.component("prometheus").wait_ready)

    assert (await source.read(asked)).signals.keys() == {"errors", "approvals", "latency"}


async def test_a_prometheus_that_was_stopped_is_read_again_when_it_is_back(
    lab: Lab, source: PrometheusSource, lab_namespace: str
) -> None:
    end = await now_of(lab)
    asked = request_of(lab_namespace, end - timedelta(seconds=5), end)
    await source.read(asked)

    await asyncio.to_thread(lab.component("prometheus").kill)
    with pytest.raises(Unavailable, match=r"does not take connections|closes the connection"):
        await source.read(asked)
    await asyncio.to_thread(lab.ensure_ready)

    assert (await source.read(asked)).signals.keys() == {"errors", "approvals", "latency"}


@pytest.mark.parametrize(
    ("credentials", "error", "words"),
    [
        ({}, Unavailable, "cannot be trusted"),
        ({"authority": True}, SpecError, r"no Prometheus API|credentials \(40[13]\)"),
        ({"authority": True, "bearer": "wrong"}, SpecError, r"refuses the credentials \(401\)"),
        ({"authority": True, "bearer": True}, SpecError, "no Prometheus API"),
    ],
)
async def test_a_server_is_trusted_by_its_authority_alone(
    control_plane: Lab, opened: Opener, credentials: dict[str, Any], error: type[Exception], words: str
) -> None:
    lab = control_plane
    known = {"authority": lab.authority.read_text(), "bearer": lab.token}

    async def reader() -> Credentials:
        return Credentials(**{key: known[key] if value is True else value for key, value in credentials.items()})

    source = opened(replace(SETTINGS, address=lab.api_url), reader)

    with pytest.raises(error, match=words) as raised:
        await source.read(request_of("ml", datetime(2026, 11, 30, tzinfo=UTC), datetime(2026, 11, 30, 1, tzinfo=UTC)))
    assert lab.token not in str(raised.value)
