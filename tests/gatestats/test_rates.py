import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatestats.non_inferiority import ErrorRateDesign
from gatestats.process import Process, restore
from gatestats.projection import LinearNull, log_factor, project
from gatestats.proportion_bounds import difference_bounds, rate_bounds, ratio_bounds
from gatestats.rate_bets import Bet, place
from gatestats.rates import AbsoluteRateDesign, RelativeRateDesign
from gatestats.state import State
from gatestats.ticks import Measure, OneArmCounts, TwoArmCounts, Worse
from tests.gatestats.enumeration import binomial, two_binomial_law, two_binomials

RATES = st.floats(1e-6, 1 - 1e-6)
Design = AbsoluteRateDesign | RelativeRateDesign | ErrorRateDesign


def run(design: Process, sequence: list[TwoArmCounts]) -> State:
    state = design.start()
    for tick in sequence:
        state = design.update(state, tick)
    return state


def non_inferior(design: Process, state: State) -> float:
    evidence = design.log_e_non_inferior(state)
    assert evidence is not None
    return evidence


def test_agrees_with_vector_17() -> None:
    nearest = project((0.02, 0.01), (50, 450), LinearNull((1.0, -1.0), 0.005))
    assert nearest == pytest.approx((0.0153501318714, 0.0103501318714), abs=1e-9)
    assert log_factor((0.02, 0.01), nearest, [(3, 50), (5, 450)]) == pytest.approx(0.5566876349943, abs=1e-9)


def test_agrees_with_vector_19() -> None:
    nearest = project((0.12, 0.10), (100, 100), LinearNull((1.0, -1.05), 0.0))
    assert nearest == pytest.approx((0.1127055257434, 0.1073385958960), abs=1e-9)


def test_a_bet_inside_the_null_is_its_own_projection() -> None:
    assert project((0.01, 0.02), (5, 5), LinearNull((1.0, -1.0), 0.0)) == (0.01, 0.02)


NULLS = st.one_of(
    st.builds(lambda d: LinearNull((1.0, -1.0), d), st.floats(0, 0.9)),
    st.builds(lambda d: LinearNull((-1.0, 1.0), -d), st.floats(0, 0.9)),
    st.builds(lambda r: LinearNull((1.0, -1.0 - r), 0.0), st.floats(0, 10)),
    st.builds(lambda r: LinearNull((-1.0, 1.0 + r), 0.0), st.floats(0, 10)),
)


@given(RATES, RATES, st.integers(1, 4), st.integers(1, 4), NULLS, st.data())
@settings(max_examples=400)
def test_one_block_expects_at_most_one_everywhere_in_the_null(
    test: float, reference: float, ours: int, theirs: int, null: LinearNull, data: st.DataObject
) -> None:
    bet = (test, reference)
    nearest = project(bet, (ours, theirs), null)
    assert null.excess(nearest) <= 1e-12
    truth = data.draw(st.tuples(st.floats(0, 1), st.floats(0, 1)).filter(lambda rates: null.excess(rates) <= 0))
    for rates in (truth, nearest):
        expected = sum(
            binomial(mine, ours, rates[0])
            * binomial(other, theirs, rates[1])
            * math.exp(log_factor(bet, nearest, [(mine, ours), (other, theirs)]))
            for mine, other in itertools.product(range(ours + 1), range(theirs + 1))
        )
        assert expected <= 1 + 1e-12


@given(RATES, RATES, st.floats(0.01, 0.3))
@settings(max_examples=60)
def test_a_projection_is_nearer_than_any_other_rates_on_the_border(test: float, reference: float, gap: float) -> None:
    null = LinearNull((1.0, -1.0), gap)
    bet, sizes = (test, reference), (70, 400)
    if null.excess(bet) <= 0:
        return

    def distance(rates: tuple[float, float]) -> float:
        return sum(
            size * (b * math.log(b / r) + (1 - b) * math.log((1 - b) / (1 - r)))
            for size, b, r in zip(sizes, bet, rates, strict=True)
        )

    best = distance(project(bet, sizes, null))  # type: ignore[arg-type]
    for base in np.linspace(1e-9, 1 - gap - 1e-9, 200):
        assert best <= distance((float(base) + gap, float(base))) + 1e-9


