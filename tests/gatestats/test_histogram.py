import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatestats import tilted_sum
from gatestats.buckets import expressible_shift, slowed
from gatestats.histogram import HistogramDesign
from gatestats.noncentral import log_normalisers
from gatestats.process import restore
from gatestats.proportion_bounds import quantile_bounds
from gatestats.state import State
from gatestats.ticks import Measure, OneArmCounts, TwoArmCounts, TwoArmHistogram, Worse
from gatestats.tilted_sum import log_tilted_expectation
from tests.gatestats.enumeration import compositions, multinomial

GROWTH = 2 ** (1 / 8)
NATIVE = (*(0.01 * GROWTH**index for index in range(48)), math.inf)
REGULAR = (1.0, 2.0, 4.0, 8.0, math.inf)
RAGGED = (1.0, 1.5, 4.0, 5.0, 11.0)


def design(edges: tuple[float, ...] = REGULAR, margin: float = 1.0, worse: Worse = Worse.HIGHER) -> HistogramDesign:
    return HistogramDesign(edges, tuple(float(index) - 1.5 for index in range(len(edges))), 3, margin, worse)


def run(process: HistogramDesign, sequence: list[TwoArmHistogram]) -> State:
    state = process.start()
    for tick in sequence:
        state = process.update(state, tick)
    return state


def bucket_rates(edges: tuple[float, ...], values: list[float], rates: tuple[float, ...]) -> tuple[float, ...]:
    share = [0.0] * len(edges)
    for value, rate in zip(values, rates, strict=True):
        share[next(index for index, edge in enumerate(edges) if value <= edge)] += rate
    return tuple(share)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=5), st.data())
@settings(max_examples=200)
def test_the_normaliser_is_the_brute_force_expectation(pooled: list[int], data: st.DataObject) -> None:
    total = sum(pooled)
    if total < 2:
        return
    drawn = data.draw(st.integers(1, total - 1))
    exponents = data.draw(st.lists(st.floats(-5, 5), min_size=len(pooled), max_size=len(pooled)))
    direct = sum(
        math.prod(math.comb(m, u) for m, u in zip(pooled, split, strict=True))
        / math.comb(total, drawn)
        * math.exp(sum(e * u for e, u in zip(exponents, split, strict=True)))
        for split in itertools.product(*(range(m + 1) for m in pooled))
        if sum(split) == drawn
    )
    result = log_tilted_expectation(np.array(pooled, dtype=float), drawn, np.array([exponents]))
    assert float(result[0]) == pytest.approx(math.log(direct), abs=1e-11)


@pytest.mark.parametrize("size", [1, 37, 1000, 50_000])
def test_two_buckets_are_the_odds_ratio_test(size: int) -> None:
    tick = TwoArmCounts(3 * size, 50 * size, size, 10 * size)
    log_odds = np.linspace(-2, 2, 9)
    pooled = np.array([4.0 * size, 56.0 * size])
    exponents = np.stack([log_odds, np.zeros(9)], axis=1)
    tilted = log_tilted_expectation(pooled, 10 * size, exponents)
    assert tilted == pytest.approx(log_normalisers(tick, log_odds), rel=1e-10, abs=1e-11)


def test_the_short_cuts_never_make_the_normaliser_smaller() -> None:
    # the reference: a plain product of polynomials, exact in big integers for tilts that are powers of two
    pooled, drawn, powers = [40, 90, 70, 50, 30], 60, [0, 1, 0, 2, 3]
    row = [1]
    for count, power in zip(pooled, powers, strict=True):
        factor = [math.comb(count, k) * 2 ** (power * k) for k in range(min(count, drawn) + 1)]
        row = [
            sum(row[i] * factor[k - i] for i in range(max(0, k - len(factor) + 1), min(k, len(row) - 1) + 1))
            for k in range(min(drawn, len(row) + len(factor) - 2) + 1)
        ]
    exact = math.log(row[drawn]) - math.log(math.comb(sum(pooled), drawn))
    exponents = np.array([[power * math.log(2) for power in powers]])
    result = float(log_tilted_expectation(np.array(pooled, dtype=float), drawn, exponents)[0])
    assert result == pytest.approx(exact, abs=1e-11)


def test_any_starting_point_gives_the_same_normaliser(monkeypatch: pytest.MonkeyPatch) -> None:
    pooled, exponents = np.array([40.0, 90.0, 70.0]), np.array([[0.0, 1.0, 2.5], [0.0, -0.5, -3.0]])
    found = log_tilted_expectation(pooled, 60, exponents)
    monkeypatch.setattr(tilted_sum, "_NEWTON_STEPS", 1)
    assert log_tilted_expectation(pooled, 60, exponents) == pytest.approx(found, abs=1e-9)


