"""Bounded values of pairs, and losses of pairs inside and outside a slice."""

import itertools
import math
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatestats.bounded_pairs import BoundedPairsDesign
from gatestats.paired_gap import PairedGapDesign
from gatestats.process import Process, restore
from gatestats.state import State
from gatestats.ticks import (
    Measure,
    OneArmCounts,
    PairedCounts,
    PairedGapCounts,
    PairedHistogram,
    Tick,
    Worse,
)
from tests.gatestats.enumeration import compositions, multinomial


def run(design: Process, sequence: list[Tick]) -> State:
    state = design.start()
    for tick in sequence:
        state = design.update(state, tick)
    return state


def non_inferior(design: Process, state: State) -> float:
    evidence = design.log_e_non_inferior(state)
    assert evidence is not None
    return evidence


EDGES = (-1.0, 0.0, 0.25, 1.0)
#: Values anywhere in the buckets, and shares with which their mean is the margin: the truth behind the counts.
TRUTHS = [
    ((-1.0, 0.0, 1.0), (0.3, 0.2, 0.5)),  # 0.2
    ((-0.1, 0.24, 0.9), (0.3, 0.5417, 0.1583)),
    ((-0.5, 0.2, 0.9), (0.0, 1.0, 0.0)),
    ((-1.0, 0.0, 0.25), (0.0, 0.2, 0.8)),
]


@pytest.mark.parametrize("worse", list(Worse))
@pytest.mark.parametrize("planned", [None, 2])
def test_bounded_values_expect_at_most_one_wherever_they_lie_in_their_buckets(
    worse: Worse, planned: int | None
) -> None:
    for margin in (-0.5, 0.0, 0.2, 0.7):
        design = BoundedPairsDesign(EDGES, margin, worse, planned)
        for values, shares in TRUTHS:
            mean = sum(value * share for value, share in zip(values, shares, strict=True))
            expected = [0.0, 0.0]
            for path in itertools.product(list(compositions(2, 3)), repeat=2):
                chance = math.prod(multinomial(counts, shares) for counts in path)
                state = run(design, [PairedHistogram(EDGES, counts) for counts in path])
                expected[0] += chance * math.exp(design.log_e(state))
                expected[1] += chance * math.exp(non_inferior(design, state))
            loss = mean - margin if worse is Worse.HIGHER else margin - mean
            if loss <= 1e-9:
                assert expected[0] <= 1 + 1e-12 + abs(loss)
            if loss >= -1e-9:
                assert expected[1] <= 1 + 1e-12 + abs(loss)


def test_values_at_the_edges_expect_exactly_what_betting_on_them_does() -> None:
    # all mass at lower edges with mean on the margin: the bets are fair, and drift within the null changes nothing
    design = BoundedPairsDesign(EDGES, 0.0)
    laws = [(0.2, 0.0, 0.8), (0.1, 0.5, 0.4)]
    expected = 0.0
    for path in itertools.product(list(compositions(2, 3)), repeat=2):
        chance = math.prod(multinomial(counts, law) for counts, law in zip(path, laws, strict=True))
        expected += chance * math.exp(design.log_e(run(design, [PairedHistogram(EDGES, c) for c in path])))
    assert expected == pytest.approx(1.0, abs=1e-12)


SCORES = tuple(step / 20 for step in range(21))


def scores(*counts: int) -> PairedHistogram:
    return PairedHistogram(SCORES, counts + (0,) * (20 - len(counts)))


def test_larger_score_differences_are_found_and_small_ones_promoted() -> None:
    design = BoundedPairsDesign(SCORES, 0.1)
    far, near = scores(10, 10, 20, 30, 30), scores(80, 15, 5)
    assert design.log_e(run(design, [far] * 30)) > math.log(100)
    assert non_inferior(design, run(design, [far] * 30)) < 0
    assert design.log_e(run(design, [near] * 30)) < 0
    assert non_inferior(design, run(design, [near] * 30)) > math.log(20)
    turned = BoundedPairsDesign(SCORES, 0.1, Worse.LOWER)
    assert turned.log_e(run(turned, [near] * 30)) > math.log(100)
    assert non_inferior(turned, run(turned, [far] * 30)) > math.log(20)


def test_the_mean_of_bounded_values_is_known_as_far_as_buckets_tell() -> None:
    design = BoundedPairsDesign(SCORES, 0.1)
    state = run(design, [scores(50, 30, 20)] * 50)
    estimate, interval = design.estimate(state), design.interval(state, 0.95)
    assert estimate is not None
    assert interval is not None
    assert (estimate.measure, interval.measure) == (Measure.PAIRED_MEAN, Measure.PAIRED_MEAN)
    assert (estimate.baseline, estimate.effect, estimate.candidate) == pytest.approx((0.035, 0.06, 0.085))
    assert interval.low is not None
    assert interval.high is not None
    assert 0.02 < interval.low < 0.035
    assert 0.085 < interval.high < 0.1
    few = design.interval(run(design, [scores(1)]), 0.95)
    assert few is not None
    assert few.low == 0.0
    assert (few.high or 0.0) > 0.9


