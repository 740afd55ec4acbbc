"""Somebody else changes the weights on the route of a rollout."""

from datetime import UTC, datetime, timedelta

from e2e.lab import Component
from e2e.lab.api import condition
from e2e.stage.invariants import EDITED
from e2e.stage.recorder import Kind
from e2e.stage.rollout_stage import RolloutStage

LONG = [{"weight": 20, "bake": "60s", "minSamples": 5}]
SHORT = [{"weight": 20, "bake": "4s", "minSamples": 5}, {"weight": 50, "bake": "1s", "minSamples": 5}]


def test_a_raise_by_hand_is_put_right_and_its_author_named(stage: RolloutStage) -> None:
    stage.apply(steps=LONG)
    stage.until_reason("Sampling", "Baking")
    stage.edit_route(10, 90, who="kubectl-edit")
    status = stage.until_reason("RouteRaised")
    assert "kubectl-edit raised the candidate on route credit from 20 % to 90 %" in status["message"]
    stage.until_weight(20)
    assert stage.violations(*EDITED) == ()


def test_a_lowering_by_hand_is_respected_until_it_is_taken_back(stage: RolloutStage) -> None:
    stage.apply(steps=SHORT)
    stage.until_weight(20)
    stage.edit_route(95, 5, who="kubectl-edit")
    status = stage.until_reason("RouteLowered")
    assert status["phase"] == "Held"
    assert "kubectl-edit lowered the candidate on route credit from 20 % to 5 %" in status["message"]
    assert stage.weight == 5
    stage.edit_route(80, 20)
    stage.until_phase("Promoted")
    assert stage.violations(*EDITED) == ()


def test_a_candidate_that_breaks_at_a_weight_set_by_hand_is_taken_back(stage: RolloutStage) -> None:
    stage.apply(steps=LONG)
    stage.until_weight(20)
    stage.edit_route(90, 10)
    stage.until_reason("RouteLowered")
    stage.site.fleet.break_candidate(errors=0.9)
    stage.until_phase("RolledBack")
    assert stage.weight == 0
    assert stage.violations(*EDITED) == ()


def test_a_fight_over_the_weights_is_given_up_with_the_remedy(stage: RolloutStage, davylamp: Component) -> None:
    stage.apply(steps=LONG)
    stage.until_reason("Sampling", "Baking")
    # A minute passes between two fights, so the three before this one are put into the status of a dead operator.
    davylamp.kill()
    now = datetime.now(UTC)  # noqa: TID251 - the fights are dated by the wall, as the operator dates them
    fights = [(now - timedelta(minutes=minutes)).isoformat().replace("+00:00", "Z") for minutes in (6, 4, 2)]
    stage.patch_status(fights=fights)
    stage.edit_route(10, 90, who="argocd-controller")
    davylamp.start()
    status = stage.until_reason("RouteContested")
    assert "argocd-controller" in status["message"]
    assert "ignoreDifferences on spec.rules" in status["message"]
    rollout = stage.recorder.latest(Kind.ROLLOUT) or {}
    assert condition(rollout, "Stalled") == "True"
    assert stage.violations(*EDITED) == ()


def test_marks_that_somebody_strips_off_the_route_send_the_candidate_back_to_0(stage: RolloutStage) -> None:
    stage.apply(steps=SHORT)
    stage.until_weight(20)
    names = [name for name in stage.route["metadata"]["annotations"] if name.startswith("davylamp.dev/")]
    stage.site.lab.api.merge(stage.route_path, {"metadata": {"annotations": dict.fromkeys(names)}})
    stage.until_weight(0)
    stage.until_phase("Promoted")
    assert stage.violations(*EDITED) == ()


def test_a_route_that_is_deleted_and_made_anew_starts_from_0(stage: RolloutStage) -> None:
    stage.apply(steps=SHORT)
    stage.until_weight(20)
    stage.site.lab.api.delete(stage.route_path)
    stage.until_reason("RouteMissing")
    stage.make_route()
    stage.until_phase("Promoted")
    assert stage.violations(*EDITED) == ()
