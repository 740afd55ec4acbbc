import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatestats.detectors.control_charts import (
    EwmaChart,
    Excursion,
    cusum,
    cusum_run_length,
    ewma,
    ewma_half_width,
    page_hinkley,
)
from gatestats.detectors.inputs import NoData
from tests.gatestats.detectors.results import has_nan

series = st.lists(st.floats(-100, 100), min_size=1, max_size=60)


def excursion(result: Excursion | NoData) -> Excursion:
    assert isinstance(result, Excursion)
    return result


def chart(result: EwmaChart | NoData) -> EwmaChart:
    assert isinstance(result, EwmaChart)
    return result


def test_ewma_limits_and_path_are_those_of_the_table() -> None:
    widths = [ewma_half_width(step, sd=1.0, smoothing=0.2, width=3.0) for step in (1, 2, 5, None)]
    assert widths == pytest.approx([0.6, 0.7683749084919418, 0.944788768773211, 1.0], abs=1e-12)
    result = chart(ewma([1, 0, 2, 3, -1], centre=0.0, sd=1.0))
    assert result.path == pytest.approx([0.2, 0.16, 0.528, 1.0224, 0.61792], abs=1e-12)
    assert result.half_widths == pytest.approx([ewma_half_width(step) for step in range(1, 6)], abs=1e-12)
    assert result.alarms == (3,)


def test_ewma_of_the_whole_newest_value_is_the_value() -> None:
    result = chart(ewma([4.0, -2.0], centre=1.0, sd=2.0, smoothing=1.0))
    assert result.path == (4.0, -2.0)
    assert result.half_widths == pytest.approx([6.0, 6.0])


def test_ewma_alarms_on_about_one_healthy_point_in_370() -> None:
    values = np.random.default_rng(1).normal(5.0, 2.0, 100_000).tolist()
    share = len(chart(ewma(values, centre=5.0, sd=2.0)).alarms) / len(values)
    assert 0.001 < share < 0.005


@given(series, st.floats(0, 2))
def test_cusum_is_the_recursion(values: list[float], slack: float) -> None:
    result = excursion(cusum(values, centre=1.0, sd=3.0, slack=slack))
    up = down = 0.0
    for index, value in enumerate(values):
        up = max(0.0, up + (value - 1) / 3 - slack)
        down = max(0.0, down - (value - 1) / 3 - slack)
        assert result.up[index] == pytest.approx(up, abs=1e-9)
        assert result.down[index] == pytest.approx(down, abs=1e-9)


def test_cusum_latches_at_its_first_alarm_in_either_direction() -> None:
    assert excursion(cusum([0, 3, 3, 3, 0, 0, 0], centre=0.0, sd=1.0)).alarm == 2 + 1
    assert excursion(cusum([0, -6, 0, 9], centre=0.0, sd=1.0)).alarm == 1
    assert excursion(cusum([0, 1, 0, -1], centre=0.0, sd=1.0)).alarm is None


def test_the_run_length_is_that_of_the_textbook() -> None:
    # Montgomery, Introduction to Statistical Quality Control: two-sided, slack 1/2, limit 4 and 5.
    assert cusum_run_length(slack=0.5, limit=4.0) == pytest.approx(168, rel=0.02)
    assert cusum_run_length(slack=0.5, limit=5.0) == pytest.approx(465, rel=0.02)
    assert cusum_run_length(slack=0.0, limit=5.0) == pytest.approx(cusum_run_length(slack=1e-4, limit=5.0), rel=1e-3)
    with pytest.raises(ValueError, match=r"must be at most 700, got 802.332: no chart runs that long"):
        cusum_run_length(slack=1.0, limit=400.0)


def test_the_run_length_is_that_of_simulated_healthy_series() -> None:
    random = np.random.default_rng(2)
    lengths = []
    for _ in range(300):
        alarm = excursion(cusum(random.normal(size=1500).tolist(), centre=0.0, sd=1.0, limit=3.0)).alarm
        assert alarm is not None
        lengths.append(alarm + 1)
    expected = cusum_run_length(slack=0.5, limit=3.0)
    assert np.mean(lengths) == pytest.approx(expected, abs=4 * expected / math.sqrt(300))


def test_page_hinkley_is_that_of_river_without_fading() -> None:
    # river 0.26.1: PageHinkley(min_instances=1, delta=.05, alpha=1), increase and decrease after each value.
    result = excursion(page_hinkley([1, 0, 2, 3, -1, 4, 5, 5, 0, 2], delta=0.05, limit=5.0))
    up = [0.0, 0.0, 0.95, 2.4, 0.35, 2.8, 5.75, 8.325, 6.16388888888889, 6.013888888888889]
    down = [0.0, 0.45, 0.0, 0.0, 1.95, 0.0, 0.0, 0.0, 2.061111111111111, 2.111111111111112]
    assert result.up == pytest.approx(up, abs=1e-9)
    assert result.down == pytest.approx(down, abs=1e-9)
    assert result.alarm == 6


def test_page_hinkley_finds_a_shift_and_stays_silent_on_a_level() -> None:
    level = [1.0] * 100
    assert excursion(page_hinkley(level, limit=5.0)).alarm is None
    alarm = excursion(page_hinkley(level + [2.0] * 20, limit=5.0)).alarm
    assert alarm is not None
    assert 100 < alarm < 110


def test_no_values_are_no_data() -> None:
    nothing = NoData("there are no values")
    assert ewma([], centre=0.0, sd=1.0) == nothing
    assert cusum([], centre=0.0, sd=1.0) == nothing
    assert page_hinkley([]) == nothing


def test_bad_input_is_refused_with_its_value() -> None:
    with pytest.raises(ValueError, match=r"values\[1\] must be a finite number, got nan"):
        ewma([0.0, math.nan], centre=0.0, sd=1.0)
    with pytest.raises(ValueError, match=r"values\[0\] must be a finite number, got inf"):
        page_hinkley([math.inf])
    with pytest.raises(ValueError, match="centre must be a finite number, got nan"):
        cusum([], centre=math.nan, sd=1.0)
    with pytest.raises(ValueError, match=r"values\[0\] must be at most 1e\+100 in size, got -1e\+200"):
        page_hinkley([-1e200])
    with pytest.raises(ValueError, match=r"sd must be in 1e-100..1e\+100, got 1e-200"):
        cusum([1.0], centre=0.0, sd=1e-200)
    with pytest.raises(ValueError, match="sd must be finite and above 0, got 0"):
        cusum([], centre=0.0, sd=0.0)
    with pytest.raises(ValueError, match=r"smoothing must be above 0 and at most 1, got 1.5"):
        ewma([], centre=0.0, sd=1.0, smoothing=1.5)
    with pytest.raises(ValueError, match="width must be finite and above 0, got -3"):
        ewma_half_width(1, width=-3)
    with pytest.raises(ValueError, match="step must be at least 1, got 0"):
        ewma_half_width(0)
    with pytest.raises(ValueError, match=r"slack must be finite and at least 0.0, got -1"):
        cusum_run_length(slack=-1, limit=5.0)
    with pytest.raises(ValueError, match="limit must be finite and above 0, got 0"):
        page_hinkley([], limit=0)


@given(st.lists(st.floats(-1e100, 1e100), min_size=1, max_size=60))
def test_no_chart_holds_nan(values: list[float]) -> None:
    assert not has_nan(ewma(values, centre=0.0, sd=1.0))
    assert not has_nan(cusum(values, centre=0.0, sd=1.0))
    assert not has_nan(page_hinkley(values))
