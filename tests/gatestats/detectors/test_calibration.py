import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatestats.detectors.calibration import (
    CalibrationError,
    ConfidenceBin,
    ErrorRange,
    ResidualGaps,
    calibration_error,
    error_range,
    residual_gaps,
)
from gatestats.detectors.inputs import NoData, Undefined
from tests.gatestats.detectors.results import has_nan

bins = st.integers(0, 40).flatmap(
    lambda total: st.tuples(st.just(total), st.floats(0, 1).map(lambda mean: mean * total), st.integers(0, total))
)


def known(result: CalibrationError | NoData) -> CalibrationError:
    assert isinstance(result, CalibrationError)
    return result


def drawn(random: np.random.Generator, totals: list[int], *, lift: float = 0.0) -> list[ConfidenceBin]:
    """One variant whose outcomes are more frequent than its confidences by ``lift``."""
    made = []
    for place, total in enumerate(totals):
        confidences = random.uniform(place / len(totals), (place + 1) / len(totals), total)
        outcomes = random.random(total) < confidences + lift
        made.append(ConfidenceBin(total, float(confidences.sum()), int(outcomes.sum())))
    return made


def test_the_error_is_that_of_raw_predictions() -> None:
    random = np.random.default_rng(14)
    confidences = random.random(500)
    outcomes = random.random(500) < confidences**2
    places = np.minimum((confidences * 10).astype(int), 9)
    made, expected = [], 0.0
    for place in range(10):
        inside = places == place
        made.append(ConfidenceBin(int(inside.sum()), float(confidences[inside].sum()), int(outcomes[inside].sum())))
        expected += inside.mean() * abs(outcomes[inside].mean() - confidences[inside].mean())
    assert known(calibration_error(made)).error == pytest.approx(expected, abs=1e-12)


def test_the_null_mean_is_the_formula_and_what_calibrated_models_show() -> None:
    totals = [200, 100, 60, 100, 200]
    random = np.random.default_rng(15)
    results = [known(calibration_error(drawn(random, totals), draws=99)) for _ in range(400)]
    parts = zip(totals, (0.1, 0.3, 0.5, 0.7, 0.9), strict=True)
    by_hand = sum(math.sqrt(2 * n * p * (1 - p) / math.pi) for n, p in parts) / 660
    assert results[0].null_mean == pytest.approx(by_hand, rel=0.02)
    assert np.mean([result.error for result in results]) == pytest.approx(by_hand, rel=0.08)
    assert np.mean([result.excess for result in results]) == pytest.approx(0.0, abs=0.005)


@pytest.mark.parametrize("totals", [[300], [30, 10, 5, 10, 30]])
def test_false_alarms_are_no_more_frequent_than_said(totals: list[int]) -> None:
    random, alpha, runs = np.random.default_rng(16), 0.05, 600
    results = [known(calibration_error(drawn(random, totals), alpha=alpha, draws=199, seed=run)) for run in range(runs)]
    assert sum(result.error > result.null_threshold for result in results) <= alpha * runs + 3.5 * math.sqrt(
        alpha * runs
    )
    assert sum(result.p_value <= alpha for result in results) <= alpha * runs + 3.5 * math.sqrt(alpha * runs)


def test_an_overconfident_model_is_found() -> None:
    result = known(calibration_error([ConfidenceBin(1000, 900.0, 700), ConfidenceBin(0, 0.0, 0)]))
    assert result.error == pytest.approx(0.2)
    assert result.error > result.null_threshold
    assert result.p_value == pytest.approx(0.001)
    assert result.undefined == (Undefined("bin 1", "no predictions"),)


def test_residuals_of_two_variants_are_compared_bin_by_bin() -> None:
    random = np.random.default_rng(17)
    result = residual_gaps(drawn(random, [4000, 4000]), drawn(random, [500, 800], lift=0.15))
    assert isinstance(result, ResidualGaps)
    assert [gap.place for gap in result.gaps] == [0, 1]
    for gap in result.gaps:
        assert gap.gap == pytest.approx(0.14, abs=0.06)
        assert gap.p_value < 1e-4


