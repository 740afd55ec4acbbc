from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial import distance

from davylamp.shadow.comparison import Comparison, Difference, Kind, Measure
from davylamp.shadow.task import Notion
from e2e.bench.answers import embeddings, packed
from tests.davylamp.shadow.bodies import compared


def vectors(first: Any, second: Any, **rules: Any) -> Comparison:
    return compared("/v1/embeddings", embeddings(*first), embeddings(*second), **rules)


_VECTORS = st.lists(st.tuples(st.floats(-10, 10), st.floats(-10, 10)), min_size=2, max_size=8)


@given(_VECTORS)
def test_the_cosine_is_scipys(pairs: list[tuple[float, float]]) -> None:
    first, second = (np.array(side) + 20 for side in zip(*pairs, strict=True))
    first[0] = -first[0]
    found = vectors([first.tolist()], [second.tolist()])

    assert found.kind is Kind.EMBEDDINGS
    assert found.measures[Measure.COSINE] == pytest.approx(1 - distance.cosine(first, second), abs=1e-9)


@pytest.mark.parametrize(("cosine", "disagrees"), [(0.7, False), (0.71, True)])
def test_vectors_disagree_that_point_elsewhere(cosine: float, disagrees: bool) -> None:
    found = vectors([[1, 0]], [[1, 1]], cosine=cosine)

    assert found.measures[Measure.COSINE] == pytest.approx(math.sqrt(0.5))
    assert found.disagrees is disagrees


def test_the_least_cosine_of_a_batch_counts() -> None:
    found = vectors([[1, 0], [1, 0]], [[1, 0], [0, 1]])

    assert (found.measures[Measure.COSINE], found.disagrees) == (0, True)


def test_packed_vectors_are_compared_with_lists() -> None:
    assert not vectors([[0.5, 0.25]], [packed(0.5, 0.25)]).differences


def test_exact_vectors_have_to_be_equal() -> None:
    assert not vectors([[1, 2]], [[2, 4]]).disagrees
    assert vectors([[1, 2]], [[2, 4]], notion=Notion.EXACT).disagrees
    assert not vectors([[1, 2]], [[1, 2]], notion=Notion.EXACT).disagrees


@pytest.mark.parametrize(
    ("first", "second", "difference"),
    [
        ([[1, 2]], [[1, 2, 3]], Difference.SHAPE),
        ([[1, 2]], [[1, 2], [1, 2]], Difference.STRUCTURE),
        ([[1, 2]], [[1, math.nan]], Difference.NOT_FINITE),
        ([[0, 0]], [[1, 2]], Difference.EMBEDDING),
        ([[1, 2]], [[0, 0]], Difference.EMBEDDING),
    ],
)
def test_vectors_that_have_no_cosine_disagree(first: Any, second: Any, difference: Difference) -> None:
    found = vectors(first, second)

    assert (set(found.differences), found.disagrees) == ({difference}, True)


@pytest.mark.parametrize("vector", [[0, 0], [math.nan, 1], [1e200, -1e200], [5e-324, 0]])
def test_a_vector_is_the_same_as_itself_whatever_it_holds(vector: list[float]) -> None:
    assert not vectors([vector], [vector]).differences


def test_very_long_vectors_have_a_cosine() -> None:
    assert vectors([[1e200, 1e200]], [[1e200, 0]]).measures[Measure.COSINE] == pytest.approx(math.sqrt(0.5))