@pytest.mark.parametrize("bet", [Bet(0.1), Bet(-0.1), Bet(factor=12.0), Bet(factor=0.05), Bet(0.9), Bet(-0.9)])
@pytest.mark.parametrize("pooled", [1e-6, 0.01, 0.5, 0.99, 1 - 1e-6])
@pytest.mark.parametrize("share", [0.01, 0.5, 0.99])
def test_bets_are_always_rates(bet: Bet, pooled: float, share: float) -> None:
    assert all(0 < rate < 1 for rate in place(pooled, share, bet))


def test_a_bet_shows_its_effect_and_pools_to_the_past_rate() -> None:
    test, reference = place(0.02, 0.1, Bet(0.01))
    assert test - reference == pytest.approx(0.01)
    assert 0.1 * test + 0.9 * reference == pytest.approx(0.02)
    test, reference = place(0.02, 0.1, Bet(factor=1.5))
    assert test / reference == pytest.approx(1.5)
    assert 0.1 * test + 0.9 * reference == pytest.approx(0.02)


PAST = TwoArmCounts(3, 20, 1, 5)
#: design; true (baseline, candidate) rates on or inside the border of the rollback null; then of the promotion null
CASES: list[tuple[Design, list[tuple[float, float]], list[tuple[float, float]]]] = [
    (
        AbsoluteRateDesign(0.1, mde=0.4),
        [(0.0, 0.1), (0.2, 0.3), (0.9, 1.0), (0.5, 0.1)],
        [(0.0, 0.1), (0.2, 0.3), (0.9, 1.0), (0.1, 0.6)],
    ),
    (
        AbsoluteRateDesign(0.1, Worse.LOWER),
        [(0.1, 0.0), (0.3, 0.2), (1.0, 0.9), (0.3, 0.9)],
        [(0.1, 0.0), (0.3, 0.2), (1.0, 0.9), (0.6, 0.1)],
    ),
    (AbsoluteRateDesign(0.0), [(0.1, 0.1), (0.5, 0.5), (0.9, 0.2)], [(0.1, 0.1), (0.5, 0.5), (0.2, 0.9)]),
    (RelativeRateDesign(0.5), [(0.1, 0.15), (0.4, 0.6), (0.6, 0.1)], [(0.1, 0.15), (0.4, 0.6), (0.1, 0.8)]),
    (RelativeRateDesign(0.0), [(0.1, 0.1), (0.6, 0.6), (0.6, 0.1)], [(0.1, 0.1), (0.6, 0.6), (0.1, 0.8)]),
    (
        RelativeRateDesign(0.2, Worse.LOWER, mde=0.5),
        [(0.5, 0.4), (0.1, 0.08), (0.1, 0.8)],
        [(0.5, 0.4), (0.1, 0.08), (0.8, 0.1)],
    ),
    # odds ratio 2 or 0.1 points: in the promotion null both must be exceeded
    (
        ErrorRateDesign(2.0, allowance=0.1),
        [(0.1, 2 / 11), (0.5, 2 / 3), (0.6, 0.1)],
        [(0.5, 2 / 3), (0.1, 0.2), (0.0, 0.1), (0.1, 0.9)],
    ),
]


@pytest.mark.parametrize(("design", "harmless", "harmful"), CASES)
def test_a_tick_after_some_past_expects_no_growth_under_any_null(
    design: Design, harmless: list[tuple[float, float]], harmful: list[tuple[float, float]]
) -> None:
    before = run(design, [PAST])
    outcomes = two_binomials(5, 3)
    after = [design.update(before, tick) for tick in outcomes]
    rollback = np.exp([design.log_e(state) for state in after])
    promotion = np.exp([non_inferior(design, state) for state in after])
    for truth in harmless:
        law = two_binomial_law(outcomes, *truth)
        assert law @ rollback <= math.exp(design.log_e(before)) + 1e-12
    for truth in harmful:
        law = two_binomial_law(outcomes, *truth)
        assert law @ promotion <= math.exp(non_inferior(design, before)) + 1e-12


