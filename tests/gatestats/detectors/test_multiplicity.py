import math
from collections.abc import Callable, Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import false_discovery_control

from gatestats.detectors.inputs import NoData, Undefined
from gatestats.detectors.multiplicity import Adjusted, benjamini_hochberg, benjamini_yekutieli, holm

FIVE = dict(zip("abcde", (0.01, 0.04, 0.03, 0.005, 0.2), strict=True))
TEN = dict(zip("abcdefghij", (0.001, 0.9, 0.9, 0.2, 0.04, 0.04, 0.03, 1, 0, 0.6), strict=True))
Method = Callable[[Mapping[str, float]], Adjusted | NoData]
METHODS: tuple[Method, ...] = (holm, benjamini_hochberg, benjamini_yekutieli)

many = st.lists(st.floats(0, 1), min_size=1, max_size=12).map(lambda p: {str(i): value for i, value in enumerate(p)})


def values(result: Adjusted | NoData) -> list[float]:
    assert isinstance(result, Adjusted)
    return list(result.p_values.values())


def test_all_three_are_those_of_the_table() -> None:
    assert values(holm(FIVE)) == pytest.approx([0.04, 0.09, 0.09, 0.025, 0.2], abs=1e-9)
    assert values(benjamini_hochberg(FIVE)) == pytest.approx([0.025, 0.05, 0.05, 0.025, 0.2], abs=1e-9)
    expected = [0.05708333333, 0.11416666667, 0.11416666667, 0.05708333333, 0.45666666667]
    assert values(benjamini_yekutieli(FIVE)) == pytest.approx(expected, abs=1e-9)


def test_ties_and_ends_are_those_of_statsmodels() -> None:
    # statsmodels 0.15.0, multipletests
    assert values(holm(TEN)) == pytest.approx([0.009, 1, 1, 1, 0.28, 0.28, 0.24, 1, 0, 1], abs=1e-9)
    hochberg = [0.005, 1, 1, 0.33333333333333337, 0.08, 0.08, 0.08, 1, 0, 0.8571428571428572]
    assert values(benjamini_hochberg(TEN)) == pytest.approx(hochberg, abs=1e-9)
    yekutieli = [0.014644841269841268, 1, 1, 0.9763227513227513, *[0.2343174603174603] * 3, 1, 0, 1]
    assert values(benjamini_yekutieli(TEN)) == pytest.approx(yekutieli, abs=1e-9)


@given(many)
def test_both_false_discovery_rates_are_those_of_scipy(p_values: dict[str, float]) -> None:
    given_p = np.array(list(p_values.values()))
    assert values(benjamini_hochberg(p_values)) == pytest.approx(false_discovery_control(given_p).tolist(), abs=1e-12)
    expected = false_discovery_control(given_p, method="by").tolist()
    assert values(benjamini_yekutieli(p_values)) == pytest.approx(expected, abs=1e-12)


@given(many, st.sampled_from([0.013, 0.057, 0.21, 0.5]))
def test_rejections_are_those_of_the_step_rules(p_values: dict[str, float], alpha: float) -> None:
    ranked, number = sorted(p_values.values()), len(p_values)
    reached = [rank for rank in range(1, number + 1) if ranked[rank - 1] <= rank * alpha / number]
    up = benjamini_hochberg(p_values)
    assert isinstance(up, Adjusted)
    assert len(up.rejected(alpha)) == max(reached, default=0)
    failed = [rank for rank in range(1, number + 1) if ranked[rank - 1] > alpha / (number - rank + 1)]
    down = holm(p_values)
    assert isinstance(down, Adjusted)
    assert len(down.rejected(alpha)) == min(failed, default=number + 1) - 1


@pytest.mark.parametrize("method", METHODS)
def test_nan_is_left_out_named_and_not_counted(method: Method) -> None:
    result = method({"lost": math.nan, **FIVE})
    assert isinstance(result, Adjusted)
    assert list(result.p_values) == list(FIVE)
    assert values(result) == values(method(FIVE))
    assert result.undefined == (Undefined("lost", "its p-value is NaN"),)
    assert "lost" not in result.rejected(0.99)


@pytest.mark.parametrize("method", METHODS)
def test_no_p_value_is_no_data(method: Method) -> None:
    assert method({}) == NoData("no p-value given")
    assert method({"a": math.nan, "b": math.nan}) == NoData("there is no p-value: 2 given, all of them NaN")


@pytest.mark.parametrize("method", METHODS)
def test_bad_input_is_refused_with_its_value(method: Method) -> None:
    with pytest.raises(ValueError, match=r"p-value of b must be in 0..1, got 1.5"):
        method({"a": 0.5, "b": 1.5})
    with pytest.raises(ValueError, match=r"p-value of a must be in 0..1, got -0.1"):
        method({"a": -0.1})
    result = method(FIVE)
    assert isinstance(result, Adjusted)
    with pytest.raises(ValueError, match="alpha must lie between 0 and 1, both excluded, got 0"):
        result.rejected(0)


def test_holm_names_any_true_null_no_more_often_than_said() -> None:
    random, alpha, runs = np.random.default_rng(13), 0.05, 1000
    named = 0
    for p_values in random.random((runs, 10)).tolist():
        result = holm({str(place): p_value for place, p_value in enumerate(p_values)})
        assert isinstance(result, Adjusted)
        named += bool(result.rejected(alpha))
    assert alpha * runs / 2 <= named <= alpha * runs + 3.5 * math.sqrt(alpha * runs)
