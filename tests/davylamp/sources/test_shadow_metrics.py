"""The comparator's counters: every series that is asked for is exported, and counts are found as they were made."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
import pytest_asyncio
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from davylamp.api.v1alpha1 import shadow_plan
from davylamp.core.evidence import begin
from davylamp.core.judge import judge
from davylamp.core.model import Variant, Verdict
from davylamp.core.plan import Direction, Gate, LimitMargin, Plan, SignalKind
from davylamp.core.reading import MatchKind, Reading, Request, Selector, SignalQuery
from davylamp.core.shadow_evidence import observe_shadow
from davylamp.core.shadow_gates import CONFIDENCE_EDGES, DISAGREEMENT, MIRRORED, SCORE_EDGES, edge_text
from davylamp.errors import SpecError
from davylamp.runtime.blueprint import blueprint
from davylamp.shadow.comparison import Comparison, Difference, Kind
from davylamp.shadow.exchange import Answer, Outcome
from davylamp.shadow.reception import Reception
from davylamp.shadow.telemetry import Pair, Tallies, Telemetry
from davylamp.sources.prometheus import PrometheusSource
from davylamp.sources.shadow_metrics import shadow_queries
from e2e.lab import Lab
from e2e.stage.manifests import model_rollout
from tests.davylamp.sources.conftest import Opener
from tests.davylamp.sources.exporter import Exporter, exporting
from tests.davylamp.sources.looks import SETTINGS, both, read, request


class Nothing:
    """A cluster without policies."""

    def find(self, *_: object) -> None:
        return None


MANIFEST: Final = model_rollout(
    "ml",
    "credit",
    baseline="fp32",
    candidate="int8",
    steps=[{"shadow": {"sample": "20%"}, "bake": "1m"}, {"weight": 20, "bake": "1m"}],
    gates={
        "disagreement": {"limit": "2%", "overNoise": "1%"},
        "statusMismatch": {"limit": "1%"},
        "scoreShift": {"tolerance": "2%"},
        "confidence": {"tolerance": "5%"},
        "pairedLatency": {"slowdown": "10%"},
    },
)
MANIFEST["spec"]["signals"]["source"] = "default"
DRAWN: Final = blueprint(MANIFEST, Nothing())
PLAN: Final[Plan] = DRAWN.plan
GATES: Final = {gate.name: gate for gate in PLAN.shadow_gates}


# What is asked for is exported.


def series(query: SignalQuery) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield name and labels of every series that a query asks for."""
    for labels in query.variants.values():
        for selector in (*query.events, *query.total):
            assert all(matcher.kind is MatchKind.EQUAL for matcher in selector.matchers)
            own = {matcher.label: matcher.value for matcher in selector.matchers}
            yield selector.metric, {"namespace": "ml", **labels, **own}


def test_every_kind_of_gate_on_shadow_traffic_is_asked_for() -> None:
    assert GATES.keys() == {
        DISAGREEMENT,
        shadow_plan.OVER_NOISE,
        shadow_plan.STATUS_MISMATCH,
        shadow_plan.SCORE_SHIFT,
        shadow_plan.CONFIDENCE,
        shadow_plan.PAIRED_LATENCY,
    }
    assert len({query.gate for query in DRAWN.shadow}) == len(DRAWN.shadow)


@pytest.mark.parametrize("query", DRAWN.shadow, ids=lambda query: query.gate)
def test_the_comparator_exports_every_series_that_is_asked_for_from_the_start(query: SignalQuery) -> None:
    exported = Telemetry()
    Tallies(exported, "ml", "credit")
    asked = list(series(query))
    assert asked
    assert {exported.registry.get_sample_value(name, labels) for name, labels in asked} == {0.0}


def test_edges_are_the_comparators_as_numbers_and_as_text() -> None:
    exported = Telemetry()
    Tallies(exported, "ml", "credit")
    edges: dict[str, set[str]] = {}
    for family in exported.registry.collect():
        for sample in family.samples:
            if "edge" in sample.labels:
                edges.setdefault(sample.name, set()).add(sample.labels["edge"])
    for what, wanted in (("score", SCORE_EDGES), ("confidence", CONFIDENCE_EDGES)):
        for move in ("raised", "lowered"):
            assert edges[f"davylamp_shadow_{what}_{move}_total"] == {edge_text(edge) for edge in wanted}


