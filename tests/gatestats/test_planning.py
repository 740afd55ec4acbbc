"""How fast evidence grows, against the processes themselves, and when it suffices, against drawn walks."""

import math

import numpy as np
import pytest
from scipy.stats import invgauss

from gatestats.bracketed import BracketedOddsRatioDesign
from gatestats.histogram import HistogramDesign
from gatestats.limits import LimitDesign
from gatestats.non_inferiority import ErrorRateDesign
from gatestats.odds_ratio import OddsRatioDesign
from gatestats.outlook import Backing, Histograms, Truth, promotion_outlook, rollback_outlook
from gatestats.planning import (
    Arms,
    Cell,
    Pace,
    Passage,
    cells_pace,
    invert,
    odds_ratio_pace,
    paired_pace,
    passed,
    tilt_pace,
)
from gatestats.process import Process
from gatestats.rates import AbsoluteRateDesign, RelativeRateDesign
from gatestats.ticks import TwoArmCounts, TwoArmHistogram, Worse

_EDGES = (0.01, 0.011, 0.0121, 0.01331, 0.014641, 0.0161051, math.inf)
_SHARES = np.array([0.1, 0.2, 0.3, 0.2, 0.1, 0.06, 0.04])
_SLOWER = np.array([0.01, 0.03, 0.11, 0.2, 0.25, 0.2, 0.2])
_TILT = HistogramDesign.from_baseline(_EDGES, [int(1000 * share) for share in _SHARES], margin=1.1, planned_ticks=0)
_HISTOGRAMS = Histograms(tuple(450 * _SHARES), tuple(50 * _SLOWER))
_ARMS = Arms(450, 0.01, 50, 0.03)
_FALL = Arms(250, 0.3, 250, 0.22)


def _tick(truth: Truth, scale: int) -> TwoArmCounts | TwoArmHistogram:
    """A look with exactly the expected counts, so many times as large."""
    if isinstance(truth, Histograms):
        rows = [tuple(round(scale * count) for count in row) for row in (truth.baseline, truth.candidate)]
        return TwoArmHistogram(_EDGES, rows[0], rows[1])
    events = [
        (round(scale * total * rate), round(scale * total))
        for total, rate in (
            (truth.baseline_total, truth.baseline_rate),
            (truth.candidate_total, truth.candidate_rate),
        )
    ]
    return TwoArmCounts(*events[0], *events[1])


def _grown(design: Process, truth: Truth, scale: int) -> np.ndarray:
    """What a large look of the expected counts does to each rollback bet, per expected look, in nats."""
    state = design.update(design.start(), _tick(truth, scale))
    after = design.update(state, _tick(truth, scale))
    grown: np.ndarray = (np.array(after.wealth) - np.array(state.wealth)) / scale
    return grown


@pytest.mark.parametrize(
    ("design", "truth"),
    [
        (OddsRatioDesign(1.25, planned_ticks=0), _ARMS),
        (OddsRatioDesign(1.25, planned_ticks=0, mde=2.0), _ARMS),
        (OddsRatioDesign(1.25, Worse.LOWER, planned_ticks=0), _FALL),
        (AbsoluteRateDesign(0.03, Worse.LOWER, planned_ticks=0), _FALL),
        (AbsoluteRateDesign(0.005, planned_ticks=0, mde=0.02), _ARMS),
        (RelativeRateDesign(0.25, planned_ticks=0), _ARMS),
        (RelativeRateDesign(0.1, Worse.LOWER, planned_ticks=0), _FALL),
        (_TILT, _HISTOGRAMS),
    ],
)
def test_the_drift_is_what_the_expected_counts_do_to_each_bet(design: Process, truth: Truth) -> None:
    bets = rollback_outlook(design, truth)
    assert sum(bet.mass for bet in bets) == pytest.approx(1)
    # Beside its mean a large look has terms that do not grow with it, such as a pooled rate with half an event more.
    assert [bet.pace.drift for bet in bets] == pytest.approx(_grown(design, truth, 100).tolist(), rel=0.03, abs=0.02)


def test_a_design_that_swaps_the_variants_sees_them_swapped() -> None:
    swapped = Histograms(_HISTOGRAMS.candidate, _HISTOGRAMS.baseline)
    lower = HistogramDesign(_TILT.edges, _TILT.scores, _TILT.tail_from, _TILT.margin, Worse.LOWER, 1)
    assert rollback_outlook(lower, swapped) == rollback_outlook(_TILT, _HISTOGRAMS)