@pytest.mark.parametrize(("design", "harmless", "harmful"), CASES)
def test_sequences_expect_at_most_one_while_rates_drift_within_the_null(
    design: Design, harmless: list[tuple[float, float]], harmful: list[tuple[float, float]]
) -> None:
    sizes = [(2, 1), (1, 2), (2, 2)]
    for truths, evidence in ((harmless, design.log_e), (harmful, lambda state: non_inferior(design, state))):
        expected = 0.0
        for path in itertools.product(*(two_binomials(*size) for size in sizes)):
            chance = math.prod(
                float(two_binomial_law([tick], *truth)[0])
                for tick, truth in zip(path, itertools.cycle(truths), strict=False)
            )
            expected += chance * math.exp(evidence(run(design, list(path))))
        assert expected <= 1 + 1e-12


@pytest.mark.parametrize("design", [case[0] for case in CASES])
def test_nothing_is_bet_without_a_past_or_without_both_variants(design: Design) -> None:
    for tick in (TwoArmCounts(0, 0, 0, 0), TwoArmCounts(5, 10, 0, 0), TwoArmCounts(0, 0, 3, 10)):
        state = run(design, [PAST, tick]) if not isinstance(design, ErrorRateDesign) else run(design, [tick])
        assert design.log_e(state) == pytest.approx(0.0, abs=1e-12)
        assert non_inferior(design, state) == pytest.approx(0.0, abs=1e-12)
    assert design.estimate(design.start()) is None
    assert design.interval(design.start(), 0.95) is None


@pytest.mark.parametrize("design", [case[0] for case in CASES])
@given(data=st.data())
@settings(max_examples=20)
def test_replay_and_restore_give_the_same_bits(design: Design, data: st.DataObject) -> None:
    sequence = data.draw(st.lists(st.sampled_from(two_binomials(4, 3)), max_size=6))
    live = design.start()
    for tick in sequence:
        live = restore(design, design.update(live, tick).to_json())
    assert live == run(design, sequence)
    assert math.isfinite(design.log_e(live))


def test_rollback_evidence_decays_while_nothing_happens() -> None:
    design = AbsoluteRateDesign(0.01)
    evidence = [design.log_e(run(design, [TwoArmCounts(0, 450, 0, 50)] * ticks)) for ticks in (1, 2, 10, 60)]
    assert evidence == sorted(evidence, reverse=True)
    assert evidence[-1] > math.log(1e-3)


def test_a_service_without_errors_is_promoted_through_the_allowance() -> None:
    design = ErrorRateDesign(margin=1.25, allowance=0.005)
    state = run(design, [TwoArmCounts(0, 450, 0, 50)] * 25)
    assert non_inferior(design, state) > math.log(20)
    assert design.odds_ratio().log_e_non_inferior(state.parts[0]) == 0.0
    assert design.log_e(state) == pytest.approx(0.0, abs=1e-12)
    interval = design.difference_interval(state, 0.95)
    assert interval is not None
    assert interval.high is not None
    assert interval.high < 0.01


def test_a_service_with_few_errors_is_not_promoted_when_they_multiply() -> None:
    design = ErrorRateDesign(margin=1.25, allowance=0.005)
    state = run(design, [TwoArmCounts(1, 450, 1, 50)] * 60)
    assert design.log_e(state) > math.log(100)
    assert non_inferior(design, state) < math.log(20)


@pytest.mark.parametrize(
    ("design", "measure", "effect"),
    [
        (AbsoluteRateDesign(0.01), Measure.DIFFERENCE, 0.1),
        (RelativeRateDesign(0.1), Measure.RATIO, 0.35 / 0.21),
    ],
)
def test_effects_are_stratified_so_that_drift_cancels(design: Design, measure: Measure, effect: float) -> None:
    # +10 points in each stratum, while rate and weight move together: raw rates would say +42 points
    strata = [TwoArmCounts(100, 1000, 20, 100), TwoArmCounts(80, 100, 900, 1000)]
    state = run(design, strata * 3)
    estimate, interval = design.estimate(state), design.interval(state, 0.95)
    assert estimate is not None
    assert interval is not None
    assert estimate.measure is interval.measure is measure
    assert estimate.candidate is not None
    assert estimate.baseline is not None
    assert estimate.candidate - estimate.baseline > 0.4
    assert estimate.effect is not None
    if measure is Measure.DIFFERENCE:
        assert estimate.effect == pytest.approx(effect)
    else:
        assert 1.0 < estimate.effect < 2.0


