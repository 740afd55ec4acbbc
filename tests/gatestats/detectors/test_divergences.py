import math
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon
from scipy.stats import chi2, entropy

from gatestats.detectors.bins import baseline_groups
from gatestats.detectors.divergences import (
    Divergence,
    JensenShannon,
    PopulationStability,
    jensen_shannon,
    kullback_leibler,
    population_stability,
    smoothed,
)
from gatestats.detectors.inputs import NoData
from tests.gatestats.detectors.results import has_nan

BASELINE = (100, 200, 400, 200, 100)
CANDIDATE = (20, 30, 80, 50, 20)

counts = st.integers(0, 500)
#: Both variants on 2 to 8 bins.
pairs = st.integers(2, 8).flatmap(lambda bins: st.tuples(*[st.lists(counts, min_size=bins, max_size=bins)] * 2))


Measured = TypeVar("Measured", bound=Divergence)


def known(result: Measured | NoData) -> Measured:
    assert not isinstance(result, NoData)
    return result


def test_psi_is_that_of_the_table_with_and_without_smoothing() -> None:
    bare = known(population_stability(BASELINE, CANDIDATE, pseudo_count=0.0))
    assert bare.nats == pytest.approx(0.025541281188299538, abs=1e-12)
    smooth = known(population_stability(BASELINE, CANDIDATE))
    assert smooth.nats == pytest.approx(0.024930080671347953, abs=1e-12)


def test_psi_carries_its_null_threshold_and_null_mean() -> None:
    result = known(population_stability(BASELINE, CANDIDATE, alpha=0.01))
    assert result.null_threshold == pytest.approx(0.07966022481592576, abs=1e-12)
    assert result.null_mean == pytest.approx(0.024, abs=1e-12)
    assert result.excess == pytest.approx(0.024930080671347953 - 0.024, abs=1e-12)
    assert result.p_value == pytest.approx(chi2.sf(result.nats / 0.006, 4), rel=1e-9)
    assert result.degrees == 4
    assert result.thin_bins == 0


def test_kl_and_js_are_those_of_the_table_and_of_scipy() -> None:
    p, q = np.array(BASELINE) / 1000, np.array(CANDIDATE) / 200
    directed = known(kullback_leibler(BASELINE, CANDIDATE))
    assert directed.nats == pytest.approx(0.012633576960785278, abs=1e-12)
    assert directed.nats == pytest.approx(float(entropy(q, p)), abs=1e-12)
    symmetric = jensen_shannon(BASELINE, CANDIDATE)
    assert isinstance(symmetric, JensenShannon)
    assert symmetric.nats == pytest.approx(0.0031835991669978466, abs=1e-12)
    assert symmetric.distance == pytest.approx(0.0677714005344879, abs=1e-9)
    assert symmetric.distance == pytest.approx(float(jensenshannon(p, q, base=2)), abs=1e-9)
    assert math.sqrt(symmetric.nats) == pytest.approx(0.056423392019603155, abs=1e-9)


def test_a_large_psi_of_few_counts_is_no_shift_and_of_many_is_one() -> None:
    few, many = (10, 10, 10, 10), (13, 5, 8, 14)
    small = known(population_stability(few, many))
    assert small.nats > 0.1
    assert not small.shifted(0.1)
    large = known(population_stability([100 * count for count in few], [100 * count for count in many]))
    assert large.shifted(0.1)
    assert not large.shifted(limit=large.nats)


def test_a_bin_that_only_the_candidate_fills_is_infinite_unless_smoothed_and_is_named() -> None:
    bare = known(kullback_leibler((50, 0, 50), (40, 10, 50)))
    assert bare.nats == math.inf
    assert bare.infinite_bins == (1,)
    assert bare.p_value < 0.01
    assert bare.shifted()
    smooth = known(kullback_leibler((50, 0, 50), (40, 10, 50), pseudo_count=0.5))
    assert math.isfinite(smooth.nats)
    assert smooth.infinite_bins == ()
    absent = known(kullback_leibler((40, 10, 50), (50, 0, 50)))
    assert math.isfinite(absent.nats)
    either = known(population_stability((40, 10, 50), (50, 0, 50), pseudo_count=0.0, least_share=0.0))
    assert either.nats == math.inf
    assert either.infinite_bins == (1,)


def test_bins_are_merged_until_each_holds_its_share_of_the_baseline() -> None:
    assert baseline_groups((1, 1, 3, 50, 44, 1), 0.05) == (0, 3, 4)
    assert baseline_groups((1, 1, 3, 50, 44, 1), 0.0) == (0, 1, 2, 3, 4, 5)
    assert baseline_groups((0, 0, 0), 0.05) == (0, 1, 2)
    assert baseline_groups((1, 1), 1.0) == (0,)
    result = known(population_stability((1, 1, 3, 50, 44, 1), (0, 0, 9, 50, 40, 1)))
    assert result.groups == (0, 3, 4)
    assert result.degrees == 2


def test_bins_that_both_leave_empty_change_nothing() -> None:
    dense = known(population_stability((30, 70), (8, 12), least_share=0.0))
    sparse = known(population_stability((0, 30, 0, 70, 0), (0, 8, 0, 12, 0), least_share=0.0))
    assert sparse.nats == dense.nats
    assert sparse.null_threshold == dense.null_threshold
    assert sparse.groups == (1, 3)


def test_thin_bins_are_counted() -> None:
    assert known(population_stability((900, 50, 50), (18, 1, 1), least_share=0.0)).thin_bins == 2


@pytest.mark.parametrize("measure", [population_stability, kullback_leibler, jensen_shannon])
def test_nothing_counted_is_no_data(measure: Callable[..., Divergence | NoData]) -> None:
    assert measure((0, 0), (1, 2)) == NoData("the baseline has no counts")
    assert measure((1, 2), (0, 0)) == NoData("the candidate has no counts")
    assert measure((5, 0), (7, 0)) == NoData("all counts lie in one bin, so no shift can be seen")


