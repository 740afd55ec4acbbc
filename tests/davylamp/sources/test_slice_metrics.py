"""Pairs by slice: every labelled series that is asked for is exported, and counts are found as they were made."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
import pytest_asyncio
from prometheus_client.core import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from davylamp.core.evidence import begin
from davylamp.core.plan import Plan
from davylamp.core.reading import MatchKind, Request, SignalQuery
from davylamp.core.slice_evidence import observe_slices
from davylamp.core.slice_gates import sliced_of
from davylamp.labels.exposition import families
from davylamp.labels.records import BINARY, Cell
from davylamp.runtime.blueprint import Blueprint, blueprint
from davylamp.sources.prometheus import PrometheusSource
from davylamp.sources.questions import questions
from davylamp.sources.settings import PrometheusSettings
from davylamp.sources.slice_metrics import slice_queries
from e2e.lab import Lab
from e2e.lab.waiting import until
from e2e.stage.labels import Labels
from e2e.stage.manifests import model_rollout
from tests.davylamp.sources.conftest import Opener
from tests.davylamp.sources.looks import END, SETTINGS
from tests.davylamp.sources.servers import Server

ATTEMPT: Final = "a-1"
PATIENCE: Final = timedelta(seconds=60)


class Nothing:
    """A cluster without policies."""

    def find(self, *_: object) -> None:
        return None


def drawn() -> Blueprint:
    manifest = model_rollout("ml", "income", baseline="fp32", candidate="int8")
    manifest["metadata"]["uid"] = "0b4c5a0e-uid"
    manifest["spec"]["signals"]["source"] = "default"
    manifest["spec"]["steps"][0]["shadow"] = {"sample": "20%"}
    manifest["spec"]["slices"] = {
        "attributes": [{"name": "sex", "header": "x-sex", "values": ["Female", "Male"]}],
        "positive": "1",
        "gates": [
            {"metric": "truePositiveRate", "maxDrop": {"absolute": "2%"}},
            {"metric": "falsePositiveRate", "maxDrop": {"absolute": "2%"}},
            {"metric": "equalizedOddsDifference", "maxWidening": "3%"},
            {"metric": "selectionRate", "maxDrop": {"absolute": "2%"}},
        ],
    }
    return blueprint(manifest, Nothing())


DRAWN: Final = drawn()
PLAN: Final[Plan] = DRAWN.plan
QUERIES: Final = slice_queries("income", ATTEMPT, PLAN.slice_gates)
LABELS: Final = {dict(sliced_of(gate).slice.parts).get("sex"): sliced_of(gate).slice.label for gate in PLAN.slice_gates}
WOMEN: Final = LABELS["Female"]


# What is asked for is exported.


@dataclass(frozen=True, slots=True)
class Shown(Collector):
    """What the service exports once a first request of each slice has been predicted."""

    slices: frozenset[str]

    def collect(self) -> Iterator[Metric]:
        cells = [Cell("ml", "income", ATTEMPT, "0", part) for part in sorted(self.slices)]
        return families({cell: {BINARY: 1} for cell in cells})


def series(query: SignalQuery) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield name and labels of every kind of series that a query asks for."""
    for labels in query.variants.values():
        for selector in (*query.events, *query.total):
            assert all(matcher.kind is MatchKind.EQUAL for matcher in selector.matchers)
            own = {matcher.label: matcher.value for matcher in selector.matchers}
            yield selector.metric, {"namespace": "ml", **labels, **own}


LABELLED: Final = [query for query in QUERIES if query.gate.startswith("labelled")]


def test_each_slice_and_the_whole_are_asked_for_by_name_once() -> None:
    names = Counter(query.gate for query in QUERIES)
    assert set(names.values()) == {1}
    assert {value for value in LABELS if value} == {"Female", "Male"}
    for label in ("", *LABELS.values()):
        assert {f"labelled[{label}]:{result}" for result in ("both", "lost", "won")} <= set(names)
    assert {name for name in names if name.startswith("decided")} == {
        f"decided[{label}]" for label in ("", *LABELS.values())
    }


@pytest.mark.parametrize("query", LABELLED, ids=lambda query: query.gate)
def test_the_service_exports_every_labelled_series_from_the_first_prediction_on(query: SignalQuery) -> None:
    registry = CollectorRegistry()
    registry.register(Shown(frozenset({"", *LABELS.values()})))
    exported = [sample for family in registry.collect() for sample in family.samples]
    asked = list(series(query))
    assert len(asked) == 4
    for name, labels in asked:
        found = [each.value for each in exported if each.name == name and labels.items() <= each.labels.items()]
        assert found, f"{name} {labels} is not exported"
        assert set(found) == {0}


def test_a_plan_without_gates_on_slices_asks_for_nothing() -> None:
    assert slice_queries("income", ATTEMPT, ()) == ()


def test_the_attempt_after_a_slice_has_gone_back_is_another_one() -> None:
    later = slice_queries("income", f"{ATTEMPT}+", PLAN.slice_gates)
    assert {labels["attempt"] for query in later for labels in query.variants.values()} == {"a-1+"}


# What was counted is found, by a real Prometheus.


@pytest_asyncio.fixture
async def source(lab: Lab, opened: Opener) -> AsyncIterator[PrometheusSource]:
    yield opened(replace(SETTINGS, address=lab.prometheus_url, queries_per_second=1000))


