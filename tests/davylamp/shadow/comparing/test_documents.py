from __future__ import annotations

from typing import Any

import pytest

from davylamp.shadow.comparison import Comparison, Difference, Kind, Measure
from davylamp.shadow.task import Notion
from tests.davylamp.shadow.bodies import compared


def documents(first: Any, second: Any, **rules: Any) -> Comparison:
    return compared("/predictions/x", first, second, **rules)


@pytest.mark.parametrize(
    ("first", "second", "differences"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, set()),
        ({"a": 1}, {"a": 1, "b": None}, {Difference.STRUCTURE}),
        ({"a": 1, "b": None}, {"a": 1}, {Difference.STRUCTURE}),
        ([1, 2], [1], {Difference.STRUCTURE}),
        ({"a": [1]}, {"a": {"b": 1}}, {Difference.STRUCTURE}),
        ({"a": None}, {"a": 0.5}, {Difference.STRUCTURE}),
        ({"a": 1}, {"a": True}, {Difference.STRUCTURE}),
        ({"a": "1"}, {"a": 1}, {Difference.STRUCTURE}),
        ({"a": "cat"}, {"a": "dog"}, {Difference.TEXT}),
        ({"a": True}, {"a": False}, {Difference.DECISION, Difference.VALUES}),
        ({"a": 2**63}, {"a": 2**63 + 1}, {Difference.DECISION, Difference.VALUES}),
        ({"a": [0.5, {"b": 0.25}]}, {"a": [0.5, {"b": 0.75}]}, {Difference.VALUES}),
        ({"a": 0.5}, {"a": 0.5 + 1e-6}, set()),
        ({"a": 1}, {"a": 1.0}, set()),
        ({"a": [0.5, 0.25]}, {"a": [0.5, 0.75]}, {Difference.VALUES}),
        ({"a": [0.5, 0.25]}, {"a": [0.5]}, {Difference.STRUCTURE}),
        ({"a": [0.5, float("nan")]}, {"a": [0.5, float("inf")]}, {Difference.NOT_FINITE}),
        ({"a": [0.5, float("nan")]}, {"a": [0.5, float("nan")]}, set()),
        ({"a": float("nan")}, {"a": float("nan")}, set()),
        ({"a": float("inf")}, {"a": float("inf")}, set()),
        ({"a": float("nan")}, {"a": 0.5}, {Difference.NOT_FINITE}),
        ({"a": 0.5}, {"a": float("-inf")}, {Difference.NOT_FINITE}),
        ({"a": 10**400}, {"a": 0.5}, {Difference.VALUES}),
        ({"a": 10**400}, {"a": 10**400}, set()),
    ],
)
def test_json_is_compared_place_by_place(first: Any, second: Any, differences: set[Difference]) -> None:
    found = documents(first, second)

    assert found.kind is Kind.JSON
    assert (set(found.differences), found.disagrees) == (differences, bool(differences))


def test_the_distance_of_numbers_is_measured() -> None:
    found = documents({"a": 0.5, "b": [1.0, 7]}, {"a": 0.75, "b": [1.0, 7]})

    assert found.measures == {Measure.MAX_ABSOLUTE: 0.25, Measure.MEAN_ABSOLUTE: 0.125}
    assert documents({"a": "b"}, {"a": "b"}).measures == {}


@pytest.mark.parametrize(("relative", "disagrees"), [(0.1, False), (0.001, True)])
def test_numbers_may_differ_by_the_tolerance(relative: float, disagrees: bool) -> None:
    assert documents({"a": 100.0}, {"a": 101.0}, relative=relative).disagrees is disagrees


def test_exact_json_has_no_tolerance() -> None:
    assert documents({"a": 0.5}, {"a": 0.5 + 1e-12}, notion=Notion.EXACT).disagrees


def test_what_is_ignored_does_not_count() -> None:
    first, second = {"label": "cat", "took": 5, "id": "a"}, {"label": "cat", "took": 7, "id": "b"}

    assert documents(first, second).disagrees
    assert not documents(first, second, ignore=("$.took", "$.id")).differences


def test_what_is_selected_decides() -> None:
    first, second = {"score": 0.7, "label": "cat", "took": 5}, {"score": 0.6, "label": "cat", "took": 7}
    found = documents(first, second, select=("$.score", "$.label"))

    assert (found.kind, found.disagrees, found.scores) == (Kind.TENSORS, False, ((0.7, 0.6),))
    assert documents(first, {**second, "score": 0.4}, select=("$.score",)).disagrees
    assert documents(first, {**second, "label": "dog"}, select=("$.label",)).disagrees
    assert documents(first, {"took": 5}, select=("$.label",)).differences == {Difference.STRUCTURE}