#: where single requests of the baseline may lie, strictly inside buckets
VALUES = [0.7, 1.3, 2.7, 4.9, 9.0]
BASELINES = [
    (0.2, 0.2, 0.2, 0.2, 0.2),
    (0.6, 0.1, 0.1, 0.1, 0.1),
    (0.0, 0.5, 0.3, 0.0, 0.2),
    (0.05, 0.05, 0.1, 0.7, 0.1),
]


@pytest.mark.parametrize("edges", [REGULAR, RAGGED, (*RAGGED, math.inf)])
@pytest.mark.parametrize("margin", [1.0, 2.0, 1.3, 0.5, 0.8])
@pytest.mark.parametrize("worse", list(Worse))
def test_a_tick_expects_at_most_one_under_every_null(edges: tuple[float, ...], margin: float, worse: Worse) -> None:
    process = design(edges, margin, worse)
    theirs, ours = 2, 2
    arms = list(itertools.product(compositions(theirs, len(edges)), compositions(ours, len(edges))))
    states = []
    for reference, test in arms:
        baseline, candidate = (test, reference) if worse is Worse.LOWER else (reference, test)
        states.append(process.update(process.start(), TwoArmHistogram(edges, baseline, candidate)))
    rollback = np.exp([process.log_e(state) for state in states])
    promotion = np.exp([process.log_e_non_inferior(state) for state in states])
    top = 10.9  # inside the last finite bucket of the ragged edges
    for rates in BASELINES:
        reference_rates = bucket_rates(edges, VALUES, rates)
        for factor in (1.0, 0.6):
            harmless = bucket_rates(edges, [min(value * margin * factor, top) for value in VALUES], rates)
            law = [multinomial(a, reference_rates) * multinomial(b, harmless) for a, b in arms]
            assert law @ rollback <= 1 + 1e-12
        # with a last finite edge nothing may lie above it, in the null as in the data
        harmful = [value * margin / factor for value in VALUES for factor in (1.0,)]
        if math.isinf(edges[-1]) or max(harmful) <= edges[-1]:
            for factor in (1.0, 1.7) if math.isinf(edges[-1]) else (1.0,):
                slower = bucket_rates(edges, [value * factor for value in harmful], rates)
                law = [multinomial(a, reference_rates) * multinomial(b, slower) for a, b in arms]
                assert law @ promotion <= 1 + 1e-12


@pytest.mark.parametrize("margin", [1.0, 2.0])
def test_sequences_expect_at_most_one_while_the_distribution_drifts(margin: float) -> None:
    edges = (1.0, 2.0, 4.0)
    process = HistogramDesign(edges, (-1.0, 0.0, 1.0), 2, margin)
    drifting = [(0.7, 0.2, 0.1), (0.1, 0.3, 0.6)]
    sizes = [(2, 1), (1, 2)]
    values = [0.7, 1.5, 3.0]
    for evidence, cap in ((process.log_e, 1.0), (process.log_e_non_inferior, None)):
        expected = 0.0
        rounds = []
        for (theirs, ours), rates in zip(sizes, drifting, strict=True):
            moved = [min(value * margin, 3.9) if cap else value * max(margin, 1.0) for value in values]
            moved = [min(value, 3.9) for value in moved]
            if cap is None and margin > 1:
                rates = (rates[0] + rates[2], rates[1], 0.0)  # noqa: PLW2901 so that no value leaves the last edge
            shifted = bucket_rates(edges, moved, rates)
            rounds.append(
                [
                    (TwoArmHistogram(edges, a, b), multinomial(a, rates) * multinomial(b, shifted))
                    for a in compositions(theirs, 3)
                    for b in compositions(ours, 3)
                ]
            )
        for path in itertools.product(*rounds):
            state = run(process, [tick for tick, _ in path])
            expected += math.prod(chance for _, chance in path) * math.exp(evidence(state))
        assert expected <= 1 + 1e-12


def test_a_shift_of_no_bucket_is_no_margin() -> None:
    first, last = slowed(NATIVE, 1.0)
    assert list(first) == list(last) == list(range(len(NATIVE)))


@pytest.mark.parametrize("shift", [1, 2, -1])
def test_a_margin_of_whole_buckets_moves_every_inner_bucket_exactly(shift: int) -> None:
    first, last = slowed(NATIVE, GROWTH**shift)
    inner = slice(3, len(NATIVE) - 4)
    assert list(first[inner]) == list(last[inner]) == [index - shift for index in range(len(NATIVE))][inner]
    assert (first[0], last[-1]) == (0, len(NATIVE) - 1)


