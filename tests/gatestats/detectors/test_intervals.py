import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta

from gatestats.detectors.inputs import NoData
from gatestats.detectors.intervals import FixedInterval, jeffreys, newcombe
from tests.gatestats.detectors.results import has_nan

counts = st.integers(0, 60).flatmap(lambda total: st.tuples(st.integers(0, total), st.just(total)))


def known(result: FixedInterval | NoData) -> FixedInterval:
    assert isinstance(result, FixedInterval)
    return result


@pytest.mark.parametrize(
    ("events", "total", "low", "high"),
    [
        # statsmodels 0.15.0, proportion_confint(method="jeffreys")
        (1, 10, 0.011011673763161133, 0.3813147710666164),
        (8, 500, 0.007592505210406179, 0.02996206715199988),
        # as there, but for the end that Brown, Cai and DasGupta set to 0 or 1
        (0, 10, 0.0, 0.2171962675092106),
        (10, 10, 0.7828037324907894, 1.0),
    ],
)
def test_jeffreys_is_that_of_statsmodels(events: int, total: int, low: float, high: float) -> None:
    result = known(jeffreys(events, total))
    assert (result.low, result.high) == pytest.approx((low, high), abs=1e-9)
    assert result.estimate == events / total
    assert result.level == 0.95


@given(counts, st.floats(0.5, 0.999))
def test_jeffreys_are_quantiles_of_the_posterior(pair: tuple[int, int], level: float) -> None:
    events, total = pair
    if not 0 < events < total:
        return
    result = known(jeffreys(events, total, level=level))
    posterior = beta(events + 0.5, total - events + 0.5)
    assert (result.low, result.high) == pytest.approx(posterior.interval(level), abs=1e-9)


@pytest.mark.parametrize(
    ("baseline", "candidate", "level", "low", "high"),
    [
        # Newcombe (1998), Table II, contrast (a) 56/70 - 48/80, method 10: 0.0524 to 0.3339
        ((48, 80), (56, 70), 0.95, 0.0524, 0.3339),
        # statsmodels 0.15.0, confint_proportions_2indep(candidate, baseline, method="newcomb", compare="diff")
        ((48, 80), (56, 70), 0.95, 0.05243147240236498, 0.33387265403690614),
        ((3, 20), (0, 10), 0.95, -0.36041886474075696, 0.1442045492129788),
        ((3, 10), (9, 10), 0.95, 0.1705227239345029, 0.809017973535488),
        ((2, 90), (3, 1000), 0.99, -0.10273129430866768, 0.0006951401194750621),
    ],
)
def test_newcombe_is_that_of_the_paper_and_of_statsmodels(
    baseline: tuple[int, int], candidate: tuple[int, int], level: float, low: float, high: float
) -> None:
    result = known(newcombe(baseline, candidate, level=level))
    digits = 5e-5 if low == 0.0524 else 1e-9
    assert (result.low, result.high) == pytest.approx((low, high), abs=digits)


@given(counts, counts)
def test_newcombe_holds_its_estimate_turns_with_the_variants_and_stays_in_range(
    baseline: tuple[int, int], candidate: tuple[int, int]
) -> None:
    result, turned = newcombe(baseline, candidate), newcombe(candidate, baseline)
    assert not has_nan(result)
    if isinstance(result, NoData):
        assert not (baseline[1] and candidate[1])
        return
    assert -1 - 1e-12 <= result.low <= result.estimate <= result.high <= 1 + 1e-12
    assert known(turned).low == pytest.approx(-result.high, abs=1e-12)


def test_coverage_is_near_the_level() -> None:
    random, runs = np.random.default_rng(10), 1000
    theirs, ours = random.binomial(400, 0.05, runs).tolist(), random.binomial(60, 0.08, runs).tolist()
    rates = [known(jeffreys(events, 60)) for events in ours]
    assert np.mean([each.low <= 0.08 <= each.high for each in rates]) == pytest.approx(0.95, abs=0.03)
    pairs = [known(newcombe((left, 400), (right, 60))) for left, right in zip(theirs, ours, strict=True)]
    assert np.mean([each.low <= 0.03 <= each.high for each in pairs]) == pytest.approx(0.95, abs=0.03)


def test_a_level_next_to_one_gives_wide_bounds() -> None:
    result = known(newcombe((3, 10), (4, 10), level=math.nextafter(1, 0)))
    assert -1 <= result.low < -0.6
    assert 0.7 < result.high <= 1


def test_nothing_counted_is_no_data() -> None:
    assert jeffreys(0, 0) == NoData("nothing was counted, so there is no rate")
    assert newcombe((0, 0), (1, 2)) == NoData("nothing was counted of the baseline, so there is no difference")
    assert newcombe((1, 2), (0, 0)) == NoData("nothing was counted of the candidate, so there is no difference")


def test_bad_input_is_refused_with_its_value() -> None:
    with pytest.raises(ValueError, match=r"events must be a whole number in 0..5, got 6"):
        jeffreys(6, 5)
    with pytest.raises(ValueError, match=r"total must be a whole number in 0.., got -1"):
        jeffreys(0, -1)
    with pytest.raises(ValueError, match=r"level must lie between 0 and 1, both excluded, got 1.0"):
        jeffreys(0, 0, level=1.0)
    with pytest.raises(ValueError, match=r"candidate events must be a whole number in 0..2, got 3"):
        newcombe((1, 2), (3, 2))
    with pytest.raises(ValueError, match="level must lie between 0 and 1, both excluded, got nan"):
        newcombe((1, 2), (1, 2), level=math.nan)
