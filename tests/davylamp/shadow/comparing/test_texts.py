from __future__ import annotations

from typing import Any

import pytest

from davylamp.shadow.comparing.texts import FEWEST_CHARACTERS, MOST_CHARACTERS, MOST_CHARACTERS_IN_ALL
from davylamp.shadow.comparison import Comparison, Difference, Kind, Measure
from davylamp.shadow.task import Notion
from e2e.bench.answers import CHAT, chat, tool_call
from tests.davylamp.shadow.bodies import compared


def texts(first: str | None, second: str | None, **rules: Any) -> Comparison:
    return compared(CHAT, chat(first), chat(second), **rules)


def completion(text: str, tokens: list[str], values: list[float | None]) -> Any:
    return {"choices": [{"text": text, "logprobs": {"tokens": tokens, "token_logprobs": values}}]}


def test_similarity_is_one_less_the_share_of_edits() -> None:
    # kitten to sitting is Levenshtein's own example: three edits of seven letters.
    found = texts("kitten", "sitting")

    assert found.kind is Kind.TEXT
    assert found.measures[Measure.SIMILARITY] == pytest.approx(1 - 3 / 7)
    assert found.measures[Measure.LENGTH_RATIO] == pytest.approx(7 / 6)


@pytest.mark.parametrize(("similarity", "disagrees"), [(0.5, False), (0.6, True)])
def test_a_text_disagrees_that_is_not_similar_enough(similarity: float, disagrees: bool) -> None:
    assert texts("kitten", "sitting", similarity=similarity).disagrees is disagrees


def test_exact_texts_have_to_be_equal_to_the_last_letter() -> None:
    long = "a" * (2 * MOST_CHARACTERS)

    assert not texts(long, long + "b").differences
    assert texts(long, long + "b", notion=Notion.EXACT).disagrees
    assert not texts(long, long, notion=Notion.EXACT).disagrees


def test_many_long_texts_are_looked_at_for_a_share_of_their_length() -> None:
    count = MOST_CHARACTERS_IN_ALL // FEWEST_CHARACTERS
    for number in (count, 2 * count):
        first = ["a" * 200] * number
        amid = compared(CHAT, chat(*first), chat(*("a" * 99 + "bb" + "a" * 99 for _ in first)))
        early = compared(CHAT, chat(*first), chat(*("b" + "a" * 199 for _ in first)))
        late = compared(CHAT, chat(*first), chat(*("a" * 199 + "b" for _ in first)))
        assert amid.measures[Measure.SIMILARITY] == 1
        for found in (early, late):
            assert found.measures[Measure.SIMILARITY] == 1 - 2 / FEWEST_CHARACTERS


def test_a_long_text_that_breaks_down_late_or_is_cut_off_is_not_similar() -> None:
    whole = "word " * MOST_CHARACTERS
    assert texts(whole, whole[: 2 * MOST_CHARACTERS] + "!" * 3 * MOST_CHARACTERS).disagrees
    cut = texts(whole, whole[:MOST_CHARACTERS])
    assert (cut.disagrees, cut.measures[Measure.SIMILARITY]) == (True, 1 / 5)


def test_why_a_text_ended_counts_only_where_everything_does() -> None:
    for notion in Notion:
        found = compared(CHAT, chat("a"), chat("a", finish="length"), notion=notion)
        assert found.differences == {Difference.FINISH_REASON}
        assert found.disagrees is (notion is Notion.EXACT)


@pytest.mark.parametrize(
    "refusal",
    [
        "I'm sorry, but I can't help with that.",
        "I’m really sorry, I won't.",
        "Sorry, but I am not allowed to.",
        "I cannot assist with this request.",
        "“As an AI language model, …”",
        "I'm unable to answer.",
        "I must decline.",
    ],
)
def test_a_refusal_on_one_side_only_disagrees(refusal: str) -> None:
    assert Difference.REFUSAL in texts("Sure: 5.", refusal, similarity=0).differences
    assert Difference.REFUSAL not in texts(refusal, refusal).differences


