"""Limits, pairs and pods: processes without a second binomial arm."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatestats.limits import LimitDesign, log_e_beta
from gatestats.paired import PairedDesign, log_bets
from gatestats.pods import PodDesign, dispersion, log_permutation_factors
from gatestats.process import Process, restore
from gatestats.state import State
from gatestats.ticks import Measure, OneArmCounts, PairedCounts, PodCounts, Tick, TwoArmCounts, Worse
from tests.gatestats.enumeration import binomial, compositions, multinomial


def run(design: Process, sequence: list[Tick]) -> State:
    state = design.start()
    for tick in sequence:
        state = design.update(state, tick)
    return state


def test_the_beta_mixture_agrees_with_vector_21() -> None:
    counts = OneArmCounts(8, 500)
    assert log_e_beta(counts, 0.005, (0.5, 0.5)) == pytest.approx(0.5411091841673, abs=1e-9)
    assert log_e_beta(counts, 0.005, (1, 60)) == pytest.approx(2.9632298567420, abs=1e-9)


def test_pairs_agree_with_vector_22() -> None:
    pairs, size = PairedCounts(30, 10, 1000), np.array([0.4])
    assert log_bets(pairs, 0.0, size)[0] == pytest.approx(4.985910860976, abs=1e-9)
    assert log_bets(pairs, 0.01, size)[0] == pytest.approx(0.985483469400, abs=1e-9)


def test_pods_agree_with_vector_24() -> None:
    factors = log_permutation_factors([1, 0, 2, 1], [4], np.array([math.log(2)]))
    assert factors[0] == pytest.approx(1.1631508098057, abs=1e-9)


@pytest.mark.parametrize("limit", [0.02, 0.3, 0.7])
@pytest.mark.parametrize("worse", list(Worse))
def test_a_limit_expects_at_most_one_under_every_drifting_null(limit: float, worse: Worse) -> None:
    design = LimitDesign(limit, worse)
    sizes = (3, 2, 3)
    below = [limit, limit / 2, limit * 0.999]
    above = [limit, (1 + limit) / 2, limit + 0.001]
    harmless, harmful = (below, above) if worse is Worse.HIGHER else (above, below)
    for rates, evidence in ((harmless, design.log_e), (harmful, design.log_e_non_inferior)):
        expected = 0.0
        for path in itertools.product(*(range(size + 1) for size in sizes)):
            ticks: list[Tick] = [OneArmCounts(events, size) for events, size in zip(path, sizes, strict=True)]
            chance = math.prod(binomial(e, n, r) for e, n, r in zip(path, sizes, rates, strict=True))
            expected += chance * math.exp(evidence(run(design, ticks)))
        assert expected <= 1 + 1e-12


@pytest.mark.parametrize("margin", [0.0, 0.05, 0.5])
def test_pairs_expect_at_most_one_under_every_drifting_null(margin: float) -> None:
    design = PairedDesign(margin)
    # shares of (worse, better, equal) with mean loss on the margin, then off it
    for sign, evidence in ((1, design.log_e), (-1, design.log_e_non_inferior)):
        truths = [(margin, 0.0, 1 - margin), ((1 + margin) / 2, (1 - margin) / 2, 0.0)]
        truths.append((0.0, 0.6, 0.4) if sign > 0 else (0.9, 0.0, 0.1))
        expected = 0.0
        outcomes = list(compositions(2, 3))
        for path in itertools.product(outcomes, repeat=3):
            chance = math.prod(multinomial(counts, truth) for counts, truth in zip(path, truths, strict=True))
            ticks: list[Tick] = [PairedCounts(worse, better, 2) for worse, better, _ in path]
            expected += chance * math.exp(evidence(run(design, ticks)))
        assert expected <= 1 + 1e-12


@pytest.mark.parametrize("candidates", [1, 2, 3])
@pytest.mark.parametrize("cap", [None, 2.0])
def test_pods_expect_exactly_one_when_any_of_them_might_be_the_candidate(candidates: int, cap: float | None) -> None:
    design = PodDesign(cap)
    values = [(0.0, 1.0, 7.0, 1.0, 2.5), (3.0, 0.0, 0.0, 0.0, 9.0), (1.0, 1.0, 1.0, 1.0, 1.0)]
    choices = list(itertools.combinations(range(5), candidates))
    evidence = []
    for path in itertools.product(choices, repeat=3):
        ticks: list[Tick] = [
            PodCounts(
                tuple(value for place, value in enumerate(pods) if place not in chosen),
                tuple(value for place, value in enumerate(pods) if place in chosen),
            )
            for pods, chosen in zip(values, path, strict=True)
        ]
        evidence.append(math.exp(design.log_e(run(design, ticks))))
    assert np.mean(evidence) == pytest.approx(1.0, abs=1e-12)
    assert np.mean(evidence) <= 1 + 1e-12


@given(st.lists(st.integers(0, 9), min_size=2, max_size=6), st.data())
@settings(max_examples=60)
def test_the_symmetric_polynomial_is_the_mean_over_all_choices(values: list[int], data: st.DataObject) -> None:
    chosen = data.draw(st.integers(1, len(values) - 1))
    baseline, candidate = values[chosen:], values[:chosen]
    tilt = data.draw(st.floats(-2, 2))
    if min(values) == max(values):
        return
    means = [math.exp(tilt * sum(choice)) for choice in itertools.combinations(values, chosen)]
    direct = tilt * sum(candidate) - math.log(sum(means) / len(means))
    assert float(log_permutation_factors(baseline, candidate, np.array([tilt]))[0]) == pytest.approx(direct, abs=1e-9)


DESIGNS: list[tuple[Process, list[Tick]]] = [
    (LimitDesign(0.02), [OneArmCounts(1, 50), OneArmCounts(0, 0), OneArmCounts(3, 40)]),
    (LimitDesign(0.9, Worse.LOWER, 5), [OneArmCounts(40, 50), OneArmCounts(0, 0), OneArmCounts(40, 40)]),
    (PairedDesign(0.01), [PairedCounts(3, 1, 20), PairedCounts(0, 0, 0), PairedCounts(0, 2, 9)]),
    (PodDesign(), [PodCounts((1.0, 0.0), (3.0,)), PodCounts((), ()), PodCounts((0.0, 0.0), (1.0, 0.5))]),
]


@pytest.mark.parametrize(("design", "ticks"), DESIGNS)
def test_replay_and_restore_give_the_same_bits(design: Process, ticks: list[Tick]) -> None:
    live = design.start()
    for tick in ticks:
        live = restore(design, design.update(live, tick).to_json())
    assert live == run(design, ticks)
    assert (live.ticks, live.informative) == (3, 2)


@pytest.mark.parametrize(("design", "ticks"), DESIGNS)
def test_nothing_seen_is_no_data(design: Process, ticks: list[Tick]) -> None:
    state = run(design, [ticks[1]])
    assert design.log_e(state) == pytest.approx(0.0, abs=1e-12)
    assert design.log_e_non_inferior(state) in (0.0, None) or abs(design.log_e_non_inferior(state) or 0) < 1e-12
    assert design.estimate(state) is None
    assert design.interval(state, 0.95) is None


@pytest.mark.parametrize(
    ("design", "bad", "good"),
    [
        (LimitDesign(0.005), OneArmCounts(10, 500), OneArmCounts(1, 500)),
        (LimitDesign(0.9, Worse.LOWER), OneArmCounts(170, 200), OneArmCounts(190, 200)),
        (PairedDesign(0.01), PairedCounts(9, 2, 200), PairedCounts(2, 2, 200)),
    ],
)
def test_finds_the_bad_and_promotes_the_good(design: Process, bad: Tick, good: Tick) -> None:
    assert design.log_e(run(design, [bad] * 30)) > math.log(100)
    assert (design.log_e_non_inferior(run(design, [bad] * 30)) or 0) < 0
    assert design.log_e(run(design, [good] * 30)) < 0
    assert (design.log_e_non_inferior(run(design, [good] * 30)) or 0) > math.log(20)


def test_pods_find_a_bad_version_but_never_a_single_outage_of_all() -> None:
    design = PodDesign()
    bad = run(design, [PodCounts((0.0, 1.0, 0.0, 0.0, 1.0), (2.0, 1.0))] * 30)
    assert design.log_e(bad) > math.log(100)
    outage = run(design, [PodCounts((50.0,) * 5, (50.0,) * 2)] * 30)
    assert design.log_e(outage) == pytest.approx(0.0, abs=1e-12)
    estimate = design.estimate(bad)
    assert estimate is not None
    assert estimate.measure is Measure.POD_DIFFERENCE
    assert estimate.effect == pytest.approx(1.5 - 0.4)
    lonely = design.estimate(run(design, [PodCounts((1.0,), ())]))
    assert lonely is not None
    assert (lonely.effect, lonely.baseline, lonely.candidate) == (None, 1.0, None)
    other = design.estimate(run(design, [PodCounts((), (1.0,))]))
    assert other is not None
    assert (other.effect, other.baseline) == (None, None)


def test_estimates_and_intervals_hold_the_truth() -> None:
    limit = LimitDesign(0.02)
    state = run(limit, [OneArmCounts(15, 500)] * 4)
    estimate, interval = limit.estimate(state), limit.interval(state, 0.95)
    assert estimate is not None
    assert (estimate.effect, estimate.candidate, estimate.candidate_total) == (0.03, 0.03, 2000)
    assert interval is not None
    assert interval.low is not None
    assert interval.high is not None
    assert 0.015 < interval.low < 0.03 < interval.high < 0.05
    pairs = PairedDesign()
    state = run(pairs, [PairedCounts(45, 15, 1000)] * 3)
    mean, interval = pairs.estimate(state), pairs.interval(state, 0.95)
    assert mean is not None
    assert mean.effect == pytest.approx(0.03)
    assert interval is not None
    assert interval.low is not None
    assert interval.high is not None
    assert 0.01 < interval.low < 0.03 < interval.high < 0.06
    few = pairs.interval(run(pairs, [PairedCounts(1, 0, 1)]), 0.95)
    assert few is not None
    assert few.low == -1.0


def test_dispersion_is_one_for_independent_requests_and_more_for_bursts() -> None:
    random = np.random.default_rng(7)
    single = random.binomial(200, 0.05, size=(400, 6))
    quiet = dispersion([[OneArmCounts(int(pod), 200) for pod in tick] for tick in single])
    assert quiet is not None
    assert quiet.phi == pytest.approx(1.0, abs=4 * quiet.standard_error)
    assert quiet.degrees == 2000
    assert not quiet.bursty
    bursts = 4 * random.binomial(50, 0.05, size=(400, 6))
    loud = dispersion([[OneArmCounts(int(pod), 200) for pod in tick] for tick in bursts])
    assert loud is not None
    assert loud.phi == pytest.approx(4.0, rel=0.15)
    assert loud.bursty


def test_ticks_that_say_nothing_give_no_dispersion() -> None:
    silent = [[OneArmCounts(0, 10)] * 3, [OneArmCounts(10, 10)] * 2, [OneArmCounts(1, 10), OneArmCounts(0, 0)], []]
    assert dispersion(silent) is None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: LimitDesign(0.0), r"got 0\.0"),
        (lambda: LimitDesign(math.nan), "got nan"),
        (lambda: LimitDesign(0.1, planned_ticks=-1), "at least 0"),
        (lambda: LimitDesign(0.1).update(LimitDesign(0.1).start(), TwoArmCounts(0, 1, 0, 1)), "counts OneArmCounts"),
        (lambda: LimitDesign(0.1).interval(run(LimitDesign(0.1), [OneArmCounts(1, 2)]), 2.0), "level"),
        (lambda: log_e_beta(OneArmCounts(1, 2), 1.0, (1, 1)), "limit must lie"),
        (lambda: log_e_beta(OneArmCounts(1, 2), 0.5, (0, 1)), "prior"),
        (lambda: log_e_beta(OneArmCounts(0, 10**6), 0.5, (1, 1)), "no mass above the limit"),
        (lambda: PairedDesign(-0.1), r"got -0\.1"),
        (lambda: PairedDesign().interval(PairedDesign().start(), 0.0), "level"),
        (lambda: PairedDesign().update(PairedDesign(0.1).start(), PairedCounts(0, 0, 1)), "start again"),
        (lambda: PodDesign(0.0), "cap must be above 0"),
        (lambda: PodDesign(math.nan), "got nan"),
        (lambda: PodDesign().interval(PodDesign().start(), 1.5), "level"),
        (lambda: PodDesign().log_e_non_inferior(PodDesign(1.0).start()), "start again"),
    ],
)
def test_refuses_what_makes_no_sense(call: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()  # type: ignore[operator]