def test_a_plan_without_gates_on_shadow_traffic_asks_for_nothing() -> None:
    assert shadow_queries("credit", ()) == ()


@pytest.mark.parametrize(
    "gate",
    [
        Gate("errors", SignalKind.SHADOW_SHARE, Direction.HIGHER, LimitMargin(0.1)),
        Gate("disagreement", SignalKind.SHADOW_MOVES, Direction.HIGHER, LimitMargin(0.1)),
        Gate("scoreShift", SignalKind.SHADOW_SHARE, Direction.HIGHER, LimitMargin(0.1)),
    ],
)
def test_a_gate_that_the_comparator_counts_nothing_for_is_refused(gate: Gate) -> None:
    with pytest.raises(SpecError, match=f"the comparator counts nothing for a gate {gate.name} of kind {gate.kind}"):
        shadow_queries("credit", [gate])


def test_arrivals_are_read_without_events_and_miss_none() -> None:
    arrivals = SignalQuery(MIRRORED, SignalKind.COUNTER, total=(Selector("scored_total"),))
    assert read(request(arrivals), both("scored_total", [7, 8])).signals[MIRRORED].trouble == {}


# What was counted is found, by a real Prometheus.


class Replica:
    """One process of a comparator at work: what it compares is counted by itself, and by the words of the design."""

    def __init__(self, seed: int) -> None:
        self._draws = random.Random(seed)  # noqa: S311 - test data
        self._started()
        self.truth: Counter[str] = Counter()

    def _started(self) -> None:
        self._telemetry = Telemetry()
        self._tallies = Tallies(self._telemetry, "ml", "credit")
        # Another rollout of the namespace, none of whose pairs may be counted.
        self._others = Tallies(self._telemetry, "ml", "fraud")

    def shown(self, pairs: Sequence[int], restarts: Sequence[int] = ()) -> list[bytes]:
        """Return what is scraped at first, and after so many more pairs each; after a restart nothing else is lost."""
        pages = [self._page()]
        for number, count in enumerate(pairs):
            if number in restarts:
                self._started()
            for _ in range(count):
                self._compare()
            pages.append(self._page())
        return pages

    def _page(self) -> bytes:
        registry: CollectorRegistry = self._telemetry.registry
        return generate_latest(registry)

    def _compare(self) -> None:
        draw = self._draws.random
        scores, confidences = (((draw(), draw()),) for _ in range(2))
        disagrees, status, slower = (draw() < 0.3 for _ in range(3))
        differences = frozenset({Difference.STATUS} if status else {})
        comparison = Comparison(Kind.TENSORS, None, differences, disagrees, {}, scores, confidences)
        seconds = (0.1, 0.2 if slower else 0.1)
        outcomes = (Outcome(Answer(200, (), b""), seconds[0]), Outcome(Answer(200, (), b""), seconds[1]))
        itself = draw() < 0.2
        self._tallies.received(Reception.SAMPLED)
        self._tallies.received(Reception.NOT_SAMPLED)
        self._tallies.compared(Pair.BASELINE if itself else Pair.CANDIDATE, comparison, outcomes, 0.1)
        self._others.received(Reception.SAMPLED)
        self._others.compared(Pair.CANDIDATE, comparison, outcomes, 0.1)
        self.truth.update({"mirrored": 1, "noise": itself, "noisy": itself and disagrees})
        if itself:
            return
        self.truth.update({"pairs": 1, "disagreeing": disagrees, "status": status, "slower": slower})
        for what, ((first, second),) in (("scoreShift", scores), ("confidence", confidences)):
            for edge in GATES[what].edges:
                self.truth[f"{what}@{edge:g}:up"] += first < edge <= second
                self.truth[f"{what}@{edge:g}:down"] += second < edge <= first


class Comparator(Exporter):
    """Shows what a replica showed at some moments, scrape by scrape."""

    def __init__(self, shown: Sequence[bytes]) -> None:
        super().__init__([{}] * len(shown))
        self._shown = list(shown)

    async def scrape(self, asking: web.Request) -> web.Response:
        text = self._shown[min(self._served, len(self._shown) - 1)]
        await super().scrape(asking)
        return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE_LATEST})


@pytest_asyncio.fixture
async def source(lab: Lab, opened: Opener) -> AsyncIterator[PrometheusSource]:
    yield opened(replace(SETTINGS, address=lab.prometheus_url, queries_per_second=1000))


