from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from davylamp.core.reading import Matcher, MatchKind, Selector, SignalReading
from davylamp.sources.answers import Answer, Series
from davylamp.sources.questions import questions
from davylamp.sources.settings import PrometheusSettings
from davylamp.sources.targets import Look, sort_answers
from gatestats.counters import Sample, count_events
from gatestats.histogram_counters import classic_gains
from tests.davylamp.sources.looks import (
    APPROVALS,
    BASELINE,
    CANDIDATE,
    END,
    ERRORS,
    LATENCY,
    NOW,
    SETTINGS,
    both,
    counts,
    read,
    request,
    samples,
    series,
)

INF = float("inf")


def errors(result: list[Any], settings: PrometheusSettings = SETTINGS) -> SignalReading:
    return read(request(ERRORS), result, settings).signals["errors"]


def buckets(service: str, *columns: tuple[str, Any], **labels: str) -> list[dict[str, Any]]:
    return [series("seconds_bucket", service, values, le=le, **labels) for le, values in columns]


def native(service: str, *histograms: Any, **labels: str) -> dict[str, Any]:
    entry = series("seconds", service, [], **labels)
    return {
        "metric": entry["metric"],
        "histograms": [[NOW - len(histograms) + 1 + i, h] for i, h in enumerate(histograms)],
    }


def one_bucket(count: int) -> dict[str, Any]:
    return {"count": str(count), "sum": "1", "buckets": [[0, "0.5", "1", str(count)]]}


def latency(result: list[Any]) -> SignalReading:
    return read(request(LATENCY), result).signals["latency"]


def test_series_are_sorted_by_variant_target_and_role() -> None:
    reading = errors(
        [
            *both("ok_total", [1, 2]),
            series("ok_total", "fp32", [5, 6], replica="b"),
            series("failed_total", "fp32", [0, 1]),
            series("ok_total", "other", [9]),
        ]
    )

    assert reading.trouble == {}
    assert [target.name for target in reading.targets[BASELINE]] == ["fp32-a:80", "fp32-b:80"]
    assert [target.name for target in reading.targets[CANDIDATE]] == ["int8-a:80"]
    first = reading.targets[BASELINE][0]
    assert counts(first.events) == [[0, 1]]
    assert counts(first.total) == [[0, 1], [1, 2]]
    assert reading.newest == {BASELINE: END, CANDIDATE: END}


def test_the_samples_of_a_reading_count_to_the_truth() -> None:
    reading = errors([*both("ok_total", [10, 15, 25]), series("failed_total", "fp32", [3, 4, 9])])
    (target,) = reading.targets[BASELINE]

    counted = count_events(target.events, target.total, (NOW - 10, NOW))

    assert counted is not None
    assert (counted.events, counted.total) == (6, 21)


def test_one_series_may_be_event_and_total() -> None:
    narrow = Selector("ok_total", (Matcher("code", MatchKind.EQUAL, "5"),))
    asked = request(replace(ERRORS, events=(narrow,), total=(Selector("ok_total"),)))

    reading = read(asked, [*both("ok_total", [1, 2], code="5"), *both("ok_total", [7, 9], code="2")]).signals["errors"]

    (target,) = reading.targets[CANDIDATE]
    assert counts(target.events) == [[1, 2]]
    assert counts(target.total) == [[7, 9], [1, 2]]


def test_no_error_so_far_is_no_trouble() -> None:
    reading = errors(both("ok_total", [1, 2]))

    assert reading.trouble == {}
    assert reading.targets[CANDIDATE][0].events == {}


def test_targets_without_an_instance_are_one() -> None:
    result = both("ok_total", [1, 2])
    for entry in result:
        del entry["metric"]["instance"]

    assert [target.name for target in errors(result).targets[BASELINE]] == ["all"]


def test_pods_are_part_of_the_name() -> None:
    reading = errors(both("ok_total", [1], instance="10.0.0.7:80", pod="x-1"))

    assert reading.targets[BASELINE][0].name == "10.0.0.7:80 x-1"


@pytest.mark.parametrize(
    ("value", "words"),
    [("NaN", "is NaN"), ("+Inf", "is +Inf"), ("0.5", "whole number"), ("-3", "never below 0"), ("", "no number")],
)
def test_what_cannot_be_counted_is_trouble_of_its_variant_alone(value: str, words: str) -> None:
    reading = errors([series("ok_total", "fp32", [1, 2]), series("ok_total", "int8", [1, value])])

    assert words in reading.trouble[CANDIDATE]
    assert 'ok_total{instance="int8-a:80"' in reading.trouble[CANDIDATE]
    assert BASELINE not in reading.trouble


def test_a_sample_that_cannot_be_counted_in_any_role_is_trouble() -> None:
    reading = errors([*both("ok_total", [1, 2]), series("failed_total", "int8", ["NaN", 1])])

    assert "failed_total" in reading.trouble[CANDIDATE]


