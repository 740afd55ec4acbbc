from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from davylamp.shadow.formats.side_by_side import MOST_CHARACTERS, MOST_LINES, Line, differences_of


def lines(first: Any, second: Any) -> list[tuple[str, str | None, str | None]]:
    return [(line.path, line.left, line.right) for line in differences_of(json.dumps(first), json.dumps(second))]


def test_json_is_compared_place_by_place() -> None:
    first = {"a": 1, "b": [1, {"c": "x"}], "d": None}
    second = {"b": [1, {"c": "y"}, 5], "a": 1, "e": [1]}

    assert lines(first, second) == [
        ("$['b'][1]['c']", '"x"', '"y"'),
        ("$['b'][2]", None, "5"),
        ("$['d']", "null", None),
        ("$['e']", None, "[1]"),
    ]


def test_true_and_one_are_shown_as_different() -> None:
    assert lines({"a": True}, {"a": 1}) == [("$['a']", "true", "1")]


def test_text_is_compared_line_by_line() -> None:
    assert differences_of("a\nb\nc", "a\nx") == (Line("2", "b", "x"), Line("3", "c", None))


def test_json_against_text_is_compared_as_text() -> None:
    assert differences_of('{"a": 1}', "<html>") == (Line("1", '{"a": 1}', "<html>"),)


def test_long_values_and_long_lists_are_cut() -> None:
    (line,) = differences_of(json.dumps(["a" * 1000]), "[1]")

    assert line.left is not None
    assert len(line.left) == MOST_CHARACTERS + 1
    assert len(lines([0] * (2 * MOST_LINES), [1] * (2 * MOST_LINES))) == MOST_LINES


def test_control_characters_do_not_reach_a_terminal() -> None:
    assert differences_of("\x1b[2Ja", "b\u202e") == (Line("1", "\ufffd[2Ja", "b\ufffd"),)


_DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
)


@given(_DOCUMENTS)
def test_a_body_does_not_differ_from_itself(document: Any) -> None:
    assert lines(document, document) == []


@given(_DOCUMENTS, _DOCUMENTS)
def test_the_other_way_round_the_sides_are_swapped(first: Any, second: Any) -> None:
    there, back = lines(first, second), lines(second, first)

    assert sorted(there, key=repr) == sorted(((path, right, left) for path, left, right in back), key=repr)


@pytest.mark.parametrize("body", ["", "\ud800", "[" * 100_000])
def test_any_text_can_be_looked_at(body: str) -> None:
    assert differences_of(body, body) == ()
