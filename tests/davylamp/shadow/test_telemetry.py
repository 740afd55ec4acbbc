from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from davylamp.core.shadow_gates import CONFIDENCE_EDGES, SCORE_EDGES
from davylamp.core.slices import Attribute
from davylamp.shadow.buckets import LATENCY_BUCKETS
from davylamp.shadow.comparison import Comparison, Difference, Kind, Measure, Unread
from davylamp.shadow.exchange import Answer, Failure, Outcome
from davylamp.shadow.reception import Reception
from davylamp.shadow.task import SlicedBy, Slicing
from davylamp.shadow.telemetry import Pair, Tallies, Telemetry

FAST, SLOW = Outcome(Answer(200, (), b""), 0.100), Outcome(Answer(200, (), b""), 0.1101)
FAILED = Outcome(Answer(500, (), b""), 0.1)
SAME = Comparison(Kind.TENSORS)
SEX = SlicedBy(Attribute("sex", ("Female", "Male"), protected=False, header="x-sex"))
SLICING = Slicing((SEX,), (), "key", "a-1", "0")
numbers = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), max_size=30)


def value(registry: CollectorRegistry, metric: str, **labels: str) -> float | None:
    return registry.get_sample_value(
        f"davylamp_shadow_{metric}", {"namespace": "ml", "rollout": "credit", "pair": "candidate", **labels}
    )


def counted(
    comparison: Comparison = SAME, *outcomes: Outcome, pair: Pair = Pair.CANDIDATE, slowdown: float = 0.1
) -> CollectorRegistry:
    telemetry = Telemetry()
    first, second = outcomes or (FAST, FAST)
    Tallies(telemetry, "ml", "credit").compared(pair, comparison, (first, second), slowdown)
    return telemetry.registry


def test_a_pair_that_could_not_be_compared_is_counted_by_its_reason_and_as_nothing_else() -> None:
    registry = counted(Comparison(Kind.TENSORS, Unread.BASELINE_UNREADABLE, disagrees=True, scores=((0.1, 0.9),)))

    name = {"namespace": "ml", "rollout": "credit"}
    reason = "davylamp_shadow_incomparable_pairs_total"
    assert registry.get_sample_value(reason, {**name, "reason": "BaselineUnreadable"}) == 1
    assert registry.get_sample_value(reason, {**name, "reason": "Bound"}) == 0
    for metric in ("pairs_total", "disagreements_total", "scored_total"):
        assert value(registry, metric) == 0
    assert value(registry, "timed_pairs_total") == 1


def test_events_are_read_before_the_pairs_that_they_are_among_so_that_none_is_ahead() -> None:
    order = [family.name for family in counted().collect()]
    for total, events in {
        "pairs": ("disagreements", "status_mismatches"),
        "timed_pairs": ("slower",),
        "scored": ("score_raised", "score_lowered"),
        "confident": ("confidence_raised", "confidence_lowered"),
    }.items():
        for event in events:
            assert order.index(f"davylamp_shadow_{event}") < order.index(f"davylamp_shadow_{total}")


def test_a_pair_is_counted_with_all_its_differences() -> None:
    differences = frozenset({Difference.STATUS, Difference.EMPTY})
    registry = counted(Comparison(Kind.STATUS, None, differences, disagrees=True), FAST, FAILED)

    for metric in ("pairs_total", "disagreements_total", "status_mismatches_total"):
        assert value(registry, metric) == 1
    for difference in Difference:
        assert value(registry, "differences_total", difference=difference) == (difference in differences)
    assert value(registry, "timed_pairs_total") == 0
    assert value(registry, "latency_seconds_count", variant="baseline") == 0


