"""Margins relative to the baseline's rate, alone and together with one in points, on the same requests."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import bootstrap

from gatestats.paired import PairedDesign
from gatestats.paired_both import BothPairedDesign
from gatestats.paired_relative import RelativePairedDesign, log_fall, log_rise
from gatestats.process import Process, restore
from gatestats.state import State
from gatestats.ticks import Measure, OneArmCounts, PairedCounts, PairedOutcomes, Tick, Worse
from gatestats.watch import WatchDesign
from tests.gatestats.enumeration import compositions, multinomial

#: Shares of pairs that both, the baseline alone, the candidate alone, and neither got right.
Law = tuple[float, float, float, float]


def run(design: Process, sequence: list[Tick]) -> State:
    state = design.start()
    for tick in sequence:
        state = design.update(state, tick)
    return state


def non_inferior(design: Process, state: State) -> float:
    evidence = design.log_e_non_inferior(state)
    assert evidence is not None
    return evidence


def outcomes(counts: tuple[int, ...]) -> PairedOutcomes:
    return PairedOutcomes(counts[0], counts[1], counts[2], sum(counts))


def excess(law: Law, part: float, worse: Worse) -> float:
    """How far the candidate's rate lies beyond the margin."""
    both, lost, won, neither = law
    if worse is Worse.LOWER:
        return (1 - part) * (both + lost) - (both + won)
    return (neither + lost) - (1 + part) * (neither + won)


#: For each direction: laws with the candidate exactly at the margin of 20 %, within it, and beyond it.
AT: dict[Worse, list[Law]] = {
    Worse.LOWER: [(0.8, 0.2, 0.0, 0.0), (0.0, 0.5, 0.4, 0.1), (0.3, 0.2, 0.1, 0.4), (0.0, 0.0, 0.0, 1.0)],
    Worse.HIGHER: [(0.7, 0.05, 0.0, 0.25), (0.78, 0.12, 0.1, 0.0), (0.336, 0.294, 0.22, 0.15), (1.0, 0.0, 0.0, 0.0)],
}
WITHIN: list[Law] = [(0.9, 0.0, 0.1, 0.0), (0.2, 0.2, 0.3, 0.3)]
BEYOND: list[Law] = [(0.0, 0.9, 0.1, 0.0), (0.4, 0.3, 0.0, 0.3)]


def expected(design: Process, laws: tuple[Law, ...], evidence: Callable[[State], float]) -> float:
    """Mean of the evidence over every path of ticks of two pairs."""
    total = 0.0
    for path in itertools.product(list(compositions(2, 4)), repeat=len(laws)):
        chance = math.prod(multinomial(counts, law) for counts, law in zip(path, laws, strict=True))
        if chance:
            total += chance * math.exp(evidence(run(design, [outcomes(counts) for counts in path])))
    return total


@pytest.mark.parametrize("worse", list(Worse))
def test_the_laws_lie_where_they_are_said_to(worse: Worse) -> None:
    assert [excess(law, 0.2, worse) for law in AT[worse]] == pytest.approx([0.0] * 4, abs=1e-12)
    assert all(excess(law, 0.2, worse) < 0 for law in WITHIN)
    assert all(excess(law, 0.2, worse) > 0 for law in BEYOND)


@pytest.mark.parametrize("worse", list(Worse))
@pytest.mark.parametrize("planned", [None, 2])
def test_a_relative_margin_expects_at_most_one_whatever_the_rates_are(worse: Worse, planned: int | None) -> None:
    design = RelativePairedDesign(0.2, planned, worse)
    for first in (*AT[worse], *WITHIN):
        assert expected(design, (first, AT[worse][2], WITHIN[0]), design.log_e) <= 1 + 1e-12
    for first in (*AT[worse], *BEYOND):
        assert expected(design, (first, AT[worse][2], BEYOND[0]), design.log_e_non_inferior) <= 1 + 1e-12


@pytest.mark.parametrize("worse", list(Worse))
def test_at_the_margin_bets_are_fair_so_that_nothing_is_given_away(worse: Worse) -> None:
    design = RelativePairedDesign(0.2, worse=worse)
    for law in AT[worse]:
        assert expected(design, (law, AT[worse][1]), design.log_e) == pytest.approx(1.0, abs=1e-12)
        assert expected(design, (law, AT[worse][1]), design.log_e_non_inferior) == pytest.approx(1.0, abs=1e-12)