def lognormal_counts(total: int, median: float, spread: float = 0.5) -> tuple[int, ...]:
    """Expected counts of a lognormal, largest remainder rounding."""
    below = [0.5 * (1 + math.erf(math.log(edge / median) / spread / math.sqrt(2))) for edge in NATIVE[:-1]] + [1.0]
    exact = [total * (high - low) for low, high in itertools.pairwise([0.0, *below])]
    counts = [int(share) for share in exact]
    for index in sorted(range(len(exact)), key=lambda place: counts[place] - exact[place])[: total - sum(counts)]:
        counts[index] += 1
    return tuple(counts)


def test_a_slowdown_beyond_the_margin_is_found_and_equal_latency_promoted() -> None:
    baseline = lognormal_counts(4500, 0.1)
    shift = expressible_shift(NATIVE, 1.1)
    assert shift is not None
    process = HistogramDesign.from_baseline(NATIVE, baseline, margin=shift.margin)
    slow = run(process, [TwoArmHistogram(NATIVE, baseline, lognormal_counts(500, 0.125))] * 20)
    assert process.log_e(slow) > math.log(100)
    assert process.log_e_non_inferior(slow) < 0
    equal = run(process, [TwoArmHistogram(NATIVE, baseline, lognormal_counts(500, 0.1))] * 20)
    assert process.log_e(equal) < 0
    assert process.log_e_non_inferior(equal) > math.log(20)
    faster = HistogramDesign.from_baseline(NATIVE, baseline, margin=1 / GROWTH)
    assert (
        faster.log_e_non_inferior(run(faster, [TwoArmHistogram(NATIVE, baseline, lognormal_counts(500, 0.1))] * 20)) < 0
    )
    fast = [TwoArmHistogram(NATIVE, baseline, lognormal_counts(500, 0.07))] * 20
    assert faster.log_e_non_inferior(run(faster, fast)) > math.log(20)


def test_a_slow_tail_is_found_though_the_median_stays() -> None:
    baseline = lognormal_counts(4500, 0.1, 0.3)
    body, tail = lognormal_counts(470, 0.1, 0.3), lognormal_counts(30, 0.4, 0.3)
    tick = TwoArmHistogram(NATIVE, baseline, tuple(one + two for one, two in zip(body, tail, strict=True)))
    process = HistogramDesign.from_baseline(NATIVE, baseline)
    assert process.log_e(run(process, [tick] * 20)) > math.log(100)


def test_lower_exchanges_the_variants() -> None:
    one, two = design(margin=2.0), design(margin=2.0, worse=Worse.LOWER)
    tick = TwoArmHistogram(REGULAR, (3, 4, 5, 6, 1), (1, 0, 2, 4, 3))
    turned = TwoArmHistogram(REGULAR, tick.candidate, tick.baseline)
    assert one.log_e(run(one, [tick] * 3)) == two.log_e(run(two, [turned] * 3))
    assert one.log_e_non_inferior(run(one, [tick] * 3)) == two.log_e_non_inferior(run(two, [turned] * 3))


COUNTS = st.tuples(*[st.integers(0, 6)] * 5)


@given(st.lists(st.tuples(COUNTS, COUNTS), max_size=5), st.sampled_from([1.0, 2.0, 1.3]))
@settings(max_examples=50)
def test_replay_and_restore_give_the_same_bits(
    sequence: list[tuple[tuple[int, ...], tuple[int, ...]]], margin: float
) -> None:
    process = design(margin=margin)
    ticks = [TwoArmHistogram(REGULAR, *arms) for arms in sequence]
    live = process.start()
    for tick in ticks:
        live = restore(process, process.update(live, tick).to_json())
    assert live == run(process, ticks)
    backwards = run(process, ticks[::-1])
    assert process.log_e_non_inferior(live) == pytest.approx(process.log_e_non_inferior(backwards), abs=1e-9)
    assert live.totals == backwards.totals


def test_ticks_without_information_change_no_evidence() -> None:
    process = design()
    nothing = (0, 0, 0, 0, 0)
    for baseline, candidate in ((nothing, nothing), ((1, 2, 3, 4, 5), nothing), (nothing, (1, 2, 3, 4, 5))):
        state = run(process, [TwoArmHistogram(REGULAR, baseline, candidate)])
        assert process.log_e(state) == pytest.approx(0.0, abs=1e-12)
        assert process.log_e_non_inferior(state) == 0.0
        assert (state.ticks, state.informative) == (1, 0)
    state = run(process, [TwoArmHistogram(REGULAR, (0, 7, 0, 0, 0), (0, 3, 0, 0, 0))])
    assert process.log_e(state) == pytest.approx(0.0, abs=1e-12)


