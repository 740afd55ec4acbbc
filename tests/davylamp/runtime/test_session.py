"""What is remembered of a rollout, and what becomes of it when the stored status is damaged."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from davylamp.api.v1alpha1.convert import gates_hash, to_plan
from davylamp.api.v1alpha1.rollout import ModelRolloutSpec
from davylamp.core.evidence import begin
from davylamp.core.model import NONE
from davylamp.core.plan import Plan
from davylamp.runtime.fallback import fallback_plan
from davylamp.runtime.session import Session, open_session, start_evidence, take_plan
from e2e.stage.manifests import model_rollout

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def manifest(**status: Any) -> dict[str, Any]:
    made = model_rollout("ml", "credit", baseline="fp32", candidate="int8")
    metadata = made["metadata"] | {"uid": "12345678-1234", "resourceVersion": "7", "generation": 1}
    return made | {"metadata": metadata, "status": status}


@pytest.fixture
def plan() -> Plan:
    return to_plan(ModelRolloutSpec.parse(manifest()["spec"]), None)


def stored(plan: Plan, state: str | None = None, **changes: Any) -> dict[str, Any]:
    checkpoint = {
        "asOf": "2026-11-30T11:59:00Z",
        "design": gates_hash(plan),
        "state": begin(plan).to_json() if state is None else state,
    }
    return {"evidence": checkpoint | changes}


def opened(plan: Plan, **status: Any) -> Session:
    made = manifest(**status)
    session = open_session(made)
    take_plan(session, plan, made)
    return session


def test_stored_evidence_goes_on_and_counts_as_unread_until_it_is_read(plan: Plan) -> None:
    session = opened(plan, **stored(plan))
    assert session.evidence.as_of == datetime(2026, 11, 30, 11, 59, tzinfo=UTC)
    assert {trouble.source for trouble in session.evidence.troubles.values()} == {True}
    assert set(session.evidence.troubles) == {gate.name for gate in plan.gates}


def test_without_stored_evidence_it_begins_and_nothing_was_read(plan: Plan) -> None:
    session = opened(plan)
    assert session.evidence.as_of is None
    assert set(session.evidence.troubles) == {gate.name for gate in plan.gates}


def test_evidence_of_other_gates_counts_for_nothing(plan: Plan) -> None:
    assert opened(plan, **stored(plan, design="other")).evidence.as_of is None


@pytest.mark.parametrize(
    "state",
    [
        "",
        "nonsense",
        "[]",
        "{}",
        "null",
        '{"streams": {}, "baselines": {}, "samples": {}, "cursors": {}}',
        '{"streams": [], "baselines": [], "samples": [], "cursors": []}',
        '{"streams": {}, "baselines": {}, "samples": {"errors": [Infinity, 1]}, "cursors": {}}',
        '{"streams": {}, "baselines": {}, "samples": {"errors": [1]}, "cursors": {}}',
        '{"streams": {}, "baselines": {}, "samples": {}, "cursors": {"a": "x"}}',
        '{"streams": {"errors": "not base64"}, "baselines": {}, "samples": {}, "cursors": {}}',
        '{"streams": {}, "baselines": {"latency": {}}, "samples": {}, "cursors": {}}',
        "[" * 100_000,
    ],
)
def test_damaged_evidence_begins_anew(plan: Plan, state: str) -> None:
    session = opened(plan, **stored(plan, state=state))
    assert session.evidence == replace(begin(plan), troubles=session.evidence.troubles)


def test_a_plan_with_other_gates_begins_the_evidence_anew(plan: Plan) -> None:
    session = opened(plan, **stored(plan))
    take_plan(session, replace(plan, paused=True), manifest())
    assert session.evidence.as_of is not None
    take_plan(session, replace(plan, gates=plan.gates[:1]), manifest())
    assert session.evidence == begin(replace(plan, gates=plan.gates[:1]))


def test_a_new_attempt_begins_with_nothing(plan: Plan) -> None:
    session = opened(plan, **stored(plan))
    session.read_at = NOW
    start_evidence(session, plan)
    assert session.evidence == begin(plan)
    assert session.read_at is None
    assert session.judgement.verdicts == {}


@pytest.mark.parametrize(
    "status", [{"phase": 7}, {"weight": {"requested": 400}}, {"step": "x"}, {"history": [1, 2]}, {"outbox": "x"}]
)
def test_a_damaged_status_gives_no_traffic_and_no_crash(plan: Plan, status: dict[str, Any]) -> None:
    session = opened(plan, **status)
    assert session.progress.requested == NONE


def test_without_a_usable_spec_the_plan_never_raises_and_keeps_the_pair_of_the_attempt(plan: Plan) -> None:
    broken = manifest()
    broken["spec"] = {"baseline": {"backend": {"name": "fp32", "port": 1}}, "route": None}
    session = open_session(broken)
    drawn = fallback_plan(session, broken)
    assert drawn.paused
    assert drawn.gates == ()
    assert (drawn.pair.baseline, drawn.pair.route) == ("fp32:1", "unknown")
    session.plan = plan
    assert fallback_plan(session, broken).gates == plan.gates
    assert fallback_plan(session, broken).steps == plan.steps
