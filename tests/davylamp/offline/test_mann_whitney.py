from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import mannwhitneyu

from davylamp.offline.mann_whitney import _ways, shift_of


def test_a_hand_worked_example() -> None:
    # Differences of {3, 5, 9} and {1, 2, 4, 6}: -3 -1 -1 1 1 2 3 3 4 5 7 8, with ties in value and none in the samples.
    # 35 orders; P(U <= 0) = 1/35 = .029, P(U <= 1) = 2/35 = .057. At 90 % the tail is .05: the first and last count.
    shift = shift_of([3, 5, 9], [1, 2, 4, 6], 0.90)
    assert shift is not None
    assert (shift.estimate, shift.low, shift.high) == (2.5, -3, 8)
    assert shift_of([3, 5, 9], [1, 2, 4, 6], 0.95) is None  # 2/35 is more than 5 %: no interval has this level


@pytest.mark.parametrize(("ours", "theirs"), [(1, 1), (3, 4), (7, 5), (12, 12), (49, 49)])
def test_orders_are_counted_as_they_are(ours: int, theirs: int) -> None:
    ways = _ways(ours, theirs)
    assert sum(ways) == math.comb(ours + theirs, ours)
    assert ways == ways[::-1]
    assert ways[:2] == (1, 1)


@pytest.mark.parametrize(("ours", "theirs"), [(5, 6), (10, 10), (20, 15)])
@pytest.mark.parametrize("confidence", [0.9, 0.98])
def test_the_interval_holds_the_shifts_that_scipys_exact_test_does_not_reject(
    ours: int, theirs: int, confidence: float
) -> None:
    random = np.random.default_rng(ours)
    candidate, baseline = random.normal(0.5, 1, ours), random.normal(0, 1, theirs)
    shift = shift_of(candidate.tolist(), baseline.tolist(), confidence)
    assert shift is not None

    def p(by: float) -> float:
        return float(mannwhitneyu(candidate - by, baseline, method="exact").pvalue)

    step, level = 1e-9, 1 - confidence
    assert p(shift.low + step) > level * (1 - 1e-9)
    assert p(shift.high - step) > level * (1 - 1e-9)
    assert p(shift.low - step) <= level * (1 + 1e-9)
    assert p(shift.high + step) <= level * (1 + 1e-9)
    assert shift.low <= shift.estimate <= shift.high


def test_many_values_or_ties_use_the_normal_approximation() -> None:
    random = np.random.default_rng(1)
    candidate, baseline = random.normal(0.3, 1, 60), random.normal(0, 1, 55)
    shift = shift_of(candidate.tolist(), baseline.tolist(), 0.98)
    assert shift is not None

    def p(by: float) -> float:
        return float(mannwhitneyu(candidate - by, baseline, method="asymptotic", use_continuity=False).pvalue)

    # One rank further out or in changes p by less than a tenth here.
    assert 0.018 < p(shift.low + 1e-9) < 0.022
    assert 0.018 < p(shift.high - 1e-9) < 0.022
    tied = shift_of([0.0] * 9 + [1.0], [0.0] * 10, 0.98)
    assert tied is not None
    assert (tied.estimate, tied.low, tied.high) == (0, 0, 0)


def test_nothing_and_nonsense() -> None:
    assert shift_of([], [1.0], 0.98) is None
    assert shift_of([1.0], [1.0], 0.98) is None
    with pytest.raises(ValueError, match="finite"):
        shift_of([math.nan], [1.0], 0.98)
    with pytest.raises(ValueError, match=r"\(0, 1\), got 1"):
        shift_of([1.0], [1.0], 1)