@given(st.tuples(*[st.integers(0, 9)] * 4))
def test_without_a_margin_it_is_the_paired_test(counts: tuple[int, ...]) -> None:
    tick = outcomes(counts)
    relative, paired = RelativePairedDesign(), PairedDesign()
    ours, theirs = run(relative, [tick]), run(paired, [tick.counts])
    assert relative.log_e(ours) == pytest.approx(paired.log_e(theirs), abs=1e-9)
    assert non_inferior(relative, ours) == pytest.approx(non_inferior(paired, theirs), abs=1e-9)


@given(st.tuples(*[st.integers(0, 9)] * 4), st.floats(0.2, 5))
def test_the_bets_are_those_on_each_pair(counts: tuple[int, ...], ratio: float) -> None:
    sizes = np.array([0.05, 0.1, 0.2, 0.35, 0.55, 0.75])
    # b and c of a pair that counts for both, for the baseline, for the candidate, for neither
    pairs = [(1, 1)] * counts[0] + [(1, 0)] * counts[1] + [(0, 1)] * counts[2] + [(0, 0)] * counts[3]
    fall = sum((np.log1p(sizes * (ratio * b - c)) for b, c in pairs), np.zeros(6))
    rise = sum((np.log1p(sizes * (c / ratio - b)) for b, c in pairs), np.zeros(6))
    counted = (counts[0], counts[1], counts[2])
    assert log_fall(counted, ratio) == pytest.approx(fall, abs=1e-9)
    assert log_rise(counted, ratio) == pytest.approx(rise, abs=1e-9)


@pytest.mark.parametrize(
    ("design", "bad", "good"),
    [
        (RelativePairedDesign(0.02), PairedOutcomes(150, 12, 2, 200), PairedOutcomes(160, 2, 2, 200)),
        (RelativePairedDesign(0.1, 30, Worse.HIGHER), PairedOutcomes(150, 12, 2, 200), PairedOutcomes(160, 2, 2, 200)),
        (BothPairedDesign(0.015, 0.02), PairedOutcomes(150, 12, 2, 200), PairedOutcomes(160, 2, 2, 200)),
    ],
)
def test_finds_the_bad_and_promotes_the_good(design: Process, bad: Tick, good: Tick) -> None:
    assert design.log_e(run(design, [bad] * 30)) > math.log(100)
    assert non_inferior(design, run(design, [bad] * 30)) < 0
    assert design.log_e(run(design, [good] * 60)) < 0
    assert non_inferior(design, run(design, [good] * 60)) > math.log(20)


def test_drift_of_the_rates_that_both_share_is_no_regression() -> None:
    # the rate of both falls from 95 % to 20 %; a comparison of two times would see a fall of three quarters
    sequence: list[Tick] = [PairedOutcomes(90 - 3 * tick, 4, 4, 100) for tick in range(25)]
    design = RelativePairedDesign(0.05)
    assert design.log_e(run(design, sequence)) < 0
    assert non_inferior(design, run(design, sequence)) > math.log(20)


BOTH = BothPairedDesign(0.1, 0.25)
#: Within the margin in points but not in per cent, and the other way round; beyond both; within both.
IN_POINTS: list[Law] = [(0.2, 0.1, 0.0, 0.7), (0.0, 0.3, 0.2, 0.5)]
IN_PARTS: list[Law] = [(0.6, 0.2, 0.0, 0.2), (0.4, 0.4, 0.2, 0.0)]
NEITHER: list[Law] = [(0.3, 0.4, 0.0, 0.3), (0.0, 0.6, 0.3, 0.1), (0.3, 0.1, 0.0, 0.6), (0.2, 0.2, 0.1, 0.5)]


def test_one_kept_margin_is_enough_not_to_be_rolled_back() -> None:
    for kept in (IN_POINTS, IN_PARTS):
        for laws in itertools.product(kept, repeat=2):
            assert expected(BOTH, laws, BOTH.log_e) <= 1 + 1e-12


def test_evidence_for_promotion_expects_at_most_one_beyond_both_margins() -> None:
    for laws in itertools.product(NEITHER, repeat=2):
        assert expected(BOTH, laws, BOTH.log_e_non_inferior) <= 1 + 1e-12


