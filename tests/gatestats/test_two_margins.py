"""Margins taken together: in points and in per cent, and between a slice and everybody else."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatestats.process import Process, restore
from gatestats.projection import CornerNull, LinearNull, log_factor, nearest_null, project
from gatestats.rate_gap import GapDesign
from gatestats.state import State
from gatestats.ticks import GapCounts, Measure, OneArmCounts, Tick, TwoArmCounts, Worse
from gatestats.two_margins import Breach, TwoMarginsDesign
from tests.gatestats.enumeration import binomial, two_binomial_law, two_binomials

RATES = st.floats(1e-6, 1 - 1e-6)
PAST = TwoArmCounts(3, 20, 1, 5)


def run(design: Process, sequence: list[Tick]) -> State:
    state = design.start()
    for tick in sequence:
        state = design.update(state, tick)
    return state


def non_inferior(design: Process, state: State) -> float:
    evidence = design.log_e_non_inferior(state)
    assert evidence is not None
    return evidence


CORNERS = st.builds(CornerNull, st.floats(0.01, 0.9), st.floats(0.01, 10), st.booleans())


@given(RATES, RATES, st.integers(1, 4), st.integers(1, 4), CORNERS, st.data())
@settings(max_examples=400)
def test_one_block_expects_at_most_one_everywhere_in_a_corner(
    test: float, reference: float, ours: int, theirs: int, null: CornerNull, data: st.DataObject
) -> None:
    bet = (test, reference)
    nearest = nearest_null(bet, (ours, theirs), null)
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


def distance(bet: tuple[float, ...], rates: tuple[float, ...], sizes: tuple[int, ...]) -> float:
    return sum(
        size * (b * math.log(b / r) + (1 - b) * math.log((1 - b) / (1 - r)))
        for size, b, r in zip(sizes, bet, rates, strict=True)
    )


@pytest.mark.parametrize("beyond", [False, True])
@pytest.mark.parametrize("bet", [(0.6, 0.1), (0.31, 0.19), (0.4, 0.01), (0.05, 0.3), (0.1, 0.1), (0.9, 0.85)])
@pytest.mark.parametrize("sizes", [(50, 450), (450, 50)])
def test_a_projection_on_a_corner_is_nearer_than_any_other_rates_of_the_null(
    bet: tuple[float, float], sizes: tuple[int, int], *, beyond: bool
) -> None:
    null = CornerNull(0.1, 0.5, beyond)
    best = distance(bet, nearest_null(bet, sizes, null), sizes)
    grid = [float(rate) for rate in np.linspace(0.001, 0.999, 150)]
    for rates in [*itertools.product(grid, grid), null.vertex]:
        if null.excess(rates) <= 0:
            assert best <= distance(bet, rates, sizes) + 1e-9


def test_the_nearest_of_a_corner_is_a_side_or_the_vertex() -> None:
    null, sizes = CornerNull(0.1, 0.5), (100, 100)
    sides = null.sides
    assert nearest_null((0.6, 0.4), sizes, null) == project((0.6, 0.4), sizes, sides[0])
    assert nearest_null((0.1, 0.05), sizes, null) == project((0.1, 0.05), sizes, sides[1])
    assert nearest_null((0.36, 0.15), sizes, null) == null.vertex
    assert null.vertex == pytest.approx((0.3, 0.2))
    assert nearest_null((0.1, 0.2), sizes, null) == (0.1, 0.2)


def test_a_projection_that_rounding_keeps_outside_is_moved_in() -> None:
    bet, sizes, null = (0.99998673883914, 0.9851282045584512), (1929, 1), LinearNull((1.0, -1.0), 0.001)
    nearest = project(bet, sizes, null)
    assert null.excess(nearest) <= 0
    assert nearest[0] - nearest[1] == pytest.approx(0.001, abs=1e-12)


TWO = [
    TwoMarginsDesign(0.1, 0.5),
    TwoMarginsDesign(0.1, 0.5, worse=Worse.LOWER),
    TwoMarginsDesign(0.3, 0.2, planned_ticks=2),
    TwoMarginsDesign(0.1, 0.5, Breach.BOTH),
    TwoMarginsDesign(0.1, 0.2, Breach.BOTH, Worse.LOWER),
]
GRID = [*itertools.product(np.linspace(0, 1, 11), np.linspace(0, 1, 11)), (0.2, 0.3), (0.3, 0.2), (1.0, 0.9)]


def losses(design: TwoMarginsDesign, baseline: float, candidate: float) -> tuple[float, float]:
    """How far the difference, and the ratio, lie beyond their margins."""
    loss = candidate - baseline if design.worse is Worse.HIGHER else baseline - candidate
    return loss - design.points, loss - design.relative * baseline


def harmless(design: TwoMarginsDesign, baseline: float, candidate: float) -> bool:
    beyond = losses(design, baseline, candidate)
    return (max(beyond) if design.breach is Breach.EITHER else min(beyond)) <= 1e-15


def harmful(design: TwoMarginsDesign, baseline: float, candidate: float) -> bool:
    beyond = losses(design, baseline, candidate)
    return (max(beyond) if design.breach is Breach.EITHER else min(beyond)) >= -1e-15


@pytest.mark.parametrize("design", TWO)
def test_a_tick_after_some_past_expects_no_growth_anywhere_in_the_null(design: TwoMarginsDesign) -> None:
    before = run(design, [PAST])
    outcomes = two_binomials(5, 3)
    after = [design.update(before, tick) for tick in outcomes]
    rollback = np.exp([design.log_e(state) for state in after])
    promotion = np.exp([non_inferior(design, state) for state in after])
    for baseline, candidate in GRID:
        law = two_binomial_law(outcomes, float(baseline), float(candidate))
        if harmless(design, baseline, candidate):
            assert law @ rollback <= 1 + 1e-12
        if harmful(design, baseline, candidate):
            assert law @ promotion <= 1 + 1e-12


#: design; (baseline, candidate) rates of three ticks within the rollback null, then within the promotion null
DRIFTS: list[tuple[TwoMarginsDesign, list[tuple[float, float]], list[tuple[float, float]]]] = [
    (TWO[0], [(0.2, 0.3), (0.1, 0.15), (0.8, 0.9)], [(0.1, 0.2), (0.3, 0.4), (0.05, 0.9)]),
    (TWO[1], [(0.2, 0.1), (0.1, 0.05), (0.9, 0.8)], [(0.1, 0.05), (0.2, 0.1), (0.18, 0.01)]),
    (TWO[3], [(0.8, 0.9), (0.1, 0.2), (0.3, 0.4)], [(0.2, 0.3), (0.1, 0.2), (0.4, 0.6)]),
    (TWO[4], [(0.5, 0.4), (0.9, 0.8), (0.2, 0.1)], [(0.5, 0.4), (0.9, 0.7), (0.2, 0.1)]),
]


@pytest.mark.parametrize(("design", "within", "beyond"), DRIFTS)
def test_sequences_expect_at_most_one_while_rates_drift_within_the_null(
    design: TwoMarginsDesign, within: list[tuple[float, float]], beyond: list[tuple[float, float]]
) -> None:
    assert all(harmless(design, *rates) for rates in within)
    assert all(harmful(design, *rates) for rates in beyond)
    sizes = [(2, 1), (1, 2), (2, 2)]
    paths = list(itertools.product(*(two_binomials(*size) for size in sizes)))
    states = [run(design, list(path)) for path in paths]
    nulls: list[tuple[list[tuple[float, float]], Callable[[State], float]]]
    nulls = [(within, design.log_e), (beyond, lambda state: non_inferior(design, state))]
    for truths, evidence in nulls:
        expected = sum(
            math.exp(evidence(state))
            * math.prod(float(two_binomial_law([tick], *truth)[0]) for tick, truth in zip(path, truths, strict=True))
            for path, state in zip(paths, states, strict=True)
        )
        assert expected <= 1 + 1e-12


@pytest.mark.parametrize(
    ("design", "bad", "good"),
    [
        # 1 % of errors: half a point more is a lot, and less than a point
        (TwoMarginsDesign(0.01, 0.2), TwoArmCounts(45, 4500, 8, 500), TwoArmCounts(45, 4500, 5, 500)),
        (TwoMarginsDesign(0.01, 0.2, Breach.BOTH), TwoArmCounts(45, 4500, 15, 500), TwoArmCounts(45, 4500, 6, 500)),
        # 90 % found: three points less are little relative to it
        (
            TwoMarginsDesign(0.01, 0.2, Breach.EITHER, Worse.LOWER),
            TwoArmCounts(1620, 1800, 172, 200),
            TwoArmCounts(1620, 1800, 180, 200),
        ),
        (
            TwoMarginsDesign(0.01, 0.05, Breach.BOTH, Worse.LOWER),
            TwoArmCounts(1620, 1800, 160, 200),
            TwoArmCounts(1620, 1800, 177, 200),
        ),
    ],
)
def test_finds_the_bad_and_promotes_the_good(design: TwoMarginsDesign, bad: TwoArmCounts, good: TwoArmCounts) -> None:
    assert design.log_e(run(design, [bad] * 80)) > math.log(100)
    assert non_inferior(design, run(design, [bad] * 80)) < 0
    assert design.log_e(run(design, [good] * 80)) < 0
    assert non_inferior(design, run(design, [good] * 80)) > math.log(20)


COUNTS = st.builds(lambda n, m, x, y: TwoArmCounts(min(x, n), n, min(y, m), m), *(st.integers(0, 50) for _ in range(4)))


def merged(one: TwoArmCounts, two: TwoArmCounts) -> TwoArmCounts:
    return TwoArmCounts(
        one.baseline_events + two.baseline_events,
        one.baseline_total + two.baseline_total,
        one.candidate_events + two.candidate_events,
        one.candidate_total + two.candidate_total,
    )


@given(COUNTS, COUNTS)
@settings(max_examples=60)
def test_merged_ticks_are_a_fitting_tick(one: TwoArmCounts, two: TwoArmCounts) -> None:
    for design in TWO:
        state = run(design, [PAST, merged(one, two)])
        assert math.isfinite(design.log_e(state))
        assert math.isfinite(non_inferior(design, state))
    for gap in GAPS:
        state = run(gap, [PAST_GAP, GapCounts(merged(one, two), one)])
        assert math.isfinite(gap.log_e(state))
        assert math.isfinite(non_inferior(gap, state))


def test_what_exceeds_only_one_margin_is_worse_only_if_either_counts() -> None:
    ticks: list[Tick] = [TwoArmCounts(45, 4500, 9, 500)] * 100  # 0.8 points, 80 per cent
    either, both = TwoMarginsDesign(0.01, 0.2), TwoMarginsDesign(0.01, 0.2, Breach.BOTH)
    assert either.log_e(run(either, ticks)) > math.log(100)
    assert both.log_e(run(both, ticks)) < 0


def test_one_null_of_two_margins_costs_no_more_than_the_margin_that_binds() -> None:
    ticks: list[Tick] = [TwoArmCounts(45, 4500, 9, 500)] * 60
    design = TwoMarginsDesign(0.01, 0.2)
    alone = design.ratio()
    assert design.log_e(run(design, ticks)) == pytest.approx(alone.log_e(run(alone, ticks)), abs=1e-9)


def test_two_margins_are_shown_as_difference_and_ratio() -> None:
    design = TwoMarginsDesign(0.01, 0.2)
    state = run(design, [TwoArmCounts(45, 4500, 10, 500)] * 20)
    estimate, difference, ratio = design.estimate(state), design.interval(state, 0.9), design.ratio_interval(state, 0.9)
    assert estimate is not None
    assert difference is not None
    assert ratio is not None
    assert estimate.effect == pytest.approx(0.01)
    assert (difference.measure, ratio.measure) == (Measure.DIFFERENCE, Measure.RATIO)
    assert ratio.low is not None
    assert ratio.low < 2.0


def gaps(inside: tuple[int, int, int, int], outside: tuple[int, int, int, int]) -> GapCounts:
    return GapCounts(TwoArmCounts(*inside), TwoArmCounts(*outside))


PAST_GAP = gaps((2, 4, 1, 3), (3, 6, 1, 2))
GAPS = [GapDesign(0.1), GapDesign(0.1, Worse.HIGHER), GapDesign(0.0), GapDesign(0.0, Worse.HIGHER, 3)]


def wider(design: GapDesign, rates: tuple[float, ...]) -> float:
    """Return by how much the candidate's gap exceeds the baseline's; rates of (B, C) inside, then outside."""
    gap = (rates[1] - rates[0]) - (rates[3] - rates[2])
    return gap if design.worse is Worse.HIGHER else -gap


@pytest.mark.parametrize("design", GAPS)
def test_a_gap_expects_no_growth_anywhere_in_the_null(design: GapDesign) -> None:
    before = run(design, [PAST_GAP])
    parts = [two_binomials(2, 1), two_binomials(1, 2)]
    outcomes = [GapCounts(*pair) for pair in itertools.product(*parts)]
    after = [design.update(before, tick) for tick in outcomes]
    assert {state.informative for state in after} == {1}
    rollback = np.exp([design.log_e(state) for state in after])
    promotion = np.exp([non_inferior(design, state) for state in after])
    grid = [0.0, 0.1, 0.3, 0.5, 0.8, 0.9, 1.0]
    seen = [0, 0]
    for rates in itertools.product(grid, repeat=4):
        law = np.outer(two_binomial_law(parts[0], *rates[:2]), two_binomial_law(parts[1], *rates[2:])).ravel()
        if wider(design, rates) <= design.margin + 1e-15:
            seen[0] += 1
            assert law @ rollback <= 1 + 1e-12
        if wider(design, rates) >= design.margin - 1e-15:
            seen[1] += 1
            assert law @ promotion <= 1 + 1e-12
    assert min(seen) > 100


@pytest.mark.parametrize("design", GAPS[:2])
def test_gaps_expect_at_most_one_over_drifting_ticks(design: GapDesign) -> None:
    turn = 1 if design.worse is Worse.HIGHER else -1
    truths = [(0.5, 0.5 + 0.1 * turn, 0.2, 0.2), (0.3, 0.7, 0.3, 0.7 - 0.1 * turn)]
    sizes = [((1, 1), (1, 1)), ((1, 2), (1, 1))]
    parts = [[two_binomials(*size) for size in tick] for tick in sizes]
    expected = [0.0, 0.0]
    for path in itertools.product(*(itertools.product(*tick) for tick in parts)):
        chance = math.prod(
            float(two_binomial_law([inside], *truth[:2])[0] * two_binomial_law([outside], *truth[2:])[0])
            for (inside, outside), truth in zip(path, truths, strict=True)
        )
        state = run(design, [PAST_GAP, *(GapCounts(*pair) for pair in path)])
        expected[0] += chance * math.exp(design.log_e(state))
        expected[1] += chance * math.exp(non_inferior(design, state))
    assert max(expected) <= 1 + 1e-12


def test_a_wider_gap_is_found_and_an_equal_one_promoted() -> None:
    design = GapDesign(0.01)
    # true positives: outside 90 % in both; inside 90 % and 78 %
    wide = gaps((900, 1000, 780, 1000), (900, 1000, 900, 1000))
    same = gaps((900, 1000, 900, 1000), (900, 1000, 900, 1000))
    assert design.log_e(run(design, [wide] * 20)) > math.log(100)
    assert non_inferior(design, run(design, [wide] * 20)) < 0
    assert design.log_e(run(design, [same] * 40)) < 0
    assert non_inferior(design, run(design, [same] * 300)) > math.log(20)
    worse_everywhere = gaps((900, 1000, 780, 1000), (900, 1000, 780, 1000))
    assert design.log_e(run(design, [worse_everywhere] * 40)) < 0


@pytest.mark.parametrize("worse", list(Worse))
def test_the_gap_is_shown_in_the_worse_direction(worse: Worse) -> None:
    design = GapDesign(0.0, worse)
    tick = gaps((900, 1000, 780, 1000), (900, 1000, 880, 1000))
    state = run(design, [tick] * 30)
    estimate, interval = design.estimate(state), design.interval(state, 0.95)
    truth = 0.1 if worse is Worse.LOWER else -0.1
    assert estimate is not None
    assert interval is not None
    assert (estimate.measure, interval.measure) == (Measure.GAP_DIFFERENCE, Measure.GAP_DIFFERENCE)
    assert estimate.effect == pytest.approx(truth)
    assert (estimate.baseline, estimate.candidate) == (0.9, 0.78)
    assert interval.low is not None
    assert interval.high is not None
    assert interval.low < truth < interval.high
    assert interval.high - interval.low < 0.15


def case(design: Process, ticks: list[Tick], empty: Tick) -> tuple[Process, list[Tick], Tick]:
    return design, [ticks[0], empty, ticks[1]], empty


ALL = [
    *(case(design, [PAST, TwoArmCounts(1, 9, 3, 4)], TwoArmCounts(0, 0, 0, 0)) for design in TWO),
    *(case(design, [PAST_GAP, PAST_GAP], gaps((0, 0, 0, 0), (0, 0, 0, 0))) for design in GAPS),
]


@pytest.mark.parametrize(("design", "ticks", "empty"), ALL)
def test_replay_and_restore_give_the_same_bits(design: Process, ticks: list[Tick], empty: Tick) -> None:
    live = design.start()
    for tick in [*ticks, empty]:
        live = restore(design, design.update(live, tick).to_json())
    assert live == run(design, [*ticks, empty])
    assert (live.ticks, live.informative) == (4, 1)


@pytest.mark.parametrize(("design", "ticks", "empty"), ALL)
def test_nothing_seen_is_no_data(design: Process, ticks: list[Tick], empty: Tick) -> None:
    state = run(design, [empty])
    assert design.log_e(state) == pytest.approx(0.0, abs=1e-12)
    assert non_inferior(design, state) == pytest.approx(0.0, abs=1e-12)
    assert design.estimate(state) is None
    assert design.interval(state, 0.95) is None
    plain = run(design, ticks)
    more = design.update(plain, empty)
    assert non_inferior(design, more) == pytest.approx(non_inferior(design, plain), abs=1e-12)


def test_a_gap_with_an_empty_cell_has_no_effect_yet() -> None:
    design = GapDesign(0.1)
    estimate = design.estimate(run(design, [gaps((3, 9, 0, 0), (0, 0, 0, 0))]))
    assert estimate is not None
    assert (estimate.effect, estimate.baseline, estimate.candidate) == (None, 3 / 9, None)


def test_a_gap_counted_apart_does_not_decide_alone() -> None:
    design = GapDesign(0.01, Worse.HIGHER)
    before: list[Tick] = [gaps((10, 1000, 10, 1000), (10, 1000, 10, 1000))]
    bad = TwoArmCounts(10, 1000, 400, 1000)
    fine = TwoArmCounts(10, 1000, 10, 1000)
    late = TwoArmCounts(10, 1000, 400, 1000, apart=True)
    assert design.log_e(run(design, [*before, GapCounts(bad, fine)])) > math.log(100)
    assert design.log_e(run(design, [*before, GapCounts(late, fine)])) < math.log(20)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: CornerNull(0.0, 0.5), r"got 0\.0 and 0\.5"),
        (lambda: CornerNull(0.1, math.inf), "got 0.1 and inf"),
        (lambda: TwoMarginsDesign(0.0, 0.5), r"points must be a margin above 0, got 0\.0"),
        (lambda: TwoMarginsDesign(0.1, math.nan), "relative must be a margin above 0, got nan"),
        (lambda: TwoMarginsDesign(0.95, 0.5), r"0\.\.0\.9, got 0\.95"),
        (lambda: TwoMarginsDesign(0.1, 0.95, worse=Worse.LOWER), r"0\.\.0\.9, got 0\.95"),
        (lambda: TwoMarginsDesign(0.1, 0.5, planned_ticks=-1), "at least 0"),
        (lambda: TwoMarginsDesign(0.1, 0.5).update(TwoMarginsDesign(0.1, 0.4).start(), PAST), "start again"),
        (lambda: TwoMarginsDesign(0.1, 0.5).update(TwoMarginsDesign(0.1, 0.5).start(), OneArmCounts(0, 1)), "TwoArm"),
        (lambda: GapDesign(-0.1), r"0\.\.0\.9, got -0\.1"),
        (lambda: GapDesign(0.1, planned_ticks=-1), "at least 0"),
        (lambda: GapDesign(0.1).update(GapDesign(0.1).start(), PAST), "counts GapCounts, got TwoArmCounts"),
        (lambda: GapDesign(0.1).interval(run(GapDesign(0.1), [PAST_GAP] * 3), 1.0), "level"),
        (lambda: nearest_null((0.5, 0.5), (1, 1), LinearNull((1.0, 1.0), 0.0)), "above"),
    ],
)
def test_refuses_what_makes_no_sense(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
