"""CloudEvents in their three modes."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from davylamp.errors import SpecError
from davylamp.labels.events import BATCHED, STRUCTURED, read_labels
from davylamp.labels.messages import MOST_ITEMS
from davylamp.labels.records import Label

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
ATTRIBUTES: dict[str, Any] = {"specversion": "1.0", "id": "event-1", "source": "/claims", "type": "claim.settled"}
DATA = {"id": "r", "label": 1}


def event(**changes: Any) -> dict[str, Any]:
    made = {**ATTRIBUTES, "data": DATA, **changes}
    return {name: value for name, value in made.items() if value is not ...}


def structured(**changes: Any) -> tuple[Label, ...]:
    return read_labels({}, STRUCTURED, json.dumps(event(**changes)).encode())


def binary(data: Any = DATA, **changes: str) -> tuple[Label, ...]:
    headers = {f"ce-{name}": value for name, value in {**ATTRIBUTES, **changes}.items()}
    return read_labels(headers, "application/json", json.dumps(data).encode())


def test_labels_need_no_event() -> None:
    assert read_labels({}, "application/json", json.dumps({"labels": [DATA]}).encode()) == (Label("r", "1"),)


def test_a_binary_event_has_its_attributes_in_headers_and_the_label_in_the_body() -> None:
    assert binary(subject="a%20b", time="2026-12-01T12:00:00Z") == (Label("r", "1", NOON),)


def test_a_structured_event_has_both_in_its_body() -> None:
    assert structured(time="2026-12-01T12:00:00Z", extension=3) == (Label("r", "1", NOON),)


def test_the_labels_own_time_counts_before_the_events() -> None:
    data = {**DATA, "time": "2026-12-01T12:00:00Z"}
    assert structured(time="2026-12-01T15:00:00Z", data=data) == (Label("r", "1", NOON),)


def test_an_event_may_hold_many_labels() -> None:
    many = {"labels": [DATA, {"id": "s", "label": "cat"}]}
    expected = (Label("r", "1", NOON), Label("s", "cat", NOON))
    assert structured(data=many, time="2026-12-01T12:00:00Z") == expected
    assert binary(many, time="2026-12-01T12:00:00Z") == expected


def test_a_batch_is_a_list_of_events() -> None:
    body = json.dumps([event(), event(data={"id": "s", "label": 0})]).encode()
    assert read_labels({}, BATCHED, body) == (Label("r", "1"), Label("s", "0"))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"specversion": "0.3"}, "specversion: "),
        ({"specversion": ...}, "specversion: Field required"),
        ({"id": ...}, "id: Field required"),
        ({"source": ""}, "source: "),
        ({"type": 3}, "type: "),
        ({"time": "noon"}, "time: "),
        ({"data": ...}, "whose data is a label"),
        ({"data": "text"}, "the body: "),
        ({"data": {"id": "r"}}, "label: Field required"),
        ({"data": {"labels": []}}, "labels: "),
    ],
)
def test_an_event_that_is_not_as_the_standard_says_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        structured(**changes)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (event(), "must be a list"),
        ([1], "must be an object"),
        ([event()] * (MOST_ITEMS + 1), "at most 1000 labels"),
        ([event(data={"labels": [DATA] * 600})] * 2, "at most 1000 labels"),
    ],
)
def test_a_batch_that_is_none_is_refused(body: Any, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        read_labels({}, BATCHED, json.dumps(body).encode())


@pytest.mark.parametrize("kind", ["", "text/csv", "application/octet-stream"])
def test_another_content_type_is_refused(kind: str) -> None:
    with pytest.raises(SpecError, match="the content type must be application/json"):
        read_labels({}, kind, b"{}")
