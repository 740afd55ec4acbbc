"""Model servers go away under a rollout."""

from e2e.lab import Lab
from e2e.stage.premises import BASELINE, CANDIDATE
from e2e.stage.rollout_stage import RolloutStage

LONG = [{"weight": 20, "bake": "60s", "minSamples": 5}]
SHORT = [{"weight": 20, "bake": "4s", "minSamples": 5}, {"weight": 50, "bake": "1s", "minSamples": 5}]


def test_a_candidate_whose_service_is_deleted_loses_all_traffic_at_once(stage: RolloutStage, lab: Lab) -> None:
    stage.apply(steps=LONG)
    stage.until_weight(20)
    lab.api.delete(f"/api/v1/namespaces/{stage.site.namespace}/services/{CANDIDATE}")
    stage.until_weight(0)
    assert stage.until_phase("RolledBack")["reason"] == "CandidateLost"
    assert stage.violations() == ()


def test_a_candidate_without_a_ready_endpoint_loses_all_traffic_without_asking_metrics(
    stage: RolloutStage, lab: Lab
) -> None:
    stage.apply(steps=LONG)
    stage.until_weight(20)
    lab.component("prometheus").stop()
    lab.set_ready(stage.site.namespace, CANDIDATE, ready=False)
    stage.until_weight(0)
    status = stage.until_phase("RolledBack")
    assert status["reason"] == "CandidateLost"
    assert f"{CANDIDATE}:8080 has no ready endpoint while it has 20 % of the traffic" in status["message"]
    assert stage.violations() == ()


def test_a_baseline_that_is_gone_holds_the_weight_and_is_named(stage: RolloutStage, lab: Lab) -> None:
    stage.apply(steps=SHORT)
    stage.until_weight(20)
    lab.set_ready(stage.site.namespace, BASELINE, ready=False)
    status = stage.until_reason("BaselineNotReady")
    assert status["phase"] == "Held"
    assert BASELINE in status["message"]
    assert stage.weight == 20
    lab.set_ready(stage.site.namespace, BASELINE, ready=True)
    stage.until_phase("Promoted")
    assert stage.violations() == ()


def test_a_failing_candidate_keeps_its_traffic_while_the_baseline_is_gone_and_loses_it_afterwards(
    stage: RolloutStage, lab: Lab
) -> None:
    stage.apply(steps=LONG)
    stage.until_weight(20)
    lab.set_ready(stage.site.namespace, BASELINE, ready=False)
    stage.site.fleet.break_candidate(errors=0.6)
    stage.until_message("taking the traffic back would be an outage: bring the baseline up")
    assert stage.weight == 20
    lab.set_ready(stage.site.namespace, BASELINE, ready=True)
    stage.until_phase("RolledBack")
    assert stage.violations() == ()


def test_a_candidate_that_is_not_deployed_yet_is_waited_for(stage: RolloutStage, lab: Lab) -> None:
    lab.set_ready(stage.site.namespace, CANDIDATE, ready=False)
    stage.apply()
    stage.until_reason("CandidateNotReady")
    assert stage.weight == 0
    lab.set_ready(stage.site.namespace, CANDIDATE, ready=True)
    stage.until_phase("Promoted")
    assert stage.violations() == ()