def test_a_variant_whose_newest_sample_is_too_old_is_trouble_with_age_and_limit() -> None:
    settings = replace(SETTINGS, max_sample_age=timedelta(seconds=15))
    old = [[NOW - 20, "1"], [NOW - 16, "2"]]

    reading = errors([series("ok_total", "fp32", [1, 2]), series("ok_total", "int8", None) | {"values": old}], settings)

    assert "16 s old, and the limit is 15 s (maxSampleAge of the MetricSource default)" in reading.trouble[CANDIDATE]
    assert reading.newest[CANDIDATE] == datetime.fromtimestamp(NOW - 16, UTC)
    assert BASELINE not in reading.trouble


def test_a_fresh_target_makes_up_for_one_that_is_gone() -> None:
    settings = replace(SETTINGS, max_sample_age=timedelta(seconds=15))
    gone = series("ok_total", "int8", None, replica="b") | {"values": [[NOW - 20, "1"]]}

    assert errors([*both("ok_total", [1, 2]), gone], settings).trouble == {}


def test_a_stale_variant_of_a_source_whose_clock_is_off_is_told_so() -> None:
    asked = request(ERRORS)
    (question,) = questions(asked)
    settings = replace(SETTINGS, max_sample_age=timedelta(seconds=5))
    labels = series("ok_total", "fp32", [])["metric"]
    old = Answer((Series(labels, [[NOW - 12, "1"]], []),))

    reading = sort_answers(Look(asked, settings, timedelta(seconds=-12)), [(question, old)])

    assert "the clock of the source is 12 s behind ours" in reading.signals["errors"].trouble[BASELINE]


def test_samples_of_the_future_are_trouble() -> None:
    future = series("ok_total", "int8", None) | {"values": [[NOW, "1"], [NOW + 60, "2"]]}

    assert "60 s in the future, and the limit is 5 s" in errors([future]).trouble[CANDIDATE]


def test_a_series_that_comes_twice_is_trouble() -> None:
    assert "comes twice" in errors([*both("ok_total", [1]), series("ok_total", "int8", [1])]).trouble[CANDIDATE]


def test_a_series_with_the_labels_of_both_variants_is_trouble() -> None:
    variants = {BASELINE: {"app": "credit"}, CANDIDATE: {"app": "credit", "track": "canary"}}
    result = [
        series("ok_total", "x", [1], app="credit", track="stable"),
        series("ok_total", "x", [1], replica="b", app="credit", track="canary"),
    ]

    reading = read(request(ERRORS, variants=variants), result).signals["errors"]

    assert "labels of both variants" in reading.trouble[BASELINE]


def test_series_of_another_namespace_are_not_seen_whatever_the_server_answers() -> None:
    assert errors(both("ok_total", [1], namespace="other")).targets == {}


def test_replicas_of_prometheus_are_trouble_since_each_request_would_count_twice() -> None:
    result = [*both("ok_total", [1], prometheus_replica="0"), *both("ok_total", [1], prometheus_replica="1")]

    assert 'prometheus_replica="0" and "1"' in errors(result).trouble[BASELINE]


def test_a_target_in_two_jobs_is_trouble_since_each_request_would_count_twice() -> None:
    result = [*both("ok_total", [1], job="pods"), *both("ok_total", [1], job="services")]

    assert "scraped by two jobs, pods and services" in errors(result).trouble[BASELINE]


def test_events_that_are_a_scrape_ahead_of_their_totals_wait_for_the_next_look() -> None:
    ahead = series("failed_total", "int8", [1, 2, 3])
    behind = series("ok_total", "int8", None) | {"values": samples([5, 6, 7])[:2]}
    asked = request(replace(ERRORS, total=(Selector("ok_total"),)))

    (target,) = read(asked, [ahead, behind]).signals["errors"].targets[CANDIDATE]

    assert counts(target.events) == [[1, 2]]
    assert count_events(target.events, target.total, (NOW - 10, NOW)) is not None


def test_an_own_counter_that_exists_nowhere_is_trouble_and_not_zero() -> None:
    reading = read(request(APPROVALS), both("scored_total", [1, 2])).signals["approvals"]

    assert "no series of approved_total was found for either variant" in reading.trouble[CANDIDATE]
    assert BASELINE in reading.trouble


def test_an_own_counter_that_one_variant_shows_is_zero_for_the_other() -> None:
    result = [*both("scored_total", [1, 2]), series("approved_total", "fp32", [0, 1])]

    assert read(request(APPROVALS), result).signals["approvals"].trouble == {}


def test_a_histogram_where_a_counter_was_asked_for_is_trouble() -> None:
    entry = native("fp32", one_bucket(1))
    entry["metric"]["__name__"] = "ok_total"

    assert "is a histogram, not a counter" in errors([entry]).trouble[BASELINE]


def test_edges_are_numbers() -> None:
    (target,) = latency(buckets("fp32", ("0.5", [1, 2]), ("1", [2, 3]), ("+Inf", [4, 5]))).targets[BASELINE]

    assert target.buckets[1.0] == (Sample(NOW - 1, 2), Sample(NOW, 3))
    assert list(target.buckets) == [0.5, 1.0, INF]


