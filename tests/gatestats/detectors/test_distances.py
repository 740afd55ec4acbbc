import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ks_2samp, kstwobign, wasserstein_distance

from gatestats.detectors.distances import KolmogorovBounds, Wasserstein, kolmogorov_bounds, wasserstein
from gatestats.detectors.inputs import NoData
from tests.gatestats.detectors.results import has_nan

BASELINE = (100, 200, 400, 200, 100)
CANDIDATE = (20, 30, 80, 50, 20)
EDGES = (0.0, 0.1, 0.2, 0.4, 0.8, 1.6)

values = st.lists(st.floats(0.001, 1, exclude_max=True), min_size=1, max_size=40)
cuts = st.lists(st.floats(0.01, 0.99), max_size=6, unique=True).map(lambda inner: [0.0, *sorted(inner), 1.0])


def bounds(result: KolmogorovBounds | NoData) -> KolmogorovBounds:
    assert isinstance(result, KolmogorovBounds)
    return result


def moved(result: Wasserstein | NoData) -> Wasserstein:
    assert isinstance(result, Wasserstein)
    return result


def counted(sample: list[float], edges: list[float]) -> list[int]:
    """Counts per bucket (low, high]."""
    places = np.searchsorted(edges[1:], sample, side="left")
    return [int(count) for count in np.bincount(places, minlength=len(edges) - 1)]


@given(values, values, cuts)
def test_the_distance_of_the_raw_samples_lies_between_the_bounds(
    theirs: list[float], ours: list[float], edges: list[float]
) -> None:
    result = bounds(kolmogorov_bounds(counted(theirs, edges), counted(ours, edges)))
    seen = np.array(theirs + ours)[:, None]
    true = float(np.abs((np.array(theirs) <= seen).mean(axis=1) - (np.array(ours) <= seen).mean(axis=1)).max())
    assert result.low - 1e-12 <= true <= result.high + 1e-12
    assert result.high <= result.most <= 1


def test_values_at_the_edges_leave_nothing_to_hide() -> None:
    result = bounds(kolmogorov_bounds(BASELINE, CANDIDATE))
    samples = [np.repeat(EDGES[1:], counts) for counts in (BASELINE, CANDIDATE)]
    assert result.low == pytest.approx(float(ks_2samp(*samples, method="asymp").statistic), abs=1e-12)
    assert result.low == pytest.approx(0.05, abs=1e-12)
    assert result.high == pytest.approx(0.45, abs=1e-12)


def test_threshold_and_p_value_are_of_the_limit_law() -> None:
    result = bounds(kolmogorov_bounds(BASELINE, CANDIDATE, alpha=0.05))
    scale = math.sqrt(1000 * 200 / 1200)
    assert result.p_value == pytest.approx(float(kstwobign.sf(result.low * scale)), rel=1e-9)
    assert result.threshold == pytest.approx(float(kstwobign.isf(0.05)) / scale, rel=1e-6)
    assert not result.differs
    assert bounds(kolmogorov_bounds((900, 100), (100, 900))).differs


def test_equivalence_needs_fine_buckets_and_many_counts() -> None:
    fine = bounds(kolmogorov_bounds([1000] * 100, [1000] * 100))
    assert fine.equivalent(0.05)
    assert not bounds(kolmogorov_bounds([10] * 100, [10] * 100)).equivalent(0.05)
    assert not bounds(kolmogorov_bounds([50_000] * 2, [50_000] * 2)).equivalent(0.05)
    with pytest.raises(ValueError, match="tolerance must lie between 0 and 1, both excluded, got 0"):
        fine.equivalent(0)


def test_the_largest_true_distance_is_missed_no_more_often_than_said() -> None:
    # The true distance is 0.1 at the middle of the only bucket edges known: at 0.5.
    random, runs = np.random.default_rng(8), 300
    missed = 0
    for _ in range(runs):
        theirs, ours = random.random(200), random.random(200)
        ours = np.where(random.random(200) < 0.2, ours / 2, ours)
        edges = [0.0, 0.5, 1.0]
        result = bounds(kolmogorov_bounds(counted(theirs.tolist(), edges), counted(ours.tolist(), edges), alpha=0.05))
        missed += result.most < 0.1
    assert missed <= 0.05 * runs


def test_the_ks_threshold_is_exceeded_no_more_often_than_said() -> None:
    random, alpha, runs = np.random.default_rng(6), 0.05, 1000
    arms = [random.multinomial(size, [0.02] * 50, runs).tolist() for size in (1000, 200)]
    alarms = sum(bounds(kolmogorov_bounds(*pair, alpha=alpha)).differs for pair in zip(*arms, strict=True))
    assert alarms <= alpha * runs + 3.5 * math.sqrt(alpha * runs)
    assert alarms >= alpha * runs / 4


