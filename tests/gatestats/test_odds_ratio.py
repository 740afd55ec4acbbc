import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import nchypergeom_fisher

from gatestats import noncentral
from gatestats.late_change import FIRST_STAKE
from gatestats.noncentral import log_normalisers
from gatestats.odds_ratio import OddsRatioDesign, is_informative
from gatestats.process import restore
from gatestats.state import State
from gatestats.ticks import Measure, OneArmCounts, TwoArmCounts, Worse
from tests.gatestats.enumeration import noncentral_law, splits

MARGINS = (0.5, 1.0, 1.25, 3.0)


@st.composite
def ticks(draw: st.DrawFn, largest: int = 60) -> TwoArmCounts:
    baseline, candidate = draw(st.integers(0, largest)), draw(st.integers(0, largest))
    return TwoArmCounts(draw(st.integers(0, baseline)), baseline, draw(st.integers(0, candidate)), candidate)


def run(design: OddsRatioDesign, sequence: list[TwoArmCounts]) -> State:
    state = design.start()
    for tick in sequence:
        state = design.update(state, tick)
    return state


def test_agrees_with_vector_16() -> None:
    tick = TwoArmCounts(baseline_events=5, baseline_total=450, candidate_events=3, candidate_total=50)
    log_odds = np.log([1.5, 2.0, 3.0, 1.25])
    normalisers = log_normalisers(tick, log_odds)
    against_one = 3 * log_odds[:3] - normalisers[:3]
    assert against_one == pytest.approx([0.8272159650437, 1.3211134588769, 1.8511881006188], abs=1e-10)
    assert 3 * (log_odds[1] - log_odds[3]) - (normalisers[1] - normalisers[3]) == pytest.approx(
        0.8489237326544, abs=1e-10
    )


@pytest.mark.parametrize(("baseline", "candidate", "pooled"), [(7, 5, 4), (40, 3, 6), (3, 40, 12), (450, 50, 8)])
@pytest.mark.parametrize("odds_ratio", [0.2, 1.0, 1.7, 9.0])
def test_likelihoods_are_those_of_scipy(baseline: int, candidate: int, pooled: int, odds_ratio: float) -> None:
    for counts in splits(baseline, candidate, pooled):
        log_odds = np.array([math.log(odds_ratio)])
        ours = counts.candidate_events * log_odds[0] - float(log_normalisers(counts, log_odds)[0])
        law = nchypergeom_fisher(baseline + candidate, candidate, pooled, odds_ratio)
        fair = nchypergeom_fisher(baseline + candidate, candidate, pooled, 1.0)
        theirs = law.logpmf(counts.candidate_events) - fair.logpmf(counts.candidate_events)
        assert ours == pytest.approx(theirs, abs=1e-9)


def test_long_and_short_sums_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    log_odds = np.linspace(-2.8, 2.8, 41)
    for tick in (
        TwoArmCounts(900, 3000, 700, 2000),
        TwoArmCounts(20, 700, 690, 700),
        TwoArmCounts(4000, 9000, 500, 900),
    ):
        long = log_normalisers(tick, log_odds)
        monkeypatch.setattr(noncentral, "_LARGEST_SUPPORT", 10**9)
        short = log_normalisers(tick, log_odds)
        monkeypatch.undo()
        assert np.abs(long - short).max() < 1e-9


@pytest.mark.parametrize("margin", MARGINS)
@pytest.mark.parametrize("worse", list(Worse))
@pytest.mark.parametrize(("baseline", "candidate"), [(3, 2), (6, 2), (2, 6), (5, 5)])
def test_one_tick_expects_at_most_one_under_every_null(
    margin: float, worse: Worse, baseline: int, candidate: int
) -> None:
    design = OddsRatioDesign(margin=margin, worse=worse, mde=4.0)
    for pooled in range(baseline + candidate + 1):
        outcomes = splits(baseline, candidate, pooled)
        states = [design.update(design.start(), counts) for counts in outcomes]
        for factor in (1.0, 0.9, 0.5, 0.1):
            inside, outside = margin * factor, margin / factor
            if worse is Worse.LOWER:
                inside, outside = 1 / inside, 1 / outside
            law = noncentral_law(outcomes, inside)
            assert law @ np.exp([design.log_e(state) for state in states]) <= 1 + 1e-12
            law = noncentral_law(outcomes, outside)
            assert law @ np.exp([design.log_e_non_inferior(state) for state in states]) <= 1 + 1e-12
            assert law @ np.exp([design.log_e_non_inferior_at(state, margin) for state in states]) <= 1 + 1e-12


