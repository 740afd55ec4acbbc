import itertools
import math
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatestats.buckets import (
    edges_of,
    expressible_shift,
    pool_buckets,
    positions,
    quantile_of,
    rebucket,
    share_below,
    slowed,
)
from gatestats.counters import Sample
from gatestats.histogram_counters import NativeSample, classic_gains, native_gains

DEFAULT_EDGES = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, math.inf)


def native_edges(schema: int, first: int, last: int) -> tuple[float, ...]:
    growth = 2.0 ** (2.0**-schema)
    return (*(growth**index for index in range(first, last)), math.inf)


def test_native_buckets_express_a_slowdown_of_some_per_cent() -> None:
    shift = expressible_shift(native_edges(3, -40, 10), 1.1)
    assert shift is not None
    assert shift.buckets == 1
    assert shift.margin == pytest.approx(2 ** (1 / 8))
    fine = expressible_shift(native_edges(5, -40, 10), 1.1)
    assert fine is not None
    assert fine.buckets == 4
    assert fine.margin == pytest.approx(2 ** (4 / 32))
    assert expressible_shift(native_edges(3, -40, 10), 1.05) is None


def test_the_usual_classic_buckets_express_none() -> None:
    assert expressible_shift(DEFAULT_EDGES, 1.1) is None
    assert expressible_shift((0.1, 0.2, 0.4, 0.8, math.inf), 1.1) is None
    doubled = expressible_shift((0.1, 0.2, 0.4, 0.8, math.inf), 2.0)
    assert doubled is not None
    assert doubled.buckets == 1
    assert doubled.margin == pytest.approx(2.0)


@given(
    st.lists(st.floats(0.01, 100), min_size=3, max_size=8, unique=True),
    st.floats(0.07, 15),
    st.floats(0.001, 200),
    st.booleans(),
)
@settings(max_examples=300)
def test_a_slowed_value_lies_between_the_two_answers(
    edges: list[float], margin: float, value: float, open_end: bool
) -> None:
    bounds = (*sorted(edges), *([math.inf] if open_end else []))
    if any(high / low < 1 + 1e-6 for low, high in itertools.pairwise(bounds)):
        return
    first, last = slowed(bounds, margin)

    def bucket(number: float) -> int | None:
        return next((index for index, edge in enumerate(bounds) if number <= edge), None)

    before, after = bucket(value), bucket(value / margin)
    if before is not None and after is not None:
        near = min(abs(value / margin / edge - 1) for edge in bounds if math.isfinite(edge))
        assert near < 1e-8 or first[before] <= after <= last[before]


def test_quantiles_and_shares_are_each_other_inverted() -> None:
    edges, counts = (1.0, 2.0, 4.0, math.inf), (10, 0, 80, 10)
    for quantile in (0.05, 0.1, 0.3, 0.89):
        value = quantile_of(edges, counts, quantile)
        assert value is not None
        assert share_below(edges, counts, value) == pytest.approx(quantile)
    assert quantile_of(edges, counts, 0.95) is None
    assert quantile_of(edges, (0, 0, 0, 0), 0.5) is None
    assert share_below(edges, (0, 0, 0, 0), 1.0) is None
    assert share_below(edges, counts, 0.1) == 0.0
    assert share_below(edges, counts, 100.0) == 0.9
    assert share_below((1.0, 2.0, 4.0), (1, 1, 1), 5.0) == 1.0


def test_positions_are_geometric_middles() -> None:
    assert positions((1.0, 4.0, 16.0, math.inf)) == pytest.approx([math.log(x) for x in (0.5, 2, 8, 32)])
    assert positions((1.0, 4.0, 16.0)) == pytest.approx([math.log(x) for x in (0.5, 2, 8)])


