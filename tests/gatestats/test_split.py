"""The sample-ratio check."""

import itertools
import math
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import dirichlet_multinomial
from scipy.stats import multinomial as multinomial_law

from gatestats.process import restore
from gatestats.split import SplitDesign, log_dirichlet_factor
from gatestats.state import State
from gatestats.ticks import Measure, OneArmCounts, SplitCounts, Tick
from tests.gatestats.enumeration import compositions, multinomial


def run(design: SplitDesign, sequence: list[Tick]) -> State:
    state = design.start()
    for tick in sequence:
        state = design.update(state, tick)
    return state


@pytest.mark.parametrize("counts", [(480, 20), (100, 300), (0, 7)])
def test_a_factor_is_the_ratio_of_scipys_two_laws(counts: tuple[int, ...]) -> None:
    asked, prior = (0.9, 0.1), (90.0, 10.0)
    theirs = dirichlet_multinomial.logpmf(counts, prior, sum(counts)) - multinomial_law.logpmf(
        counts, sum(counts), asked
    )
    assert log_dirichlet_factor(counts, asked, prior) == pytest.approx(theirs, abs=1e-9)


def test_predictions_multiply_to_the_law_of_all_while_the_weight_stays() -> None:
    prior, ticks = (90.0, 10.0), [(480, 20), (400, 100), (0, 9)]
    product, past = 0.0, (0.0, 0.0)
    for tick in ticks:
        product += log_dirichlet_factor(tick, (0.9, 0.1), tuple(p + s for p, s in zip(prior, past, strict=True)))
        past = tuple(s + n for s, n in zip(past, tick, strict=True))  # type: ignore[assignment]
    assert product == pytest.approx(log_dirichlet_factor((880, 129), (0.9, 0.1), prior), abs=1e-9)


@pytest.mark.parametrize(
    ("design", "asked"),
    [
        (SplitDesign(), [(0.9, 0.1), (0.5, 0.5), (0.5, 0.5), (0.05, 0.95)]),
        (SplitDesign(concentration=2.0, planned_ticks=2), [(0.9, 0.1), (0.7, 0.3), (0.5, 0.5), (0.9, 0.1)]),
        (SplitDesign(3), [(0.8, 0.1, 0.1), (0.5, 0.25, 0.25), (0.1, 0.2, 0.7)]),
    ],
)
def test_expects_exactly_one_while_the_asked_weight_changes(
    design: SplitDesign, asked: list[tuple[float, ...]]
) -> None:
    sizes = (3, 2, 4, 1)
    outcomes = [list(compositions(size, design.variants)) for size, _ in zip(sizes, asked, strict=False)]
    expected = 0.0
    for path in itertools.product(*outcomes):
        chance = math.prod(multinomial(counts, shares) for counts, shares in zip(path, asked, strict=True))
        ticks: list[Tick] = [SplitCounts(counts, shares) for counts, shares in zip(path, asked, strict=True)]
        expected += chance * math.exp(design.log_e(run(design, ticks)))
    assert expected == pytest.approx(1.0, abs=1e-12)


def test_a_skew_is_found_and_remembered_when_the_weight_changes() -> None:
    design = SplitDesign()
    fair: list[Tick] = [SplitCounts((4500, 500), (0.9, 0.1))] * 200
    assert design.log_e(run(design, fair)) < 0
    skewed: list[Tick] = [SplitCounts((4560, 440), (0.9, 0.1))] * 30
    assert design.log_e(run(design, skewed)) > math.log(100)
    assert design.log_e(run(design, fair + skewed)) > math.log(100)
    # candidate's odds are 0.87 of those asked for, before and after
    after: Tick = SplitCounts((2674, 2326), (0.5, 0.5))
    warm, cold = run(design, [*skewed, after]), run(design, [after])
    before = design.log_e(run(design, skewed))
    assert design.log_e(warm) - before > design.log_e(cold) + 1.0


def test_the_estimate_compares_with_what_was_asked_for() -> None:
    design = SplitDesign()
    state = run(design, [SplitCounts((90, 10), (0.9, 0.1)), SplitCounts((160, 140), (0.5, 0.5))])
    estimate = design.estimate(state)
    assert estimate is not None
    assert estimate.measure is Measure.SPLIT_DIFFERENCE
    assert estimate.baseline == pytest.approx((10 + 150) / 400)
    assert estimate.candidate == pytest.approx(150 / 400)
    assert estimate.effect == pytest.approx(-10 / 400)
    assert (estimate.baseline_total, estimate.candidate_total) == (250, 150)
    assert design.log_e_non_inferior(state) is None
    assert design.interval(state, 0.95) is None


SPLITS = st.builds(
    lambda counts, asked: SplitCounts(counts, (1 - asked, asked)),
    st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)),
    st.sampled_from([0.01, 0.1, 0.5]),
)


@given(st.lists(SPLITS, max_size=6))
@settings(max_examples=60)
def test_replay_and_restore_give_the_same_bits(sequence: list[SplitCounts]) -> None:
    design = SplitDesign()
    live = design.start()
    for tick in sequence:
        live = restore(design, design.update(live, tick).to_json())
    assert live == run(design, list(sequence))
    assert math.isfinite(design.log_e(live))


def test_no_requests_are_no_data() -> None:
    design, empty = SplitDesign(), SplitCounts((0, 0), (0.5, 0.5))
    state = run(design, [empty])
    assert design.log_e(state) == pytest.approx(0.0, abs=1e-12)
    assert design.estimate(state) is None
    seen = run(design, [SplitCounts((70, 30), (0.8, 0.2))])
    assert design.update(seen, empty).sums == seen.sums


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: SplitDesign(1), "at least 2, got 1"),
        (lambda: SplitDesign(concentration=0.0), r"above 0, got 0\.0"),
        (lambda: SplitDesign(planned_ticks=-1), "at least 0"),
        (lambda: SplitDesign().interval(SplitDesign().start(), 1.0), "level"),
        (lambda: SplitDesign(3).update(SplitDesign(3).start(), SplitCounts((1, 1), (0.5, 0.5))), "3 variants, got 2"),
        (lambda: SplitDesign().update(SplitDesign().start(), OneArmCounts(0, 1)), "counts SplitCounts"),
        (lambda: SplitDesign().log_e_non_inferior(SplitDesign(3).start()), "start again"),
        (lambda: log_dirichlet_factor((1, 1), (0.5, 0.5), (0.0, 1.0)), "above 0 and finite"),
        (lambda: SplitCounts((1,), (1.0,)), "needs 2 variants"),
        (lambda: SplitCounts((1, 2), (0.5, 0.4)), r"add up to 1, got \(0\.5, 0\.4\)"),
        (lambda: SplitCounts((1, 2), (1.0, 0.0)), "between 0 and 1"),
        (lambda: SplitCounts((1, -2), (0.5, 0.5)), r"counts\[1\]"),
    ],
)
def test_refuses_what_makes_no_sense(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