@pytest.mark.parametrize("planned", [None, 2])
def test_sequences_expect_at_most_one_under_drifting_nulls(planned: int | None) -> None:
    design = OddsRatioDesign(margin=1.25, planned_ticks=planned)
    # (baseline, candidate, pooled, true odds ratio): each within the rollback null, sizes and rates drift
    ladder = [(5, 1, 2, 1.25), (3, 3, 3, 0.7), (4, 2, 1, 1.25), (2, 5, 4, 1.0)]
    reverse = [(5, 1, 2, 1.25), (3, 3, 3, 2.0), (4, 2, 1, 1.25), (2, 5, 4, 6.0)]
    assert expectation(design, ladder) <= 1 + 1e-12
    assert expectation(design, reverse, non_inferior=True) <= 1 + 1e-12


def expectation(
    design: OddsRatioDesign, ladder: list[tuple[int, int, int, float]], *, non_inferior: bool = False
) -> float:
    outcomes = [splits(*rung[:3]) for rung in ladder]
    laws = [noncentral_law(split, rung[3]) for split, rung in zip(outcomes, ladder, strict=True)]
    total = 0.0
    for path in itertools.product(*(range(len(split)) for split in outcomes)):
        state = run(design, [split[index] for split, index in zip(outcomes, path, strict=True)])
        chance = math.prod(float(law[index]) for law, index in zip(laws, path, strict=True))
        total += chance * math.exp(design.log_e_non_inferior(state) if non_inferior else design.log_e(state))
    return total


@given(st.lists(ticks(), max_size=6))
@settings(max_examples=60)
def test_sums_give_the_tick_by_tick_product(sequence: list[TwoArmCounts]) -> None:
    design = OddsRatioDesign(margin=1.5)
    state = run(design, sequence)
    scale = math.log(1.5)
    better = [scale - scale * factor for factor in (1.0, 0.5, 2.0, 4.0)]
    log_odds = np.array([scale, *better])
    product = np.zeros(4)
    for tick in sequence:
        if is_informative(tick):
            normalisers = log_normalisers(tick, log_odds)
            product += tick.candidate_events * (log_odds[1:] - scale) - (normalisers[1:] - normalisers[0])
    expected = math.log(np.exp(product) @ [0.5, 0.15, 0.2, 0.15])
    assert design.log_e_non_inferior(state) == pytest.approx(expected, abs=1e-9)


