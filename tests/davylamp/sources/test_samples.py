import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from davylamp.sources.samples import Span, UnusableSamplesError, counter_samples, edge, native_samples
from gatestats.counters import Sample

SPAN = Span(100, 200)
HUGE = 10**400


def refused(values: Any) -> str:
    with pytest.raises(UnusableSamplesError) as unusable:
        counter_samples(values, SPAN)
    return str(unusable.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("17", 17),
        ("17.0", 17),
        ("1e3", 1000),
        ("+5", 5),
        ("9007199254740992", 2**53),
        ("1.5e1", 15),
        ("7.", 7),
    ],
)
def test_whole_numbers_are_read_however_they_are_spelled(text: str, value: int) -> None:
    assert counter_samples([[150.5, text]], SPAN) == (Sample(150.5, value),)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("NaN", "is NaN at 00:02:30Z: nothing can be counted"),
        ("+Inf", "is +Inf"),
        ("-Inf", "is -Inf"),
        ("Inf", "is Inf"),
        ("1e999", "is 1e999"),
        ("", "the value nothing"),
        (" 5", "no number"),
        ("5\n", "no number"),
        ("1_000", "no number"),
        ("٣", "no number"),
        ("0x10", "no number"),
        ("infinity", "no number"),
        ("nan", "no number"),
        ("1e99999", "no number"),
        ("-1", "never below 0"),
        ("0.5", "whole number"),
        ("1e-400", None),
        ("9007199254740993000", "over 2^53"),
        ("9" * 5000, "is 9"),
        (5, "not spelled as a number"),
        (5.0, "not spelled as a number"),
        (None, "not spelled as a number"),
        (True, "not spelled as a number"),
        (["5"], "not spelled as a number"),
        ({}, "not spelled as a number"),
    ],
)
def test_what_cannot_be_counted_is_refused_with_the_reason(text: Any, words: str | None) -> None:
    if words is None:
        assert counter_samples([[150, text]], SPAN) == (Sample(150, 0),)
    else:
        assert words in refused([[150, text]])


@pytest.mark.parametrize("pair", [[], [150], [150, "1", "2"], "ab", None, 150, {"0": 150}])
def test_a_sample_that_is_no_pair_is_refused(pair: Any) -> None:
    assert "no pair" in refused([pair])


@pytest.mark.parametrize("time", ["150", None, True, math.nan, math.inf, -math.inf, HUGE, -HUGE, 1e300, [], {}])
def test_a_time_that_is_none_is_refused(time: Any) -> None:
    assert "no time" in refused([[time, "1"]])


def test_two_samples_of_one_time_and_times_that_go_back_are_refused() -> None:
    assert "two samples at 00:02:30Z" in refused([[150, "1"], [150, "1"]])
    assert "wrong order" in refused([[150, "1"], [149, "1"]])


def test_a_sample_at_the_very_start_of_the_range_is_left_out_as_newer_servers_do() -> None:
    assert counter_samples([[100, "1"], [100.001, "2"], [200, "3"]], SPAN) == (Sample(100.001, 2), Sample(200, 3))


def test_a_sample_just_after_the_end_is_left_to_the_next_look() -> None:
    assert counter_samples([[200, "3"], [204, "4"]], SPAN) == (Sample(200, 3),)


def test_a_sample_far_in_the_future_is_refused_with_the_limit() -> None:
    assert "7 s in the future, and the limit is 5 s" in refused([[207, "1"]])


@pytest.mark.parametrize(
    ("text", "value"), [("1", 1), ("1.0", 1), ("+Inf", math.inf), ("0.005", 0.005), ("1e-05", 1e-5), ("-1", -1)]
)
def test_edges_are_numbers_however_they_are_spelled(text: str, value: float) -> None:
    assert edge(text) == value


@pytest.mark.parametrize("text", ["", "NaN", "1_0", "one", " 1"])
def test_what_is_no_edge_is_refused(text: str) -> None:
    with pytest.raises(UnusableSamplesError, match="no edge of a bucket"):
        edge(text)


def histogram(*buckets: Any, count: Any = "5") -> list[Any]:
    return [[150, {"count": count, "sum": "1.5", "buckets": list(buckets)}]]


def test_a_native_histogram_is_read_with_its_zero_and_negative_buckets() -> None:
    read = native_samples(histogram([1, "-1", "-0.5", "1"], [3, "-0.001", "0.001", "2"], [0, "0.5", "1", "3"]), SPAN)

    assert read == ((150, {(-1, -0.5): 1, (-0.001, 0.001): 2, (0.5, 1): 3}),)


def test_a_native_histogram_without_observations_has_no_buckets() -> None:
    assert native_samples([[150, {"count": "0", "sum": "0"}]], SPAN) == ((150, {}),)


def test_a_zero_bucket_without_width_still_holds_zero() -> None:
    (((_, buckets),)) = native_samples(histogram([3, "0", "0", "2"]), SPAN)

    ((low, high),) = buckets
    assert low < 0 == high


@pytest.mark.parametrize(
    "wrong",
    [
        [[150, "5"]],
        [[150]],
        [[150, {"count": "5", "buckets": {}}]],
        [[150, {"buckets": []}]],
        histogram(count="NaN"),
        histogram([0, "1", "2"]),
        histogram([0, "2", "1", "3"]),
        histogram([0, "1", "2", "3"], [0, "1", "2", "3"]),
        histogram([0, "1", "2", "0.5"]),
        histogram([0, "1", "NaN", "1"]),
        histogram([0, 1, 2, "1"]),
        histogram(None),
    ],
)
def test_a_damaged_native_histogram_is_refused(wrong: Any) -> None:
    with pytest.raises(UnusableSamplesError):
        native_samples(wrong, SPAN)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["1", "NaN", 150]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["count", "buckets"]), inner),
    max_leaves=12,
)


@given(st.lists(JSON, max_size=4))
def test_any_list_gives_samples_or_a_reason(values: list[Any]) -> None:
    values = json.loads(json.dumps(values))
    for reading in (counter_samples, native_samples):
        try:
            reading(values, SPAN)
        except UnusableSamplesError as unusable:
            assert str(unusable)  # noqa: PT017 - either outcome is right
