from __future__ import annotations

from typing import Any

import jsonpath_rfc9535
import pytest
from hypothesis import given
from hypothesis import strategies as st

from davylamp.errors import SpecError
from davylamp.jsonpath import query
from davylamp.shadow.formats.reading import Document, Fault, Tensors, Unreadable
from davylamp.shadow.formats.selection import matches
from davylamp.shadow.task import Rules
from e2e.bench.answers import answer
from tests.davylamp.shadow.bodies import reading

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


WIDE = {"a": [0] * 90_000, "b": [1, [2]]}
DEEP: Any = [0]
for _ in range(40):
    DEEP = [DEEP, *range(500)]


@pytest.mark.parametrize(
    ("document", "path"),
    [
        (WIDE, "$..*..*"),
        (WIDE, "$['a','a'][*]"),
        (WIDE, f"$.a[{','.join(['?@==1'] * 3)}]"),
        (DEEP, f"$[{','.join('0' * 60)}]..x"),
        (DEEP, "$..[0,0]..[0,0]..[0,0]"),
        ([DEEP, list(range(40_000))], f"$[{','.join('1' * 60)}]"),
    ],
)
def test_a_path_that_takes_too_much_is_not_looked_for(document: Any, path: str) -> None:
    assert selected(document, path) == Unreadable(Fault.BOUND)


def test_the_bound_is_for_all_paths_together() -> None:
    paths = ("$.a[*]", "$.a[0:50000]")

    assert [isinstance(selected(WIDE, path), Tensors) for path in paths] == [True, True]
    assert selected(WIDE, *paths) == Unreadable(Fault.BOUND)


@pytest.mark.parametrize("path", ["$[?@..a]", "$[?$.a]", "$[?!(@.a == 1 && count(@.*) > 1)]", "$..[?@[?@.a]]"])
def test_a_filter_that_looks_at_more_than_one_place_is_refused(path: str) -> None:
    with pytest.raises(SpecError, match="a filter may only ask for @ and one place in it"):
        query(path)


@pytest.mark.parametrize("function", ["match", "search"])
def test_regular_expressions_are_refused(function: str) -> None:
    with pytest.raises(SpecError, match=f"function '{function}' is not defined"):
        query(f"$[?{function}(@.a, '(a|a)*b')]")


def test_filters_look_at_one_place_of_each_entry() -> None:
    found = selected(ANSWER, "$.results[?length(@.label) == 3 && !(@.score < 0.5 || @.none)].label")

    assert isinstance(found, Tensors)
    assert found.tensors[0].values.tolist() == ["cat"]


@pytest.mark.parametrize("right", ["null", "true", "1.5", "'a'", "@.b", "length(@.b)"])
def test_a_filter_takes_any_value(right: str) -> None:
    values = [None, True, 0, 10**400, float("inf"), "a", [], [1], {}, {"b": 1}]
    documents = [{"a": value, "b": other} for value in values for other in values]
    paths = {each: f"$[?@.a {each} {right}]" for each in ("==", "!=", "<", "<=", ">", ">=")}
    found = {each: len(matches(documents, [path])[path]) for each, path in paths.items()}

    assert found["=="] + found["!="] == 100
    assert (found["<="], found[">="]) == (found["<"] + found["=="], found[">"] + found["=="])


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3),
    max_leaves=30,
)
_SEGMENTS = [
    "..*",
    "..a",
    ".a",
    ".*",
    "[0]",
    "[-1]",
    "[::-1]",
    "[0,'a',0]",
    "..[?@.a]",
    "[?@==1 || @.b != @.a]",
    "..[1:]",
]


@given(_JSON, st.lists(st.sampled_from(_SEGMENTS), max_size=3))
def test_within_the_bounds_a_path_finds_what_the_standard_says(document: Any, segments: list[str]) -> None:
    path = "$" + "".join(segments)

    assert [node.location for node in matches(document, [path])[path]] == [
        node.location for node in jsonpath_rfc9535.find(path, document)
    ]


@pytest.mark.parametrize("path", ["", "a", "$[", "$.a[?nothing(@)]", "$" + "[?" * 500, "$[?@ == 1e400]"])
def test_a_path_that_is_none_is_the_users_to_correct(path: str) -> None:
    with pytest.raises(SpecError, match="is no JSONPath"):
        query(path)
