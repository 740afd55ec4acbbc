"""Any JSON, events of any kind, and bytes that are nothing else."""

from typing import Any

from davylamp.shadow.exchange import Answer
from davylamp.shadow.formats.event_stream import events
from davylamp.shadow.formats.parsing import parsed, within_bounds
from davylamp.shadow.formats.reading import Document, Fault, Raw, Tensors, UnreadableError
from davylamp.shadow.formats.selection import selected, without
from davylamp.shadow.task import Rules


def read_json(answer: Answer, rules: Rules) -> Tensors | Document:
    """Read JSON: what the rules select, or all of it, without what they ignore.

    Raises
    ------
    UnreadableError
        If it is no JSON, has nothing in it, or is over a bound.
    """
    document = without(parsed(answer.body), rules.ignore)
    if rules.select:
        return selected(document, rules.select)
    if document in ({}, []):
        raise UnreadableError(Fault.FORM)
    return Document(within_bounds(document))


def read_events(answer: Answer, _: Rules) -> Document:
    """Read a stream of events of no known format as the list of what was sent; JSON where it is JSON.

    Raises
    ------
    UnreadableError
        If there is none, or if it is over a bound.
    """
    found = [_event(data) for data in events(answer.body)]
    if not found:
        raise UnreadableError(Fault.FORM)
    return Document(within_bounds(found))


def read_raw(answer: Answer) -> Raw:
    """Take the bytes as they are.

    Raises
    ------
    UnreadableError
        If there are none.
    """
    if not answer.body:
        raise UnreadableError(Fault.FORM)
    return Raw(answer.body)


def _event(data: bytes) -> Any:
    try:
        return parsed(data)
    except UnreadableError:
        return data.decode("utf-8", "replace")
