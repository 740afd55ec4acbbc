"""Server-sent events: a whole stream as the documents that were sent one by one."""

from typing import Any, Final

from davylamp.shadow.exchange import Answer
from davylamp.shadow.formats.parsing import parsed
from davylamp.shadow.formats.reading import Fault, UnreadableError

#: What OpenAI and its kin send last.
DONE: Final = b"[DONE]"


def is_stream(answer: Answer) -> bool:
    """Whether the answer came as events."""
    return answer.header("content-type").lower().startswith("text/event-stream")


def events(body: bytes) -> list[bytes]:
    """Return the data of each event; comments and other fields are passed over.

    Parameters
    ----------
    body
        The stream. An event that no empty line ended is one too: whether it is whole, its data show.
    """
    lines = body.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    found: list[bytes] = []
    data: list[bytes] = []
    for line in (*lines, b""):
        if line.startswith(b"data:"):
            data.append(line[5:].removeprefix(b" "))
        elif not line and data:
            found.append(b"\n".join(data))
            data = []
    return found


def documents(body: bytes) -> tuple[list[dict[str, Any]], bool]:
    """Return the documents of a stream, and whether it says that it is done.

    Raises
    ------
    UnreadableError
        If an event is no JSON object, reports an error, or comes after the end; or if there is no event.
    """
    found = events(body)
    done = bool(found) and found[-1].strip() == DONE
    read = [parsed(data) for data in (found[:-1] if done else found)]
    if not read or set(map(type, read)) != {dict}:
        raise UnreadableError(Fault.FORM)
    if any(map(is_error, read)):
        raise UnreadableError(Fault.FAILED)
    return read, done


def is_error(document: dict[str, Any]) -> bool:
    """Whether a document reports an error instead of an answer; a field that is null reports none."""
    return document.get("error") is not None or document.get("object") == "error"
