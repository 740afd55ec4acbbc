"""What may be posted, and what is refused with the place where it is wrong."""

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from davylamp.errors import SpecError
from davylamp.labels.messages import MOST_ITEMS, class_text, parse_labels, parse_predictions
from davylamp.labels.outcomes import Answer, Pair
from davylamp.labels.records import Cell, Label, Prediction

PREDICTION: dict[str, Any] = {
    "id": "r",
    "namespace": "ml",
    "rollout": "credit",
    "attempt": 1,
    "cohort": "0",
    "slices": ["sex=F", "sex=F,age=old"],
    "baseline": {"decision": True, "score": 0.9},
    "candidate": {"decision": False},
}


def labels(*items: object) -> bytes:
    return json.dumps({"labels": items}).encode()


def predictions(**changes: object) -> bytes:
    return json.dumps({"predictions": [{**PREDICTION, **changes}]}).encode()


def test_a_label_says_of_which_request_it_is_what_it_is_and_since_when() -> None:
    body = labels({"id": "a", "label": "cat"}, {"id": "b", "label": 1, "time": "2026-12-01T13:00:00+01:00"})
    noon = datetime(2026, 12, 1, 13, tzinfo=timezone(timedelta(hours=1)))
    assert parse_labels(body) == (Label("a", "cat"), Label("b", "1", noon))


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (True, "1"),
        ("True", "1"),
        ("true", "1"),
        (1, "1"),
        (1.0, "1"),
        ("1.0", "1"),
        (False, "0"),
        ("FALSE", "0"),
        (0, "0"),
        ("-3.00", "-3"),
        (0.5, "0.5"),
        ("1.5", "1.5"),
        ("cat", "cat"),
        ("1.0.0", "1.0.0"),
    ],
)
def test_a_class_is_the_same_text_however_it_is_written(written: object, meant: str) -> None:
    assert class_text(written) == meant


@given(st.integers() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text())
def test_naming_a_class_twice_names_it_once(value: object) -> None:
    once = class_text(value)
    assert isinstance(once, str)
    assert class_text(once) == once


def test_a_prediction_says_where_it_belongs_and_what_both_said() -> None:
    (found,) = parse_predictions(predictions())
    cell = Cell("ml", "credit", "1", "0")
    pair = Pair(Answer("1", 0.9), Answer(""), "1")
    assert found == Prediction("r", cell, ("sex=F", "sex=F,age=old"), pair)


def test_positive_or_not_means_the_declared_class() -> None:
    (found,) = parse_predictions(predictions(positive="approved", labelledByDecision=True, time="2026-12-01T12:00:00Z"))
    assert found.pair == Pair(Answer("approved", 0.9), Answer(""), "approved", labelled_by_decision=True)
    assert found.served_at == datetime(2026, 12, 1, 12, tzinfo=UTC)


def test_classes_without_a_positive_one_are_right_or_wrong() -> None:
    (found,) = parse_predictions(predictions(baseline={"decision": "cat"}, candidate={"decision": 7}))
    assert found.pair == Pair(Answer("cat"), Answer("7"), None)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "no JSON"),
        (b"\xff", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b'{"labels": [{"id": "a", "label": NaN}]}', "NaN is no number"),
        (b'{"labels": [{"id": "a", "label": 1, "label": 0}]}', "a key comes twice"),
        (b"[]", "the body: "),
        (b'{"labels": []}', "labels: "),
        (b'{"labels": "ab"}', "labels: "),
        (labels({"id": "a"}), r"labels\[0\].label: Field required"),
        (labels({"id": "", "label": 1}), r"labels\[0\].id: "),
        (labels({"id": 1, "label": 1}), r"labels\[0\].id: "),
        (labels({"id": "a" * 257, "label": 1}), r"labels\[0\].id: "),
        (labels({"id": "a\0", "label": 1}), r"labels\[0\].id: .*control characters"),
        (rb'{"labels": [{"id": "\ud800", "label": 1}]}', r"labels\[0\].id: "),
        (labels({"id": "a", "label": ""}), r"labels\[0\].label: "),
        (labels({"id": "a", "label": None}), r"labels\[0\].label: "),
        (labels({"id": "a", "label": [1]}), r"labels\[0\].label: "),
        (labels({"id": "a", "label": 1, "lable": 1}), r"labels\[0\].lable: Extra inputs"),
        (labels({"id": "a", "label": 1, "time": 1_764_000_000}), r"labels\[0\].time: .*must be a time such as"),
        (labels({"id": "a", "label": 1, "time": "2026-12-01T12:00:00"}), r"labels\[0\].time: .*timezone"),
        (labels({"id": "a", "label": 1, "time": "1999-12-31T23:59:59Z"}), r"labels\[0\].time: .*2000 and 2200"),
        (labels({"id": "a", "label": 1, "time": "0001-01-01T00:00:00+14:00"}), r"labels\[0\].time: "),
        (labels(*[{"id": "a", "label": 1}] * (MOST_ITEMS + 1)), "labels: .*at most 1000"),
    ],
)
def test_what_is_no_list_of_labels_is_refused_with_the_place(body: bytes, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        parse_labels(body)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rollout": None}, r"predictions\[0\].rollout: "),
        ({"baseline": {"decision": None}}, r"predictions\[0\].baseline.decision"),
        ({"baseline": {"decision": True, "score": 1.5}}, r"predictions\[0\].baseline.score: .*less than or equal to 1"),
        ({"slices": ["sex"]}, r"predictions\[0\].slices\[0\]: .*must be name=value"),
        ({"slices": ["=F"]}, r"predictions\[0\].slices\[0\]: .*must be name=value"),
        ({"slices": [f"zip={n}" for n in range(65)]}, r"predictions\[0\].slices: .*at most 64"),
        (
            {"baseline": {"decision": "cat"}, "candidate": {"decision": "dog"}, "labelledByDecision": True},
            r"predictions\[0\]: labels that follow the decision need a positive class",
        ),
    ],
)
def test_what_is_no_prediction_is_refused_with_the_place(changes: dict[str, object], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        parse_predictions(predictions(**changes))


@given(st.binary(max_size=300) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(("labels", "id", "label", "time", "predictions", "x")), inner, max_size=4),
    max_leaves=20,
).map(lambda value: json.dumps(value).encode()))  # fmt: skip
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    for parse in (parse_labels, parse_predictions):
        try:
            assert all(isinstance(item, (Label, Prediction)) for item in parse(body))
        except SpecError as refused:
            assert str(refused)  # noqa: PT017 - either is right