async def now_of(lab: Lab) -> datetime:
    """Return the time by Prometheus' clock."""
    (sample,) = await asyncio.to_thread(lab.query, "vector(time())")
    return datetime.fromtimestamp(float(sample["value"][1]), UTC)


def asked(namespace: str, start: datetime, end: datetime) -> Request:
    return Request(namespace, DRAWN.variants, QUERIES, start, end, timedelta(seconds=15))


@dataclass(frozen=True, slots=True)
class Asked:
    """One request: who it is about, what both variants decided, and the truth."""

    id: str
    woman: bool
    baseline: bool
    candidate: bool
    truth: bool

    def prediction(self, namespace: str) -> dict[str, Any]:
        return {
            "id": self.id,
            "namespace": namespace,
            "rollout": "income",
            "attempt": ATTEMPT,
            "cohort": "0",
            "slices": [LABELS["Female" if self.woman else "Male"]],
            "positive": "1",
            "baseline": {"decision": self.baseline},
            "candidate": {"decision": self.candidate},
        }

    def label(self) -> dict[str, Any]:
        return {"id": self.id, "label": self.truth}


def requests(count: int, seed: int) -> list[Asked]:
    """Return requests whose labels are not known yet; the candidate decides at random in a fifth of them."""
    draws = random.Random(seed)  # noqa: S311 - test data

    def one(number: int) -> Asked:
        baseline = draws.random() < 0.5
        candidate = draws.random() < 0.5 if draws.random() < 0.2 else baseline
        return Asked(f"r{number}", draws.random() < 0.4, baseline, candidate, draws.random() < 0.5)

    return [one(number) for number in range(count)]


def joined(lab: Lab, namespace: str) -> float:
    """Return how many labelled requests Prometheus knows of; -1 before it knows any series."""
    found = lab.query(f'sum(davylamp_label_pairs_total{{namespace="{namespace}",slice=""}})')
    return float(found[0]["value"][1]) if found else -1


async def post(lab: Lab, service: Labels, namespace: str, seen: list[Asked]) -> tuple[datetime, datetime]:
    """Post predictions, then labels, late, out of order, in parts and some twice; return from when to when."""
    start = await now_of(lab)
    await asyncio.to_thread(service.predict, [each.prediction(namespace) for each in seen])
    await until_joined(lab, namespace, 0)
    order = random.Random(3).sample(seen, len(seen))  # noqa: S311 - test data
    for first in range(0, len(order), 100):
        again = order[max(first - 20, 0) : first]
        await asyncio.to_thread(service.label, [each.label() for each in (*again, *order[first : first + 100])])
        await until_joined(lab, namespace, min(first + 100, len(order)))
    return start, await now_of(lab)


async def until_joined(lab: Lab, namespace: str, count: int) -> None:
    what = f"Prometheus knows of {count} labels"
    await asyncio.to_thread(until, lambda: joined(lab, namespace) == count, what, within=PATIENCE)


async def test_what_is_counted_over_many_looks_is_what_both_variants_decided_and_the_labels_said(
    lab: Lab, source: PrometheusSource, lab_namespace: str
) -> None:
    seen = requests(400, seed=1)
    with Labels(lab, lab_namespace) as service:
        start, end = await post(lab, service, lab_namespace, seen)

    positives = [each for each in seen if each.woman and each.truth]
    truth = (
        sum(each.baseline and not each.candidate for each in positives),
        sum(each.candidate and not each.baseline for each in positives),
        len(positives),
    )
    (gate,) = (each for each in PLAN.slice_gates if each.name.startswith("truePositiveRate") and WOMEN in each.name)
    for stride in (0.4, 60.0):
        evidence, at = begin(PLAN), start
        while at < end:
            later = min(at + timedelta(seconds=stride), end)
            reading = await source.read(asked(lab_namespace, at, later))
            evidence = observe_slices(PLAN, evidence, reading, (at, later))
            at = later
        assert evidence.troubles == {}
        assert evidence.labelled == 400
        state: Any = evidence.streams[gate.name].state
        assert state.totals == truth


async def test_labels_that_have_not_come_yet_are_no_trouble(
    lab: Lab, source: PrometheusSource, lab_namespace: str
) -> None:
    end = await now_of(lab)
    window = end - timedelta(seconds=5), end
    reading = await source.read(asked(lab_namespace, *window))
    assert not any(signal.targets for signal in reading.signals.values())
    evidence = observe_slices(PLAN, begin(PLAN), reading, window)
    assert (evidence.troubles, evidence.labelled) == ({}, 0)


async def test_series_that_do_not_exist_yet_are_asked_for_once_and_not_looked_for(
    server: Server, settings: PrometheusSettings, opened: Opener
) -> None:
    request = asked("ml", END - timedelta(seconds=10), END)
    await opened(settings).read(request)
    assert sorted(server.queries) == sorted(question.text for question in questions(request))
    # Unlike series that must be there from the first request on.
    server.forms.clear()
    awaited = replace(request, signals=tuple(replace(query, awaited=True) for query in QUERIES))
    await opened(settings).read(awaited)
    assert len(server.queries) == len(questions(request)) + 1
