from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from davylamp.shadow.formats.redaction import BLOT, redacted

JSON = "application/json"


def blotted(body: Any, *paths: str) -> Any:
    return json.loads(redacted(json.dumps(body).encode(), JSON, paths))


def test_what_a_path_finds_is_blotted_out() -> None:
    body = {"inputs": [{"name": "age", "data": [44]}, {"name": "sex", "data": ["f"]}], "id": "7"}

    assert blotted(body, "$.inputs[?@.name=='sex'].data", "$.id", "$.nothing") == {
        "inputs": [{"name": "age", "data": [44]}, {"name": "sex", "data": BLOT}],
        "id": BLOT,
    }


def test_one_rule_does_not_hide_from_another_what_it_looks_for() -> None:
    assert blotted([{"name": "x", "secret": 1}], "$[*].name", "$[?@.name=='x'].secret") == [
        {"name": BLOT, "secret": BLOT}
    ]


def test_rules_may_find_places_within_each_other() -> None:
    assert blotted({"a": {"b": 1}}, "$.a", "$.a.b", "$..b") == {"a": BLOT}


def test_the_first_of_two_equal_keys_is_not_kept_either() -> None:
    assert "secret" not in redacted(b'{"a": "secret", "a": 1}', JSON, ("$.a",))


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        (b"name=secret", ("$.a",)),
        (b'data: {"a": "secret"}\n\n', ("$.a",)),
        (b'{"a": "secret"', ("$.a",)),
        (b'{"a": "secret"}', ("$",)),
        (b'{"a": "secret"}', ("no path",)),
        (b"[" * 70 + b'"secret"' + b"]" * 70, ("$..a",)),
        (b'\xff\x00"secret"', ()),
        (b"\x00\x01secret", ()),
    ],
)
def test_what_cannot_be_looked_into_is_told_by_size_and_hash(body: bytes, paths: tuple[str, ...]) -> None:
    kept = redacted(body, "", paths)

    assert kept == f"{BLOT} {len(body)} bytes, SHA-256 {hashlib.sha256(body).hexdigest()}"


@pytest.mark.parametrize("content_type", ["text/csv", "application/problem+json; charset=utf-8", ""])
def test_text_is_kept_as_it_is_where_nothing_is_to_be_blotted_out(content_type: str) -> None:
    assert redacted("a,b\n1,é\n".encode(), content_type, ()) == "a,b\n1,é\n"


def test_what_is_kept_can_be_written_down_whatever_came() -> None:
    assert redacted(b'["\\ud800", 1]', JSON, ("$[1]",)).encode() == f'["?", "{BLOT}"]'.encode()


_DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3),
)


@given(_DOCUMENTS, _DOCUMENTS)
def test_no_secret_survives_wherever_it_stands(document: Any, other: Any) -> None:
    body = {"x": [document, {"secret": ["hunter2", other]}], "y": {"secret": "hunter2"}}

    assert "hunter2" not in redacted(json.dumps(body).encode(), JSON, ("$..secret",))