@pytest.mark.parametrize(
    ("outcomes", "slowdown", "timed", "slower"),
    [
        ((FAST, SLOW), 0.1, 1, 1),
        ((FAST, SLOW), 0.2, 1, 0),
        ((SLOW, FAST), 0.0, 1, 0),
        ((FAST, FAST), 0.0, 1, 0),
        ((FAST, FAILED), 0.0, 0, 0),
        ((FAILED, SLOW), 0.0, 0, 0),
        ((FAST, Outcome(Failure.TIMEOUT, 10.0)), 0.1, 0, 0),
    ],
)
def test_a_pair_is_timed_when_both_succeed_and_slower_in_relation_to_the_baseline(
    outcomes: tuple[Outcome, Outcome], slowdown: float, timed: int, slower: int
) -> None:
    registry = counted(SAME, *outcomes, slowdown=slowdown)

    assert (value(registry, "timed_pairs_total"), value(registry, "slower_total")) == (timed, slower)


def test_latencies_of_both_are_in_the_same_buckets() -> None:
    registry = counted(SAME, FAST, SLOW)

    assert (LATENCY_BUCKETS[0], LATENCY_BUCKETS[-1], len(LATENCY_BUCKETS)) == (0.0005, 60.0, 25)
    for variant, below in (("baseline", 1), ("candidate", 0)):
        assert value(registry, "latency_seconds_bucket", variant=variant, le="0.1") == below
        assert value(registry, "latency_seconds_bucket", variant=variant, le="0.15") == 1


def test_a_pair_of_the_baseline_with_itself_is_counted_apart() -> None:
    registry = counted(Comparison(Kind.RAW, disagrees=True, scores=((0.1, 0.9),)), pair=Pair.BASELINE)

    assert value(registry, "disagreements_total") == 0
    assert value(registry, "disagreements_total", pair="baseline") == 1
    assert value(registry, "score_raised_total", pair="baseline", edge="0.5") == 1
    assert value(registry, "latency_seconds_count", pair="baseline", variant="baseline") == 2
    assert value(registry, "score_count", pair="baseline", variant="baseline") == 2
    assert value(registry, "score_count", pair="baseline", variant="candidate") is None


@given(scores=numbers, confidences=numbers)
def test_crossings_of_an_edge_are_those_that_the_definition_counts(
    scores: list[tuple[float, float]], confidences: list[tuple[float, float]]
) -> None:
    registry = counted(Comparison(Kind.TENSORS, scores=tuple(scores), confidences=tuple(confidences)))

    for metric, total, edges, given_ in (
        ("score", "scored", SCORE_EDGES, scores),
        ("confidence", "confident", CONFIDENCE_EDGES, confidences),
    ):
        first, second = np.array(given_).reshape(-1, 2).T
        assert value(registry, f"{total}_total") == len(given_)
        assert value(registry, f"{metric}_count", variant="candidate") == len(given_)
        for edge in edges:
            raised, lowered = ((first < edge) & (edge <= second)).sum(), ((second < edge) & (edge <= first)).sum()
            assert value(registry, f"{metric}_raised_total", edge=str(edge)) == raised
            assert value(registry, f"{metric}_lowered_total", edge=str(edge)) == lowered


@pytest.mark.parametrize("measure", Measure)
def test_every_measure_is_a_histogram_of_its_own(measure: Measure) -> None:
    shown = [
        sample.name
        for family in counted(Comparison(Kind.TENSORS, measures={measure: 0.5})).collect()
        for sample in family.samples
        if sample.name.endswith("_count") and sample.value == 1
    ]

    assert len([name for name in shown if "latency" not in name]) == 1


def test_every_outcome_of_a_request_is_counted_under_its_name() -> None:
    telemetry = Telemetry()
    tallies = Tallies(telemetry, "ml", "credit")
    for number, outcome in enumerate(Reception):
        for _ in range(number):
            tallies.received(outcome)

    for number, outcome in enumerate(Reception):
        labels = {"namespace": "ml", "rollout": "credit", "outcome": outcome.value}
        assert telemetry.registry.get_sample_value("davylamp_shadow_requests_total", labels) == number


def test_the_number_of_series_of_a_rollout_is_bounded() -> None:
    telemetry = Telemetry()
    for number in range(3):
        Tallies(telemetry, "ml", f"credit-{number}")
    series = [sample for family in telemetry.registry.collect() for sample in family.samples]

    assert len(series) / 3 < 800
    assert not [sample for sample in series if sample.name.endswith("_created")]


