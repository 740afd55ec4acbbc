"""CloudEvents 1.0 over HTTP in its three modes: binary, structured, batched. The data of an event are labels."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final
from urllib.parse import unquote

from davylamp.errors import SpecError
from davylamp.labels.messages import MOST_ITEMS, Event, checked, document, labels_in, parse_labels
from davylamp.labels.records import Label

STRUCTURED: Final = "application/cloudevents+json"
BATCHED: Final = "application/cloudevents-batch+json"
_JSON: Final = "application/json"


def read_labels(headers: Mapping[str, str], content_type: str, body: bytes) -> tuple[Label, ...]:
    """Read the labels of a request, events or not.

    Parameters
    ----------
    headers
        By lower-case name.
    content_type
        Without parameters, in lower case.
    body
        Uncompressed.

    Raises
    ------
    SpecError
        If they cannot be read.
    """
    if content_type == STRUCTURED:
        return _of_event(document(body))
    if content_type == BATCHED:
        return _of_batch(document(body))
    if content_type != _JSON:
        raise SpecError(f"the content type must be {_JSON}, {STRUCTURED} or {BATCHED}, got {content_type or 'none'}")
    if "ce-specversion" not in headers:
        return parse_labels(body)
    told = {name.removeprefix("ce-"): unquote(value) for name, value in headers.items() if name.startswith("ce-")}
    return labels_in(document(body), _time(told))


def _of_batch(events: Any) -> tuple[Label, ...]:
    if not isinstance(events, list):
        raise SpecError("a batch of events must be a list")
    labels = [label for event in events[: MOST_ITEMS + 1] for label in _of_event(event)]
    if len(labels) > MOST_ITEMS:
        raise SpecError(f"a batch must hold at most {MOST_ITEMS} labels")
    return tuple(labels)


def _of_event(event: Any) -> tuple[Label, ...]:
    if not isinstance(event, dict) or "data" not in event:
        raise SpecError("an event must be an object whose data is a label, as JSON")
    attributes = {name: value for name, value in event.items() if name != "data"}
    return labels_in(event["data"], _time(attributes))


def _time(attributes: Mapping[str, Any]) -> datetime | None:
    """Return the time of an event whose attributes are sound."""
    return checked(Event, attributes).time
