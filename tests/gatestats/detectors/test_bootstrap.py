import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import bootstrap

from gatestats.arrays import FloatArray
from gatestats.detectors.bootstrap import BootstrapInterval, _corrected, bca_interval, bca_interval_of_counts
from gatestats.detectors.inputs import NoData
from tests.gatestats.detectors.results import has_nan

VALUES = (2.1, 3.4, 1.9, 5.6, 4.4, 3.8, 2.7, 9.5, 3.1, 4.0)


def known(result: BootstrapInterval | NoData) -> BootstrapInterval:
    assert isinstance(result, BootstrapInterval)
    return result


def share_of_second(counts: FloatArray) -> FloatArray:
    share: FloatArray = counts[..., 1] / counts.sum(axis=-1)
    return share


def mean_score(counts: FloatArray) -> FloatArray:
    mean: FloatArray = counts @ np.arange(counts.shape[-1]) / counts.sum(axis=-1)
    return mean


def spread_of(values: FloatArray) -> FloatArray:
    spread: FloatArray = values.std(axis=-1)
    return spread


def test_acceleration_and_interval_are_those_of_the_table() -> None:
    # ten values leave gaps between the possible means: at 20,000 redraws scipy's own bound is 5.93 with some seeds
    result = known(bca_interval(VALUES, draws=100_000))
    assert result.acceleration == pytest.approx(0.08300266870124372, abs=1e-9)
    assert (result.low, result.high) == pytest.approx((3.12, 6.00), abs=0.06)
    assert result.estimate == pytest.approx(4.05)
    assert result.few


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_the_interval_is_that_of_scipy_but_for_the_redraws(level: float) -> None:
    values = np.random.default_rng(11).exponential(2.0, 60).tolist()
    expected = bootstrap(
        (np.array(values),), np.std, n_resamples=9_999, confidence_level=level, rng=np.random.default_rng(1)
    ).confidence_interval
    result = known(bca_interval(values, spread_of, level=level))
    assert (result.low, result.high) == pytest.approx((expected.low, expected.high), abs=0.05)
    assert not result.few


def test_counts_give_the_interval_of_the_draws_behind_them() -> None:
    counts = (30, 12, 5, 3)
    single = known(bca_interval(np.repeat(np.arange(4.0), counts).tolist()))
    pooled = known(bca_interval_of_counts(counts, mean_score))
    assert pooled.estimate == pytest.approx(single.estimate)
    assert pooled.acceleration == pytest.approx(single.acceleration, abs=1e-12)
    assert (pooled.low, pooled.high) == pytest.approx((single.low, single.high), abs=0.03)


def test_many_bins_are_redrawn_in_blocks() -> None:
    counts = [1] * 2100
    result = known(bca_interval_of_counts(counts, mean_score, draws=3_000))
    assert result.low < 1049.5 < result.high


def test_the_same_seed_gives_the_same_interval() -> None:
    assert bca_interval(VALUES, seed=5) == bca_interval(VALUES, seed=5)
    assert bca_interval(VALUES, seed=5) != bca_interval(VALUES, seed=6)


def test_beyond_the_pole_of_the_correction_the_bound_is_the_outermost_redraw() -> None:
    assert _corrected(1.0, 0.16, 5.2) == pytest.approx(1.0)
    assert _corrected(1.0, 0.16, 5.3) == 1.0
    assert _corrected(-1.0, -0.16, -5.3) == 0.0


def test_the_interval_does_not_depend_on_the_unit() -> None:
    usual = known(bca_interval(VALUES))
    for unit in (1e-90, 1e90):
        other = known(bca_interval([value * unit for value in VALUES]))
        assert other.acceleration == pytest.approx(usual.acceleration)
        assert other.high / unit == pytest.approx(usual.high)


def test_coverage_is_near_the_level() -> None:
    random, covered, runs = np.random.default_rng(12), 0, 200
    for run in range(runs):
        result = known(bca_interval(random.exponential(1.0, 60).tolist(), draws=499, seed=run))
        covered += result.low <= 1.0 <= result.high
    assert 0.87 <= covered / runs <= 0.99


def test_nothing_to_redraw_is_no_data() -> None:
    assert bca_interval([]) == NoData("a bootstrap needs at least 2 values, got 0")
    assert bca_interval_of_counts((1, 0), share_of_second) == NoData("a bootstrap needs at least 2 counts, got 1")
    no_spread = NoData("leaving out any one draw leaves the statistic as it is, so a bootstrap sees no spread")
    assert bca_interval([3.3] * 9) == no_spread
    assert bca_interval_of_counts((50, 0), share_of_second) == no_spread


def test_bad_input_is_refused_with_its_value() -> None:
    with pytest.raises(ValueError, match=r"values\[0\] must be a finite number, got nan"):
        bca_interval([math.nan, 1.0])
    with pytest.raises(ValueError, match="level must lie between 0 and 1, both excluded, got 95"):
        bca_interval([], level=95)
    with pytest.raises(ValueError, match="draws must be a whole number of at least 99, got 5"):
        bca_interval_of_counts((0, 0), share_of_second, draws=5)
    with pytest.raises(ValueError, match="finite for every redraw, but is not for the estimate"):
        bca_interval(VALUES, lambda values: values.mean(axis=-1) * math.inf)


@given(st.lists(st.integers(0, 8), min_size=2, max_size=5))
@settings(max_examples=60)
def test_no_bootstrap_holds_nan(counts: list[int]) -> None:
    result = bca_interval_of_counts(counts, share_of_second, draws=99)
    assert not has_nan(result)
    assert isinstance(result, NoData) or result.low <= result.high