def test_gaps_of_alike_variants_alarm_about_as_often_as_said() -> None:
    # Both are as badly calibrated as each other, and of very unequal size, so their errors would differ.
    random, alpha, runs = np.random.default_rng(18), 0.05, 400
    alarms = 0
    for _ in range(runs):
        result = residual_gaps(drawn(random, [1000], lift=0.1), drawn(random, [100], lift=0.1))
        assert isinstance(result, ResidualGaps)
        alarms += result.gaps[0].p_value <= alpha
    assert alarms <= alpha * runs + 3.5 * math.sqrt(alpha * runs)


def test_bins_without_predictions_are_named() -> None:
    full, none = ConfidenceBin(10, 5.0, 5), ConfidenceBin(0, 0.0, 0)
    result = residual_gaps([full, full, none, none], [full, none, full, none])
    assert isinstance(result, ResidualGaps)
    assert len(result.gaps) == 1
    assert [each.name for each in result.undefined] == ["bin 1", "bin 2", "bin 3"]
    assert result.undefined[2].why == "no predictions of the baseline and the candidate"
    assert residual_gaps([none], [full]) == NoData("no bin holds predictions of both variants")
    assert calibration_error([none]) == NoData("no bin holds a prediction with a known outcome")
    assert calibration_error([]) == NoData("no bin holds a prediction with a known outcome")


def test_bad_input_is_refused_with_its_value() -> None:
    with pytest.raises(ValueError, match=r"outcomes must be a whole number in 0..3, got 4"):
        ConfidenceBin(3, 1.0, 4)
    with pytest.raises(ValueError, match=r"confidence must be a sum in 0..3, got 3.5"):
        ConfidenceBin(3, 3.5, 1)
    with pytest.raises(ValueError, match=r"confidence must be a sum in 0..3, got nan"):
        ConfidenceBin(3, math.nan, 1)
    with pytest.raises(ValueError, match="both variants need the same bins, got 1 and 0"):
        residual_gaps([ConfidenceBin(3, 1.0, 1)], [])
    with pytest.raises(ValueError, match=r"alpha must lie between 0 and 1, both excluded, got 2"):
        calibration_error([], alpha=2)


@given(st.lists(bins, min_size=1, max_size=4))
@settings(max_examples=80)
def test_nothing_about_calibration_holds_nan(counters: list[tuple[int, float, int]]) -> None:
    made = [ConfidenceBin(*each) for each in counters]
    result = calibration_error(made, draws=99)
    assert not has_nan(result)
    assert isinstance(result, NoData) or 0 <= result.error <= 1 + 1e-9
    assert not has_nan(residual_gaps(made, made[::-1]))


def test_bins_without_sums_of_confidences_leave_a_range() -> None:
    # of ten in 0.2..0.4 one came true: 0.1 to 0.3 off, from the middle 0.2; of ten in 0.6..1.0 eight: 0 to 0.2, and 0
    result = error_range([10, 0, 10], [1, 0, 8], [0.2, 0.4, 0.6, 1.0])
    assert isinstance(result, ErrorRange)
    assert (result.low, result.middle, result.high) == pytest.approx((0.05, 0.1, 0.25))
    assert error_range([0], [0], [0.0, 1.0]) == NoData("no bin holds a prediction with a known outcome")


@given(st.lists(bins, min_size=3, max_size=3))
@settings(max_examples=60)
def test_the_range_holds_the_error_of_any_confidences_in_their_bins(counters: list[tuple[int, float, int]]) -> None:
    edges = [0.0, 0.2, 0.7, 1.0]
    made = []
    for (total, confidence, outcomes), (low, high) in zip(counters, itertools.pairwise(edges), strict=True):
        mean = low + (high - low) * confidence / total if total else 0.0
        made.append(ConfidenceBin(total, mean * total, outcomes))
    within = error_range([each[0] for each in counters], [each[2] for each in counters], edges)
    result = calibration_error(made, draws=99)
    if isinstance(within, NoData):
        assert result == within
        return
    assert within.low - 1e-9 <= known(result).error <= within.high + 1e-9


def test_bad_bins_of_a_range_are_refused() -> None:
    with pytest.raises(ValueError, match="2 edges lie around bins, got 2 totals and 1 outcomes"):
        error_range([1, 1], [1], [0.0, 1.0])
    with pytest.raises(ValueError, match=r"edges must increase strictly within 0..1, got \(0.0, 1.5\)"):
        error_range([1], [1], [0.0, 1.5])
    with pytest.raises(ValueError, match=r"outcomes must be a whole number in 0..1, got 2"):
        error_range([1], [2], [0.0, 1.0])
