"""Precision of both variants on the same requests: whatever the baseline's is, and however they overlap."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import bootstrap, norm

from gatestats.arrays import FloatArray
from gatestats.paired_precision import PairedPrecisionDesign, gains, log_bets
from gatestats.process import Process, restore
from gatestats.rates import AbsoluteRateDesign
from gatestats.state import State
from gatestats.ticks import Measure, OneArmCounts, PairedOutcomes, PrecisionCounts, Tick, TwoArmCounts, Worse
from gatestats.two_margins import Breach
from gatestats.watch import WatchDesign
from tests.gatestats.enumeration import compositions, multinomial

#: Shares of requests: decided positively by both (label positive, negative), by the baseline alone, by the candidate
#: alone, by neither.
Law = tuple[float, ...]
ENDS = np.linspace(0, 1, 21)
SHARES = st.floats(0, 1)


def law_of(precisions: tuple[float, float], selected: float, more: float, unlike: float) -> Law | None:
    """Return a law with these precisions; None if there is none.

    The baseline selects that share of requests, the candidate ``more`` times as many; ``unlike`` is the share of the
    baseline's that the candidate does not select, whose labels are as the baseline's others.
    """
    alone = unlike * selected
    both, new = selected - alone, more * selected - selected + alone
    if not (both > 0 and new > 0 and selected + new <= 1):
        return None
    true, lost = both * precisions[0], alone * precisions[0]
    gained = more * selected * precisions[1] - true
    law = (true, both - true, lost, alone - lost, gained, new - gained, 1 - selected - new)
    return law if min(law) >= 0 else None


def known(precisions: tuple[float, float], selected: float, more: float, unlike: float) -> Law:
    law = law_of(precisions, selected, more, unlike)
    assert law is not None
    return law


def tick_of(counts: tuple[int, ...]) -> PrecisionCounts:
    true, false, lost, dropped, found, added = counts[:6]
    positives = PairedOutcomes(true, lost, found, true + lost + found)
    return PrecisionCounts(positives, PairedOutcomes(0, added, dropped, false + added + dropped))


def run(design: Process, sequence: list[Tick]) -> State:
    state = design.start()
    for tick in sequence:
        state = design.update(state, tick)
    return state


def non_inferior(design: Process, state: State) -> float:
    evidence = design.log_e_non_inferior(state)
    assert evidence is not None
    return evidence


def direct(counts: tuple[int, ...], truth: tuple[float, float], proportion: float, sizes: FloatArray) -> FloatArray:
    """Ln of the product of the bets over single requests, at one precision of the baseline and one limit."""
    kinds = [(1, 1, 1), (1, 1, 0), (1, 0, 1), (1, 0, 0), (0, 1, 1), (0, 1, 0)]
    total = np.zeros(sizes.size)
    for count, (theirs, ours, label) in zip(counts, kinds, strict=True):
        gain = math.copysign(1, proportion) * theirs * (label - truth[0]) - proportion * ours * (label - truth[1])
        total += count * np.log1p(sizes * gain)
    return total


@given(
    st.tuples(*[st.integers(0, 9)] * 6),
    SHARES,
    st.floats(0, 0.9),
    st.floats(0, 0.9),
    st.sampled_from([0.2, 0.7, 1.0, 1.3, 5.0]),
    st.sampled_from([1, -1]),
)
@settings(max_examples=150)
def test_a_bet_in_a_cell_makes_no_more_than_at_any_precision_in_it(
    counts: tuple[int, ...], precision: float, margin: float, part: float, proportion: float, sign: int
) -> None:
    cell = min(int(precision * 20), 19)
    for least in (ENDS - margin, ENDS * (1 - part)):
        each = gains(ENDS, least)
        worst = (sign * each.baseline - sign * proportion * each.candidate)[cell].min()
        sizes = np.array([0.1, 0.3, 0.7]) / -worst
        limit = float(np.interp(precision, ENDS, least))
        found = log_bets(counts, each, sign * proportion)[cell]
        assert (found <= direct(counts, (precision, limit), sign * proportion, sizes) + 1e-9).all()


LAWS = st.tuples(SHARES, SHARES, st.floats(0.5, 2), SHARES)
OUTCOMES = list(compositions(2, 7))


@given(LAWS, st.sampled_from([0.0, 0.015, 0.3]), st.sampled_from([0.2, 0.8, 1.0, 1.7]), st.sampled_from([0.0, 0.1]))
@settings(max_examples=150)
def test_a_bet_expects_at_most_one_in_the_cell_of_the_truth(
    drawn: tuple[float, float, float, float], margin: float, proportion: float, beyond: float
) -> None:
    precision, selected, more, unlike = drawn
    cell, each = min(int(precision * 20), 19), gains(ENDS, ENDS - margin)
    for sign in (1, -1):
        # exactly at the margin, or within it (beyond it, for promotion)
        law = law_of((precision, precision - margin + sign * beyond), selected, more, unlike)
        if law is None:
            continue
        grown = [np.exp(log_bets(counts[:6], each, sign * proportion)[cell]) for counts in OUTCOMES]
        chances = [multinomial(counts, law) for counts in OUTCOMES]
        assert (np.array(chances) @ np.array(grown) <= 1 + 1e-12).all()


#: at margins of 10 points and of 20 % of the baseline's precision, which meet at a precision of one half
MARGINS = {
    "points": PairedPrecisionDesign(0.1),
    "points, with a plan": PairedPrecisionDesign(0.1, 2),
    "part": PairedPrecisionDesign(None, part=0.2),
    "either": PairedPrecisionDesign(0.1, part=0.2),
    "both": PairedPrecisionDesign(0.1, part=0.2, breach=Breach.BOTH),
    "either, bent in a cell": PairedPrecisionDesign(0.1, part=0.19),
}


def limit_of(design: PairedPrecisionDesign, precision: float) -> float:
    limits = [] if design.margin is None else [precision - design.margin]
    limits += [] if design.part is None else [precision * (1 - design.part)]
    return max(limits) if design.breach is Breach.EITHER else min(limits)


@pytest.mark.parametrize("name", MARGINS)
@pytest.mark.parametrize("precision", [0.33, 0.52, 0.8])
def test_whole_paths_expect_at_most_one_at_the_margin_whatever_share_is_selected(name: str, precision: float) -> None:
    design = MARGINS[name]
    # what is selected, and how far the variants overlap, drifts; the baseline's precision stays in its cell
    shapes = [(0.5, 1.2, 0.5), (0.4, 1.4, 0.3)]
    laws = []
    for drift, shape in zip((0.0, 0.01), shapes, strict=True):
        law = law_of((precision + drift, limit_of(design, precision + drift)), *shape)
        assert law is not None
        laws.append(law)
    expected, total = [0.0, 0.0], 0.0
    paths = itertools.product(list(compositions(2, 7)), list(compositions(1, 7)))
    for path in paths:
        chance = math.prod(multinomial(counts, law) for counts, law in zip(path, laws, strict=True))
        state = run(design, [tick_of(counts) for counts in path])
        total += chance
        expected[0] += chance * math.exp(design.log_e(state))
        expected[1] += chance * math.exp(non_inferior(design, state))
    assert total == pytest.approx(1.0)
    assert max(expected) <= 1 + 1e-12


def sequence(law: Law, ticks: int, requests: int, seed: int) -> list[Tick]:
    drawn = np.random.default_rng(seed).multinomial(requests, law, ticks).tolist()
    return [tick_of(tuple(counts)) for counts in drawn]


def found_after(design: Process, ticks: list[Tick], threshold: float) -> int:
    state = design.start()
    for place, tick in enumerate(ticks, start=1):
        state = design.update(state, tick)
        if design.log_e(state) >= threshold:
            return place
    return len(ticks) + 1


def test_false_decisions_at_any_look_are_as_rare_as_said() -> None:
    alpha, runs, law = 0.2, 150, known((0.7, 0.6), 0.5, 1.05, 0.2)
    design, wrong = PairedPrecisionDesign(0.1), [0, 0]
    for seed in range(runs):
        state, largest = design.start(), [0.0, 0.0]
        for tick in sequence(law, 30, 20, seed):
            state = design.update(state, tick)
            largest = [max(largest[0], design.log_e(state)), max(largest[1], non_inferior(design, state))]
        wrong = [count + (most >= -math.log(alpha)) for count, most in zip(wrong, largest, strict=True)]
    assert max(wrong) <= alpha * runs
    assert sum(wrong) > 0


def test_a_drifting_precision_of_both_is_no_regression() -> None:
    # both from 55 to 85 % and back, far out of any cell, while the candidate selects a twentieth more
    drift = [0.7 + 0.15 * math.sin(tick / 25) for tick in range(160)]
    laws = [known((precision, precision), 0.3, 1.05, 0.1) for precision in drift]
    design = PairedPrecisionDesign(0.0)
    for seed in range(12):
        random, state, largest = np.random.default_rng(seed), design.start(), 0.0
        for law in laws:
            state = design.update(state, tick_of(tuple(random.multinomial(50, law).tolist())))
            largest = max(largest, design.log_e(state), non_inferior(design, state))
        assert largest < math.log(20)


def test_a_loss_is_found_in_a_few_times_the_requests_that_a_test_of_fixed_size_needs() -> None:
    law, margin, requests = known((0.75, 0.70), 0.3, 1.07, 0.02), 0.015, 40
    ticks = [
        found_after(PairedPrecisionDesign(margin), sequence(law, 150, requests, s), math.log(100)) for s in range(20)
    ]
    # influence of a request on the difference of precisions, and the requests for 90 % power at 1 %, told the truth
    chosen = [sum(law[:4]), sum(law[:2] + law[4:6])]
    kinds = [(1, 1, 1), (1, 1, 0), (1, 0, 1), (1, 0, 0), (0, 1, 1), (0, 1, 0)]
    influence = [b * (y - 0.75) / chosen[0] - c * (y - 0.70) / chosen[1] for b, c, y in kinds]
    variance = sum(share * value**2 for share, value in zip(law, influence, strict=False))
    fixed = variance * ((norm.ppf(0.99) + norm.ppf(0.9)) / (0.05 - margin)) ** 2
    assert max(ticks) <= 150
    assert np.mean(ticks) * requests < 3 * fixed
    # as if the variants had answered different requests
    apart = AbsoluteRateDesign(margin, Worse.LOWER)
    unpaired = [
        TwoArmCounts(*tuple(np.ravel([(c[0] + c[2], sum(c[:4])), (c[0] + c[4], c[0] + c[1] + c[4] + c[5])]).tolist()))
        for c in np.random.default_rng(0).multinomial(requests, law, 3 * round(np.mean(ticks))).tolist()
    ]
    assert apart.log_e(run(apart, [*unpaired])) < math.log(100)


def test_an_equal_precision_is_promoted_and_a_lower_one_not() -> None:
    design = PairedPrecisionDesign(0.03)
    good, bad = known((0.8, 0.8), 0.3, 1.0, 0.02), known((0.8, 0.72), 0.3, 1.1, 0.02)
    kept, lost = (run(design, sequence(law, 120, 100, 5)) for law in (good, bad))
    assert non_inferior(design, kept) > math.log(20)
    assert design.log_e(kept) < 0
    assert non_inferior(design, lost) < 0
    assert design.log_e(lost) > math.log(100)


def test_the_difference_is_shown_with_bounds_wider_than_those_of_a_paired_bootstrap() -> None:
    law = known((0.75, 0.70), 0.3, 1.07, 0.02)
    counts = np.random.default_rng(1).multinomial(8000, law)
    design = PairedPrecisionDesign(0.015)
    state = run(design, [tick_of(tuple(counts.tolist()))])
    estimate, interval = design.estimate(state), design.interval(state, 0.95)
    kinds = np.repeat(
        np.array([(1, 1, 1), (1, 1, 0), (1, 0, 1), (1, 0, 0), (0, 1, 1), (0, 1, 0), (0, 0, 0)]), counts, 0
    )
    theirs, ours, labels = kinds.T

    def difference(b: FloatArray, c: FloatArray, y: FloatArray, axis: int) -> FloatArray:
        loss: FloatArray = (c * y).sum(axis=axis) / c.sum(axis=axis) - (b * y).sum(axis=axis) / b.sum(axis=axis)
        return loss

    drawn = bootstrap(
        (theirs, ours, labels), difference, paired=True, vectorized=True, n_resamples=499, batch=50,
        method="percentile", rng=np.random.default_rng(1),
    ).confidence_interval  # fmt: skip
    assert estimate is not None
    assert interval is not None
    assert estimate.measure is interval.measure is Measure.DIFFERENCE
    assert estimate.effect == pytest.approx(difference(theirs, ours, labels, 0), abs=1e-12)
    assert (estimate.baseline_total, estimate.candidate_total) == (theirs.sum(), ours.sum())
    assert interval.low is not None
    assert interval.high is not None
    assert interval.low < drawn.low < -0.05 < drawn.high < interval.high < 0
    assert interval.high - interval.low < 4 * (drawn.high - drawn.low)


def test_the_confidence_sequence_misses_a_constant_difference_no_more_often_than_said() -> None:
    law, level, runs, misses = known((0.7, 0.6), 0.5, 1.1, 0.2), 0.5, 25, 0
    design = PairedPrecisionDesign()
    for seed in range(runs):
        state, inside = design.start(), True
        for tick in sequence(law, 3, 150, seed):
            state = design.update(state, tick)
            interval = design.interval(state, level)
            assert interval is not None
            inside &= (interval.low or 0.0) <= -0.1 <= (interval.high or 0.0)
        misses += not inside
    assert misses <= (1 - level) * runs


def test_a_variant_that_decides_nothing_positively_has_no_precision() -> None:
    design = PairedPrecisionDesign()
    alone = run(design, [tick_of((0, 0, 3, 1, 0, 0, 0))])
    estimate = design.estimate(alone)
    assert estimate is not None
    assert (estimate.effect, estimate.baseline, estimate.candidate) == (None, 0.75, None)
    assert design.interval(alone, 0.95) is None
    other = design.estimate(run(design, [tick_of((0, 0, 0, 0, 3, 1, 0))]))
    assert other is not None
    assert (other.effect, other.baseline, other.candidate) == (None, None, 0.75)


def test_requests_that_nobody_decides_positively_say_nothing() -> None:
    design = PairedPrecisionDesign(0.1)
    tick = tick_of((5, 2, 1, 1, 0, 2, 0))
    negatives = PairedOutcomes(40, tick.negatives.worse, tick.negatives.better, tick.negatives.total + 40)
    missed = PairedOutcomes(tick.positives.both, 1, 0, tick.positives.total + 7)
    state, other = run(design, [tick]), run(design, [PrecisionCounts(missed, negatives)])
    assert state == other


@pytest.mark.parametrize("kinds", [0, 2, 5])
def test_a_single_request_moves_evidence_the_right_way(kinds: int) -> None:
    counts = [0] * 7
    counts[kinds] = 1
    state = run(PairedPrecisionDesign(), [tick_of(tuple(counts))])
    each = gains(ENDS, ENDS)
    grown = log_bets(tuple(counts[:6]), each, 1.0)
    if kinds == 0:  # both, and rightly: no difference
        assert grown == pytest.approx(np.zeros(grown.shape), abs=1e-12)
    else:  # one right decision lost, one wrong decision added
        assert (grown[1:-1] > 0).all()
    assert PairedPrecisionDesign().log_e(state) >= -1e-12


DESIGNS: list[Process] = [*MARGINS.values()]
TICKS: list[Tick] = [tick_of((5, 2, 1, 1, 0, 2, 0)), tick_of((0,) * 7), tick_of((3, 1, 0, 0, 2, 1, 0))]


@pytest.mark.parametrize("design", DESIGNS)
def test_replay_and_restore_give_the_same_bits(design: Process) -> None:
    live = design.start()
    for tick in TICKS:
        live = restore(design, design.update(live, tick).to_json())
    assert live == run(design, TICKS)
    assert (live.ticks, live.informative) == (3, 2)
    assert len(live.to_json()) < 4_000


@pytest.mark.parametrize("design", DESIGNS)
def test_nothing_seen_is_no_data(design: Process) -> None:
    state = run(design, [TICKS[1]])
    assert design.log_e(state) == pytest.approx(0.0, abs=1e-12)
    assert non_inferior(design, state) == pytest.approx(0.0, abs=1e-12)
    assert design.estimate(state) is None
    assert design.interval(state, 0.95) is None
    seen = run(design, TICKS)
    assert non_inferior(design, design.update(seen, TICKS[1])) == non_inferior(design, seen)


def test_a_promoted_variant_can_be_watched() -> None:
    watch = WatchDesign(PairedPrecisionDesign(0.01))
    state = watch.start()
    for tick in sequence(known((0.8, 0.74), 0.3, 1.1, 0.02), 60, 200, 3):
        state = watch.update(state, tick)
    assert watch.alarm(state) is not None


@given(LAWS)
@settings(max_examples=30)
def test_any_law_gives_an_interval_that_holds_the_estimate(drawn: tuple[float, float, float, float]) -> None:
    precision, selected, more, unlike = drawn
    law = law_of((precision, precision), selected, more, unlike)
    assume(law is not None)
    counts = tuple(np.random.default_rng(0).multinomial(40, law).tolist()) if law else ()
    design = PairedPrecisionDesign()
    state = run(design, [tick_of(counts)])
    estimate, interval = design.estimate(state), design.interval(state, 0.9)
    if estimate is None or estimate.effect is None:
        assert interval is None
        return
    assert interval is not None
    assert -1 <= (interval.low or 0.0) <= estimate.effect <= (interval.high or 0.0) <= 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: PairedPrecisionDesign(None), "got neither"),
        (lambda: PairedPrecisionDesign(0.95), r"margin must be in 0\.\.0\.9, got 0\.95"),
        (lambda: PairedPrecisionDesign(part=-0.1), r"part must be in 0\.\.0\.9, got -0\.1"),
        (lambda: PairedPrecisionDesign(math.nan), "got nan"),
        (lambda: PairedPrecisionDesign(planned_ticks=-1), "at least 0"),
        (lambda: DESIGNS[0].interval(DESIGNS[0].start(), 1.0), "level"),
        (lambda: DESIGNS[0].update(DESIGNS[0].start(), OneArmCounts(0, 1)), "PrecisionCounts"),
        (lambda: DESIGNS[0].update(DESIGNS[2].start(), TICKS[0]), "start again"),
    ],
)
def test_refuses_what_makes_no_sense(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
