from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from davylamp.api.v1alpha1.convert import gates_hash, read_spec, to_plan
from davylamp.api.v1alpha1.findings import checkpoint_of, signals_of
from davylamp.api.v1alpha1.status import MAX_MESSAGE, MAX_STATE, ModelRolloutStatus
from davylamp.core.checkpoint import resume
from davylamp.core.evidence import Evidence, begin
from davylamp.core.model import Verdict
from davylamp.core.report import GateReport, Side
from tests.davylamp.api.largest import largest_evidence, largest_rollout
from tests.davylamp.api.manifests import Change, changed, put, rollout

T0 = datetime(2026, 3, 1, 12, tzinfo=UTC)
REPORT = GateReport(
    name="errors",
    verdict=Verdict.INCONCLUSIVE,
    required=True,
    sentence="errors 1.20% of 500 against 1.00% of 9,500 (+0.20 points)",
    baseline=Side(9_500, 95, 0.01),
    candidate=Side(500, 6, 0.012),
    difference=0.002,
    low=-0.01,
    high=0.02,
    evidence=0.3,
    threshold=2.5,
    non_inferiority=0.1,
    non_inferiority_threshold=1.3,
    samples=10_000,
)
numbers = st.none() | st.floats()
sides = st.none() | st.builds(Side, st.integers(0, 10**15), st.none() | st.integers(0, 10**15), numbers)
reports = st.builds(
    GateReport,
    name=st.sampled_from(["errors", "latency", "m" * 40]),
    verdict=st.sampled_from(Verdict),
    required=st.booleans(),
    sentence=st.text(max_size=2_000),
    baseline=sides,
    candidate=sides,
    difference=numbers,
    low=numbers,
    high=numbers,
    evidence=numbers,
    threshold=numbers,
    non_inferiority=numbers,
    non_inferiority_threshold=numbers,
    samples=st.integers(0, 10**15),
)


def test_a_gate_is_shown_with_all_its_numbers() -> None:
    (signal,) = signals_of([REPORT])
    assert signal.manifest() == {
        "name": "errors",
        "verdict": "Inconclusive",
        "baseline": {"total": 9_500, "events": 95, "value": 0.01},
        "candidate": {"total": 500, "events": 6, "value": 0.012},
        "difference": 0.002,
        "interval": {"low": -0.01, "high": 0.02},
        "evidence": 0.3,
        "threshold": 2.5,
        "nonInferiority": 0.1,
        "nonInferiorityThreshold": 1.3,
        "required": True,
        "samples": 10_000,
        "message": "errors 1.20% of 500 against 1.00% of 9,500 (+0.20 points)",
    }


@given(st.lists(reports, max_size=3))
def test_whatever_a_gate_says_can_be_stored(found: list[GateReport]) -> None:
    status = ModelRolloutStatus(signals=signals_of(found))
    text = json.dumps(status.manifest(), allow_nan=False)
    assert ModelRolloutStatus.parse(json.loads(text)) == status
    assert all(len(signal.message or "") <= MAX_MESSAGE for signal in status.signals)


@pytest.mark.parametrize("low", [None, inf, -inf, nan])
def test_a_side_without_a_limit_has_none(low: float | None) -> None:
    (signal,) = signals_of([replace(REPORT, low=low)])
    assert signal.manifest()["interval"] == {"high": 0.02}
    (signal,) = signals_of([replace(REPORT, low=low, high=None)])
    assert signal.interval is None


def test_evidence_is_kept_to_its_last_bit() -> None:
    plan = to_plan(read_spec(largest_rollout()["spec"]))
    evidence = largest_evidence(plan, T0)
    kept = checkpoint_of(plan, evidence)
    assert kept is not None
    assert (kept.as_of, kept.design) == (T0, gates_hash(plan))
    again = resume(plan, kept.state, kept.as_of)
    assert (again.streams, again.baselines, again.samples) == (evidence.streams, evidence.baselines, evidence.samples)


def test_the_longest_line_of_evidence_takes_no_more_than_half_of_its_place() -> None:
    plan = to_plan(read_spec(largest_rollout()["spec"]))
    evidence = largest_evidence(plan, T0)
    assert len(evidence.streams) == 42
    assert len(evidence.to_json()) < MAX_STATE / 2


def test_a_line_that_is_too_long_is_left_out_and_never_cut() -> None:
    plan = to_plan(read_spec(rollout()["spec"]))
    fitting = replace(begin(plan), as_of=T0)
    assert checkpoint_of(plan, fitting) is not None
    bloated = replace(fitting, samples={f"{i:0100}": (1, 1) for i in range(MAX_STATE // 100)})
    assert checkpoint_of(plan, bloated) is None


def test_before_the_first_look_there_is_nothing_to_keep() -> None:
    assert checkpoint_of(to_plan(read_spec(rollout()["spec"])), Evidence()) is None


def gates(*changes: Change) -> str:
    return gates_hash(to_plan(read_spec(changed(rollout(), *changes)["spec"])))


@pytest.mark.parametrize(
    "change",
    [
        put("spec.gates.errors.margin.oddsRatio", 1.5),
        put("spec.gates.errors.margin", {"absolute": "1%"}),
        put("spec.gates.errors.allowance", "0.2%"),
        put("spec.gates.latency.margin.slowdown", "20%"),
        put("spec.gates.metrics.0.worse", "Lower"),
        put("spec.gates.metrics.0.margin", {"relative": "1%"}),
    ],
)
def test_evidence_counts_for_its_own_gates_alone(change: Change) -> None:
    assert gates(change) != gates()


@pytest.mark.parametrize(
    "change",
    [
        put("spec.gates.errors.requiredForPromotion", False),
        put("spec.gates.falseRollbackRate", "2%"),
        put("spec.steps.1.weight", 6),
        put("spec.interval", "30s"),
    ],
)
def test_evidence_stays_when_something_else_changes(change: Change) -> None:
    assert gates(change) == gates()
