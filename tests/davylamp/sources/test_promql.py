from datetime import timedelta

import promql_parser
import pytest

from davylamp.core.reading import Matcher, MatchKind
from davylamp.sources.promql import any_of, literally, range_text, selector_text


@pytest.mark.parametrize(
    "value", ['a"b', "a\\b", "a\nb", '"} or up{a="', "é", "", "\\n", "`x`", "a\tb", "x{y}[5m]", '\\\\"', "# no"]
)
def test_no_value_becomes_syntax(value: str) -> None:
    text = selector_text([Matcher("__name__", MatchKind.EQUAL, "up"), Matcher("a", MatchKind.EQUAL, value)])

    tree = promql_parser.parse(text)

    assert isinstance(tree, promql_parser.VectorSelector)
    assert [(m.name, m.value) for m in tree.matchers.matchers] == [("__name__", "up"), ("a", value)]


def test_one_value_is_matched_as_it_stands_and_several_as_literal_alternatives() -> None:
    assert any_of("a", ["x.y", "x.y"]) == Matcher("a", MatchKind.EQUAL, "x.y")
    assert any_of("a", ["x.y", "b|c"]) == Matcher("a", MatchKind.MATCHES, r"b\|c|x\.y")


def test_every_sign_of_a_regular_expression_is_taken_literally() -> None:
    assert literally(r"\.+*?()|[]{}^$") == r"\\\.\+\*\?\(\)\|\[\]\{\}\^\$"


def test_a_range_reaches_at_least_as_far_as_asked() -> None:
    assert range_text([Matcher("a", MatchKind.EQUAL, "b")], timedelta(seconds=2, microseconds=1)) == '{a="b"}[2001ms]'
