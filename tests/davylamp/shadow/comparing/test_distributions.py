from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from scipy import special, stats

from davylamp.shadow.comparing.distributions import are_distributions, divergences, rankings, softmax
from davylamp.shadow.formats.reading import Array

_SHAPES = st.tuples(st.just(2), st.integers(1, 4), st.integers(3, 8))
_LOGITS = npst.arrays(np.float64, _SHAPES, elements=st.floats(-8, 8))
_TIED = npst.arrays(np.float64, _SHAPES, elements=st.integers(0, 3).map(float))


@given(_LOGITS)
def test_softmax_is_scipys(both: Array) -> None:
    np.testing.assert_allclose(softmax(both), special.softmax(both, axis=2), rtol=1e-12)
    assert are_distributions(softmax(both))


def test_rows_that_are_negative_or_do_not_sum_to_one_are_no_distributions() -> None:
    assert not are_distributions(np.array([[[0.5, 0.6]], [[0.5, 0.5]]]))
    assert not are_distributions(np.array([[[1.5, -0.5]], [[0.5, 0.5]]]))
    assert are_distributions(np.array([[[0.5005, 0.5]], [[0.4995, 0.5]]]))


@given(_LOGITS)
def test_divergences_are_scipys(both: Array) -> None:
    first, second = shares = special.softmax(both, axis=2)
    kl, js = divergences(shares)

    assert kl == pytest.approx(stats.entropy(first, second, axis=1).mean(), abs=1e-9)
    middle = (first + second) / 2
    halves = (stats.entropy(first, middle, axis=1) + stats.entropy(second, middle, axis=1)) / 2
    assert js == pytest.approx(halves.mean(), abs=1e-9)
    assert 0 <= js <= math.log(2) + 1e-12


def test_divergences_of_certainties_that_contradict_are_finite() -> None:
    kl, js = divergences(np.array([[[1.0, 0.0]], [[0.0, 1.0]]]))

    assert kl == pytest.approx(math.log(1e10), rel=1e-6)
    assert js == pytest.approx(math.log(2), rel=1e-6)


@given(_LOGITS | _TIED)
def test_rank_correlation_is_scipys(both: Array) -> None:
    found = rankings(both, 2).correlation
    pairs = [pair for pair in zip(*both, strict=True) if all(np.ptp(side) > 0 for side in pair)]
    if pairs:
        expected = np.mean([stats.spearmanr(*pair).statistic for pair in pairs])
        assert found == pytest.approx(expected, abs=1e-9)
    else:
        assert found is None


def test_overlap_is_the_share_of_the_highest_classes_that_both_have() -> None:
    both = np.array([[[5, 4, 3, 2, 1.0]], [[5, 1, 4, 2, 3.0]]])

    assert [rankings(both, k).overlap for k in (1, 2, 3)] == [1, 0.5, pytest.approx(2 / 3)]


@given(_TIED, st.integers(1, 8))
def test_overlap_is_that_of_sets(both: Array, k: int) -> None:
    k = min(k, both.shape[2])
    sets = [[set(np.argsort(-row, kind="stable")[:k].tolist()) for row in side] for side in both]
    expected = np.mean([len(left & right) / k for left, right in zip(*sets, strict=True)])

    assert rankings(both, k).overlap == pytest.approx(expected)
