"""A stored status that the schema takes and that makes no sense leads to less traffic, and never to a crash."""

from typing import Any

import pytest

from e2e.lab import Component
from e2e.stage.invariants import epochs_never_fall, falls_for_good, leaves_the_rest_alone, marks_of, rises_by_steps
from e2e.stage.rollout_stage import PATIENCE, RolloutStage

LONG = [{"weight": 20, "bake": "60s", "minSamples": 5}, {"weight": 50, "bake": "60s", "minSamples": 5}]
SOUND = (rises_by_steps, falls_for_good, epochs_never_fall, leaves_the_rest_alone)
LONG_AGO = "2001-01-01T00:00:00Z"

DAMAGE: dict[str, dict[str, Any]] = {
    "a weight that was never asked for": {"weight": {"requested": 100, "programmed": 100}},
    "a step beyond the ladder": {"step": {"index": 4900, "summary": "garbage", "enteredAt": LONG_AGO}},
    "an end that never came": {"phase": "Promoted", "reason": "AllGatesPassed"},
    "evidence that cannot be read": {"evidence": {"asOf": LONG_AGO, "design": "x", "state": "{[[[\\u0000"}},
    "everything at once": {
        "phase": "RollingBack",
        "reason": "Nonsense",
        "weight": {"requested": 77, "observed": 1},
        "step": {"index": -1, "summary": "", "enteredAt": LONG_AGO, "acceptedAt": LONG_AGO, "bakedSeconds": 1e12},
        "evidence": None,
        "errorTicks": 9_000_000_000,
        "told": ["x"] * 3,
        "history": None,
        "conditions": None,
        "signals": None,
    },
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_status_gives_the_candidate_no_more_and_the_rollout_still_ends(
    damage: dict[str, Any], stage: RolloutStage, davylamp: Component
) -> None:
    stage.apply()
    stage.until_weight(20)
    davylamp.kill()
    stage.patch_status(**damage)
    davylamp.start()
    stage.until_weight(100)
    stage.recorder.until(lambda _, route: not marks_of(route), "the route is handed over", within=PATIENCE)
    stage.until_phase("Promoted")
    assert stage.violations(*SOUND) == ()


def test_a_promotion_that_was_never_decided_is_not_carried_out(stage: RolloutStage, davylamp: Component) -> None:
    stage.apply(steps=LONG)
    stage.until_weight(20)
    davylamp.kill()
    attempt = stage.status["attempt"]["id"]
    stage.patch_status(
        decision={"id": attempt, "verdict": "Promote", "reason": "AllGatesPassed", "at": LONG_AGO},
        phase="Promoting",
    )
    stage.site.fleet.break_candidate(errors=0.6)
    davylamp.start()
    stage.until_phase("RolledBack")
    assert stage.violations(*SOUND) == ()


def test_an_attempt_of_settings_that_nobody_asked_for_begins_anew_from_0(
    stage: RolloutStage, davylamp: Component
) -> None:
    stage.apply()
    stage.until_weight(20)
    davylamp.kill()
    stage.patch_status(attempt={"specHash": "garbage", "candidateDigest": "garbage"}, weight={"requested": 50})
    davylamp.start()
    stage.until_weight(0)
    assert stage.until_phase("Promoted")["attempt"]["number"] == 2
    assert stage.violations(falls_for_good, epochs_never_fall, leaves_the_rest_alone) == ()


def test_an_epoch_from_nowhere_does_not_keep_a_bad_candidate_its_traffic(
    stage: RolloutStage, davylamp: Component
) -> None:
    stage.apply(steps=LONG)
    stage.until_weight(20)
    davylamp.kill()
    stage.patch_status(epoch=2**62)
    stage.site.fleet.break_candidate(errors=0.6)
    davylamp.start()
    stage.until_weight(0)
    assert stage.violations(*SOUND) == ()
