"""OpenAI's API and its kin: chat, completions and embeddings, whole or streamed."""

import base64
import binascii
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from davylamp.shadow.exchange import Answer
from davylamp.shadow.formats.event_stream import is_error, is_stream
from davylamp.shadow.formats.openai_stream import assembled
from davylamp.shadow.formats.parsing import parsed, spelled, within_bounds
from davylamp.shadow.formats.reading import Array, Choice, Embeddings, Fault, Texts, UnreadableError
from davylamp.shadow.formats.selection import without
from davylamp.shadow.task import Rules

#: What vLLM writes for a log-probability that JSON cannot hold.
VERY_SMALL: Final = -9999.0


def read_openai(answer: Answer, rules: Rules) -> Texts | Embeddings:
    """Read texts or embeddings; of a stream, after it was put together.

    Raises
    ------
    UnreadableError
        If it is neither, or if the stream was cut off.
    """
    if is_stream(answer) or answer.body.startswith(b"data:"):
        return read_document(assembled(answer.body))
    return read_document(without(parsed(answer.body), rules.ignore))


def is_openai(document: Any) -> bool:
    """Whether a document has the form of an answer of this API."""
    if type(document) is not dict:
        return False
    data = document.get("data")
    embedded = type(data) is list and bool(data) and type(data[0]) is dict and "embedding" in data[0]
    return embedded or type(document.get("choices")) is list


def read_document(document: Any) -> Texts | Embeddings:
    """Read a whole answer.

    Raises
    ------
    UnreadableError
        If it has neither choices nor embeddings.
    """
    if type(document) is not dict:
        raise UnreadableError(Fault.FORM)
    if is_error(document):
        raise UnreadableError(Fault.FAILED)
    choices, data = document.get("choices"), document.get("data")
    if type(choices) is list and choices:
        return Texts(tuple(_choice(entry) for entry in _ordered(choices)))
    if type(data) is list and data:
        return Embeddings(tuple(_vector(entry.get("embedding")) for entry in _ordered(data)))
    raise UnreadableError(Fault.FORM)


def _ordered(entries: Sequence[Any]) -> list[dict[str, Any]]:
    """Return entries by their index; those of a server that writes none stay in their order."""
    if set(map(type, entries)) != {dict}:
        raise UnreadableError(Fault.FORM)
    places = [entry.get("index", place) for place, entry in enumerate(entries)]
    if set(map(type, places)) != {int}:
        raise UnreadableError(Fault.FORM)
    return [entries[place] for place in sorted(range(len(entries)), key=places.__getitem__)]


def _choice(entry: Mapping[str, Any]) -> Choice:
    message = entry.get("message")
    finish = entry.get("finish_reason")
    refusal = message.get("refusal") if type(message) is dict else None
    if type(message) is dict:
        text, tools = _text(message.get("content")), _tools(message)
    elif type(entry.get("text")) is str:
        text, tools = entry["text"], ()
    else:
        raise UnreadableError(Fault.FORM)
    tokens, log_probabilities = _tokens(entry.get("logprobs"))
    return Choice(
        text=text or (refusal if type(refusal) is str else ""),
        finish=finish if type(finish) is str else "",
        refused=bool(refusal) or finish == "content_filter",
        tools=tools,
        tokens=tokens,
        log_probabilities=log_probabilities,
    )


def _text(content: Any) -> str:
    """Return the text of a message: null before tool calls, and sometimes in parts."""
    if content is None:
        return ""
    if type(content) is str:
        return content
    if type(content) is list and set(map(type, content)) <= {dict}:
        return "".join(text for part in content if type(text := part.get("text")) is str)
    raise UnreadableError(Fault.FORM)


def _tools(message: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    calls = message.get("tool_calls") or []
    if type(calls) is not list or not set(map(type, calls)) <= {dict}:
        raise UnreadableError(Fault.FORM)
    functions = [call.get("function", call.get("custom")) for call in calls]
    if message.get("function_call") is not None:  # what tool calls were before there were many
        functions.append(message["function_call"])
    if not set(map(type, functions)) <= {dict}:
        raise UnreadableError(Fault.FORM)
    return tuple((str(function.get("name")), _arguments(function.get("arguments"))) for function in functions)


def _arguments(said: Any) -> str:
    """Return arguments in one spelling; those that are no JSON as they are."""
    if type(said) is not str:
        return spelled(within_bounds(said))
    try:
        return spelled(within_bounds(parsed(said.encode("utf-8", "surrogatepass"))))
    except UnreadableError:
        return said


def _tokens(said: Any) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Return tokens and their log-probabilities, as chat or as completions spell them; none if they are amiss."""
    if type(said) is not dict:
        return (), ()
    content = said.get("content")
    if type(content) is list and content and set(map(type, content)) == {dict}:
        said = {
            "tokens": [each.get("token") for each in content],
            "token_logprobs": [each.get("logprob") for each in content],
        }
    tokens, values = said.get("tokens"), said.get("token_logprobs")
    if type(tokens) is not list or type(values) is not list or len(tokens) != len(values):
        return (), ()
    if set(map(type, tokens)) != {str}:
        return (), ()
    return tuple(tokens), tuple(map(_log_probability, values))


def _log_probability(value: Any) -> float:
    """Return a log-probability; NaN where none was given, or one too small to be given."""
    known = (type(value) is float or type(value) is int) and VERY_SMALL < value <= 0
    return float(value) if known else math.nan


def _vector(said: Any) -> Array:
    if type(said) is str:
        try:
            packed = base64.b64decode(said, validate=True)
        except (binascii.Error, ValueError):
            raise UnreadableError(Fault.FORM) from None
        if not packed or len(packed) % 4:
            raise UnreadableError(Fault.FORM)
        return np.frombuffer(packed, "<f4").astype(np.float64)
    if type(said) is not list or not said or not set(map(type, said)) <= {float, int}:
        raise UnreadableError(Fault.FORM)
    try:
        return np.array(said, np.float64)
    except OverflowError:
        raise UnreadableError(Fault.FORM) from None