def test_wasserstein_is_that_of_the_table() -> None:
    result = moved(wasserstein(EDGES, BASELINE, CANDIDATE))
    assert result.distance == pytest.approx(0.0225, abs=1e-12)
    assert result.truncated_at is None
    assert (result.baseline_above, result.candidate_above) == (0.0, 0.0)
    assert not result.differs


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=2, max_size=6))
@settings(max_examples=60)
def test_wasserstein_is_the_area_between_the_broken_lines(counts: list[tuple[int, int]]) -> None:
    theirs, ours = ([pair[arm] for pair in counts] for arm in (0, 1))
    edges = [0.0, *(1.7**index for index in range(len(counts)))]
    result = wasserstein(edges, theirs, ours, draws=99)
    if isinstance(result, NoData):
        return
    fine = np.linspace(0, edges[-1], 40_001)
    lines = [np.interp(fine, edges, [0, *np.cumsum(arm) / sum(arm)]) for arm in (theirs, ours)]
    area = float(np.trapezoid(np.abs(lines[0] - lines[1]), fine))
    assert result.distance == pytest.approx(area, abs=1e-4 * edges[-1])


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 20)), min_size=2, max_size=6))
@settings(max_examples=60)
def test_wasserstein_equals_scipy_on_midpoints_where_the_lines_do_not_cross(counts: list[tuple[int, int]]) -> None:
    # Moving mass to the right only keeps one distribution function below the other.
    theirs = [first for first, _ in counts]
    moves = [min(first, move) for first, move in counts]
    moves[-1] = 0
    ours = [first - move + back for first, move, back in zip(theirs, moves, [0, *moves[:-1]], strict=True)]
    edges = [0.0, *(1.7**index for index in range(len(counts)))]
    middles = [(low + high) / 2 for low, high in pairwise(edges)]
    expected = float(wasserstein_distance(middles, middles, theirs, ours))
    assert moved(wasserstein(edges, theirs, ours, draws=99)).distance == pytest.approx(expected, abs=1e-9)


def test_an_open_bucket_is_reported_and_not_measured() -> None:
    result = moved(wasserstein((0.0, 1.0, 2.0, math.inf), (50, 40, 10), (50, 30, 20)))
    assert result.truncated_at == 2.0
    assert result.baseline_above == pytest.approx(0.1)
    assert result.candidate_above == pytest.approx(0.2)
    assert result.distance == pytest.approx(0.05)


def test_the_same_input_gives_the_same_law_and_too_few_draws_give_no_threshold() -> None:
    assert wasserstein(EDGES, BASELINE, CANDIDATE) == wasserstein(EDGES, BASELINE, CANDIDATE)
    few = moved(wasserstein(EDGES, (100, 0, 0, 0, 0), (0, 0, 0, 0, 100), alpha=0.001, draws=99))
    assert few.null_threshold == math.inf
    assert few.p_value == pytest.approx(0.01)
    assert not few.differs
    assert moved(wasserstein(EDGES, (100, 0, 0, 0, 0), (0, 0, 0, 0, 100))).differs


def test_the_wasserstein_threshold_is_exceeded_as_often_as_said() -> None:
    random, alpha, runs = np.random.default_rng(7), 0.05, 600
    arms = [random.multinomial(size, [0.4, 0.3, 0.2, 0.08, 0.02], runs).tolist() for size in (300, 60)]
    alarms = 0
    for place, pair in enumerate(zip(*arms, strict=True)):
        alarms += moved(wasserstein(EDGES, *pair, alpha=alpha, draws=199, seed=place)).differs
    assert alarms <= alpha * runs + 3.5 * math.sqrt(alpha * runs)
    assert alarms >= alpha * runs / 3


def ks_on_edges(edges: tuple[float, ...], *arms: tuple[int, ...]) -> KolmogorovBounds | NoData:
    assert edges
    return kolmogorov_bounds(*arms)


@pytest.mark.parametrize("measure", [ks_on_edges, wasserstein])
def test_nothing_counted_is_no_data(measure: Callable[..., object]) -> None:
    assert measure((0.0, 1.0, 2.0), (0, 0), (1, 2)) == NoData("the baseline has no counts")
    assert measure((0.0, 1.0, 2.0), (1, 2), (0, 0)) == NoData("the candidate has no counts")


def test_one_open_bucket_has_no_distances() -> None:
    assert wasserstein((0.0, math.inf), (3,), (4,)) == NoData("the only bucket is open, so values have no distance")


def test_bad_input_is_refused_with_its_value() -> None:
    with pytest.raises(ValueError, match="2 buckets need 3 edges, got 2"):
        wasserstein((0.0, 1.0), (1, 2), (3, 4))
    with pytest.raises(ValueError, match=r"strictly increasing, got \(0.0, 1.0, 1.0\)"):
        wasserstein((0.0, 1.0, 1.0), (1, 2), (3, 4))
    with pytest.raises(ValueError, match="strictly increasing"):
        wasserstein((0.0, math.nan, 1.0), (1, 2), (3, 4))
    with pytest.raises(ValueError, match="edges but the last must be a finite number, got -inf"):
        wasserstein((-math.inf, 0.0, 1.0), (1, 2), (3, 4))
    with pytest.raises(ValueError, match="draws must be a whole number of at least 99, got 10"):
        wasserstein((0.0, 1.0, 2.0), (1, 2), (3, 4), draws=10)
    with pytest.raises(ValueError, match="must be below 1000000000 together, got 1000000003"):
        wasserstein((0.0, 1.0, 2.0), (10**9, 0), (3, 0))
    with pytest.raises(ValueError, match="alpha must lie between 0 and 1, both excluded, got 0"):
        kolmogorov_bounds((1, 2), (3, 4), alpha=0)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=4), st.booleans())
@settings(max_examples=60)
def test_no_distance_holds_nan(counts: list[tuple[int, int]], open_end: bool) -> None:
    arms = [[pair[arm] for pair in counts] for arm in (0, 1)]
    edges = [*map(float, range(len(counts))), math.inf if open_end else len(counts)]
    assert not has_nan(kolmogorov_bounds(*arms))
    assert not has_nan(wasserstein(edges, *arms, draws=99))
