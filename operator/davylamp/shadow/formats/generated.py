"""Triton's generate extension: a text, or a stream of the pieces of one."""

from collections.abc import Sequence
from typing import Any

from davylamp.shadow.exchange import Answer
from davylamp.shadow.formats.event_stream import documents, is_error, is_stream
from davylamp.shadow.formats.parsing import parsed
from davylamp.shadow.formats.reading import Choice, Fault, Texts, UnreadableError
from davylamp.shadow.formats.selection import without
from davylamp.shadow.task import Rules


def read_generated(answer: Answer, rules: Rules) -> Texts:
    """Read a generated text.

    Raises
    ------
    UnreadableError
        If it is none, reports an error, or if the stream was cut off inside an event.
    """
    if is_stream(answer) or answer.body.startswith(b"data:"):
        pieces, done = documents(answer.body)
        if not done and not answer.body.endswith((b"\n\n", b"\r\n\r\n", b"\r\r")):
            raise UnreadableError(Fault.FORM)
        return _text(pieces)
    return _text([without(parsed(answer.body), rules.ignore)])


def _text(pieces: Sequence[Any]) -> Texts:
    texts = []
    for piece in pieces:
        if type(piece) is not dict:
            raise UnreadableError(Fault.FORM)
        if is_error(piece):
            raise UnreadableError(Fault.FAILED)
        said = piece.get("text_output")
        if type(said) is not str:
            raise UnreadableError(Fault.FORM)
        texts.append(said)
    return Texts((Choice("".join(texts)),))
