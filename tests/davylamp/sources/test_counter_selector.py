import pytest
from hypothesis import given
from hypothesis import strategies as st

from davylamp.core.reading import Matcher, MatchKind, Selector
from davylamp.errors import SpecError
from davylamp.sources.counter_selector import parse_selector


def test_a_name_alone_is_a_selector() -> None:
    assert parse_selector(" credit_scored_total ") == Selector("credit_scored_total")


def test_every_kind_of_matcher_is_read() -> None:
    assert parse_selector("""x{a="1",b!='2',c=~"3.*",d!~"4\\\\d"}""") == Selector(
        "x",
        (
            Matcher("a", MatchKind.EQUAL, "1"),
            Matcher("b", MatchKind.NOT_EQUAL, "2"),
            Matcher("c", MatchKind.MATCHES, "3.*"),
            Matcher("d", MatchKind.MATCHES_NOT, "4\\d"),
        ),
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rate(x[1m])", "counts the raw samples itself"),
        ("x[5m]", "not a plain counter"),
        ("(x)", "not a plain counter"),
        ("x + y", "not a plain counter"),
        ("sum(x)", "not a plain counter"),
        ("5", "not a plain counter"),
        ('"x"', "not a plain counter"),
        ("x offset 5m", "remove offset and @"),
        ("x @ 5", "remove offset and @"),
        ('{a="b"}', "no metric name"),
        ('{__name__="x"}', "no metric name"),
        ('{"x.y"}', "no metric name"),
        ('x{namespace="other"}', "remove the matcher of namespace"),
        ('x{namespace=~".*"}', "remove the matcher of namespace"),
        ('x{le="1"}', "remove the matcher of le"),
        ('x{a="1" or b="2"}', "does not know"),
        ("x{", "not PromQL"),
        ("", "not PromQL"),
        ('x{a=~"("}', "not PromQL"),
        ("x" * 1025, "at most 1024 characters"),
    ],
)
def test_anything_but_a_plain_counter_is_refused_with_what_to_write(text: str, words: str) -> None:
    with pytest.raises(SpecError) as refused:
        parse_selector(text)

    assert words in str(refused.value)
    assert len(str(refused.value)) < 600


@given(st.text(alphabet=st.sampled_from("x{}[]()\"'`\\=~!,:@+-/ n0\n5mor"), max_size=40))
def test_any_text_is_a_selector_or_refused(text: str) -> None:
    try:
        selector = parse_selector(text)
    except SpecError:
        return
    assert selector.metric
    assert not {matcher.label for matcher in selector.matchers} & {"namespace", "__name__", "le"}
