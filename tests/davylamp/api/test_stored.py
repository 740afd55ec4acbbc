from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from davylamp.api.v1alpha1.stored import read_status
from tests.davylamp.api.manifests import paths

T0 = "2026-03-01T12:00:00Z"
WHOLE: dict[str, Any] = {
    "observedGeneration": 3,
    "conditions": [
        {"type": "Ready", "status": "False", "reason": "Baking", "message": "x", "observedGeneration": 3,
         "lastTransitionTime": T0},
    ],
    "phase": "Progressing",
    "verdict": "Inconclusive",
    "reason": "Baking",
    "message": "5 % for 3m of 5m",
    "epoch": 7,
    "attempt": {"id": "a1", "number": 1, "candidateDigest": "sha256:1", "specHash": "h", "startedAt": T0,
                "pair": {"route": "credit", "baseline": "credit-fp32:8080", "candidate": "credit-int8:8080"}},
    "step": {"index": 0, "summary": "1/4", "enteredAt": T0, "acceptedAt": T0, "bakedSeconds": 180.5},
    "weight": {"requested": 5, "programmed": 5, "observed": 4.8},
    "decision": {"id": "a1", "verdict": "Continue", "reason": "Baking", "at": T0},
    "hold": {"since": T0, "reason": "SourceDown"},
    "fights": [T0],
    "errorTicks": 1,
    "diverted": ["sex=Female"],
    "signals": [
        {"name": "errors", "verdict": "Inconclusive", "baseline": {"total": 9500, "events": 10, "value": 0.001},
         "candidate": {"total": 500, "events": 0, "value": 0}, "difference": -0.001,
         "interval": {"low": -0.01, "high": 0.008}, "evidence": -0.2, "threshold": 2.0, "samples": 10000},
    ],
    "evidence": {"asOf": T0, "design": "d", "state": "{}"},
    "quarantine": [{"digest": "sha256:0", "until": T0, "attempts": 1, "reason": "Regressed"}],
    "outbox": [{"key": "a1/0/S", "fact": "x", "severity": "Info", "createdAt": T0, "attempts": 0, "delivered": [],
                "givenUp": ["c"]}],
    "told": ["a0/0/RolledBack"],
    "undelivered": [{"key": "a0/0/S", "channel": "c", "severity": "Info", "why": "401", "at": T0}],
    "undeliveredTotal": 3,
    "history": [{"attempt": "a0", "outcome": "RolledBack", "reason": "Regressed", "startedAt": T0, "endedAt": T0}],
}  # fmt: skip

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)


PATHS = [path for path in paths(WHOLE) if path]


def test_what_was_written_is_read_back_and_written_as_it_was() -> None:
    stored = read_status(WHOLE)
    assert stored.damages == ()
    again = stored.status.manifest()
    assert json.loads(json.dumps(again)) == WHOLE


def test_no_status_is_an_empty_one() -> None:
    assert read_status(None) == read_status({})
    assert read_status(None).safe


@given(json_values)
def test_nothing_that_is_stored_stops_the_reader(raw: Any) -> None:
    assert read_status(raw).status is not None


@given(st.sampled_from(PATHS), json_values)
def test_one_damaged_place_loses_no_more_than_its_field_or_entry(path: tuple[Any, ...], junk: Any) -> None:
    raw = copy.deepcopy(WHOLE)
    container: Any = raw
    for part in path[:-1]:
        container = container[part]
    container[path[-1]] = junk
    stored = read_status(raw)
    assert {damage.field.partition("[")[0] for damage in stored.damages} <= {path[0]}
    sound = read_status(WHOLE).status
    for name in type(sound).model_fields:
        if type(sound).model_fields[name].alias != path[0]:
            assert getattr(stored.status, name) == getattr(sound, name)


@pytest.mark.parametrize("field", ["epoch", "attempt", "step", "weight", "decision", "quarantine"])
def test_damage_where_safety_rests_is_told(field: str) -> None:
    stored = read_status(WHOLE | {field: "junk"})
    assert not stored.safe
    assert [damage.field for damage in stored.damages] == [field]


def test_a_damaged_entry_leaves_the_others() -> None:
    stored = read_status(WHOLE | {"quarantine": [*WHOLE["quarantine"], {"digest": 5}]})
    assert [entry.digest for entry in stored.status.quarantine] == ["sha256:0"]
    assert [damage.field for damage in stored.damages] == ["quarantine[1]"]
    assert not stored.safe


def test_a_word_of_a_later_version_is_left_out_and_named() -> None:
    stored = read_status(WHOLE | {"phase": "Shadowing", "laterField": {"x": 1}})
    assert stored.status.phase is None
    assert [damage.field for damage in stored.damages] == ["phase"]
    assert stored.safe


def test_too_many_entries_are_told() -> None:
    stored = read_status(WHOLE | {"told": ["x"] * 1_000})
    assert stored.status.told == ()
    assert [damage.field for damage in stored.damages] == ["told"]
