"""The metrics of the operator, and their page in the reference."""

import re
from pathlib import Path

import pytest
from prometheus_client import generate_latest

from davylamp.core.model import Phase, Progress, Verdict, Weight
from davylamp.core.report import GateReport
from davylamp.runtime.catalogue import Name
from davylamp.runtime.telemetry import Telemetry, described, page

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "metrics.md"
CREDIT, OTHER = Name("ml", "credit"), Name("ml", "other")
REPORT = GateReport("errors", Verdict.INCONCLUSIVE, True, "sentence", evidence=0.5, non_inferiority=None, samples=70)


def value(telemetry: Telemetry, metric: str, **labels: str) -> float | None:
    return telemetry.registry.get_sample_value(metric, {"namespace": "ml", "name": "credit", **labels})


@pytest.fixture
def telemetry() -> Telemetry:
    made = Telemetry()
    progress = Progress(phase=Phase.PROGRESSING, requested=Weight(20))
    for name in (CREDIT, OTHER):
        made.show(name, progress, (REPORT,))
        made.shares(name, 20, 0.18)
        made.decisions.labels(name.namespace, name.name, "Raise", "StepStarted").inc()
        made.failures.labels(name.namespace, name.name).inc()
    return made


def test_a_rollout_is_shown_with_all_that_is_known(telemetry: Telemetry) -> None:
    assert value(telemetry, "davylamp_weight_percent", kind="requested") == 20
    assert value(telemetry, "davylamp_weight_percent", kind="programmed") == 20
    assert value(telemetry, "davylamp_weight_percent", kind="observed") == 0.18
    assert value(telemetry, "davylamp_phase", phase="Progressing") == 1
    assert value(telemetry, "davylamp_phase", phase="Promoted") == 0
    assert value(telemetry, "davylamp_gate_verdict", gate="errors", verdict="Inconclusive") == 1
    assert value(telemetry, "davylamp_gate_verdict", gate="errors", verdict="Regressed") == 0
    assert value(telemetry, "davylamp_gate_samples", gate="errors") == 70
    assert value(telemetry, "davylamp_gate_evidence_log10", gate="errors", kind="regression") == 0.5
    assert value(telemetry, "davylamp_gate_evidence_log10", gate="errors", kind="non_inferiority") is None


def test_a_rollout_that_is_gone_is_shown_no_more_and_the_others_are(telemetry: Telemetry) -> None:
    telemetry.forget(CREDIT)
    text = generate_latest(telemetry.registry).decode()
    assert 'name="credit"' not in text
    assert text.count('name="other"') > 5


def test_a_process_that_does_not_lead_shows_no_state_and_keeps_its_counts(telemetry: Telemetry) -> None:
    telemetry.hide(CREDIT)
    assert value(telemetry, "davylamp_phase", phase="Progressing") is None
    assert value(telemetry, "davylamp_weight_percent", kind="requested") is None
    assert value(telemetry, "davylamp_decisions_total", action="Raise", reason="StepStarted") == 1


def test_every_metric_is_described(telemetry: Telemetry) -> None:
    shown = set(re.findall(r"^# TYPE (\S+)", generate_latest(telemetry.registry).decode(), re.MULTILINE))
    shown = {name for name in shown if not name.endswith("_created")}
    assert {each.name for each in described()} == shown
    assert all(name.startswith("davylamp_") for name in shown)
    assert all(each.meaning.endswith(".") for each in described())


def test_the_page_of_the_reference_is_what_the_code_says() -> None:
    assert page() in PAGE.read_text(encoding="utf-8")