@pytest.mark.parametrize("measure", [population_stability, kullback_leibler, jensen_shannon])
def test_bad_input_is_refused_with_its_value_even_without_data(measure: Callable[..., Divergence | NoData]) -> None:
    with pytest.raises(ValueError, match="same bins, got 2 of the baseline and 3"):
        measure((1, 2), (1, 2, 3))
    with pytest.raises(ValueError, match=r"candidate\[1\] must be a whole number in 0.., got -1"):
        measure((1, 2), (1, -1))
    with pytest.raises(ValueError, match=r"baseline\[0\] must be a whole number in 0.., got 1.5"):
        measure((1.5, 2), (1, 1))
    with pytest.raises(ValueError, match="baseline must hold at least one count"):
        measure((), ())
    with pytest.raises(ValueError, match=r"alpha must lie between 0 and 1, both excluded, got 1.0"):
        measure((0, 0), (0, 0), alpha=1.0)
    with pytest.raises(ValueError, match=r"least_share must be at most 1, got 1.5"):
        measure((0, 0), (0, 0), least_share=1.5)
    with pytest.raises(ValueError, match=r"least_share must be finite and at least 0.0, got nan"):
        measure((0, 0), (0, 0), least_share=math.nan)


def test_a_bad_pseudo_count_or_limit_is_refused() -> None:
    with pytest.raises(ValueError, match=r"pseudo_count must be finite and at least 0.0, got -0.5"):
        population_stability((1, 2), (3, 4), pseudo_count=-0.5)
    with pytest.raises(ValueError, match=r"limit must be finite and at least 0.0, got -0.1"):
        known(population_stability((1, 2), (3, 4))).shifted(-0.1)


def test_smoothed_shares_add_up_and_do_not_exist_without_counts() -> None:
    shares = smoothed((0, 3, 1), 0.5)
    assert shares == pytest.approx((0.5 / 5.5, 3.5 / 5.5, 1.5 / 5.5))
    assert smoothed((0, 0)) == NoData("there are no counts")


@given(pairs)
def test_psi_is_at_least_zero_and_symmetric(pair: tuple[list[int], list[int]]) -> None:
    there = population_stability(*pair, least_share=0.0)
    back = population_stability(*pair[::-1], least_share=0.0)
    if isinstance(there, NoData):
        assert isinstance(back, NoData)
        return
    assert there.nats >= 0
    assert known(back).nats == pytest.approx(there.nats, abs=1e-12)
    assert 0 <= there.p_value <= 1


@given(pairs)
def test_js_lies_between_nothing_and_ln_2_and_is_symmetric(pair: tuple[list[int], list[int]]) -> None:
    there, back = jensen_shannon(*pair), jensen_shannon(*pair[::-1])
    if isinstance(there, NoData):
        return
    assert 0 <= there.nats <= math.log(2)
    assert 0 <= there.distance <= 1
    assert known(back).nats == pytest.approx(there.nats, abs=1e-12)


def test_js_of_disjoint_distributions_is_ln_2() -> None:
    result = jensen_shannon((10, 0), (0, 7))
    assert isinstance(result, JensenShannon)
    assert result.nats == pytest.approx(math.log(2))
    assert result.distance == pytest.approx(1.0)


@given(pairs, st.sampled_from([0.0, 0.5]), st.sampled_from([0.0, 0.05]))
def test_no_divergence_holds_nan(pair: tuple[list[int], list[int]], pseudo_count: float, least_share: float) -> None:
    psi = population_stability(*pair, pseudo_count=pseudo_count, least_share=least_share)
    assert not has_nan(psi)
    assert isinstance(psi, NoData) or not math.isnan(psi.excess)
    assert not has_nan(kullback_leibler(*pair, pseudo_count=pseudo_count, least_share=least_share))
    assert not has_nan(jensen_shannon(*pair, least_share=least_share))


@pytest.mark.parametrize("measure", [population_stability, jensen_shannon])
@pytest.mark.parametrize(("bins", "size"), [(10, 200), (20, 100)])
def test_the_null_threshold_is_exceeded_about_as_often_as_it_says(
    measure: Callable[..., PopulationStability | JensenShannon | NoData], bins: int, size: int
) -> None:
    random, alpha, runs = np.random.default_rng(4), 0.05, 800
    baseline = random.multinomial(10_000, [1 / bins] * bins, runs).tolist()
    candidate = random.multinomial(size, [1 / bins] * bins, runs).tolist()
    measured = [measure(*arms, alpha=alpha) for arms in zip(baseline, candidate, strict=True)]
    results = [result for result in measured if not isinstance(result, NoData)]
    assert len(results) == runs
    alarms = sum(result.shifted() for result in results)
    assert alarms <= alpha * runs + 3.5 * math.sqrt(alpha * runs)
    assert alarms >= alpha * runs / 4
    assert np.mean([result.nats for result in results]) == pytest.approx(results[0].null_mean, rel=0.2)


def test_the_usual_limit_alone_alarms_on_small_healthy_slices_and_with_the_null_threshold_it_does_not() -> None:
    random, runs = np.random.default_rng(5), 500
    baseline = random.multinomial(10_000, [0.1] * 10, runs).tolist()
    candidate = random.multinomial(100, [0.1] * 10, runs).tolist()
    results = [known(population_stability(*arms)) for arms in zip(baseline, candidate, strict=True)]
    assert sum(result.nats > 0.1 for result in results) > 0.2 * runs
    assert sum(result.shifted(0.1) for result in results) <= 0.03 * runs