@pytest.mark.parametrize(
    ("design", "bad", "good"),
    [
        (AbsoluteRateDesign(0.01), TwoArmCounts(45, 4500, 20, 500), TwoArmCounts(45, 4500, 5, 500)),
        (AbsoluteRateDesign(0.01, Worse.LOWER), TwoArmCounts(4455, 4500, 480, 500), TwoArmCounts(4455, 4500, 495, 500)),
        (RelativeRateDesign(0.2), TwoArmCounts(450, 4500, 75, 500), TwoArmCounts(450, 4500, 50, 500)),
        (RelativeRateDesign(0.1, Worse.LOWER), TwoArmCounts(900, 1800, 160, 400), TwoArmCounts(900, 1800, 200, 400)),
    ],
)
def test_finds_the_bad_and_promotes_the_good(design: Design, bad: TwoArmCounts, good: TwoArmCounts) -> None:
    assert design.log_e(run(design, [bad] * 60)) > math.log(100)
    assert non_inferior(design, run(design, [bad] * 60)) < 0
    assert design.log_e(run(design, [good] * 60)) < 0
    assert non_inferior(design, run(design, [good] * 60)) > math.log(20)


def test_bounds_hold_exactly_the_rates_that_the_mixture_does_not_reject() -> None:
    events, total, level = 7, 60, 0.9
    log_beta = (
        math.lgamma(events + 0.5) + math.lgamma(total - events + 0.5) - math.lgamma(total + 1) - math.log(math.pi)
    )
    low, high = rate_bounds(events, total, level)
    for rate in np.linspace(0.001, 0.999, 999):
        kept = log_beta - events * math.log(rate) - (total - events) * math.log(1 - rate) < math.log(10)
        assert kept == (low < rate < high)


def test_bounds_without_data_or_at_the_ends_say_so() -> None:
    assert rate_bounds(0, 0, 0.95) == (0.0, 1.0)
    assert rate_bounds(0, 100, 0.95)[0] == 0.0
    assert rate_bounds(100, 100, 0.95)[1] == 1.0
    assert difference_bounds((0, 0), (0, 0), 0.95) == (-1.0, 1.0)
    assert ratio_bounds((0, 10), (5, 10), 0.95)[1] is None
    low, high = ratio_bounds((100, 1000), (200, 1000), 0.95)
    assert high is not None
    assert low < 2 < high


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: AbsoluteRateDesign(-0.1), r"0\.\.0\.9, got -0\.1"),
        (lambda: AbsoluteRateDesign(math.nan), "got nan"),
        (lambda: AbsoluteRateDesign(0.1, mde=0.05), "above the margin"),
        (lambda: AbsoluteRateDesign(0.1, planned_ticks=-1), "at least 0"),
        (lambda: RelativeRateDesign(0.95, Worse.LOWER), r"0\.\.0\.9, got 0\.95"),
        (lambda: RelativeRateDesign(0.5, Worse.LOWER, mde=1.0), r"below 1\.0, got 1\.0"),
        (lambda: RelativeRateDesign(11.0), r"0\.\.10\.0, got 11"),
        (lambda: ErrorRateDesign(allowance=0.0), "allowance"),
        (lambda: ErrorRateDesign(margin=0.0), "odds ratio"),
        (lambda: LinearNull((1.0, 1.0), 0.0), r"above 0\.0, got 0\.0"),
        (lambda: LinearNull((1.0, -1.0), math.nan), "got nan"),
        (lambda: rate_bounds(3, 2, 0.9), "events"),
        (lambda: rate_bounds(1, 2, 0.0), "level"),
        (lambda: AbsoluteRateDesign(0.1).update(AbsoluteRateDesign(0.2).start(), PAST), "start again"),
        (lambda: ErrorRateDesign().update(ErrorRateDesign().start(), OneArmCounts(0, 1)), "TwoArmCounts"),
    ],
)
def test_refuses_what_makes_no_sense(call: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()  # type: ignore[operator]