def test_edges_in_milliseconds_are_read_in_seconds() -> None:
    in_milliseconds = replace(LATENCY, unit=timedelta(milliseconds=1))
    classic = buckets("fp32", ("2.5", [1, 2]), ("300", [2, 3]), ("+Inf", [4, 5]))
    (target,) = read(request(in_milliseconds), classic).signals["latency"].targets[BASELINE]
    assert set(target.buckets) == {0.0025, 0.3, INF}
    (target,) = read(request(in_milliseconds), [native("fp32", one_bucket(3))]).signals["latency"].targets[BASELINE]
    ((_, found),) = target.native
    ((_, plain),) = latency([native("fp32", one_bucket(3))]).targets[BASELINE][0].native
    assert found == {(low / 1000, high / 1000): count for (low, high), count in plain.items()}


def test_the_histograms_of_one_target_are_added_up_scrape_by_scrape() -> None:
    result = [
        *buckets("fp32", ("1", [1, 2, 4]), ("+Inf", [1, 3, 5]), status="200"),
        *buckets("fp32", ("1", [1]), ("+Inf", [2]), status="500"),  # born in the last scrape
    ]

    (target,) = latency(result).targets[BASELINE]

    assert counts(target.buckets) == [[1, 2, 5], [1, 3, 7]]
    assert classic_gains(target.buckets, (NOW - 10, NOW)) == {(0.0, 1.0): 4, (1.0, INF): 2}


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (buckets("fp32", ("1", [1]), ("2", [1])), 'no bucket le="+Inf"'),
        (buckets("fp32", ("1", [1]), ("1.0", [1]), ("+Inf", [1])), "second bucket up to 1"),
        (buckets("fp32", ("one", [1]), ("+Inf", [1])), "no edge of a bucket"),
        ([series("seconds_bucket", "fp32", [1])], "without the label le"),
        (
            [
                *buckets("fp32", ("1", [1]), ("+Inf", [1]), path="/a"),
                *buckets("fp32", ("2", [1]), ("+Inf", [1]), path="/b"),
            ],
            "unequal buckets",
        ),
        ([series("seconds", "fp32", [1], quantile="0.5")], "is not a histogram"),
    ],
)
def test_a_histogram_that_cannot_be_counted_is_trouble(result: list[Any], words: str) -> None:
    assert words in latency(result).trouble[BASELINE]


def test_histograms_of_several_targets_that_cannot_be_told_apart_are_trouble() -> None:
    result = []
    for pod, shift in (("a", 0.0), ("b", 0.5)):
        for entry in buckets("fp32", ("1", [1, 2, 3]), ("+Inf", [1, 2, 3]), shard=pod):
            del entry["metric"]["instance"]
            entry["values"] = [[time - shift, value] for time, value in entry["values"]]
            result.append(entry)

    assert "come from different scrapes" in latency(result).trouble[BASELINE]


def test_too_many_requests_to_be_exact_are_trouble() -> None:
    result = [
        *buckets("fp32", ("1", [2**53]), ("+Inf", [2**53]), path="/a"),
        *buckets("fp32", ("1", [2**53]), ("+Inf", [2**53]), path="/b"),
    ]

    assert "2^53" in latency(result).trouble[BASELINE]


def test_native_histograms_are_read_bucket_by_bucket() -> None:
    (target,) = latency([native("fp32", one_bucket(3), one_bucket(5))]).targets[BASELINE]

    assert target.native == ((NOW - 1, {(0.5, 1.0): 3}), (NOW, {(0.5, 1.0): 5}))


def test_native_histograms_of_one_target_are_added_up() -> None:
    result = [native("fp32", one_bucket(3), one_bucket(5), path="/a"), native("fp32", one_bucket(1), path="/b")]

    (target,) = latency(result).targets[BASELINE]

    assert [buckets for _, buckets in target.native] == [{(0.5, 1.0): 3}, {(0.5, 1.0): 6}]


def test_native_histograms_are_taken_where_every_target_has_one_and_else_the_classic_ones() -> None:
    classic = [*buckets("fp32", ("1", [1]), ("+Inf", [1])), *buckets("int8", ("1", [1]), ("+Inf", [1]))]
    everywhere = latency([*classic, native("fp32", one_bucket(1)), native("int8", one_bucket(1))])
    one_side = latency([*classic, native("fp32", one_bucket(1))])

    assert [bool(target.native) for targets in everywhere.targets.values() for target in targets] == [True, True]
    assert [bool(target.buckets) for targets in everywhere.targets.values() for target in targets] == [False, False]
    assert [bool(target.native) for targets in one_side.targets.values() for target in targets] == [False, False]
    assert [bool(target.buckets) for targets in one_side.targets.values() for target in targets] == [True, True]


def test_labels_of_any_length_make_a_short_sentence() -> None:
    reading = errors([series("ok_total", "int8", ["NaN"], note="x" * 10_000 + "\n\ud800")])

    assert len(reading.trouble[CANDIDATE]) < 400
    assert reading.trouble[CANDIDATE].isprintable()