def test_both_margins_are_the_smaller_evidence_one_way_and_the_mean_the_other() -> None:
    sequence: list[Tick] = [PairedOutcomes(70, 9, 2, 90), PairedOutcomes(50, 4, 3, 60)]
    state = run(BOTH, sequence)
    paired, relative = BOTH.difference(), BOTH.ratio()
    theirs, ours = run(paired, [PairedCounts(9, 2, 90), PairedCounts(4, 3, 60)]), run(relative, sequence)
    assert BOTH.log_e(state) == min(paired.log_e(theirs), relative.log_e(ours))
    mean = (math.exp(non_inferior(paired, theirs)) + math.exp(non_inferior(relative, ours))) / 2
    assert non_inferior(BOTH, state) == pytest.approx(math.log(mean), abs=1e-12)
    assert BOTH.estimate(state) == paired.estimate(theirs)
    assert BOTH.interval(state, 0.9) == paired.interval(theirs, 0.9)
    assert BOTH.ratio_interval(state, 0.9) == relative.interval(ours, 0.9)


@pytest.mark.parametrize("worse", list(Worse))
def test_the_ratio_is_shown_with_bounds_a_little_wider_than_a_paired_bootstrap(worse: Worse) -> None:
    design, law = RelativePairedDesign(0.05, worse=worse), (0.7, 0.08, 0.02, 0.2)
    state = run(design, [PairedOutcomes(700, 80, 20, 1000)] * 4)
    estimate, interval = design.estimate(state), design.interval(state, 0.95)
    assert estimate is not None
    assert interval is not None
    assert estimate.measure is interval.measure is Measure.RATIO
    levels = (0.78, 0.72) if worse is Worse.LOWER else (0.22, 0.28)
    assert (estimate.baseline, estimate.candidate) == pytest.approx(levels)
    assert estimate.effect == pytest.approx(levels[1] / levels[0])
    assert estimate.candidate_total == 4000
    kinds = np.repeat(np.arange(4), [round(4000 * share) for share in law])
    right = np.isin(kinds, (0, 1)), np.isin(kinds, (0, 2))
    theirs, ours = right if worse is Worse.LOWER else (~right[0], ~right[1])
    bounds = bootstrap(
        (theirs, ours),
        lambda theirs, ours, axis: ours.sum(axis=axis) / theirs.sum(axis=axis),
        paired=True,
        vectorized=True,
        n_resamples=999,
        batch=100,
        rng=np.random.default_rng(1),
    ).confidence_interval
    assert interval.low is not None
    assert interval.high is not None
    assert interval.low < bounds.low < levels[1] / levels[0] < bounds.high < interval.high
    assert interval.high - interval.low < 2.2 * (bounds.high - bounds.low)


def test_bounds_that_the_data_do_not_give_are_not_given() -> None:
    design = RelativePairedDesign()
    few = design.interval(run(design, [PairedOutcomes(0, 0, 1, 1)]), 0.95)
    assert few is not None
    assert few.high is None
    assert (few.low or 0.0) < 0.01  # one answer right where the baseline's was not: "next to never" is unlikely
    won = run(design, [PairedOutcomes(0, 0, 40, 50)])
    estimate, interval = design.estimate(won), design.interval(won, 0.95)
    assert estimate is not None
    assert (estimate.effect, estimate.baseline, estimate.candidate) == (None, 0.0, 0.8)
    assert interval is not None
    assert interval.high is None
    assert (interval.low or 0.0) > 1
    wrong = run(design, [PairedOutcomes(0, 0, 0, 50)])
    assert design.interval(wrong, 0.95) is None
    assert design.estimate(wrong) is not None


@pytest.mark.parametrize("worse", list(Worse))
def test_the_confidence_sequence_misses_a_constant_ratio_no_more_often_than_said(worse: Worse) -> None:
    random, level, runs, misses = np.random.default_rng(3), 0.8, 100, 0
    design, law = RelativePairedDesign(worse=worse), (0.5, 0.15, 0.1, 0.25)
    truth = 0.6 / 0.65 if worse is Worse.LOWER else 0.4 / 0.35
    for counts in random.multinomial(50, law, (runs, 8)).tolist():
        state = design.start()
        for tick in counts:
            state = design.update(state, outcomes(tuple(tick)))
            interval = design.interval(state, level)
            if interval is not None and not (interval.low or 0.0) <= truth <= (interval.high or math.inf):
                misses += 1
                break
    assert 0 < misses <= (1 - level) * runs


