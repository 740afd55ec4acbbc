from __future__ import annotations

from typing import Any

import pytest

from davylamp.shadow.exchange import Answer
from davylamp.shadow.formats.event_stream import events
from davylamp.shadow.formats.reading import Choice, Document, Fault, Reading, Texts, Unreadable
from e2e.bench.answers import CHAT, STREAM_TYPE, delta, stream
from tests.davylamp.shadow.bodies import reading

GENERATE = "/v2/models/llm/generate_stream"


@pytest.mark.parametrize(
    ("body", "data"),
    [
        (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data:a\r\n\r\ndata:b\r\rdata: c", [b"a", b"b", b"c"]),
        (b"\xef\xbb\xbfdata: a\ndata: b\n\n", [b"a\nb"]),
        (b": a comment\n\nevent: x\nid: 5\nretry: 1\ndata:  a\n\n", [b" a"]),
        (b"data\n\ndat: a\n\n", []),
        (b"", []),
    ],
)
def test_events_are_taken_apart_as_the_standard_says(body: bytes, data: list[bytes]) -> None:
    assert events(body) == data


def test_a_stream_is_read_like_the_whole_answer() -> None:
    given = stream(
        delta(role="assistant", content=""),
        delta(content="Hel"),
        delta(1, content="Bye"),
        delta(content="lo", finish="stop"),
        delta(1, "length"),
        {"choices": [], "usage": {"total_tokens": 5}},
    )

    assert reading(CHAT, given) == Texts((Choice("Hello", finish="stop"), Choice("Bye", finish="length")))


def fragment(index: int, **function: str) -> dict[str, Any]:
    return {"index": index, "function": function}


def test_fragments_of_tool_calls_belong_together_by_index() -> None:
    given = stream(
        delta(tool_calls=[fragment(1, name="g", arguments="")]),
        delta(tool_calls=[fragment(0, name="f", arguments='{"a"'), fragment(1, arguments="{}")]),
        delta(tool_calls=[fragment(0, arguments=": 1}")], finish="tool_calls"),
    )

    assert reading(CHAT, given) == Texts((Choice("", "tool_calls", tools=(("f", '{"a":1}'), ("g", "{}"))),))


def test_the_one_function_call_of_old_is_put_together_too() -> None:
    given = stream(delta(function_call={"name": "f"}), delta(function_call={"arguments": "[1]"}, finish="stop"))

    assert reading(CHAT, given) == Texts((Choice("", "stop", tools=(("f", "[1]"),)),))


def test_refusals_and_log_probabilities_are_put_together() -> None:
    chunks = [delta(refusal="I c"), delta(refusal="annot.")]
    for chunk, token in zip(chunks, "ab", strict=True):
        chunk["choices"][0]["logprobs"] = {"content": [{"token": token, "logprob": -0.5}]}

    assert reading(CHAT, stream(*chunks)) == Texts(
        (Choice("I cannot.", refused=True, tokens=("a", "b"), log_probabilities=(-0.5, -0.5)),)
    )


def test_streamed_completions_are_put_together() -> None:
    chunks = [
        {"choices": [{"index": 0, "text": text, "logprobs": {"tokens": [text], "token_logprobs": [-0.5]}}]}
        for text in ("a", "b")
    ]

    assert reading("/v1/completions", stream(*chunks)) == Texts(
        (Choice("ab", tokens=("a", "b"), log_probabilities=(-0.5, -0.5)),)
    )


def test_a_stream_is_whole_when_each_choice_says_why_it_ended() -> None:
    given = stream(delta(content="a"), delta(finish="stop"), done=False)

    assert reading(CHAT, given) == Texts((Choice("a", finish="stop"),))


WHOLE = stream(delta(content="Hello"), delta(1, content="Bye"), delta(finish="stop"), delta(1, "stop"))


def test_a_stream_that_was_cut_off_anywhere_is_no_answer() -> None:
    last = WHOLE.body.rindex(b"}\n\ndata: [DONE]")
    found = {reading(CHAT, Answer(200, STREAM_TYPE, WHOLE.body[:end])) for end in range(last + 1)}

    assert found == {Unreadable(Fault.FORM)}


@pytest.mark.parametrize("error", [{"error": {"message": "no"}}, {"object": "error", "message": "no"}])
def test_an_error_in_a_stream_is_a_failure(error: Any) -> None:
    assert reading(CHAT, stream(delta(content="a"), error, done=False)) == Unreadable(Fault.FAILED)


@pytest.mark.parametrize(
    "chunks",
    [
        [],
        ["not json"],
        [5],
        ["[DONE]", delta(content="a")],
        [{"choices": 5}],
        [{"choices": [5]}],
        [{"choices": [{"index": "0", "delta": {}}]}],
        [delta(content=5)],
        [delta(tool_calls=[{"index": "0", "function": {}}])],
        [delta(tool_calls=[{"index": 0}])],
        [delta(function_call=5)],
        [{"choices": []}],
    ],
)
def test_a_stream_of_another_form_is_unreadable(chunks: Any) -> None:
    assert reading(CHAT, stream(*chunks)) == Unreadable(Fault.FORM)


def test_a_stream_is_known_by_its_content_where_the_header_says_nothing() -> None:
    assert isinstance(reading(CHAT, WHOLE.body, ()), Texts)


def test_a_generated_text_is_read_whole_and_in_pieces() -> None:
    pieces = stream({"text_output": "Once"}, {"text_output": " upon"}, done=False)

    assert reading(GENERATE, pieces) == Texts((Choice("Once upon"),))
    assert reading(GENERATE, {"text_output": "Once upon"}) == Texts((Choice("Once upon"),))


def _generated(*pieces: Any) -> Reading:
    return reading(GENERATE, stream(*pieces, done=False))


def test_a_generated_text_that_is_amiss_is_unreadable() -> None:
    assert _generated({"text_output": "a"}, {"error": "cuda"}) == Unreadable(Fault.FAILED)
    assert reading(GENERATE, {"error": "cuda"}) == Unreadable(Fault.FAILED)
    assert _generated({"text_output": 5}) == Unreadable(Fault.FORM)
    assert reading(GENERATE, [1]) == Unreadable(Fault.FORM)
    cut_off = stream({"text_output": "a"}, done=False).body[:-1]
    assert reading(GENERATE, cut_off, STREAM_TYPE) == Unreadable(Fault.FORM)


def test_events_of_no_known_format_are_compared_as_a_list() -> None:
    assert reading("/predictions/x", stream({"a": 1}, "b", done=False)) == Document([{"a": 1}, "b"])
    assert reading("/predictions/x", b": nothing\n\n", STREAM_TYPE) == Unreadable(Fault.FORM)
