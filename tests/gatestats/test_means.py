"""Means of unbounded values: the formulas, and what of their promise holds in simulation."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import beta, norm

from gatestats.means import MeanDesign, log_e_gaussian, mean_margin
from gatestats.process import restore
from gatestats.state import State
from gatestats.ticks import Measure, OneArmCounts, Tick, TwoArmSums, Worse


def run(design: MeanDesign, sequence: list[Tick]) -> State:
    state = design.start()
    for tick in sequence:
        state = design.update(state, tick)
    return state


def traffic(random: np.random.Generator, ticks: int, change: float, *, weight: float = 0.3) -> list[Tick]:
    """Revenue per request: mostly nothing, now and then an exponential amount; the mean is 1."""
    made: list[Tick] = []
    for _ in range(ticks):
        ours = int(random.binomial(200, weight))
        sums = [
            float((random.random(size) < 0.1).astype(float) @ random.exponential(10 * factor, size))
            for size, factor in ((200 - ours, 1.0), (ours, 1 + change))
        ]
        made.append(TwoArmSums(200 - ours, sums[0], ours, sums[1]))
    return made


def test_agrees_with_vector_26() -> None:
    assert log_e_gaussian(10.0, 20.0, 0.05) == pytest.approx(1.5379660868956, abs=1e-9)
    assert mean_margin(100, 1.0, 0.95, 0.1) == pytest.approx(0.3037811021426, abs=1e-9)


@pytest.mark.parametrize("scale", [0.01, 0.1, 2.0])
@pytest.mark.parametrize("drift", [0.0, -0.3])
def test_the_mixture_expects_at_most_one_of_gaussian_increments(scale: float, drift: float) -> None:
    # integrate over S after V = 1, 5, 40 under N(drift V, V)
    for variance in (1.0, 5.0, 40.0):
        sums = np.linspace(-70, 70, 7001) * math.sqrt(variance)
        evidence = np.array([log_e_gaussian(float(total), variance, scale) for total in sums])
        density = norm.logpdf(sums, drift * variance, math.sqrt(variance))
        expected = float(np.exp(evidence + density).sum() * (sums[1] - sums[0]))
        assert expected <= 1 + 1e-9
        if drift == 0:
            assert expected == pytest.approx(1.0, abs=1e-6)


def test_evidence_stays_a_number_far_outside() -> None:
    assert log_e_gaussian(-1e6, 1.0, 0.1) < -5
    assert log_e_gaussian(1e6, 1.0, 0.1) > 1e9
    low, high = (log_e_gaussian(-s, 0.0, 1.0) for s in (29.999999, 30.000001))
    assert low == pytest.approx(high, abs=1e-5)
    assert log_e_gaussian(0.0, 0.0, 0.1) == 0.0


@pytest.mark.parametrize(
    ("design", "bad", "good"),
    [
        (MeanDesign(0.05), -0.4, 0.0),
        (MeanDesign(0.05, relative=True), -0.4, 0.0),
        (MeanDesign(0.05, Worse.HIGHER), 0.4, 0.0),
        (MeanDesign(0.05, Worse.HIGHER, relative=True), 0.4, 0.0),
    ],
)
def test_finds_the_bad_and_promotes_what_is_better_than_the_margin(design: MeanDesign, bad: float, good: float) -> None:
    random = np.random.default_rng(11)
    worse = run(design, traffic(random, 600, bad))
    assert design.log_e(worse) > math.log(100)
    assert design.log_e_non_inferior(worse) < 0
    better = run(design, traffic(random, 600, -bad))
    assert design.log_e(better) < 0
    assert design.log_e_non_inferior(better) > math.log(20)
    assert design.log_e(run(design, traffic(random, 600, good))) < math.log(20)


def test_equal_means_seldom_look_different_and_the_interval_covers() -> None:
    random, alarms, missed, runs = np.random.default_rng(5), 0, 0, 300
    design = MeanDesign(block_ticks=2)
    for _ in range(runs):
        state, alarmed, outside = design.start(), False, False
        for tick in traffic(random, 100, 0.0):
            state = design.update(state, tick)
            interval = design.interval(state, 0.95)
            alarmed |= design.log_e(state) >= math.log(100)
            if interval is not None:
                assert interval.low is not None
                assert interval.high is not None
                outside |= not interval.low <= 0 <= interval.high
        alarms, missed = alarms + alarmed, missed + outside
    assert beta.ppf(0.01, alarms, runs - alarms + 1) <= 0.01 if alarms else True
    assert beta.ppf(0.01, missed, runs - missed + 1) <= 0.05 if missed else True


def test_blocks_weigh_by_what_they_tell_so_that_a_common_drift_cancels() -> None:
    design = MeanDesign(block_ticks=1)
    # candidate 1 more in each tick, while level and weight move together
    ticks: list[Tick] = [
        TwoArmSums(900, 900.0 * level, 100 * step, 100.0 * step * (level + 1 + 0.01 * (step % 2)))
        for step, level in enumerate(range(1, 21), start=1)
    ]
    state = run(design, ticks)
    estimate, interval = design.estimate(state), design.interval(state, 0.95)
    assert estimate is not None
    assert interval is not None
    assert estimate.measure is interval.measure is Measure.MEAN_DIFFERENCE
    assert estimate.effect == pytest.approx(1.005, abs=0.005)
    assert interval.low is not None
    assert interval.high is not None
    assert interval.low < (estimate.effect or 0.0) < interval.high


@pytest.mark.parametrize("worse", list(Worse))
def test_the_interval_does_not_depend_on_margin_or_direction(worse: Worse) -> None:
    ticks = traffic(np.random.default_rng(3), 120, -0.2)
    plain, other = MeanDesign(), MeanDesign(0.3, worse)
    one, two = plain.interval(run(plain, ticks), 0.9), other.interval(run(other, ticks), 0.9)
    assert one is not None
    assert two is not None
    assert one.low == pytest.approx(two.low)
    assert one.high == pytest.approx(two.high)
    estimate = plain.estimate(run(plain, ticks))
    assert estimate is not None
    assert estimate.effect == pytest.approx((one.low + one.high) / 2)  # type: ignore[operator]


def test_nothing_is_said_before_eight_blocks_or_without_spread() -> None:
    design = MeanDesign(block_ticks=2)
    loss = TwoArmSums(100, 500.0, 100, 100.0)
    uneven = TwoArmSums(100, 500.0, 100, 120.0)
    early = run(design, [*[loss, uneven] * 7, loss])
    assert (design.log_e(early), design.interval(early, 0.9)) == (0.0, None)
    same = run(design, [loss] * 40)
    assert (design.log_e(same), design.interval(same, 0.9)) == (0.0, None)
    assert design.log_e(run(design, [loss, loss, uneven, uneven] * 8)) > math.log(100)
    first = design.estimate(run(design, [loss]))
    assert first is not None
    assert (first.effect, first.candidate_total) == (None, 100)


def test_ticks_without_both_variants_belong_to_no_block() -> None:
    design = MeanDesign()
    some = traffic(np.random.default_rng(1), 60, 0.1)
    idle: list[Tick] = [TwoArmSums(0, 0.0, 0, 0.0), TwoArmSums(50, 70.0, 0, 0.0)]
    mixed = [tick for pair in zip(some, idle * 30, strict=True) for tick in pair]
    plain, other = run(design, some), run(design, mixed)
    assert plain.sums == other.sums
    assert design.log_e(plain) == design.log_e(other)
    assert design.estimate(run(design, idle[:1])) is None
    live = design.start()
    for tick in mixed:
        live = restore(design, design.update(live, tick).to_json())
    assert live == other
    assert MeanDesign.approximate


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: MeanDesign(-1.0), r"got -1\.0"),
        (lambda: MeanDesign(math.inf), "got inf"),
        (lambda: MeanDesign(1.5, relative=True), r"0\.\.1, got 1\.5"),
        (lambda: MeanDesign(block_ticks=0), "got 0"),
        (lambda: MeanDesign().interval(MeanDesign().start(), 0.0), "level"),
        (lambda: MeanDesign().update(MeanDesign().start(), OneArmCounts(0, 1)), "counts TwoArmSums"),
        (lambda: MeanDesign().update(MeanDesign(1.0).start(), TwoArmSums(0, 0.0, 0, 0.0)), "start again"),
        (lambda: log_e_gaussian(math.nan, 1.0, 1.0), "got nan"),
        (lambda: log_e_gaussian(0.0, -1.0, 1.0), r"-1\.0"),
        (lambda: mean_margin(0, 1.0, 0.9), "got 0"),
        (lambda: mean_margin(5, 1.0, 1.0), "level"),
        (lambda: TwoArmSums(0, 1.0, 0, 0.0), "0 without requests, got 1.0 over 0"),
        (lambda: TwoArmSums(1, 1.0, 1, math.nan), "candidate_sum must be finite"),
        (lambda: TwoArmSums(-1, 1.0, 1, 0.0), "baseline_total"),
    ],
)
def test_refuses_what_makes_no_sense(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