@pytest.mark.parametrize("worse", list(Worse))
def test_at_the_exact_margin_false_decisions_at_any_look_are_as_rare_as_said(worse: Worse) -> None:
    random, alpha, runs = np.random.default_rng(4), 0.1, 300
    design, law = RelativePairedDesign(0.2, worse=worse), AT[worse][2]
    rolled_back = promoted = 0
    for counts in random.multinomial(20, law, (runs, 40)).tolist():
        state, largest = design.start(), [0.0, 0.0]
        for tick in counts:
            state = design.update(state, outcomes(tuple(tick)))
            largest = [max(largest[0], design.log_e(state)), max(largest[1], design.log_e_non_inferior(state))]
        rolled_back += largest[0] >= -math.log(alpha)
        promoted += largest[1] >= -math.log(alpha)
    assert 0 < rolled_back <= alpha * runs
    assert 0 < promoted <= alpha * runs


DESIGNS: list[Process] = [
    RelativePairedDesign(0.05),
    RelativePairedDesign(0.05, 4, Worse.HIGHER),
    BothPairedDesign(0.015, 0.05),
    BothPairedDesign(0.015, 0.05, 4, Worse.HIGHER),
]
TICKS: list[Tick] = [PairedOutcomes(7, 3, 1, 20), PairedOutcomes(0, 0, 0, 0), PairedOutcomes(2, 0, 2, 9)]


@pytest.mark.parametrize("design", DESIGNS)
def test_replay_and_restore_give_the_same_bits(design: Process) -> None:
    live = design.start()
    for tick in TICKS:
        live = restore(design, design.update(live, tick).to_json())
    assert live == run(design, TICKS)
    assert (live.ticks, live.informative) == (3, 2)


@pytest.mark.parametrize("design", DESIGNS)
def test_nothing_seen_is_no_data(design: Process) -> None:
    state = run(design, [TICKS[1]])
    assert design.log_e(state) == pytest.approx(0.0, abs=1e-12)
    assert non_inferior(design, state) == pytest.approx(0.0, abs=1e-12)
    assert design.estimate(state) is None
    assert design.interval(state, 0.95) is None
    seen = run(design, TICKS)
    assert non_inferior(design, design.update(seen, TICKS[1])) == non_inferior(design, seen)


@given(st.permutations(TICKS), st.sampled_from(DESIGNS))
@settings(max_examples=30)
def test_order_of_ticks_changes_nothing_but_the_late_change_part(order: list[Tick], design: Process) -> None:
    there, back = run(design, order), run(design, TICKS)
    assert non_inferior(design, there) == pytest.approx(non_inferior(design, back), abs=1e-9)


def test_a_promoted_variant_can_be_watched() -> None:
    watch = WatchDesign(RelativePairedDesign(0.02))
    state = watch.start()
    for _ in range(30):
        state = watch.update(state, PairedOutcomes(150, 12, 2, 200))
    assert watch.alarm(state) is not None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: RelativePairedDesign(0.95), r"0\.\.0\.9 of the baseline's rate, got 0\.95"),
        (lambda: RelativePairedDesign(-0.1, worse=Worse.HIGHER), r"0\.\.10\.0 of the baseline's rate, got -0\.1"),
        (lambda: RelativePairedDesign(math.nan), "got nan"),
        (lambda: RelativePairedDesign(planned_ticks=-1), "at least 0"),
        (lambda: RelativePairedDesign().interval(RelativePairedDesign().start(), 1.0), "level"),
        (
            lambda: RelativePairedDesign().update(RelativePairedDesign().start(), PairedCounts(0, 0, 1)),
            "PairedOutcomes",
        ),
        (lambda: RelativePairedDesign().update(RelativePairedDesign(0.1).start(), TICKS[0]), "start again"),
        (lambda: BothPairedDesign(1.0, 0.1), r"0\.\.0\.9, got 1\.0"),
        (lambda: BothPairedDesign(0.1, 1.0), r"got 1\.0"),
        (lambda: BothPairedDesign(0.1, 0.1).interval(BOTH.start(), 0.0), "level"),
        (lambda: BOTH.update(BOTH.start(), OneArmCounts(0, 1)), "PairedOutcomes"),
        (lambda: BOTH.update(BothPairedDesign(0.1, 0.2).start(), TICKS[0]), "start again"),
        (lambda: WatchDesign(BOTH), "bets of its own"),
        (lambda: PairedOutcomes(18, 2, 1, 20), r"both must be a whole number in 0\.\.17, got 18"),
        (lambda: PairedOutcomes(0, 2, 1, 2), r"better must be a whole number in 0\.\.0, got 1"),
    ],
)
def test_refuses_what_makes_no_sense(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
