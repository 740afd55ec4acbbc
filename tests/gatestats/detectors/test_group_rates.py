import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatestats.detectors.group_rates import (
    Confusion,
    EqualisedOdds,
    GroupRate,
    RateSpread,
    counterfactual_flip_rate,
    demographic_parity,
    equalised_odds,
    rate_spread,
)
from gatestats.detectors.inputs import NoData, Undefined
from gatestats.detectors.intervals import FixedInterval
from tests.gatestats.detectors.results import has_nan

TWO = {"a": Confusion(80, 20, 10, 90), "b": Confusion(45, 15, 12, 48)}
THREE = {**TWO, "c": Confusion(7, 3, 0, 30)}

cells = st.builds(Confusion, *[st.integers(0, 4)] * 4)


def odds(result: EqualisedOdds | NoData) -> EqualisedOdds:
    assert isinstance(result, EqualisedOdds)
    return result


def parity(result: RateSpread | NoData) -> RateSpread:
    assert isinstance(result, RateSpread)
    return result


@pytest.mark.parametrize(
    ("groups", "worst", "mean", "ratio", "difference", "parity_ratio"),
    [
        # fairlearn 0.15.0: equalized_odds_difference (worst_case, mean), equalized_odds_ratio, demographic_parity_*
        (TWO, 0.1, 0.075, 0.5, 0.025, 0.9473684210526315),
        (THREE, 0.2, 0.15, 0.0, 0.3, 0.3684210526315789),
    ],
)
def test_differences_and_ratios_are_those_of_fairlearn(
    groups: dict[str, Confusion], worst: float, mean: float, ratio: float, difference: float, parity_ratio: float
) -> None:
    result = odds(equalised_odds(groups))
    assert result.worst_difference == pytest.approx(worst, abs=1e-9)
    assert result.mean_difference == pytest.approx(mean, abs=1e-9)
    assert result.worst_ratio == pytest.approx(ratio, abs=1e-9)
    assert result.undefined == ()
    selection = parity(demographic_parity(groups))
    assert selection.difference == pytest.approx(difference, abs=1e-9)
    assert selection.ratio == pytest.approx(parity_ratio, abs=1e-9)


def test_rates_of_groups_are_reported() -> None:
    result = odds(equalised_odds(TWO))
    assert result.true_positive.by_group == pytest.approx({"a": 0.8, "b": 0.75})
    assert result.false_positive.by_group == pytest.approx({"a": 0.1, "b": 0.2})


def test_a_group_without_positives_is_named_and_the_others_are_compared() -> None:
    groups = {**TWO, "small": Confusion(0, 0, 1, 4)}
    result = odds(equalised_odds(groups))
    assert result.undefined == (Undefined("TruePositive rate of group small", "it has no positives"),)
    assert result.true_positive.difference == pytest.approx(0.05)
    assert set(result.false_positive.by_group) == {"a", "b", "small"}


def test_what_one_group_alone_has_is_not_compared() -> None:
    groups = {"a": Confusion(8, 2, 0, 0), "b": Confusion(7, 3, 2, 8)}
    result = odds(equalised_odds(groups))
    assert result.worst_difference is None
    assert result.mean_difference is None
    assert result.worst_ratio is None
    assert result.false_positive.by_group == {"b": 0.2}
    assert [each.name for each in result.undefined] == [
        "FalsePositive rate of group a",
        "FalsePositive difference",
        "FalsePositive ratio",
    ]
    assert result.undefined[1].why == "fewer than two groups have negatives"


def test_the_ratio_of_rates_that_are_all_zero_does_not_exist() -> None:
    result = parity(demographic_parity({"a": Confusion(0, 5, 0, 5), "b": Confusion(0, 3, 0, 7)}))
    assert result.difference == 0.0
    assert result.ratio is None
    assert result.undefined == (Undefined("Selection ratio", "the rate of every group is 0"),)


def test_no_counts_are_no_data() -> None:
    nothing = NoData("no group has any counts")
    for groups in ({}, {"a": Confusion(0, 0, 0, 0)}):
        assert equalised_odds(groups) == nothing
        assert demographic_parity(groups) == nothing
    assert counterfactual_flip_rate(0, 0) == NoData("nothing was counted, so there is no rate")


def test_three_equal_groups_of_a_hundred_differ_by_chance_and_the_result_says_by_how_much() -> None:
    random, seen = np.random.default_rng(19), []
    for approved in random.binomial(100, 0.5, (200, 3)).tolist():
        groups = {name: Confusion(count, 100 - count, 0, 0) for name, count in zip("abc", approved, strict=True)}
        seen.append(rate_spread(groups, GroupRate.TRUE_POSITIVE).difference)
    middle = rate_spread({name: Confusion(50, 50, 0, 0) for name in "abc"}, GroupRate.TRUE_POSITIVE)
    assert middle.difference == 0.0
    assert middle.null_difference == pytest.approx(0.084, abs=0.003)
    assert np.mean([difference for difference in seen if difference is not None]) == pytest.approx(0.084, abs=0.012)


def test_the_flip_rate_carries_jeffreys_bounds() -> None:
    result = counterfactual_flip_rate(8, 500)
    assert isinstance(result, FixedInterval)
    assert result.estimate == 0.016
    assert (result.low, result.high) == pytest.approx((0.007592505210406179, 0.02996206715199988), abs=1e-9)
    with pytest.raises(ValueError, match=r"events must be a whole number in 0..5, got 6"):
        counterfactual_flip_rate(6, 5)


def test_bad_counts_are_refused_with_their_name_and_value() -> None:
    with pytest.raises(ValueError, match=r"false_positives must be a whole number in 0.., got -1"):
        Confusion(1, 1, -1, 1)
    with pytest.raises(ValueError, match=r"true_negatives must be a whole number in 0.., got 0.5"):
        Confusion(1, 1, 1, 0.5)  # type: ignore[arg-type] # what a careless caller passes


@given(st.dictionaries(st.sampled_from("abcd"), cells))
@settings(max_examples=60)
def test_every_group_has_each_rate_or_is_named_and_nothing_holds_nan(groups: dict[str, Confusion]) -> None:
    result = equalised_odds(groups)
    assert not has_nan(result)
    assert not has_nan(demographic_parity(groups))
    if isinstance(result, NoData):
        return
    for spread in (result.true_positive, result.false_positive):
        named = {each.name.removeprefix(f"{spread.rate} rate of group ") for each in spread.undefined}
        assert set(groups) <= set(spread.by_group) | named
        assert not set(spread.by_group) & named
        assert spread.difference is None or 0 <= spread.difference <= 1
        assert spread.ratio is None or (0 <= spread.ratio <= 1 and not math.isnan(spread.ratio))