def test_estimate_and_interval_show_the_quantile() -> None:
    baseline = lognormal_counts(45000, 0.1)
    process = HistogramDesign.from_baseline(NATIVE, baseline)
    assert process.estimate(process.start()) is None
    assert process.interval(process.start(), 0.95) is None
    state = run(process, [TwoArmHistogram(NATIVE, baseline, lognormal_counts(5000, 0.15))] * 10)
    estimate, interval = process.estimate(state), process.interval(state, 0.95)
    assert estimate is not None
    assert interval is not None
    assert estimate.measure is interval.measure is Measure.SLOWDOWN
    assert estimate.baseline == pytest.approx(0.1 * math.exp(0.5 * 1.6449), rel=0.01)
    assert estimate.effect == pytest.approx(1.5, rel=0.01)
    assert interval.low is not None
    assert interval.high is not None
    assert 1.2 < interval.low < 1.5 < interval.high < 1.9


def test_a_quantile_without_bounds_says_so() -> None:
    process = design()
    state = run(process, [TwoArmHistogram(REGULAR, (1, 1, 1, 0, 0), (0, 0, 0, 0, 5))])
    estimate, interval = process.estimate(state), process.interval(state, 0.95)
    assert estimate is not None
    assert (estimate.candidate, estimate.effect) == (None, None)
    assert estimate.baseline is not None
    assert interval is not None
    assert (interval.low, interval.high) == (None, None)
    one_sided = run(process, [TwoArmHistogram(REGULAR, (0, 0, 0, 0, 0), (0, 0, 0, 0, 5))])
    assert process.interval(one_sided, 0.95) is None
    estimate = process.estimate(one_sided)
    assert estimate is not None
    assert estimate.baseline is None
    assert quantile_bounds((1.0, 2.0), (500, 500), 0.5, 0.9) == (None, 2.0)
    assert quantile_bounds((1.0, 2.0, 3.0), (1, 1, 1), 0.5, 0.9) == (None, None)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: HistogramDesign((1.0, 2.0), (0.0, 1.0), 1), "at least three"),
        (lambda: HistogramDesign((0.0, 1.0, 2.0), (0.0, 1.0, 2.0), 1), "above 0"),
        (lambda: HistogramDesign(REGULAR, (0.0,) * 4, 1), "one per edge"),
        (lambda: HistogramDesign(REGULAR, (0.0, 1.0, 0.5, 2.0, 3.0), 1), "nondecreasing"),
        (lambda: HistogramDesign(REGULAR, (0.0, 1.0, 2.0, 3.0, math.inf), 1), "finite"),
        (lambda: HistogramDesign(REGULAR, (0.0,) * 5, 5), r"tail_from must be in 1\.\.4, got 5"),
        (lambda: design(margin=17.0), r"1/16\.\.16, got 17"),
        (lambda: HistogramDesign(REGULAR, (0.0,) * 5, 1, planned_ticks=-1), "at least 0"),
        (lambda: HistogramDesign(REGULAR, (0.0,) * 5, 1, quantile=1.0), "level"),
        (lambda: HistogramDesign.from_baseline(REGULAR, (0,) * 5), "needs counts in 5 buckets"),
        (lambda: HistogramDesign.from_baseline(REGULAR, (1,) * 4), "needs counts"),
        (lambda: design().update(design().start(), OneArmCounts(1, 2)), "counts TwoArmHistogram"),
        (lambda: design().update(design(RAGGED).start(), OneArmCounts(1, 2)), "start again"),
        (
            lambda: design().update(design().start(), TwoArmHistogram(RAGGED, (1,) * 5, (1,) * 5)),
            "unequal buckets",
        ),
        (lambda: design().interval(design().start(), 0.0), "level"),
    ],
)
def test_refuses_what_makes_no_sense(call: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()  # type: ignore[operator]


def test_scores_come_from_the_baseline_and_survive_a_single_bucket() -> None:
    process = HistogramDesign.from_baseline(NATIVE, lognormal_counts(10_000, 0.1))
    assert min(process.scores) == -2.5
    assert max(process.scores) == 2.5
    assert process.edges[process.tail_from - 1] == pytest.approx(0.1 * math.exp(0.5 * 1.6449), rel=0.1)
    lonely = HistogramDesign.from_baseline(REGULAR, (0, 0, 9, 0, 0))
    assert lonely.scores == pytest.approx((-2.5, -2.0, 0.0, 2.0, 2.5))
    assert lonely.tail_from == 3
    assert HistogramDesign.from_baseline(REGULAR, (0, 0, 0, 0, 9)).tail_from == 4
