"""Which e-processes judge shadow traffic, and what a look counts for each."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest

from davylamp.core.counting import Span
from davylamp.core.model import Variant
from davylamp.core.plan import AbsoluteMargin, Direction, Gate, LimitMargin, Margin, OddsRatioMargin, SignalKind
from davylamp.core.reading import SignalReading
from davylamp.core.shadow_gates import (
    MIRRORED,
    arrived,
    cursors_of,
    edge_text,
    moves_of,
    shadow_designs,
    shadow_ticks,
    signal_names,
    trouble_of,
)
from gatestats.limits import LimitDesign
from gatestats.paired import PairedDesign
from gatestats.rates import AbsoluteRateDesign
from gatestats.ticks import OneArmCounts, PairedCounts, Tick, TwoArmCounts, Worse
from tests.davylamp.core.readings import ZERO, at, counters, pair, reading, steady
from tests.davylamp.core.shadow_readings import (
    CONFIDENCE,
    DISAGREEMENT,
    OVER_NOISE,
    SCORE_SHIFT,
    arrivals,
    moved,
    of_candidate,
)

LOOK = Span(at(0), at(10), {})
#: Evidence that takes traffic back at a false rollback rate of 1 %.
CROSSED = math.log(100)


def evidence(gate: Gate, name: str, *ticks: Tick) -> tuple[float, float]:
    """Return ln E of a regression and of no loss, of one stream of a gate, after these ticks."""
    design = shadow_designs(gate, None)[name]
    state = design.start()
    for tick in ticks:
        state = design.update(state, tick)
    return design.log_e(state), design.log_e_non_inferior(state) or 0.0


# Designs.


def test_each_kind_of_gate_has_its_design() -> None:
    assert shadow_designs(DISAGREEMENT, 60) == {"disagreement": LimitDesign(0.02, Worse.HIGHER, 60)}
    assert shadow_designs(OVER_NOISE, None) == {"overNoise": AbsoluteRateDesign(0.01, Worse.HIGHER, None)}
    assert shadow_designs(CONFIDENCE, 60) == {"confidence@0.9:Lower": PairedDesign(0.05, 60)}
    rising = replace(CONFIDENCE, worse=Direction.HIGHER)
    assert shadow_designs(rising, 60) == {"confidence@0.9:Higher": PairedDesign(0.05, 60)}


def test_a_score_that_may_move_neither_way_has_a_stream_for_each_edge_and_way() -> None:
    names = ["scoreShift@0.5:Higher", "scoreShift@0.5:Lower", "scoreShift@0.9:Higher", "scoreShift@0.9:Lower"]
    assert shadow_designs(SCORE_SHIFT, 60) == dict.fromkeys(names, PairedDesign(0.02, 60))


@pytest.mark.parametrize(
    ("kind", "margin"),
    [
        (SignalKind.SHADOW_SHARE, AbsoluteMargin(0.1)),
        (SignalKind.SHADOW_NOISE, LimitMargin(0.1)),
        (SignalKind.SHADOW_MOVES, LimitMargin(0.1)),
        (SignalKind.SHADOW_SHARE, OddsRatioMargin(1.25)),
        (SignalKind.ERRORS, LimitMargin(0.1)),
    ],
)
def test_a_margin_of_another_kind_is_refused(kind: SignalKind, margin: Margin) -> None:
    with pytest.raises(ValueError, match=f"gate x is of kind {kind}, which has no margin such as"):
        shadow_designs(Gate("x", kind, Direction.HIGHER, margin), None)


def test_what_is_read_of_a_score_has_a_name_for_each_edge_and_move() -> None:
    assert moves_of(CONFIDENCE) == (
        ("confidence@0.9:raised", 0.9, "raised"),
        ("confidence@0.9:lowered", 0.9, "lowered"),
    )
    assert signal_names(SCORE_SHIFT) == (
        "scoreShift@0.5:raised",
        "scoreShift@0.5:lowered",
        "scoreShift@0.9:raised",
        "scoreShift@0.9:lowered",
    )
    assert signal_names(OVER_NOISE) == ("overNoise",)
    assert [edge_text(edge) for edge in (0.05, 0.1, 0.5, 0.95)] == ["0.05", "0.1", "0.5", "0.95"]


# Counts of one look.


def test_a_share_counts_the_pairs_with_the_candidate() -> None:
    found = reading({"disagreement": of_candidate(steady((4, 500), 1), counters((0, 0, 0), (9, 1, 50), name="b"))})
    assert shadow_ticks(DISAGREEMENT, found, LOOK) == {"disagreement": OneArmCounts(5, 550)}


def test_noise_counts_the_pairs_of_the_baseline_with_itself_beside() -> None:
    found = reading({"overNoise": pair(steady((1, 25), 1), steady((4, 500), 1))})
    assert shadow_ticks(OVER_NOISE, found, LOOK) == {"overNoise": TwoArmCounts(1, 25, 4, 500)}


def test_noise_without_a_pair_of_the_baseline_yet_counts_none_for_it() -> None:
    found = reading({"overNoise": pair(counters((0, 1, 25)), steady((4, 500), 1))})
    assert shadow_ticks(OVER_NOISE, found, LOOK) == {"overNoise": TwoArmCounts(0, 0, 4, 500)}


def test_a_score_counts_as_worse_what_moves_in_the_way_of_its_stream() -> None:
    found = reading(moved(SCORE_SHIFT, {0.5: (9, 2), 0.9: (0, 4)}, 500, 1))
    assert shadow_ticks(SCORE_SHIFT, found, LOOK) == {
        "scoreShift@0.5:Higher": PairedCounts(9, 2, 500),
        "scoreShift@0.5:Lower": PairedCounts(2, 9, 500),
        "scoreShift@0.9:Higher": PairedCounts(0, 4, 500),
        "scoreShift@0.9:Lower": PairedCounts(4, 0, 500),
    }
    fallen = reading(moved(CONFIDENCE, {0.9: (3, 30)}, 500, 1))
    assert shadow_ticks(CONFIDENCE, fallen, LOOK) == {"confidence@0.9:Lower": PairedCounts(30, 3, 500)}


@pytest.mark.parametrize("gate", [DISAGREEMENT, OVER_NOISE, SCORE_SHIFT, CONFIDENCE])
def test_a_look_without_a_new_scrape_counts_nothing(gate: Gate) -> None:
    old = counters((0, 4, 500))
    found = reading({name: pair(old, old) for name in signal_names(gate)})
    assert shadow_ticks(gate, found, LOOK) == {}


def test_moves_that_are_not_of_the_same_pairs_are_refused_with_both_numbers() -> None:
    raised, lowered = signal_names(CONFIDENCE)
    found = reading({raised: of_candidate(steady((1, 500), 1)), lowered: of_candidate(steady((1, 499), 1))})
    with pytest.raises(ValueError, match=r"confidence: 500 and 499 pairs were counted for edge 0\.9"):
        shadow_ticks(CONFIDENCE, found, LOOK)


@pytest.mark.parametrize(
    ("gate", "words"),
    [
        (DISAGREEMENT, "no series of the candidate for disagreement"),
        (OVER_NOISE, "no series of the candidate for overNoise"),
        (CONFIDENCE, "no series of the candidate for confidence@0.9:raised"),
    ],
)
def test_a_comparator_without_series_is_named_and_never_taken_for_agreement(gate: Gate, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        shadow_ticks(gate, reading({}), LOOK)
    with pytest.raises(ValueError, match=words):
        shadow_ticks(gate, reading({name: SignalReading({}) for name in signal_names(gate)}), LOOK)


def test_a_noise_floor_without_series_is_no_floor_of_zero() -> None:
    found = reading({"overNoise": of_candidate(steady((4, 500), 1))})
    with pytest.raises(ValueError, match="no series of the baseline for overNoise"):
        shadow_ticks(OVER_NOISE, found, LOOK)


@pytest.mark.parametrize(
    ("gate", "variant", "told"),
    [
        (DISAGREEMENT, Variant.CANDIDATE, True),
        (DISAGREEMENT, Variant.BASELINE, False),
        (OVER_NOISE, Variant.BASELINE, True),
        (OVER_NOISE, Variant.CANDIDATE, True),
        (SCORE_SHIFT, Variant.CANDIDATE, True),
        (SCORE_SHIFT, Variant.BASELINE, False),
    ],
)
def test_trouble_is_told_where_the_gate_needs_the_pairs(gate: Gate, variant: Variant, told: bool) -> None:
    troubled = SignalReading({}, trouble={variant: "stale"})
    signals = dict.fromkeys(signal_names(gate)[:-1], SignalReading({})) | {signal_names(gate)[-1]: troubled}
    assert trouble_of(gate, reading(signals)) == ("stale" if told else "")
    assert trouble_of(gate, reading({})) == ""


# Cursors and arrivals.


def test_after_a_look_every_series_of_a_gate_is_counted_up_to_its_last_sample() -> None:
    before = {"errors/Baseline/pod": ZERO + 1, "confidence@0.9:raised/Candidate/gone": ZERO}
    found = reading(moved(CONFIDENCE, {}, 500, 3))
    after = cursors_of(CONFIDENCE, found, Span(at(0), at(20), before))
    assert after == {
        "errors/Baseline/pod": ZERO + 1,
        "confidence@0.9:raised/Candidate/pod": ZERO + 20,
        "confidence@0.9:lowered/Candidate/pod": ZERO + 20,
    }


def test_looks_that_join_count_each_pair_once() -> None:
    found = reading({"disagreement": of_candidate(steady((4, 500), 3))})
    late = Span(at(5), at(30), cursors_of(DISAGREEMENT, found, LOOK))
    ticks = [shadow_ticks(DISAGREEMENT, found, span) for span in (LOOK, late)]
    assert ticks == [{"disagreement": OneArmCounts(4, 500)}, {"disagreement": OneArmCounts(8, 1000)}]


def test_arrivals_are_the_requests_that_were_sampled() -> None:
    assert arrived(reading({MIRRORED: arrivals(25, 1)}), LOOK) == 25


@pytest.mark.parametrize(
    "signal", [None, SignalReading({}), of_candidate(counters((0, 0, 7))), of_candidate(counters((0, 0, 7), (0, 0, 8)))]
)
def test_arrivals_that_cannot_be_told_are_none(signal: SignalReading | None) -> None:
    assert arrived(reading({} if signal is None else {MIRRORED: signal}), LOOK) == 0


# What the evidence of a gate comes to. The numbers are scipy's.


def test_a_share_within_its_limit_takes_traffic_back_no_more_often_than_was_asked() -> None:
    # E over all that 200 pairs can show at the limit has a mean of at most 1, so it crosses 100 in at most 1 % of them.
    outcomes = range(201)
    chances = binom.pmf(outcomes, 200, 0.02)
    values = [evidence(DISAGREEMENT, "disagreement", OneArmCounts(k, 200))[0] for k in outcomes]
    assert sum(chance * math.exp(value) for chance, value in zip(chances, values, strict=True)) <= 1 + 1e-9
    assert sum(chance for chance, value in zip(chances, values, strict=True) if value >= CROSSED) <= 0.01


@given(st.integers(0, 40), st.integers(200, 2000))
def test_evidence_against_a_share_is_never_more_than_the_exact_test_allows(events: int, total: int) -> None:
    regressed, _ = evidence(DISAGREEMENT, "disagreement", OneArmCounts(events, total))
    if regressed >= CROSSED:
        assert binomtest(events, total, 0.02, alternative="greater").pvalue <= 0.01
    if binomtest(events, total, 0.02, alternative="greater").pvalue <= 1e-9:
        assert regressed >= CROSSED


@pytest.mark.parametrize(
    ("disagreeing", "regressed", "proven"), [(2, False, True), (40, False, False), (120, True, False)]
)
def test_a_share_is_judged_against_its_limit(disagreeing: int, regressed: bool, proven: bool) -> None:
    worse, no_worse = evidence(DISAGREEMENT, "disagreement", OneArmCounts(disagreeing, 2000))
    assert (worse >= CROSSED, no_worse >= math.log(20)) == (regressed, proven)


def test_as_much_noise_as_disagreement_is_no_regression_and_far_less_is() -> None:
    ticks = [TwoArmCounts(noise, 500, 50, 500) for noise in (50, 5)]
    noisy, quiet = (evidence(OVER_NOISE, "overNoise", *[tick] * 4)[0] for tick in ticks)
    assert noisy < 0 < CROSSED <= quiet


@pytest.mark.parametrize(
    ("up", "down", "crossed"),
    [
        (200, 200, set()),
        (120, 40, {"scoreShift@0.5:Higher"}),
        (40, 120, {"scoreShift@0.5:Lower"}),
        (45, 20, set()),
    ],
)
def test_a_score_regresses_in_the_way_in_which_more_pairs_cross_than_is_tolerated(
    up: int, down: int, crossed: set[str]
) -> None:
    ticks = shadow_ticks(SCORE_SHIFT, reading(moved(SCORE_SHIFT, {0.5: (up, down)}, 1000, 1)), LOOK)
    assert {name for name, tick in ticks.items() if evidence(SCORE_SHIFT, name, tick)[0] >= CROSSED} == crossed


def test_confidence_that_falls_is_worse_and_confidence_that_rises_is_none() -> None:
    found = {
        way: reading(moved(CONFIDENCE, {0.9: moves}, 1000, 1))
        for way, moves in {"up": (200, 5), "down": (5, 200)}.items()
    }
    ticks = {way: shadow_ticks(CONFIDENCE, each, LOOK)["confidence@0.9:Lower"] for way, each in found.items()}
    up, down = (evidence(CONFIDENCE, "confidence@0.9:Lower", ticks[way])[0] for way in ("up", "down"))
    assert up < 0 < CROSSED <= down
