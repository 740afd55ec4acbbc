"""OpenAI's streamed answers, put together into the form of a whole one.

Rule 1: a stream that ends before its end was cut off, and a part of an answer is not compared.
Rule 2: fragments of a tool call belong together by its index, not by their order.
"""

from dataclasses import dataclass, field
from typing import Any

from davylamp.shadow.formats.event_stream import documents
from davylamp.shadow.formats.reading import Fault, UnreadableError


@dataclass(slots=True)
class _Growing:
    """What is known of one choice so far."""

    chat: bool = False
    text: list[str] = field(default_factory=list)
    refusal: list[str] = field(default_factory=list)
    tools: dict[int, dict[str, list[str]]] = field(default_factory=dict)
    content: list[Any] = field(default_factory=list)
    tokens: list[Any] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    finish: str | None = None

    def take(self, chunk: dict[str, Any]) -> None:
        """Add a chunk."""
        delta = chunk.get("delta")
        if type(delta) is dict:
            self.chat = True
            self.text.append(_string(delta.get("content")))
            self.refusal.append(_string(delta.get("refusal")))
            for fragment in _objects(delta.get("tool_calls")):
                self._take_tool(fragment)
            if delta.get("function_call") is not None:
                self._take_tool({"index": -1, "function": delta["function_call"]})
        else:
            self.text.append(_string(chunk.get("text")))
        self._take_tokens(chunk.get("logprobs"))
        if chunk.get("finish_reason") is not None:
            self.finish = _string(chunk["finish_reason"])

    def whole(self, index: int) -> dict[str, Any]:
        """Return the choice in the form that it has in an answer that is not streamed."""
        logprobs = {"content": self.content, "tokens": self.tokens, "token_logprobs": self.values}
        entry: dict[str, Any] = {"index": index, "finish_reason": self.finish, "logprobs": logprobs}
        text = "".join(self.text)
        if not self.chat:
            return {**entry, "text": text}
        functions = (self.tools[place] for place in sorted(self.tools))
        calls = [{"function": {key: "".join(parts) for key, parts in function.items()}} for function in functions]
        return {**entry, "message": {"content": text, "refusal": "".join(self.refusal), "tool_calls": calls}}

    def _take_tool(self, fragment: dict[str, Any]) -> None:
        index, function = fragment.get("index", 0), fragment.get("function")
        if type(index) is not int or type(function) is not dict:
            raise UnreadableError(Fault.FORM)
        call = self.tools.setdefault(index, {"name": [], "arguments": []})
        for key, parts in call.items():
            parts.append(_string(function.get(key)))

    def _take_tokens(self, said: Any) -> None:
        if type(said) is dict:
            for key, known in (("content", self.content), ("tokens", self.tokens), ("token_logprobs", self.values)):
                known.extend(found if type(found := said.get(key)) is list else [])


def assembled(body: bytes) -> dict[str, Any]:
    """Return a streamed answer as a document of the form that it has when it is not streamed.

    Raises
    ------
    UnreadableError
        If it is no such stream, reports an error, or was cut off.
    """
    chunks, done = documents(body)
    growing: dict[int, _Growing] = {}
    for chunk in chunks:
        for entry in _objects(chunk.get("choices")):  # none in the chunk that holds the usage
            index = entry.get("index", 0)
            if type(index) is not int:
                raise UnreadableError(Fault.FORM)
            growing.setdefault(index, _Growing()).take(entry)
    if not done and not all(choice.finish is not None for choice in growing.values()):
        raise UnreadableError(Fault.FORM)
    return {"choices": [growing[index].whole(index) for index in sorted(growing)]}


def _objects(entries: Any) -> list[dict[str, Any]]:
    if entries is None:
        return []
    if type(entries) is not list or not set(map(type, entries)) <= {dict}:
        raise UnreadableError(Fault.FORM)
    return entries


def _string(said: Any) -> str:
    if said is None:
        return ""
    if type(said) is not str:
        raise UnreadableError(Fault.FORM)
    return said
