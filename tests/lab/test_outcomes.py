from e2e.stage.premises import Fleet
from e2e.stage.rollout_stage import RolloutStage


def test_a_good_candidate_is_promoted(stage: RolloutStage) -> None:
    stage.apply()
    stage.until_phase("Promoted")
    assert stage.violations() == ()


def test_a_candidate_that_fails_is_taken_back(stage: RolloutStage, fleet: Fleet) -> None:
    fleet.break_candidate(errors=0.5)
    stage.apply()
    stage.until_phase("RolledBack")
    assert stage.violations() == ()
