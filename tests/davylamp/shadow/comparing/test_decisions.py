from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from davylamp.shadow.comparing.findings import MOST_ITEMS
from davylamp.shadow.comparison import Comparison, Difference, Measure
from davylamp.shadow.task import Notion
from e2e.bench.answers import INFER, PREDICT, floats, inference, output
from tests.davylamp.shadow.bodies import compared


def rows(first: Any, second: Any, **rules: Any) -> Comparison:
    return compared(INFER, floats(*first, datatype="FP64"), floats(*second, datatype="FP64"), **rules)


def labels(datatype: str, first: list[Any], second: list[Any], **rules: Any) -> Comparison:
    sides = (inference(output("label", datatype, [len(side)], side)) for side in (first, second))
    return compared(INFER, *sides, **rules)


@pytest.mark.parametrize(
    ("datatype", "first", "second"),
    [
        ("INT64", [2**62, 1], [2**62 + 1, 1]),
        ("UINT64", [2**64 - 1], [2**64 - 2]),
        ("BOOL", [True, False], [True, True]),
        ("BYTES", ["cat", "dog"], ["cat", "cow"]),
    ],
)
def test_labels_decide_by_being_equal(datatype: str, first: list[Any], second: list[Any]) -> None:
    for notion in Notion:
        assert labels(datatype, first, second, notion=notion).disagrees
        assert not labels(datatype, first, first, notion=notion).differences


def test_a_batch_disagrees_if_one_of_its_items_does() -> None:
    assert rows([[0.9, 0.05, 0.05]] * 3, [[0.9, 0.05, 0.05]] * 2 + [[0.1, 0.8, 0.1]]).disagrees


def test_classes_decide_by_the_highest_one_whatever_the_others_do() -> None:
    found = rows([[0.6, 0.3, 0.1]], [[0.5, 0.1, 0.4]])

    assert (set(found.differences), found.disagrees) == ({Difference.VALUES}, False)
    assert rows([[0.6, 0.3, 0.1]], [[0.5, 0.1, 0.4]], notion=Notion.VALUES).disagrees


def test_a_flip_within_the_tolerance_is_a_decision_but_no_value() -> None:
    first, second = [[0.4, 0.4 + 1e-7, 0.2]], [[0.4 + 1e-7, 0.4, 0.2]]

    assert rows(first, second).differences == {Difference.DECISION}
    assert rows(first, second).disagrees
    assert not rows(first, second, notion=Notion.VALUES).disagrees


def test_the_margin_is_that_of_the_clearest_flip() -> None:
    first = [[0.5, 0.3, 0.2], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]]
    second = [[0.3, 0.5, 0.2], [0.8, 0.1, 0.1], [0.2, 0.2, 0.6]]

    assert rows(first, second).measures[Measure.FLIP_MARGIN] == pytest.approx(0.7)
    assert Measure.FLIP_MARGIN not in rows(first, first).measures


def test_confidences_are_each_sides_probability_of_its_own_choice() -> None:
    found = rows([[0.5, 0.3, 0.2]], [[0.1, 0.6, 0.3]])

    assert found.confidences == ((0.5, 0.6),)
    assert found.scores == ()


def test_logits_are_made_probabilities_first() -> None:
    found = rows([[math.log(6), math.log(3), 0.0]], [[math.log(6) + 5, math.log(3) + 5, 5.0]])

    np.testing.assert_allclose(found.confidences, [(0.6, 0.6)])
    assert found.measures[Measure.KL] == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("shape", ["column", "flat"])
def test_a_score_decides_at_the_threshold(shape: str) -> None:
    first, second = ([0.2, 0.7, 0.45], [0.25, 0.65, 0.55])
    if shape == "column":
        found = rows([[score] for score in first], [[score] for score in second])
    else:
        found = rows(first, second)

    assert found.disagrees
    assert found.scores == ((0.2, 0.25), (0.7, 0.65), (0.45, 0.55))
    np.testing.assert_allclose(found.confidences, [(0.8, 0.75), (0.7, 0.65), (0.55, 0.55)])
    assert found.measures[Measure.FLIP_MARGIN] == pytest.approx(0.05)
    assert found.measures[Measure.SCORE_CHANGE] == pytest.approx((0.05 - 0.05 + 0.1) / 3)


@pytest.mark.parametrize(("threshold", "disagrees"), [(0.3, False), (0.55, True), (0.5, True), (0.45, False)])
def test_a_score_at_the_threshold_is_positive(threshold: float, disagrees: bool) -> None:
    assert rows([0.45], [0.55], threshold=threshold).disagrees is (0.45 < threshold <= 0.55)
    assert rows([0.45], [0.55], threshold=threshold).disagrees is disagrees


