from __future__ import annotations

import math
from typing import Any

import pytest

from davylamp.shadow.formats.reading import Choice, Embeddings, Fault, Texts, Unreadable
from davylamp.shadow.task import Rules
from e2e.bench.answers import CHAT, answer, chat, embeddings, packed, tool_call
from tests.davylamp.shadow.bodies import reading

COMPLETIONS = "/v1/completions"
EMBEDDINGS = "/v1/embeddings"


def choices(target: str, body: Any) -> tuple[Choice, ...]:
    found = reading(target, body)
    assert isinstance(found, Texts), found
    return found.choices


def test_a_chat_is_its_texts_and_why_they_ended() -> None:
    assert choices(CHAT, chat("Yes.", "No.", finish="length")) == (
        Choice("Yes.", finish="length"),
        Choice("No.", finish="length"),
    )


def test_choices_are_put_in_order() -> None:
    body = chat("first", "second")
    body["choices"].reverse()

    assert [choice.text for choice in choices(CHAT, body)] == ["first", "second"]


def test_tool_calls_are_compared_by_what_their_arguments_mean() -> None:
    first, second = (
        choices(CHAT, chat(None, finish="tool_calls", tool_calls=[tool_call("grant", arguments)]))
        for arguments in ('{"sum": 5, "to": "x"}', '{"to":"x","sum":5}')
    )

    assert first == second
    assert first[0].tools == (("grant", '{"sum":5,"to":"x"}'),)


def test_arguments_that_are_no_json_stay_as_they_are() -> None:
    (choice,) = choices(
        CHAT, chat(None, tool_calls=[tool_call("f", '{"sum": ')], function_call={"name": "g", "arguments": {}})
    )

    assert choice.tools == (("f", '{"sum": '), ("g", "{}"))


def test_parts_of_text_are_one_text() -> None:
    parts: Any = [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]

    assert choices(CHAT, chat(parts))[0].text == "ab"


def test_a_refusal_is_known_by_its_field_and_by_the_filter() -> None:
    assert choices(CHAT, chat(None, refusal="No.")) == (Choice("No.", finish="stop", refused=True),)
    assert choices(CHAT, chat("", finish="content_filter"))[0].refused


def test_log_probabilities_of_a_chat_belong_to_its_tokens() -> None:
    body = chat("a b")
    body["choices"][0]["logprobs"] = {
        "content": [{"token": "a", "logprob": -0.25}, {"token": " b", "logprob": -9999.0}, {"token": "", "logprob": 0}]
    }
    (choice,) = choices(CHAT, body)

    assert choice.tokens == ("a", " b", "")
    assert choice.log_probabilities[0] == -0.25
    assert math.isnan(choice.log_probabilities[1])
    assert choice.log_probabilities[2] == 0


def test_log_probabilities_of_completions_belong_to_their_tokens() -> None:
    logprobs = {"tokens": ["a", "b"], "token_logprobs": [None, -1.5]}
    (choice,) = choices(COMPLETIONS, {"choices": [{"text": "ab", "logprobs": logprobs, "finish_reason": None}]})

    assert choice.tokens == ("a", "b")
    assert math.isnan(choice.log_probabilities[0])
    assert choice.log_probabilities[1] == -1.5


@pytest.mark.parametrize(
    "logprobs",
    [
        5,
        {},
        {"content": []},
        {"content": [5]},
        {"content": [{"token": 5, "logprob": -1.0}]},
        {"tokens": ["a"], "token_logprobs": []},
        {"tokens": "a", "token_logprobs": [0]},
    ],
)
def test_log_probabilities_that_are_amiss_are_none(logprobs: Any) -> None:
    (choice,) = choices(COMPLETIONS, {"choices": [{"text": "ab", "logprobs": logprobs}]})

    assert (choice.tokens, choice.log_probabilities) == ((), ())


def test_embeddings_are_lists_or_packed_floats() -> None:
    found = reading(EMBEDDINGS, embeddings([0.5, 1], packed(0.5, -2)))

    assert isinstance(found, Embeddings)
    assert [vector.tolist() for vector in found.vectors] == [[0.5, 1], [0.5, -2]]


@pytest.mark.parametrize("vector", ["", "AAA=", "not base64!", "é", [], [None], ["1"], 5, None, [10**400], [[1]]])
def test_a_vector_that_is_none_is_unreadable(vector: Any) -> None:
    assert reading(EMBEDDINGS, embeddings(vector)) == Unreadable(Fault.FORM)


@pytest.mark.parametrize(
    "body",
    [
        [],
        {},
        {"choices": []},
        {"choices": [5]},
        {"choices": [{}]},
        {"choices": [{"index": "0", "text": ""}]},
        {"choices": [{"message": {"content": 5}}]},
        {"choices": [{"message": {"content": [5]}}]},
        {"choices": [{"message": {"content": "", "tool_calls": {"a": 1}}}]},
        {"choices": [{"message": {"content": "", "tool_calls": [5]}}]},
        {"choices": [{"message": {"content": "", "tool_calls": [{"function": None}]}}]},
        {"data": [5]},
        b"Internal error",
    ],
)
def test_an_answer_of_another_form_is_unreadable(body: Any) -> None:
    assert reading(CHAT, body) == Unreadable(Fault.FORM)


@pytest.mark.parametrize("body", [{"error": {"message": "no"}}, {"object": "error", "message": "no"}])
def test_an_error_with_a_status_of_success_is_a_failure(body: Any) -> None:
    assert reading(CHAT, body) == Unreadable(Fault.FAILED)


def test_a_field_for_errors_that_is_null_reports_none() -> None:
    assert choices(CHAT, {**chat("Yes."), "error": None}) == (Choice("Yes.", finish="stop"),)


def test_what_is_ignored_is_not_read() -> None:
    found = reading(CHAT, answer(chat("a", "b")), rules=Rules(ignore=("$.choices[1]",)))

    assert found == Texts((Choice("a", finish="stop"),))