@pytest.mark.parametrize(
    "text", ["I can help.", "The answer is: I cannot be certain, but 5.", "Sorry state of affairs."]
)
def test_an_answer_that_only_sounds_like_it_is_no_refusal(text: str) -> None:
    assert Difference.REFUSAL not in texts("Sure: 5.", text, similarity=0).differences


def test_a_refusal_by_the_filter_disagrees_with_an_answer() -> None:
    assert Difference.REFUSAL in compared(CHAT, chat("a"), chat("a", finish="content_filter")).differences


@pytest.mark.parametrize("empty", ["", " \n", None])
def test_an_empty_answer_disagrees_with_another(empty: str | None) -> None:
    assert Difference.EMPTY in texts("a", empty, similarity=0).differences
    assert Measure.LENGTH_RATIO not in texts("", "a").measures


def test_a_tool_call_without_text_is_not_empty() -> None:
    called = chat(None, tool_calls=[tool_call("f", "{}")])

    assert compared(CHAT, chat("a"), called).differences == {Difference.TOOL_CALLS, Difference.TEXT}


def test_other_arguments_are_other_tool_calls() -> None:
    sides = (chat(None, tool_calls=[tool_call("f", arguments)]) for arguments in ('{"a": 1}', '{"a": 2}'))
    found = compared(CHAT, *sides)

    assert (set(found.differences), found.disagrees) == ({Difference.TOOL_CALLS}, True)


def test_json_that_broke_disagrees_however_similar_it_is() -> None:
    whole = '{"decision": "grant", "because": "income", "sum": 5000}'

    assert texts(whole, whole[:-1]).differences == {Difference.JSON_VALIDITY}
    assert texts(whole, whole[:-1]).disagrees
    assert not texts(whole, whole.replace(" ", "")).differences & {Difference.JSON_VALIDITY}
    assert not texts("5", "five", similarity=0).differences


def test_another_number_of_choices_disagrees() -> None:
    assert compared(CHAT, chat("a", "b"), chat("a")).differences == {Difference.STRUCTURE}


def test_the_least_similar_choice_is_measured() -> None:
    found = compared(CHAT, chat("same", "kitten"), chat("same", "sitting"))

    assert found.measures[Measure.SIMILARITY] == pytest.approx(1 - 3 / 7)


def test_the_first_difference_is_counted_in_tokens_where_there_are_any() -> None:
    first = completion("a bc d", ["a", " b", "c", " d"], [-1, -1, -1, -1])
    second = completion("a bx d", ["a", " b", "x", " d"], [-1, -1, -1, -1])

    assert compared("/v1/completions", first, second).measures[Measure.FIRST_DIFFERENCE] == 2
    assert Measure.FIRST_DIFFERENCE not in compared("/v1/completions", first, first).measures


def test_the_first_difference_is_counted_in_words_otherwise() -> None:
    assert texts("the loan is granted", "the loan was granted").measures[Measure.FIRST_DIFFERENCE] == 2
    assert texts("the loan", "the loan is granted").measures[Measure.FIRST_DIFFERENCE] == 2
    assert Measure.FIRST_DIFFERENCE not in texts("the loan", "the  loan").measures


def test_log_probabilities_are_compared_up_to_the_first_token_that_differs() -> None:
    first = completion("abc", ["a", "b", "c"], [-1.0, -2.0, -9.0])
    second = completion("abx", ["a", "b", "x"], [-1.5, -1.0, -1.0])
    found = compared("/v1/completions", first, second)

    assert found.measures[Measure.LOG_PROBABILITY_CHANGE] == pytest.approx((-0.5 + 1.0) / 2)


def test_log_probabilities_that_were_too_small_to_write_are_left_out() -> None:
    first = completion("ab", ["a", "b"], [-9999.0, -1.0])
    second = completion("ab", ["a", "b"], [-1.0, -1.25])
    found = compared("/v1/completions", first, second)

    assert found.measures[Measure.LOG_PROBABILITY_CHANGE] == -0.25
    unknown = completion("a", ["a"], [None])
    assert Measure.LOG_PROBABILITY_CHANGE not in compared("/v1/completions", unknown, unknown).measures