def gap(inside: tuple[int, int, int], outside: tuple[int, int, int]) -> PairedGapCounts:
    return PairedGapCounts(PairedCounts(*inside), PairedCounts(*outside))


#: shares of (worse, better, equal) inside and outside, by the amount that inside loses more
PAIRS: list[tuple[tuple[float, float, float], tuple[float, float, float]]] = [
    ((0.1, 0.0, 0.9), (0.0, 0.0, 1.0)),
    ((0.55, 0.45, 0.0), (0.0, 0.0, 1.0)),
    ((0.7, 0.3, 0.0), (0.3, 0.0, 0.7)),
    ((0.0, 0.9, 0.1), (0.0, 1.0, 0.0)),
    ((1.0, 0.0, 0.0), (0.95, 0.05, 0.0)),
    ((0.2, 0.2, 0.6), (0.45, 0.45, 0.1)),
    ((0.0, 0.5, 0.5), (0.5, 0.0, 0.5)),
    ((0.9, 0.0, 0.1), (0.0, 0.4, 0.6)),
]
PASTS: list[Tick] = [gap((0, 0, 0), (0, 0, 0)), gap((9, 0, 9), (9, 0, 9)), gap((0, 9, 9), (0, 5, 9))]


@pytest.mark.parametrize("margin", [0.0, 0.1, 0.4])
@pytest.mark.parametrize("past", PASTS)
@pytest.mark.parametrize("sizes", [(1, 3), (3, 1), (2, 2)])
def test_a_paired_gap_expects_no_growth_whatever_both_means_are(
    margin: float, past: Tick, sizes: tuple[int, int]
) -> None:
    design = PairedGapDesign(margin)
    before = run(design, [past])
    outcomes = list(itertools.product(*(compositions(size, 3) for size in sizes)))
    ticks = [gap((inside[0], inside[1], sizes[0]), (outside[0], outside[1], sizes[1])) for inside, outside in outcomes]
    after = [design.update(before, tick) for tick in ticks]
    for inside_law, outside_law in PAIRS:
        law = [multinomial(inside, inside_law) * multinomial(outside, outside_law) for inside, outside in outcomes]
        loss = (inside_law[0] - inside_law[1]) - (outside_law[0] - outside_law[1])
        for evidence, sign in ((design.log_e, 1), (lambda state: non_inferior(design, state), -1)):
            if sign * (loss - margin) <= 1e-12:
                growth = [math.exp(evidence(state) - evidence(before)) for state in after]
                assert sum(p * g for p, g in zip(law, growth, strict=True)) <= 1 + 1e-12


def test_paired_gaps_expect_at_most_one_while_both_means_drift() -> None:
    design = PairedGapDesign(0.1)
    laws = [PAIRS[0], PAIRS[2], PAIRS[4]]
    sizes = [(1, 2), (2, 1), (1, 1)]
    outcomes = [list(itertools.product(*(compositions(size, 3) for size in tick))) for tick in sizes]
    expected = [0.0, 0.0]
    for path in itertools.product(*outcomes):
        chance = math.prod(
            multinomial(inside, law[0]) * multinomial(outside, law[1])
            for (inside, outside), law in zip(path, laws, strict=True)
        )
        ticks: list[Tick] = [
            gap((inside[0], inside[1], size[0]), (outside[0], outside[1], size[1]))
            for (inside, outside), size in zip(path, sizes, strict=True)
        ]
        state = run(design, ticks)
        expected[0] += chance * math.exp(design.log_e(state))
        # inside loses exactly the margin more in the first and third tick, more in the second
        expected[1] += chance * math.exp(non_inferior(design, state))
    assert max(expected) <= 1 + 1e-12


def test_a_slice_that_loses_more_is_found_and_an_equal_one_promoted() -> None:
    design = PairedGapDesign(0.02)
    bad = gap((20, 4, 100), (8, 4, 200))  # 16 points inside, 2 outside
    same = gap((4, 2, 100), (8, 4, 200))
    everywhere = gap((20, 4, 100), (40, 8, 200))
    assert design.log_e(run(design, [bad] * 30)) > math.log(100)
    assert non_inferior(design, run(design, [bad] * 30)) < 0
    assert design.log_e(run(design, [same] * 60)) < 0
    assert non_inferior(design, run(design, [same] * 60)) > math.log(20)
    assert design.log_e(run(design, [everywhere] * 60)) < 0