def test_finer_buckets_are_added_up_and_straddling_ones_refused() -> None:
    edges = (1.0, 2.0, 4.0, math.inf)
    buckets = {(-1e-9, 1e-9): 1, (-2.0, -1.0): 1, (0.5, 1.0): 2, (1.0, 1.4): 3, (1.4, 2.0): 4, (16.0, 32.0): 5}
    assert rebucket(edges, buckets) == (4, 7, 0, 5)
    assert rebucket(edges, {(0.0, 1.0): 0, (1.0, 3.0): 0}) == (0, 0, 0, 0)
    with pytest.raises(ValueError, match=r"\(1\.5, 3\.0\] does not lie in one bucket"):
        rebucket(edges, {(1.5, 3.0): 1})
    with pytest.raises(ValueError, match="does not lie in one bucket"):
        rebucket((1.0, 2.0, 4.0), {(4.0, 8.0): 1})
    with pytest.raises(ValueError, match="whole number"):
        rebucket(edges, {(0.0, 1.0): -1})


def test_targets_not_observed_are_left_out_of_the_pool() -> None:
    assert pool_buckets([{(0, 1): 2}, None, {(0, 1): 1, (1, 2): 4}]) == {(0, 1): 3, (1, 2): 4}
    assert pool_buckets([None]) is None
    assert pool_buckets([]) is None


def test_edges_of_a_baseline() -> None:
    assert edges_of({(0.0, 1.0): 0, (1.0, 2.0): 4, (2.0, math.inf): 0}) == (1.0, 2.0, math.inf)
    growth = 2**0.125
    native = {(growth**4, growth**5): 3, (growth**9, growth**10): 1, (-1e-9, 1e-9): 5}
    edges = edges_of(native, room=2)
    assert edges == pytest.approx((*(growth**index for index in range(3, 13)), math.inf))
    assert sum(rebucket(edges, native)) == 9
    with pytest.raises(ValueError, match="empty"):
        edges_of({(1.0, 2.0): 0})


def classic(*scrapes: tuple[float, tuple[int, ...]]) -> dict[float, list[Sample]]:
    return {
        edge: [Sample(time, values[index]) for time, values in scrapes]
        for index, edge in enumerate((1.0, 2.0, math.inf))
    }


def test_classic_buckets_become_counts_per_bucket() -> None:
    series = classic((0, (5, 8, 10)), (10, (6, 11, 15)), (20, (6, 11, 15)))
    assert classic_gains(series, (0, 10)) == {(0.0, 1.0): 1, (1.0, 2.0): 2, (2.0, math.inf): 2}
    assert classic_gains(series, (10, 20)) == {(0.0, 1.0): 0, (1.0, 2.0): 0, (2.0, math.inf): 0}
    assert classic_gains(series, (20, 30)) is None
    assert classic_gains(series, (-5, 0)) is None
    assert classic_gains(series, (-5, 0), born=True) == {(0.0, 1.0): 5, (1.0, 2.0): 3, (2.0, math.inf): 2}


def test_one_falling_bucket_restarts_the_whole_histogram() -> None:
    series = classic((0, (5, 8, 10)), (10, (1, 9, 14)))
    assert classic_gains(series, (0, 10)) == {(0.0, 1.0): 1, (1.0, 2.0): 8, (2.0, math.inf): 5}


def test_a_scrape_caught_between_two_updates_is_carried_to_the_next() -> None:
    series = classic((0, (5, 8, 10)), (10, (6, 8, 10)), (20, (6, 9, 12)))
    assert classic_gains(series, (0, 10)) is None
    assert classic_gains(series, (10, 20)) == {(0.0, 1.0): 1, (1.0, 2.0): 0, (2.0, math.inf): 1}


def test_classic_buckets_must_be_whole() -> None:
    with pytest.raises(ValueError, match=r"needs the bucket le=\+Inf"):
        classic_gains({1.0: [Sample(0, 1)]}, (0, 10))
    with pytest.raises(ValueError, match=r"at 10 lacks the buckets \[2\.0\]"):
        classic_gains(
            classic((0, (1, 2, 3))) | {1.0: [Sample(0, 1), Sample(10, 2)], math.inf: [Sample(0, 1), Sample(10, 2)]},
            (0, 10),
        )
    with pytest.raises(ValueError, match="must end after it starts"):
        classic_gains({}, (10, 0))