@given(st.lists(ticks(), min_size=2, max_size=6), st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_order_of_ticks_changes_nothing_but_the_late_change_part(sequence: list[TwoArmCounts], random: object) -> None:
    design = OddsRatioDesign(margin=1.25)
    other = list(sequence)
    random.shuffle(other)  # type: ignore[attr-defined]
    one, two = run(design, sequence), run(design, other)
    assert design.log_e_non_inferior(one) == pytest.approx(design.log_e_non_inferior(two), abs=1e-9)
    assert one.totals == two.totals


@given(ticks(), ticks())
@settings(max_examples=100)
def test_merged_ticks_are_a_fitting_tick(one: TwoArmCounts, two: TwoArmCounts) -> None:
    merged = TwoArmCounts(
        one.baseline_events + two.baseline_events,
        one.baseline_total + two.baseline_total,
        one.candidate_events + two.candidate_events,
        one.candidate_total + two.candidate_total,
    )
    design = OddsRatioDesign()
    state = design.update(design.start(), merged)
    assert math.isfinite(design.log_e(state))
    assert state.totals[:4] == run(design, [one, two]).totals[:4]


@given(st.lists(ticks(), max_size=5), st.sampled_from([None, 3]), st.sampled_from(list(Worse)))
@settings(max_examples=60)
def test_replay_and_restore_give_the_same_bits(sequence: list[TwoArmCounts], planned: int | None, worse: Worse) -> None:
    design = OddsRatioDesign(margin=1.25, worse=worse, planned_ticks=planned)
    live = design.start()
    for tick in sequence:
        live = restore(design, design.update(live, tick).to_json())
    assert live == run(design, sequence)


@given(st.lists(ticks(), max_size=5))
@settings(max_examples=40)
def test_lower_is_higher_with_the_labels_exchanged(sequence: list[TwoArmCounts]) -> None:
    higher, lower = OddsRatioDesign(margin=1.25), OddsRatioDesign(margin=1.25, worse=Worse.LOWER)
    one, two = run(higher, sequence), run(lower, [tick.swapped() for tick in sequence])
    assert higher.log_e(one) == lower.log_e(two)
    assert higher.log_e_non_inferior(one) == lower.log_e_non_inferior(two)


def test_ticks_without_information_leave_evidence_at_zero_but_the_schedule_goes_on() -> None:
    design = OddsRatioDesign(margin=1.25)
    empty = [TwoArmCounts(0, 0, 0, 0), TwoArmCounts(0, 100, 0, 10), TwoArmCounts(9, 9, 4, 4), TwoArmCounts(3, 50, 0, 0)]
    state = run(design, empty)
    assert design.log_e(state) == pytest.approx(0.0, abs=1e-12)
    assert design.log_e_non_inferior(state) == pytest.approx(0.0, abs=1e-12)
    assert (state.ticks, state.informative) == (4, 0)
    assert state.spent > FIRST_STAKE


def test_nothing_seen_is_no_estimate_and_no_interval() -> None:
    design = OddsRatioDesign()
    state = design.start()
    assert design.estimate(state) is None
    assert design.interval(state, 0.95) is None
    state = design.update(state, TwoArmCounts(0, 10, 0, 0))
    estimate = design.estimate(state)
    assert estimate is not None
    assert (estimate.effect, estimate.baseline, estimate.candidate) == (None, 0.0, None)
    assert design.interval(state, 0.95) is None


def test_a_doubled_error_rate_is_found_and_an_equal_one_promoted() -> None:
    design = OddsRatioDesign(margin=1.25)
    worse = run(design, [TwoArmCounts(45, 4500, 10, 500)] * 60)
    assert design.log_e(worse) > math.log(100)
    assert design.log_e_non_inferior(worse) < 0
    equal = run(design, [TwoArmCounts(45, 4500, 5, 500)] * 60)
    assert design.log_e(equal) < 0
    assert design.log_e_non_inferior(equal) > math.log(20)
    assert design.log_e_non_inferior_at(equal, 1.5) > design.log_e_non_inferior_at(equal, 1.25)


@pytest.mark.parametrize("worse", list(Worse))
def test_estimate_and_interval_speak_of_candidate_over_baseline(worse: Worse) -> None:
    design = OddsRatioDesign(worse=worse)
    # two strata, odds ratio 2 in each: raw rates alone would mislead
    state = run(design, [TwoArmCounts(100, 1100, 20, 120), TwoArmCounts(100, 200, 800, 1200)] * 5)
    estimate, interval = design.estimate(state), design.interval(state, 0.95)
    assert estimate is not None
    assert interval is not None
    assert estimate.effect == pytest.approx(2.0, rel=1e-9)
    assert estimate.measure is interval.measure is Measure.ODDS_RATIO
    assert interval.low is not None
    assert interval.high is not None
    assert 1.2 < interval.low < 2.0 < interval.high < 3.2


@pytest.mark.parametrize("worse", list(Worse))
def test_an_interval_is_open_where_the_data_give_no_bound(worse: Worse) -> None:
    design = OddsRatioDesign(worse=worse)
    interval = design.interval(run(design, [TwoArmCounts(0, 1000, 12, 1000)]), 0.9)
    assert interval is not None
    assert interval.high is None
    assert interval.low is not None
    interval = design.interval(run(design, [TwoArmCounts(12, 1000, 0, 1000)]), 0.9)
    assert interval is not None
    assert interval.low is None
    assert interval.high is not None


def test_an_interval_holds_every_grid_value_that_evidence_does_not_reject() -> None:
    design = OddsRatioDesign()
    state = run(design, [TwoArmCounts(40, 2000, 12, 500)] * 4)
    interval = design.interval(state, 0.95)
    assert interval is not None
    assert interval.low is not None
    assert interval.high is not None
    grid = np.linspace(-math.log(16), math.log(16), 41)
    points = state.totals[-1] * grid - np.array(state.sums[:41])
    weights = np.exp(-0.5 * grid**2)
    evidence = np.log(weights / weights.sum() @ np.exp(points - points.max())) + points.max() - points
    kept = np.exp(grid[evidence < math.log(20)])
    assert interval.low <= kept.min() <= kept.max() <= interval.high
    assert interval.high / interval.low < kept.max() / kept.min() * 1.32


def test_an_interval_narrower_than_the_grid_still_covers() -> None:
    design = OddsRatioDesign()
    tick = TwoArmCounts(100_000, 1_000_000, 107_000, 1_000_000)
    interval = design.interval(run(design, [tick] * 3), 0.5)
    assert interval is not None
    assert interval.low is not None
    assert interval.high is not None
    assert interval.low < 1.0785 < interval.high < 1.4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"margin": 0.0}, "1/16..16, got 0.0"),
        ({"margin": math.nan}, "1/16..16, got nan"),
        ({"margin": 1.25, "mde": 1.25}, "above the margin 1.25, got 1.25"),
        ({"mde": math.inf}, "got inf"),
        ({"planned_ticks": -1}, "at least 0"),
    ],
)
def test_refuses_a_senseless_design(arguments: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        OddsRatioDesign(**arguments)  # type: ignore[arg-type]


def test_refuses_what_does_not_fit() -> None:
    design = OddsRatioDesign()
    with pytest.raises(ValueError, match="counts TwoArmCounts, got OneArmCounts"):
        design.update(design.start(), OneArmCounts(1, 2))
    with pytest.raises(ValueError, match="start again or replay"):
        design.update(OddsRatioDesign(margin=1.5).start(), TwoArmCounts(1, 2, 1, 2))
    with pytest.raises(ValueError, match=r"1/14\.\.16, got 0\.01"):
        design.log_e_non_inferior_at(design.start(), 0.01)
    with pytest.raises(ValueError, match="level must lie between 0 and 1"):
        design.interval(design.start(), 1.0)
