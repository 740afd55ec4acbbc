"""Prometheus goes away, or answers with nothing that could be used: held, said, and gone on with; nobody is blamed."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from e2e.faults import prometheus
from e2e.faults.calls import Fault
from e2e.faults.proxy import Proxy
from e2e.lab import Lab
from e2e.lab.waiting import until
from e2e.stage.premises import Fleet
from e2e.stage.rollout_stage import RolloutStage

STEPS = [{"weight": 20, "bake": "4s", "minSamples": 5}, {"weight": 50, "bake": "1s", "minSamples": 5}]


@contextmanager
def held(stage: RolloutStage, reason: str, seconds: float) -> Iterator[None]:
    """Hold inside for some seconds from the moment the rollout says why it is held; then see that nothing else came."""
    status = stage.until_reason(reason)
    begun = stage.recorder.elapsed()
    assert status["phase"] == "Held"
    assert status["verdict"] == reason
    weight = stage.weight
    until(
        lambda: stage.recorder.elapsed() - begun >= seconds,
        "it was long enough",
        within=timedelta(seconds=seconds + 60),
    )
    assert stage.status["phase"] == "Held"
    assert stage.weight == weight
    assert not stage.status.get("quarantine")
    yield


def test_prometheus_stopped_for_a_minute_neither_promotes_nor_blames(stage: RolloutStage, lab: Lab) -> None:
    stage.apply(steps=STEPS)
    stage.until_weight(20)
    prometheus_itself = lab.component("prometheus")
    prometheus_itself.stop()
    with held(stage, "SourceDown", seconds=60):
        prometheus_itself.start()
        prometheus_itself.wait_ready()
    stage.until_phase("Promoted")
    assert stage.violations() == ()


@pytest.mark.parametrize("fault", [prometheus.not_a_number(), prometheus.empty()], ids=["NaN", "empty"])
def test_answers_without_data_are_neither_health_nor_blame(fault: Fault, stage: RolloutStage, source: Proxy) -> None:
    stage.apply(steps=STEPS)
    stage.until_weight(20)
    source.fault = fault
    with held(stage, "NoData", seconds=25):
        source.fault = None
    stage.until_phase("Promoted")
    assert stage.violations() == ()


def test_without_a_source_nothing_begins(stage: RolloutStage, source: Proxy) -> None:
    source.fault = prometheus.empty()
    stage.apply()
    stage.until_reason("BaselineSilent")
    assert stage.weight == 0
    source.fault = None
    stage.until_phase("Promoted")
    assert stage.violations() == ()


def test_a_candidate_that_broke_while_prometheus_was_away_is_taken_back(
    stage: RolloutStage, source: Proxy, fleet: Fleet
) -> None:
    stage.apply(steps=[{"weight": 20, "bake": "60s", "minSamples": 5}])
    stage.until_weight(20)
    source.fault = prometheus.empty()
    stage.until_reason("NoData")
    fleet.break_candidate(errors=0.6)
    source.fault = None
    stage.until_phase("RolledBack")
    assert stage.violations() == ()