@pytest.mark.parametrize(("threshold", "disagrees"), [(0.5, False), (0.3, True)])
def test_of_two_classes_the_second_one_is_the_positive(threshold: float, disagrees: bool) -> None:
    found = rows([[0.75, 0.25]], [[0.65, 0.35]], threshold=threshold)

    assert found.disagrees is disagrees
    assert found.scores == ((0.25, 0.35),)
    np.testing.assert_allclose(found.confidences, [(0.75, 0.35 if disagrees else 0.65)])


def test_two_logits_decide_by_the_higher_one() -> None:
    assert rows([[2.0, 1.0]], [[1.0, 2.0]]).disagrees
    assert not rows([[2.0, 1.0]], [[5.0, 4.5]]).disagrees


def test_numbers_that_decide_nothing_count_by_their_values() -> None:
    assert rows([250.0, 3.5], [251.0, 3.5]).disagrees
    assert not rows([250.0, 3.5], [250.1, 3.5]).disagrees
    assert rows([0.5], [1.5]).disagrees
    assert rows([250.0], [251.0]).confidences == ()


def test_labels_and_probabilities_are_both_used() -> None:
    def answered(label: int, *row: float) -> Any:
        return inference(output("label", "INT64", [1], [label]), output("p", "FP64", [1, 3], list(row)))

    first = answered(0, 0.6, 0.3, 0.1)

    assert compared(INFER, first, answered(1, 0.6, 0.3, 0.1)).disagrees
    assert compared(INFER, first, answered(0, 0.3, 0.6, 0.1)).disagrees
    close = compared(INFER, first, answered(0, 0.5, 0.4, 0.1))
    assert (close.disagrees, close.confidences) == (False, ((0.6, 0.5),))


@pytest.mark.parametrize(
    ("first", "second", "disagrees"),
    [
        ([0.1, math.nan, 0.2], [0.1, math.nan, 0.2], False),
        ([0.1, math.nan, 0.2], [0.1, 0.15, 0.2], True),
        ([0.1, -math.inf, 0.2], [0.1, -1e30, 0.2], False),
        ([0.1, -math.inf, 0.2], [0.3, -math.inf, 0.2], True),
        ([0.1, math.inf, 0.2], [math.inf, 0.1, 0.2], True),
    ],
)
def test_rows_that_are_not_finite_decide_as_far_as_they_can(first: Any, second: Any, disagrees: bool) -> None:
    found = rows([first], [second])

    assert found.disagrees is disagrees
    assert found.confidences == ()


def test_a_score_that_is_not_a_number_on_one_side_disagrees() -> None:
    found = rows([0.2, math.nan], [0.2, 0.3])

    assert found.differences == {Difference.NOT_FINITE, Difference.DECISION}
    assert found.disagrees
    assert found.scores == ((0.2, 0.2),)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([0.2, 0.2], [math.inf, 0.2]),
        ([0.7, 0.2], [-math.inf, 0.2]),
        ([math.inf, 0.2], [-math.inf, 0.2]),
        ([[0.3, 0.7], [0.3, 0.7]], [[0.3, math.inf], [0.3, 0.7]]),
    ],
)
def test_a_score_that_is_infinite_on_one_side_disagrees_whatever_else_is_in_the_batch(first: Any, second: Any) -> None:
    assert rows(first, second).disagrees
    assert rows(second, first).disagrees
    assert not rows(second, second).disagrees


def test_whole_numbers_of_json_beside_floats_are_floats() -> None:
    found = compared(PREDICT, {"predictions": [[1, 0]]}, {"predictions": [[0.75, 0.25]]})

    assert (set(found.differences), found.disagrees, found.scores) == ({Difference.VALUES}, False, ((0.0, 0.25),))


def test_texts_beside_numbers_disagree() -> None:
    assert compared(PREDICT, {"predictions": ["1"]}, {"predictions": [1]}).differences == {Difference.STRUCTURE}


def test_a_large_batch_keeps_some_items_and_decides_by_all() -> None:
    many = np.full((MOST_ITEMS + 500, 3), [0.2, 0.3, 0.5]).tolist()
    flipped = [*many[:-1], [0.5, 0.3, 0.2]]
    found = rows(many, flipped)

    assert found.disagrees
    assert len(found.confidences) == MOST_ITEMS
    assert len(rows([0.2] * (MOST_ITEMS + 1), [0.3] * (MOST_ITEMS + 1)).scores) == MOST_ITEMS


def test_a_tensor_without_values_decides_nothing() -> None:
    first = inference(output("a", "FP32", [0, 3], []), output("b", "INT8", [1], [1]))

    assert compared(INFER, first, first).differences == frozenset()


def test_axes_before_the_last_are_all_items() -> None:
    first = np.full((2, 2, 3), [0.1, 0.2, 0.7])
    second = first.copy()
    second[1, 0] = [0.7, 0.2, 0.1]

    found = rows(first.tolist(), second.tolist())

    assert found.disagrees
    assert len(found.confidences) == 4
