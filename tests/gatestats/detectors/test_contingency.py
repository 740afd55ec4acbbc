import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2, chi2_contingency

from gatestats.detectors.contingency import ContingencyTest, chi_square, g_test
from gatestats.detectors.inputs import NoData
from tests.gatestats.detectors.results import has_nan

BASELINE = (100, 200, 400, 200, 100)
CANDIDATE = (20, 30, 80, 50, 20)
Test = Callable[..., ContingencyTest | NoData]


def known(result: ContingencyTest | NoData) -> ContingencyTest:
    assert isinstance(result, ContingencyTest)
    return result


def test_both_statistics_are_those_of_the_table() -> None:
    pearson = known(chi_square(BASELINE, CANDIDATE))
    assert pearson.statistic == pytest.approx(4.173913043478264, abs=1e-9)
    assert pearson.p_value == pytest.approx(0.38298063186357856, abs=1e-9)
    likelihood = known(g_test(BASELINE, CANDIDATE))
    assert likelihood.statistic == pytest.approx(4.219856156832666, abs=1e-9)
    assert likelihood.p_value == pytest.approx(0.37706847436788754, abs=1e-9)
    assert pearson.degrees == likelihood.degrees == 4
    assert pearson.least_expected == pytest.approx(20)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), min_size=2, max_size=7))
def test_without_merging_both_agree_with_scipy(counts: list[tuple[int, int]]) -> None:
    table = np.array([pair for pair in counts if sum(pair)]).T
    if table.size < 4 or not table.any(axis=1).all():
        return
    arms = [[pair[arm] for pair in counts] for arm in (0, 1)]
    for test, name in ((chi_square, "pearson"), (g_test, "log-likelihood")):
        expected = chi2_contingency(table, correction=False, lambda_=name)
        result = known(test(*arms, least_expected=0.0))
        assert result.statistic == pytest.approx(float(expected.statistic), abs=1e-9)
        # near 0 the p-value moves with the root of the statistic's last bits
        assert result.p_value == pytest.approx(float(expected.pvalue), abs=1e-6)
        assert result.p_value == pytest.approx(float(chi2.sf(result.statistic, expected.dof)), rel=1e-9)
        assert result.degrees == expected.dof


@pytest.mark.parametrize("test", [chi_square, g_test])
def test_thin_columns_are_merged_and_empty_ones_dropped(test: Test) -> None:
    merged = known(test((40, 0, 3, 2, 50, 1), (35, 0, 4, 5, 55, 2)))
    assert merged.columns == (0, 2, 4)
    assert merged.least_expected >= 5
    by_hand = known(test((40, 5, 51), (35, 9, 57)))
    assert merged.statistic == pytest.approx(by_hand.statistic)
    assert known(test((40, 0, 30), (35, 0, 30))).columns == (0, 2)


@pytest.mark.parametrize("test", [chi_square, g_test])
def test_too_little_is_no_data(test: Test) -> None:
    assert test((0, 0), (1, 2)) == NoData("the baseline has no counts")
    assert test((5, 0), (9, 0)) == NoData(
        "fewer than two columns with 5.0 expected counts, so there is nothing to compare"
    )
    assert isinstance(test((3, 4), (2, 5)), NoData)


@pytest.mark.parametrize("test", [chi_square, g_test])
def test_bad_input_is_refused_with_its_value(test: Test) -> None:
    with pytest.raises(ValueError, match="same bins, got 1 of the baseline and 2"):
        test((1,), (1, 2))
    with pytest.raises(ValueError, match=r"baseline\[0\] must be a whole number in 0.., got True"):
        test((True, 2), (1, 2))
    with pytest.raises(ValueError, match=r"least_expected must be finite and at least 0.0, got inf"):
        test((1, 2), (1, 2), least_expected=math.inf)


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=5), st.sampled_from([0.0, 1.0, 5.0])
)
def test_no_test_holds_nan_and_cells_reach_what_was_asked(counts: list[tuple[int, int]], least: float) -> None:
    arms = [[pair[arm] for pair in counts] for arm in (0, 1)]
    for test in (chi_square, g_test):
        result = test(*arms, least_expected=least)
        assert not has_nan(result)
        assert isinstance(result, NoData) or result.least_expected >= least * (1 - 1e-9)


@pytest.mark.parametrize("test", [chi_square, g_test])
def test_false_alarms_are_about_as_frequent_as_said(test: Test) -> None:
    random, alpha, runs = np.random.default_rng(9), 0.05, 1000
    arms = [random.multinomial(size, [0.5, 0.3, 0.15, 0.04, 0.01], runs).tolist() for size in (2000, 200)]
    alarms = sum(known(test(*pair)).p_value <= alpha for pair in zip(*arms, strict=True))
    assert alpha * runs / 2 <= alarms <= alpha * runs + 3.5 * math.sqrt(alpha * runs)
