import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import bootstrap, mannwhitneyu

from gatestats.arrays import FloatArray
from gatestats.detectors.inputs import NoData, Undefined
from gatestats.detectors.ranking import RankingArea, ranking_area
from tests.gatestats.detectors.results import has_nan

COUNTS = st.lists(st.integers(0, 6), min_size=4, max_size=4)
#: Places of scores within their bins.
PLACES = st.lists(st.floats(0, 0.99), min_size=24, max_size=24)


def known(result: RankingArea | NoData) -> RankingArea:
    assert isinstance(result, RankingArea)
    return result


@given(COUNTS, COUNTS)
def test_the_area_is_that_of_mann_and_whitney_with_ties(negatives: list[int], positives: list[int]) -> None:
    result = ranking_area(negatives, positives)
    assert not has_nan(result)
    if isinstance(result, NoData):
        assert not (any(negatives) and any(positives))
        return
    scores = [np.repeat(np.arange(4), counts) for counts in (positives, negatives)]
    statistic = mannwhitneyu(*scores, method="asymptotic").statistic if len(set(np.concatenate(scores))) > 1 else None
    if statistic is not None:
        assert result.area == pytest.approx(statistic / (len(scores[0]) * len(scores[1])), abs=1e-12)
    assert 0 <= result.low <= result.area <= result.high <= 1


@given(COUNTS, COUNTS, PLACES, PLACES)
@settings(max_examples=80)
def test_scores_anywhere_in_their_bins_have_an_area_within_the_bounds(
    negatives: list[int], positives: list[int], low_places: list[float], high_places: list[float]
) -> None:
    result = ranking_area(negatives, positives)
    if isinstance(result, NoData):
        return
    below = np.repeat(np.arange(4), negatives) + np.array(low_places)[: sum(negatives)]
    above = np.repeat(np.arange(4), positives) + np.array(high_places)[: sum(positives)]
    wins = (above[:, None] > below).mean() + (above[:, None] == below).mean() / 2
    assert result.low - 1e-12 <= wins <= result.high + 1e-12


def test_the_bounds_are_reached() -> None:
    result = known(ranking_area([3, 1], [1, 3]))
    # 9 pairs in order, 1 in the wrong order, and 3 + 3 in the same bin
    assert (result.low, result.area, result.high) == pytest.approx((9 / 16, 12 / 16, 15 / 16))
    split = known(ranking_area([3, 0, 1, 0], [0, 1, 0, 3]))
    assert (split.low, split.area, split.high) == pytest.approx((15 / 16,) * 3)


def test_the_standard_error_is_that_of_drawing_anew() -> None:
    negatives, positives = [60, 40, 30, 15, 5], [5, 10, 20, 25, 30]
    scores = [np.repeat(np.arange(5.0), counts) for counts in (negatives, positives)]

    def area(below: FloatArray, above: FloatArray) -> float:
        return float((above[:, None] > below).mean() + (above[:, None] == below).mean() / 2)

    drawn = bootstrap(scores, area, vectorized=False, n_resamples=800, method="basic", rng=np.random.default_rng(2))
    result = known(ranking_area(negatives, positives))
    assert result.area == pytest.approx(area(*scores), abs=1e-12)
    assert result.standard_error == pytest.approx(drawn.standard_error, rel=0.08)
    assert result.undefined == ()


def test_one_request_of_a_label_has_an_area_but_no_standard_error() -> None:
    result = known(ranking_area([1, 0], [0, 2]))
    assert result.area == 1.0
    assert result.standard_error is None
    assert result.undefined == (Undefined("standard error", "it needs two requests of each label"),)


def test_scores_of_one_label_alone_are_no_data() -> None:
    assert ranking_area([0, 0], [1, 2]) == NoData("no request with a negative label has a score")
    assert ranking_area([1], [0]) == NoData("no request with a positive label has a score")
    assert ranking_area([0], [0]) == NoData("no request with a negative or a positive label has a score")


def test_bad_counts_are_refused_with_their_value() -> None:
    with pytest.raises(ValueError, match="both labels must be counted in the same bins, got 1 and 2"):
        ranking_area([1], [1, 2])
    with pytest.raises(ValueError, match=r"positives\[0\] must be a whole number in 0.., got -1"):
        ranking_area([1], [-1])
    with pytest.raises(ValueError, match=r"negatives\[0\] must be a whole number in 0.., got nan"):
        ranking_area([math.nan], [1])  # type: ignore[list-item] # what a careless caller passes
    with pytest.raises(ValueError, match="negatives must hold at least one count, got none"):
        ranking_area([], [])