@pytest.mark.parametrize("apart", [False, True])
def test_mean_and_variance_of_a_look_are_those_of_simulated_looks(apart: bool) -> None:
    random, truth = np.random.default_rng(5), Arms(450, 0.02, 50, 0.1)
    design = OddsRatioDesign(1.25, planned_ticks=0)
    state = design.update(design.start(), TwoArmCounts(0, 1, 0, 1))
    gains = []
    for _ in range(1500):
        ours, theirs = int(random.binomial(50, 0.1)), int(random.binomial(450, 0.02))
        after = design.update(state, TwoArmCounts(theirs, 450, ours, 50, apart=apart))
        gains.append(np.array(after.wealth) - np.array(state.wealth))
    for place, bet in enumerate(rollback_outlook(design, truth)):
        seen = np.array(gains)[:, place]
        pace = bet.pace.held() if apart else bet.pace
        assert pace.drift == pytest.approx(seen.mean(), abs=0.1 + 0.05 * abs(seen.mean()))
        assert pace.variance == pytest.approx(seen.var(), rel=0.35 if apart else 0.15)


def test_promotion_bets_gain_when_the_candidate_is_equal_and_lose_when_it_is_beyond_the_margin() -> None:
    designs: list[tuple[Process, Truth, Truth]] = [
        (OddsRatioDesign(1.5), Arms(450, 0.05, 50, 0.05), Arms(450, 0.05, 50, 0.15)),
        (ErrorRateDesign(1.5, 0.01), Arms(450, 0.05, 50, 0.05), Arms(450, 0.05, 50, 0.15)),
        (BracketedOddsRatioDesign(1.3, 1.6), Arms(450, 0.05, 50, 0.05), Arms(450, 0.05, 50, 0.15)),
        (AbsoluteRateDesign(0.02), Arms(450, 0.05, 50, 0.05), Arms(450, 0.05, 50, 0.15)),
        (_TILT, Histograms(tuple(450 * _SHARES), tuple(50 * _SHARES)), _HISTOGRAMS),
    ]
    for design, equal, worse in designs:
        masses = [bet.mass for bet in promotion_outlook(design, equal)]
        assert sum(masses) == pytest.approx(1)
        assert max(bet.pace.drift for bet in promotion_outlook(design, equal)) > 0
        assert max(bet.pace.drift for bet in promotion_outlook(design, worse)) < 0


def test_rollback_of_a_range_is_tested_at_its_high_end_and_errors_by_their_odds_ratio() -> None:
    assert rollback_outlook(BracketedOddsRatioDesign(1.3, 1.6), _ARMS) == rollback_outlook(OddsRatioDesign(1.6), _ARMS)
    assert rollback_outlook(ErrorRateDesign(1.5), _ARMS) == rollback_outlook(OddsRatioDesign(1.5), _ARMS)


def test_what_does_not_fit_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="the design is about Arms, got Histograms"):
        rollback_outlook(OddsRatioDesign(), _HISTOGRAMS)
    for outlook in (rollback_outlook, promotion_outlook):
        with pytest.raises(ValueError, match="nothing is known of the bets of LimitDesign"):
            outlook(LimitDesign(0.01), _ARMS)


def test_a_rate_against_a_limit_grows_by_its_divergence() -> None:
    # statistics.md 3.5: n KL(p1 || p0), and the variance of a likelihood ratio at its own truth is near twice that.
    pace = cells_pace([Cell(500, 0.02, 0.02, 0.01)])
    divergence = 0.02 * math.log(2) + 0.98 * math.log(0.98 / 0.99)
    assert pace.drift == pytest.approx(500 * divergence)
    assert pace.variance == pytest.approx(2 * pace.drift, rel=0.25)


def test_errors_from_1_to_2_percent_at_a_tenth_of_500_requests_grow_as_the_design_says() -> None:
    # statistics.md 3.5: .171 nats a look against equality.
    odds = (0.02 / 0.98) / (0.01 / 0.99)
    assert odds_ratio_pace(Arms(450, 0.01, 50, 0.02), odds, 1.0).drift == pytest.approx(0.171, abs=0.0015)


def test_pairs_grow_by_the_expected_logarithm_of_the_bet() -> None:
    pace = paired_pace(100, 0.045, 0.015, (0.4, 0.01))
    gains = np.log([1 + 0.4 * 0.99, 1 - 0.4 * 1.01, 1 - 0.4 * 0.01])
    chances = np.array([0.045, 0.015, 0.94])
    assert pace.drift == pytest.approx(100 * chances @ gains)
    assert pace.variance == pytest.approx(100 * (chances @ gains**2 - (chances @ gains) ** 2))