def test_a_rollout_that_is_forgotten_leaves_the_others() -> None:
    telemetry = Telemetry()
    for rollout in ("credit", "fraud"):
        Tallies(telemetry, "ml", rollout).compared(Pair.CANDIDATE, SAME, (FAST, FAST), 0.1)

    telemetry.forget("ml", "credit")

    samples = [sample for family in telemetry.registry.collect() for sample in family.samples]
    assert {sample.labels["rollout"] for sample in samples} == {"fraud"}


def test_every_metric_is_described() -> None:
    telemetry = Telemetry()
    shown = {family.name: (family.type, family.documentation) for family in telemetry.registry.collect()}
    described = {each.name.removesuffix("_total"): (each.type, each.meaning) for each in telemetry.registry.described()}

    assert described == shown
    assert all(each.meaning.endswith(".") for each in telemetry.registry.described())


def test_every_label_is_described() -> None:
    telemetry = Telemetry()
    scored = Comparison(Kind.TENSORS, scores=((0.1, 0.2), (0.9, 0.8)))
    tallies = Tallies(telemetry, "ml", "credit")
    tallies.compared(Pair.CANDIDATE, scored, (FAST, FAST), 0.1)
    tallies.slice_by(SLICING)

    described = {each.name.removesuffix("_total"): set(each.labels) for each in telemetry.registry.described()}
    for family in telemetry.registry.collect():
        assert {name for sample in family.samples for name in sample.labels} - {"le"} == described[family.name]


def slice_pairs(telemetry: Telemetry) -> dict[tuple[str, ...], float]:
    (family,) = (each for each in telemetry.registry.collect() if each.name == "davylamp_shadow_slice_pairs")
    keys = ("rollout", "attempt", "slice", "baseline", "changed")
    return {
        tuple(sample.labels[key] for key in keys): sample.value
        for sample in family.samples
        if sample.name.endswith("_total")
    }


def test_pairs_of_declared_slices_count_from_zero_and_for_everybody() -> None:
    telemetry = Telemetry()
    tallies = Tallies(telemetry, "ml", "credit")
    tallies.slice_by(SLICING)
    assert set(slice_pairs(telemetry).values()) == {0}
    assert {key[2] for key in slice_pairs(telemetry)} == {"", "sex=Female", "sex=Male"}
    assert len(slice_pairs(telemetry)) == 3 * 4

    tallies.decided(("sex=Female",), baseline=True, candidate=False)
    tallies.decided(("sex=other",), baseline=False, candidate=False)
    assert {key[2:]: value for key, value in slice_pairs(telemetry).items() if value} == {
        ("", "positive", "true"): 1,
        ("sex=Female", "positive", "true"): 1,
        ("", "negative", "false"): 1,
        ("sex=other", "negative", "false"): 1,
    }


def test_another_attempt_counts_anew_and_one_that_is_over_takes_its_series_along() -> None:
    telemetry = Telemetry()
    tallies, others = Tallies(telemetry, "ml", "credit"), Tallies(telemetry, "ml", "fraud")
    for each in (tallies, others):
        each.slice_by(SLICING)
        each.decided((), baseline=True, candidate=True)
    tallies.slice_by(replace(SLICING, cohort="1"))
    assert slice_pairs(telemetry)["credit", "a-1", "", "positive", "false"] == 1

    tallies.slice_by(replace(SLICING, attempt="a-1+"))
    assert {key[1] for key in slice_pairs(telemetry) if key[0] == "credit"} == {"a-1+"}
    assert slice_pairs(telemetry)["credit", "a-1+", "", "positive", "false"] == 0
    assert slice_pairs(telemetry)["fraud", "a-1", "", "positive", "false"] == 1

    tallies.slice_by(None)
    assert {key[0] for key in slice_pairs(telemetry)} == {"fraud"}
    telemetry.forget("ml", "fraud")
    assert slice_pairs(telemetry) == {}
