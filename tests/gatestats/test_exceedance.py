"""A slowdown margin on coarse buckets: the range must hold what a slowdown really does, whatever the shape."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr
from scipy.stats import fisk

from gatestats.bracketed import BracketedOddsRatioDesign
from gatestats.exceedance import counts_beyond, exceedance
from gatestats.odds_ratio import OddsRatioDesign
from gatestats.process import restore
from gatestats.ticks import TwoArmCounts, TwoArmHistogram

ENVOY = (0.5, 1.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, math.inf)
Numbers = NDArray[np.float64]


def lognormal(values: Numbers, median: float, spread: float) -> Numbers:
    result: Numbers = ndtr(np.log(values / median) / spread)
    return result


def share_below(shape: str, values: Numbers) -> Numbers:
    """Distributions of durations, in milliseconds."""
    match shape:
        case "light tail":
            return lognormal(values, 12.0, 0.5)
        case "heavy tail":
            return np.asarray(fisk.cdf(values, 3.5, scale=12.0))
        case "narrow with stragglers":
            return 0.93 * lognormal(values, 2.0, 0.15) + 0.07 * lognormal(values, 20.0, 1.0)
        case _:  # two kinds of requests
            return 0.9 * lognormal(values, 3.0, 0.3) + 0.1 * lognormal(values, 40.0, 0.3)


@pytest.mark.parametrize("shape", ["light tail", "heavy tail", "narrow with stragglers", "two kinds"])
@pytest.mark.parametrize("requests", [200, 3000, 100_000])
@pytest.mark.parametrize("margin", [1.1, 1.25])
def test_the_range_holds_what_a_slowdown_by_the_margin_does(shape: str, requests: int, margin: float) -> None:
    random = np.random.default_rng(1)
    shares = np.diff(np.concatenate([[0.0], share_below(shape, np.array(ENVOY[:-1])), [1.0]]))
    over = under = 0
    for _ in range(200):
        found = exceedance(ENVOY, random.multinomial(requests, shares).tolist(), margin)
        assert found is not None
        before, after = 1 - share_below(shape, np.array([found.edge, found.edge / margin]))
        true = after / (1 - after) * (1 - before) / before
        over += found.least_odds_ratio > true
        under += found.most_odds_ratio < true
    # Two standard errors leave 2.3 %; more than 11 of 200 would be 5 %.
    assert over <= 11
    assert under <= 11


def test_more_requests_of_the_baseline_narrow_the_range() -> None:
    shares = np.diff(np.concatenate([[0.0], share_below("heavy tail", np.array(ENVOY[:-1])), [1.0]]))
    ranges = [
        exceedance(ENVOY, np.rint(shares * requests).astype(int).tolist(), 1.1)
        for requests in (200, 2000, 20_000, 10**9)
    ]
    widths = [each.most_odds_ratio / each.least_odds_ratio for each in ranges if each is not None and each.index == 4]
    assert len(widths) == 4
    assert widths == sorted(widths, reverse=True)
    # In a log-logistic distribution a slowdown multiplies the odds by margin ^ shape everywhere.
    found = ranges[-1]
    assert found is not None
    assert found.least_odds_ratio == pytest.approx(1.1**3.5, rel=1e-3)
    assert found.most_odds_ratio == pytest.approx(1.1**3.5, rel=1e-3)
    assert found.slowed_share(1.0) == pytest.approx(found.baseline_share)


def test_a_margin_over_several_buckets_knows_what_lies_in_between() -> None:
    counts = (0, 0, 400, 300, 200, 60, 30, 10, 0, 0, 0)
    found = exceedance(ENVOY, counts, 4.0)
    assert found is not None
    assert found.edge == 50.0
    # 50 / 4 lies in the bucket from 10 to 25; 10 % lie beyond 25, 30 % beyond 10.
    assert 100 / 900 < found.least_odds_ratio * 40 / 960 < found.most_odds_ratio * 40 / 960


def test_buckets_that_show_no_slowdown_ask_for_more_than_equality() -> None:
    # Nothing lies between the edges beside: a slowdown moves nothing that is seen.
    found = exceedance((1.0, 1.05, 1.06, math.inf), (50, 0, 0, 50), 1.04)
    assert found is not None
    assert found.least_odds_ratio == 1.0


@pytest.mark.parametrize("baseline", [(0,) * 11, (0, 0, 5) + (0,) * 8, (0,) * 10 + (5,)])
def test_a_baseline_that_no_edge_splits_gives_no_exceedance(baseline: tuple[int, ...]) -> None:
    assert exceedance(ENVOY, baseline, 1.1) is None


@pytest.mark.parametrize(("counts", "index"), [((90, 10, 0), 0), ((90, 0, 10), 1), ((0, 90, 10), 1), ((1, 0, 99), 1)])
def test_edges_beside_open_buckets_have_ranges_too(counts: tuple[int, ...], index: int) -> None:
    found = exceedance((1.0, 2.0, math.inf), counts, 1.5)
    assert found is not None
    assert found.index == index
    assert 1 <= found.least_odds_ratio < found.most_odds_ratio


def test_a_margin_that_is_no_ratio_is_refused() -> None:
    with pytest.raises(ValueError, match="got nan"):
        exceedance(ENVOY, (1,) * 11, math.nan)


def test_counts_beyond_an_edge_are_counts_of_two_arms() -> None:
    histogram = TwoArmHistogram((1.0, 2.0, math.inf), (5, 3, 2), (1, 0, 4))
    assert counts_beyond(histogram, 1) == TwoArmCounts(2, 10, 4, 5)
    assert counts_beyond(histogram, 0) == TwoArmCounts(5, 10, 4, 5)


def test_each_decision_is_tested_at_the_end_that_is_hard_for_it() -> None:
    design = BracketedOddsRatioDesign(1.2, 1.8)
    state, low, high = design.start(), OddsRatioDesign(1.2), OddsRatioDesign(1.8)
    low_state, high_state = low.start(), high.start()
    for tick in (TwoArmCounts(20, 400, 30, 400), TwoArmCounts(0, 0, 3, 40), TwoArmCounts(25, 500, 24, 480)):
        state = design.update(state, tick)
        low_state, high_state = low.update(low_state, tick), high.update(high_state, tick)
    assert design.log_e(state) == high.log_e(high_state)
    assert design.log_e_non_inferior(state) == low.log_e_non_inferior(low_state)
    assert design.estimate(state) == low.estimate(low_state)
    assert design.interval(state, 0.95) == low.interval(low_state, 0.95)
    assert (state.ticks, state.informative) == (3, 2)
    assert restore(design, state.to_json()) == state


def test_a_range_the_wrong_way_round_is_refused() -> None:
    with pytest.raises(ValueError, match=r"from low to high, got 2\.0 and 1\.5"):
        BracketedOddsRatioDesign(2.0, 1.5)