def test_the_paired_gap_is_shown_with_both_sides() -> None:
    design = PairedGapDesign()
    state = run(design, [gap((10, 4, 100), (8, 4, 200))] * 30)
    estimate, interval = design.estimate(state), design.interval(state, 0.95)
    assert estimate is not None
    assert interval is not None
    assert (estimate.baseline, estimate.candidate, estimate.effect) == pytest.approx((0.02, 0.06, 0.04))
    assert estimate.measure is interval.measure is Measure.GAP_DIFFERENCE
    assert interval.low is not None
    assert interval.high is not None
    assert interval.low < 0.04 < interval.high < 0.1
    lonely = run(design, [gap((1, 0, 5), (0, 0, 0))])
    alone = design.estimate(lonely)
    assert alone is not None
    assert (alone.effect, alone.candidate) == (None, 0.2)
    assert design.interval(lonely, 0.95) is None
    assert design.estimate(run(design, [gap((0, 0, 0), (1, 0, 5))])) is None


DESIGNS: list[tuple[Process, list[Tick], Tick]] = [
    (BoundedPairsDesign(SCORES, 0.1), [scores(5, 3, 1), scores(1, 0, 2)], scores()),
    (BoundedPairsDesign(SCORES, 0.1, Worse.LOWER, 4), [scores(5, 3, 1), scores(1, 0, 2)], scores()),
    (PairedGapDesign(0.01), [gap((3, 1, 9), (1, 1, 9)), gap((0, 2, 9), (0, 0, 7))], gap((0, 0, 0), (0, 0, 0))),
]


@pytest.mark.parametrize(("design", "ticks", "empty"), DESIGNS)
def test_replay_and_restore_give_the_same_bits(design: Process, ticks: list[Tick], empty: Tick) -> None:
    sequence = [ticks[0], empty, ticks[1]]
    live = design.start()
    for tick in sequence:
        live = restore(design, design.update(live, tick).to_json())
    assert live == run(design, sequence)
    assert (live.ticks, live.informative) == (3, 2)


@pytest.mark.parametrize(("design", "ticks", "empty"), DESIGNS)
def test_nothing_seen_is_no_data(design: Process, ticks: list[Tick], empty: Tick) -> None:
    state = run(design, [empty])
    assert design.log_e(state) == pytest.approx(0.0, abs=1e-12)
    assert non_inferior(design, state) == pytest.approx(0.0, abs=1e-12)
    assert design.estimate(state) is None
    assert design.interval(state, 0.95) is None
    seen = run(design, ticks)
    assert non_inferior(design, design.update(seen, empty)) == non_inferior(design, seen)


@given(st.permutations([scores(5, 3, 1), scores(1, 0, 2), scores(0, 0, 0, 4), scores(9)]))
@settings(max_examples=20)
def test_order_of_ticks_changes_nothing_but_the_late_change_part(order: list[PairedHistogram]) -> None:
    design = BoundedPairsDesign(SCORES, 0.1)
    sequence: list[Tick] = [*order]
    there, back = run(design, sequence), run(design, sequence[::-1])
    assert non_inferior(design, there) == pytest.approx(non_inferior(design, back), abs=1e-9)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: BoundedPairsDesign((0.0, 1.0), 1.0), r"between 0\.0 and 1\.0, got 1\.0"),
        (lambda: BoundedPairsDesign((0.0,), 0.5), "at least 2"),
        (lambda: BoundedPairsDesign((0.0, math.inf), 0.5), "finite"),
        (lambda: BoundedPairsDesign((0.0, 0.0), 0.0), "increase strictly"),
        (lambda: BoundedPairsDesign(EDGES, 0.1, planned_ticks=-1), "at least 0"),
        (lambda: BoundedPairsDesign(EDGES, 0.1).interval(BoundedPairsDesign(EDGES, 0.1).start(), 1.0), "level"),
        (lambda: BoundedPairsDesign(EDGES, 0.1).update(BoundedPairsDesign(EDGES, 0.1).start(), scores()), "edges"),
        (lambda: PairedHistogram(EDGES, (1, 2)), "between 4 edges, got 2"),
        (lambda: PairedHistogram(EDGES, (1, 2, -1)), r"counts\[2\]"),
        (lambda: PairedGapDesign(0.5), r"0\.\.0\.4, got 0\.5"),
        (lambda: PairedGapDesign(math.nan), "got nan"),
        (lambda: PairedGapDesign(planned_ticks=-1), "at least 0"),
        (lambda: PairedGapDesign().interval(PairedGapDesign().start(), 0.0), "level"),
        (lambda: PairedGapDesign().update(PairedGapDesign().start(), OneArmCounts(0, 1)), "PairedGapCounts"),
        (lambda: PairedGapDesign().update(PairedGapDesign(0.1).start(), gap((0, 0, 0), (0, 0, 0))), "start again"),
    ],
)
def test_refuses_what_makes_no_sense(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
