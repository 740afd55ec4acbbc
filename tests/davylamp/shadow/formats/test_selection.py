from __future__ import annotations

from typing import Any

import pytest

from davylamp.errors import SpecError
from davylamp.shadow.formats.reading import Document, Fault, Tensors, Unreadable
from davylamp.shadow.formats.selection import query
from davylamp.shadow.task import Rules
from tests.davylamp.shadow.bodies import answer, reading

ANSWER = {"id": "7", "results": [{"label": "cat", "score": 0.9}, {"label": "dog", "score": 0.25}], "took": 5}


def selected(body: Any, *select: str, ignore: tuple[str, ...] = ()) -> Any:
    return reading("/predictions/a", answer(body), rules=Rules(select=select, ignore=ignore))


def test_numbers_and_labels_that_are_selected_are_tensors() -> None:
    found = selected(ANSWER, "$.results[*].label", "$.results[*].score")

    assert isinstance(found, Tensors)
    assert {tensor.name: tensor.values.tolist() for tensor in found.tensors} == {
        "$.results[*].label": ["cat", "dog"],
        "$.results[*].score": [0.9, 0.25],
    }


def test_anything_else_that_is_selected_is_json() -> None:
    assert selected(ANSWER, "$.results", "$.took") == Document({"$.results": [ANSWER["results"]], "$.took": [5]})


def test_a_selection_that_finds_nothing_is_unreadable() -> None:
    assert selected(ANSWER, "$.nothing") == Unreadable(Fault.FORM)


def test_what_is_ignored_is_gone_wherever_it_stands() -> None:
    assert selected(ANSWER, ignore=("$.id", "$.results[0]", "$..score", "$.nothing")) == Document(
        {"results": [{"label": "dog"}], "took": 5}
    )
    assert selected([1, 2, 3, 4], ignore=("$[0]", "$[2]", "$[-2]")) == Document([2, 4])


def test_ignoring_everything_leaves_nothing_to_compare() -> None:
    assert selected(ANSWER, ignore=("$",)) == Unreadable(Fault.FORM)
    assert selected(ANSWER, ignore=("$.*",)) == Unreadable(Fault.FORM)


def test_documents_over_a_bound_are_not_looked_into() -> None:
    deep = b"[" * 70 + b"]" * 70

    assert selected(deep, "$..a") == Unreadable(Fault.BOUND)
    assert selected(deep, ignore=("$..a",)) == Unreadable(Fault.BOUND)


@pytest.mark.parametrize("path", ["", "a", "$[", "$.a[?nothing(@)]", "$" + "[?" * 500])
def test_a_path_that_is_none_is_the_users_to_correct(path: str) -> None:
    with pytest.raises(SpecError, match="is no JSONPath"):
        query(path)