def test_two_buckets_of_a_tilt_are_an_odds_ratio() -> None:
    arms = Arms(450, 0.04, 50, 0.09)
    events = (np.array([450 * 0.96, 450 * 0.04]), np.array([50 * 0.91, 50 * 0.09]))
    tilt, odds = tilt_pace(*events, np.array([0.0, math.log(2)])), odds_ratio_pace(arms, 2.0, 1.0)
    assert tilt.drift == pytest.approx(odds.drift, rel=1e-9)
    assert tilt.variance == pytest.approx(odds.variance, rel=1e-9)


@pytest.mark.parametrize(("drift", "variance"), [(1.0, 0.5), (3.0, 4.0), (-1.0, 9.0), (2.0, 0.0), (5.0, 0.0)])
def test_a_held_pace_is_that_of_bounded_normal_factors(drift: float, variance: float) -> None:
    held = Pace(drift, variance).held()
    drawn = np.minimum(np.random.default_rng(2).normal(drift, math.sqrt(variance), 400_000), math.log(10))
    assert held.drift == pytest.approx(drawn.mean(), abs=0.01)
    assert held.variance == pytest.approx(drawn.var(), abs=0.02)


def test_the_time_to_a_threshold_is_inverse_gaussian() -> None:
    passage = Passage(8.0, Pace(0.2, 0.5))
    law = invgauss(mu=40 / (64 / 0.5), scale=64 / 0.5)
    assert passage.mean == pytest.approx(40)
    for looks in (10.0, 40.0, 100.0):
        assert passage.probability(looks) == pytest.approx(law.cdf(looks), abs=1e-9)
    for chance in (0.1, 0.5, 0.9, 0.99):
        assert passage.quantile(chance) == pytest.approx(law.ppf(chance), rel=1e-3)


def test_a_walk_that_does_not_rise_never_arrives() -> None:
    for pace in (Pace(0.0, 1.0), Pace(-0.1, 1.0)):
        passage = Passage(5.0, pace)
        assert passage.mean == passage.quantile(0.5) == math.inf
        assert passage.probability(1e6) == 0
    assert Passage(5.0, Pace(1.0, 1.0)).probability(0) == 0


def test_without_variance_a_walk_arrives_on_time() -> None:
    assert passed(np.array([4.9, 5.0, 5.1]), 5.0, 0.0).tolist() == [0, 1, 1]


def test_the_smallest_effect_is_where_the_chance_is_reached_and_inf_where_it_never_is() -> None:
    assert invert(lambda x: x / 10, 0.8, (0.0, 10.0)) == pytest.approx(8, rel=1e-3)
    assert invert(lambda x: float(x >= 0), 0.8, (-5.0, 5.0), 1e-300) == pytest.approx(0, abs=1e-6)
    assert invert(lambda x: x / 100, 0.8, (0.0, 10.0)) == math.inf


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: Pace(math.nan, 1.0), "finite drift and a variance >= 0, got nan and 1.0"),
        (lambda: Pace(1.0, -1.0), "got 1.0 and -1.0"),
        (lambda: Cell(0.0, 0.1, 0.1, 0.1), "size must be above 0 requests and finite, got 0.0"),
        (lambda: Cell(1.0, 0.1, 1.0, 0.1), "bet must lie between 0 and 1, got 1.0"),
        (lambda: Arms(450, 0.01, -1, 0.01), "candidate_total must be above 0 requests and finite, got -1"),
        (lambda: Arms(450, 0.0, 50, 0.01), "baseline_rate must lie between 0 and 1, got 0.0"),
        (lambda: odds_ratio_pace(_ARMS, 0.0, 1.0), "an odds ratio must be above 0 and finite, got 0.0"),
        (lambda: tilt_pace(np.zeros(2), np.ones(2), np.ones(2)), "both variants need requests in some bucket, got 0.0"),
        (lambda: paired_pace(10, 0.7, 0.4, (0.1, 0.0)), "at most 1 together, got 0.7 and 0.4"),
        (lambda: paired_pace(10, 0.1, 0.1, (1.0, 0.0)), "a bet lies between 0 and 1 / .1 . margin. = 1, got 1.0"),
        (lambda: Passage(0.0, Pace(1.0, 1.0)), "distance must be above 0 nats and finite, got 0.0"),
        (lambda: Passage(1.0, Pace(1.0, 1.0)).quantile(1.0), "chance must lie between 0 and 1, got 1.0"),
        (lambda: invert(lambda x: x, 0.5, (1.0, 0.0)), "low before high, got 1.0 and 0.0"),
    ],
)
def test_bad_input_is_refused_with_value_and_range(wrong: "object", message: str) -> None:
    with pytest.raises(ValueError, match=message):
        wrong()  # type: ignore[operator]  # each is a function without arguments


def test_a_backing_is_a_plain_value() -> None:
    assert Backing(0.5, Pace(1.0, 2.0)) == Backing(0.5, Pace(1.0, 2.0))