async def now_of(lab: Lab) -> datetime:
    """Return the time by Prometheus' clock."""
    (sample,) = await asyncio.to_thread(lab.query, "vector(time())")
    return datetime.fromtimestamp(float(sample["value"][1]), UTC)


def asked(namespace: str, start: datetime, end: datetime) -> Request:
    return Request(namespace, DRAWN.variants, DRAWN.shadow, start, end, timedelta(seconds=15))


async def test_what_is_counted_over_many_looks_is_what_the_comparators_replicas_compared(
    lab: Lab, source: PrometheusSource, lab_namespace: str
) -> None:
    replicas = Replica(1), Replica(2)
    comparators = (
        Comparator(replicas[0].shown((40, 0, 60, 30))),
        Comparator(replicas[1].shown((80, 20, 50), restarts=(2,))),
    )
    async with exporting(*comparators):
        start = await now_of(lab)
        labels = {each.address: {"namespace": lab_namespace} for each in comparators}
        await asyncio.to_thread(lab.scrape, lab_namespace, labels)
        for each in comparators:
            await each.all_served.wait()
        end = await now_of(lab)
        await asyncio.to_thread(lab.scrape, lab_namespace, {})

    truth = replicas[0].truth + replicas[1].truth
    for stride in (0.4, 60.0):
        evidence, at = begin(PLAN), start
        while at < end:
            until = min(at + timedelta(seconds=stride), end)
            reading = await source.read(asked(lab_namespace, at, until))
            assert not any(signal.trouble for signal in reading.signals.values() if signal.targets)
            evidence = observe_shadow(PLAN, replace(evidence, troubles={}), reading, (at, until))
            at = until
        assert evidence.troubles == {}
        assert {name: stream.state.totals for name, stream in evidence.streams.items() if "@" in name} == {
            name: (*_ways(truth, name), truth["pairs"]) for name in evidence.streams if "@" in name
        }
        counted: dict[str, Any] = {
            name: evidence.streams[name].state.totals for name in ("disagreement", "statusMismatch", "pairedLatency")
        }
        assert counted == {
            "disagreement": (truth["disagreeing"], truth["pairs"]),
            "statusMismatch": (truth["status"], truth["pairs"]),
            "pairedLatency": (truth["slower"], truth["pairs"]),
        }
        assert evidence.samples["overNoise"] == (truth["noise"], truth["pairs"])
        assert evidence.samples[MIRRORED] == (0, truth["mirrored"])
        judgement, _ = judge(PLAN, evidence)
        assert (judgement.pairs, judgement.mirrored) == (truth["pairs"], truth["mirrored"])
        assert judgement.verdicts["disagreement"] is Verdict.REGRESSED


def _ways(truth: Counter[str], stream: str) -> tuple[int, int]:
    """Return the pairs that cross an edge in the way of a stream, and against it."""
    gate, _, way = stream.rpartition(":")
    up, down = truth[f"{gate}:up"], truth[f"{gate}:down"]
    return (up, down) if way == "Higher" else (down, up)


async def test_a_comparator_that_is_not_scraped_is_no_data_for_every_gate_and_said(
    lab: Lab, source: PrometheusSource, lab_namespace: str
) -> None:
    end = await now_of(lab)
    window = end - timedelta(seconds=5), end
    reading = await source.read(asked(lab_namespace, *window))
    evidence = observe_shadow(PLAN, begin(PLAN), reading, window)
    assert evidence.troubles.keys() == GATES.keys()
    assert all("davylamp_shadow_" in trouble.sentence for trouble in evidence.troubles.values())
    judgement, _ = judge(PLAN, evidence)
    assert {judgement.verdicts[name] for name in GATES} == {Verdict.NO_DATA}


async def test_a_comparator_of_another_namespace_is_not_read(
    lab: Lab, source: PrometheusSource, lab_namespace: str
) -> None:
    foreign = Comparator(Replica(3).shown((50,)))
    async with exporting(foreign):
        start = await now_of(lab)
        await asyncio.to_thread(lab.scrape, lab_namespace, {foreign.address: {"namespace": "other"}})
        await foreign.all_served.wait()
        end = await now_of(lab)
        await asyncio.to_thread(lab.scrape, lab_namespace, {})
    reading: Reading = await source.read(asked(lab_namespace, start, end))
    assert not any(signal.targets for signal in reading.signals.values())
    assert Variant.CANDIDATE in reading.signals["disagreement"].trouble
