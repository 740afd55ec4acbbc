import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import median_abs_deviation, t

from gatestats.detectors.inputs import NoData
from gatestats.detectors.z_scores import RobustScore, RollingScores, Spread, robust_z, rolling_z
from tests.gatestats.detectors.results import has_nan


def robust(value: float, history: list[float]) -> RobustScore:
    result = robust_z(value, history)
    assert isinstance(result, RobustScore)
    return result


def rolling(values: list[float], window: int) -> tuple[float | None, ...]:
    result = rolling_z(values, window)
    assert isinstance(result, RollingScores)
    assert result.window == window
    return result.scores


def test_robust_z_is_that_of_the_table_and_says_what_it_was_measured_in() -> None:
    usual = robust(10, [1, 2, 3, 4, 100])
    assert usual.score == pytest.approx(4.721428251372572, abs=1e-9)
    assert usual.spread is Spread.MEDIAN_DEVIATION
    assert usual.median == 3
    tied = robust(2, [1, 1, 1, 1, 5])
    assert tied.score == pytest.approx(0.9973557010035817, abs=1e-9)
    assert tied.spread is Spread.MEAN_DEVIATION
    flat = robust(2, [1, 1, 1])
    assert flat.score == math.inf
    assert flat.spread is Spread.NONE
    assert robust(0, [1, 1, 1]).score == -math.inf
    assert robust(1, [1, 1, 1]).score == 0.0


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=30))
def test_the_robust_scale_is_that_of_scipy(history: list[int]) -> None:
    result = robust(3.0, [float(value) for value in history])
    if result.spread is Spread.MEDIAN_DEVIATION:
        assert result.scale == pytest.approx(float(median_abs_deviation(history, scale="normal")), rel=1e-9)
    assert not has_nan(result)


@given(st.lists(st.integers(-5, 5), min_size=4, max_size=30), st.integers(2, 5))
def test_rolling_z_leaves_the_judged_value_out_of_its_window(values: list[int], window: int) -> None:
    result = rolling_z(values, window)
    if isinstance(result, NoData):
        assert len(values) <= window
        return
    assert result.scores[:window] == (None,) * window
    for place in range(window, len(values)):
        before = values[place - window : place]
        away, spread = values[place] - statistics.mean(before), statistics.stdev(before)
        score = result.scores[place]
        assert score is not None
        if spread:
            assert score == pytest.approx(away / spread, abs=1e-9)
        else:
            assert score == (math.copysign(math.inf, away) if away else 0.0)


def test_a_window_of_equal_values_has_no_spread_in_spite_of_rounding() -> None:
    assert rolling([0.1, 0.1, 0.1, 0.1, 0.2, 0.0], 3)[3:5] == (0.0, math.inf)
    assert rolling([0.1, 0.1, 0.1, 0.0], 3)[3] == -math.inf
    assert rolling([1e-200, 2e-200, 1e-200, 1.0], 3)[3] == math.inf


def test_rolling_z_of_a_healthy_series_follows_students_law() -> None:
    window = 10
    scores = rolling(np.random.default_rng(3).normal(size=20_000).tolist(), window)[window:]
    limit = float(t.isf(0.025, window - 1)) * math.sqrt(1 + 1 / window)
    share = np.mean([abs(score) > limit for score in scores if score is not None])
    assert share == pytest.approx(0.05, abs=0.008)


def test_robust_z_alarms_on_healthy_counts_of_rare_events() -> None:
    # 50 requests a tick, 1 % errors: the median deviation of 30 ticks is 0 or 1.
    random = np.random.default_rng(4)
    alarmed = 0
    for _ in range(50):
        counts = random.binomial(50, 0.01, 30 + 180).tolist()
        alarmed += any(robust(count, counts[:30]).score > 3 for count in counts[30:])
    assert alarmed >= 45


def test_too_few_values_are_no_data() -> None:
    assert robust_z(1.0, []) == NoData("there is no history")
    assert rolling_z([], 5) == NoData("a window of 5 needs at least 6 values, got 0")
    assert rolling_z([1.0] * 5, 5) == NoData("a window of 5 needs at least 6 values, got 5")


def test_bad_input_is_refused_with_its_value() -> None:
    with pytest.raises(ValueError, match="window must be at least 2 values, got 1"):
        rolling_z([1.0], 1)
    with pytest.raises(ValueError, match=r"values\[0\] must be a finite number, got nan"):
        rolling_z([math.nan], 2)
    with pytest.raises(ValueError, match="value must be a finite number, got inf"):
        robust_z(math.inf, [])
    with pytest.raises(ValueError, match=r"history\[0\] must be a finite number, got nan"):
        robust_z(0.0, [math.nan])