def test_native_buckets_become_counts_per_bucket() -> None:
    samples = [
        NativeSample(0, {(1, 2): 4, (2, 4): 1}),
        NativeSample(10, {(1, 2): 6, (2, 4): 1, (4, 8): 2}),
        NativeSample(20, {(1, 2): 6, (2, 4): 1, (4, 8): 2}),
    ]
    assert native_gains(samples, (0, 10)) == {(1, 2): 2, (2, 4): 0, (4, 8): 2}
    assert native_gains(samples, (10, 20)) == {(1, 2): 0, (2, 4): 0, (4, 8): 0}
    assert native_gains(samples[::-1] * 2, (0, 20)) == {(1, 2): 2, (2, 4): 0, (4, 8): 2}
    assert native_gains(samples, (20, 30)) is None
    assert native_gains(samples[:1], (-10, 0)) is None
    assert native_gains(samples[:1], (-10, 0), born=True) == {(1, 2): 4, (2, 4): 1}


def test_merged_native_buckets_are_merged_in_the_past() -> None:
    samples = [NativeSample(0, {(1, 2): 4, (2, 4): 1, (8, 16): 0}), NativeSample(10, {(1, 4): 7})]
    assert native_gains(samples, (0, 10)) == {(1, 4): 2}


@pytest.mark.parametrize("now", [{(1, 2): 1, (2, 4): 9}, {(2, 4): 9}, {}])
def test_native_buckets_that_fall_or_vanish_mean_a_restart(now: dict[tuple[float, float], float]) -> None:
    samples = [NativeSample(0, {(1, 2): 4, (2, 4): 1}), NativeSample(10, now)]
    assert native_gains(samples, (0, 10)) == now


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.booleans()), min_size=1, max_size=15), st.data())
@settings(max_examples=100)
def test_ticks_of_histograms_add_up_to_the_whole(growths: list[tuple[int, int, bool]], data: st.DataObject) -> None:
    one = two = 0
    native, rows = [], []
    for index, (left, right, restart) in enumerate(growths):
        one, two = (left, right) if restart else (one + left, two + right)
        native.append(NativeSample(10.0 * index, {(1, 2): one, (2, 4): two}))
        rows.append((10.0 * index, (one, one + two, one + two)))
    cuts = sorted({-1.0, 200.0, *data.draw(st.lists(st.floats(0, 160), max_size=6))})
    for count in (partial(native_gains, native), partial(classic_gains, classic(*rows))):
        whole = count((-1.0, 200.0)) or {}
        parts = [count(window) or {} for window in itertools.pairwise(cuts)]
        for bounds in whole:
            assert sum(part.get(bounds, 0) for part in parts) == whole[bounds]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: NativeSample(math.nan, {}), "time of a sample"),
        (lambda: NativeSample(0, {(2, 1): 1}), r"low < high, got \(2, 1\]"),
        (lambda: NativeSample(0, {(1, 2): 0.5}), "whole number"),
        (lambda: NativeSample(0, {(1, 2): math.nan}), r"0\.\.2\^53"),
        (lambda: native_gains([NativeSample(0, {(1, 2): 1}), NativeSample(0, {(1, 2): 2})], (0, 1)), "two values at 0"),
        (lambda: native_gains([], (1, 1)), "must end after"),
        (lambda: expressible_shift(DEFAULT_EDGES, 1.0), "above 1"),
        (lambda: expressible_shift(DEFAULT_EDGES, math.nan), "got nan"),
        (lambda: positions((1.0, 2.0)), "at least three"),
    ],
)
def test_refuses_what_makes_no_sense(call: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()  # type: ignore[operator]
