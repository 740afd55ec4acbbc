"""People change or delete a ModelRollout in mid-rollout, or write one that cannot work."""

from typing import Any

from e2e.lab import Lab
from e2e.lab.api import condition
from e2e.stage.invariants import epochs_never_fall, falls_for_good, leaves_the_rest_alone, rises_only_as_decided, states
from e2e.stage.manifests import model_rollout
from e2e.stage.premises import BASELINE, CANDIDATE
from e2e.stage.recorder import Kind
from e2e.stage.rollout_stage import PATIENCE, QUICK, RolloutStage

LONG = [{"weight": 20, "bake": "60s", "minSamples": 5}]
#: What holds over several attempts with different ladders.
ACROSS_ATTEMPTS = (falls_for_good, epochs_never_fall, leaves_the_rest_alone, rises_only_as_decided)


def variant(digest: str) -> dict[str, Any]:
    model = {"registry": "mlflow", "name": "credit", "version": "1", "digest": f"sha256:{digest * 64}"}
    return {"backend": {"name": CANDIDATE, "port": 8080}, "model": model}


def test_a_rollout_deleted_in_mid_rollout_gives_the_route_back_byte_for_byte(stage: RolloutStage, lab: Lab) -> None:
    stage.apply(steps=LONG)
    stage.until_weight(20)
    lab.api.delete(stage.rollout_path)
    stage.recorder.until(lambda rollout, _: not rollout, "the rollout is gone", within=PATIENCE)
    route = lab.api.get(stage.route_path)
    assert route["spec"] == stage.original["spec"]
    assert route["metadata"]["annotations"] == stage.original["metadata"]["annotations"]
    assert route["metadata"]["labels"] == stage.original["metadata"]["labels"]
    assert stage.violations() == ()


def test_a_deleted_rollout_is_let_go_only_after_its_route_is_clean(stage: RolloutStage, lab: Lab) -> None:
    stage.apply(steps=LONG)
    stage.until_weight(20)
    lab.api.delete(stage.rollout_path)
    stage.recorder.until(lambda rollout, _: not rollout, "the rollout is gone", within=PATIENCE)
    gone = next(seen for seen in stage.recorder.history if seen.kind is Kind.ROLLOUT and seen.manifest is None)
    then = next(state for state in states(stage.recorder.history) if state.revision == gone.revision)
    assert then.route is not None
    assert not then.marks
    assert then.route["spec"] == stage.original["spec"]


def test_another_candidate_in_mid_rollout_begins_from_the_first_step(stage: RolloutStage) -> None:
    stage.apply(candidate=variant("a"), steps=LONG)
    stage.until_weight(20)
    stage.apply(candidate=variant("b"), steps=QUICK["steps"])
    stage.until_weight(0)
    status = stage.until_phase("Promoted")
    assert status["attempt"]["number"] == 2
    assert [(past["outcome"]) for past in status["history"]] == ["Superseded", "Promoted"]
    assert stage.violations(*ACROSS_ATTEMPTS) == ()


def test_a_candidate_that_was_rolled_back_is_not_tried_again_under_other_settings(stage: RolloutStage) -> None:
    stage.site.fleet.break_candidate(errors=0.6)
    stage.apply(candidate=variant("a"), steps=LONG)
    stage.until_phase("RolledBack")
    stage.site.fleet.heal()
    stage.apply(steps=QUICK["steps"])
    status = stage.until_reason("Quarantined")
    assert status["phase"] == "Held"
    assert "deploy another candidate" in status["message"]
    assert stage.weight == 0
    stage.apply(candidate=variant("b"))
    assert stage.until_phase("Promoted")["attempt"]["number"] == 2
    assert stage.violations(*ACROSS_ATTEMPTS) == ()


def test_a_paused_rollout_does_not_rise_and_still_falls(stage: RolloutStage) -> None:
    stage.apply(paused=True)
    stage.until_reason("PausedBySpec")
    assert stage.weight == 0
    stage.apply(paused=False)
    stage.until_weight(20)
    stage.apply(paused=True)
    stage.until_reason("PausedBySpec")
    assert stage.weight == 20
    stage.site.fleet.break_candidate(errors=0.6)
    stage.until_phase("RolledBack")
    assert stage.violations() == ()


def test_of_two_rollouts_on_one_route_the_older_has_it(stage: RolloutStage, lab: Lab) -> None:
    stage.apply(steps=LONG)
    stage.until_weight(20)
    rival = model_rollout(stage.site.namespace, "rival", baseline=BASELINE, candidate=CANDIDATE, **QUICK)
    rival["spec"]["route"] = {"gatewayAPI": {"httpRoute": stage.name}}
    lab.api.apply(rival)
    path = lab.api.path_of(rival)
    stage.recorder.until(
        lambda _, __: lab.api.get(path).get("status", {}).get("reason") == "RouteTaken", "it is taken", within=PATIENCE
    )
    status = lab.api.get(path)["status"]
    assert f"used by ModelRollout {stage.site.namespace}/{stage.name}, which is older" in status["message"]
    assert stage.weight == 20
    lab.api.delete(path)
    assert stage.violations() == ()


def test_a_policy_that_does_not_exist_stalls_until_it_does(stage: RolloutStage, lab: Lab) -> None:
    stage.apply(policyRef={"kind": "RolloutPolicy", "name": "classifier"})
    status = stage.until_reason("InvalidSpec")
    assert "policyRef names RolloutPolicy classifier, which does not exist: create it" in status["message"]
    assert condition(stage.recorder.latest(Kind.ROLLOUT) or {}, "Stalled") == "True"
    assert stage.weight == 0
    policy = {
        "apiVersion": "davylamp.dev/v1alpha1",
        "kind": "RolloutPolicy",
        "metadata": {"name": "classifier", "namespace": stage.site.namespace},
        "spec": {"rollback": {"cooldown": "2h"}},
    }
    lab.api.apply(policy)
    stage.until_phase("Promoted")
    assert stage.violations() == ()
