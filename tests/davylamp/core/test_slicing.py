"""Slices that have regressed: who goes back to the baseline, and what follows."""

from dataclasses import replace

import pytest

from davylamp.core.model import NONE, Phase, Reason, Ruling, Severity, Weight
from davylamp.core.moves import Decision, Diversion, Divert, Lower, Raise, Repoint
from davylamp.core.plan import SliceRules
from davylamp.core.world import ALTERED, RouteTrouble
from tests.davylamp.core.rollouts import ATTEMPT, CLEAN, INTERVAL, Rollout, baked_at, baking_at, prepared, promoting
from tests.simulation.settings import Metrics

FEMALE, BLACK = Diversion("x-sex", "Female"), Diversion("x-race", "Black")
RULES = SliceRules(50, 1000, diversions={"sex=Female": FEMALE, "race=Black": BLACK})
HOLDING = replace(RULES, hold_when_small=True)


def unfair(rollout: Rollout, *labels: str) -> Rollout:
    """Let evidence of a regression have crossed its limit, and all of it be of these slices."""
    return rollout.planned(slices=RULES).with_metrics(Metrics.REGRESSED, regressed_slices=labels)


def diverted(rollout: Rollout, *labels: str) -> Rollout:
    """Let slices have gone back, and the route show it."""
    known = {label: RULES.diversions[label] for label in labels}
    return (
        rollout.planned(slices=RULES)
        .knows(diverted=tuple(sorted(labels)))
        .route_says(diverted=tuple(sorted(known.values())))
    )


def situation(decision: Decision) -> tuple[object, Phase, Reason]:
    return decision.action, decision.progress.phase, decision.progress.reason


@pytest.mark.parametrize("rollout", [baking_at(5), baked_at(50)])
def test_a_slice_that_has_regressed_goes_back_and_the_rest_keeps_its_weight(rollout: Rollout) -> None:
    decision = unfair(rollout, "sex=Female").decide()
    assert situation(decision) == (Divert(ATTEMPT.id, (FEMALE,)), Phase.PROGRESSING, Reason.SLICE_ROLLED_BACK)
    assert decision.progress.diverted == ("sex=Female",)
    assert decision.progress.requested == rollout.progress.requested
    assert decision.progress.ruling is Ruling.CONTINUE
    assert (
        decision.progress.message == "sex=Female goes back to credit-fp32:8080, the rest stays: errors says Regressed"
    )
    (fact,) = decision.facts
    assert (fact.severity, fact.key) == (
        Severity.INCIDENT,
        f"rollout1-1/{rollout.progress.step}/SliceRolledBack/sex=Female",
    )


def test_a_second_slice_joins_the_first_and_is_told_for_itself() -> None:
    decision = unfair(diverted(baked_at(5), "sex=Female"), "race=Black").decide()
    assert decision.action == Divert(ATTEMPT.id, (BLACK, FEMALE))
    assert decision.progress.diverted == ("race=Black", "sex=Female")
    assert decision.facts[0].key.endswith("/race=Black")


def test_a_regression_that_is_left_when_the_slice_is_away_takes_everything_back() -> None:
    decision = unfair(diverted(baked_at(5), "sex=Female"), "sex=Female").decide()
    assert decision.action == Lower(ATTEMPT.id, NONE, Ruling.ROLLBACK)
    assert unfair(baked_at(5)).decide().action == Lower(ATTEMPT.id, NONE, Ruling.ROLLBACK)


@pytest.mark.parametrize(
    "rollout",
    [
        unfair(baked_at(5), "sex=Female").endpoints(baseline=0),
        unfair(baked_at(5), "sex=Female").with_route(RouteTrouble("gone", missing=True)),
        unfair(prepared(), "sex=Female"),
        unfair(promoting(), "sex=Female"),
        unfair(baked_at(5), "sex=Female").rolled_back(),
        unfair(baked_at(5), "sex=Female").planned(slices=None),
        unfair(baked_at(5), "sex=Female", "sex=Male"),
    ],
)
def test_a_slice_goes_back_only_where_that_is_possible_and_enough(rollout: Rollout) -> None:
    decision = rollout.decide()
    assert not isinstance(decision.action, Divert)
    assert decision.progress.diverted == ()


@pytest.mark.parametrize("shown", [(), (ALTERED,), (BLACK,), (BLACK, FEMALE)])
def test_a_route_that_does_not_show_it_is_written_again_before_anything_rises(shown: tuple[Diversion, ...]) -> None:
    rollout = diverted(baked_at(5), "sex=Female").route_says(diverted=shown)
    decision = rollout.decide()
    assert situation(decision) == (Divert(ATTEMPT.id, (FEMALE,)), Phase.PROGRESSING, Reason.SLICE_ROLLED_BACK)
    assert decision.progress.message == "route credit is to send sex=Female to credit-fp32:8080, and does not"
    again = replace(rollout, progress=decision.progress).later(INTERVAL).decide()
    assert again.action == Divert(ATTEMPT.id, (FEMALE,))


def test_a_slice_that_the_route_cannot_send_back_alone_takes_everybody_back() -> None:
    full = diverted(baked_at(5), "sex=Female").route_says(diverted=()).refused("16 rules, and at most 16 fit")
    decision = full.decide()
    assert decision.action == Lower(ATTEMPT.id, NONE, Ruling.ROLLBACK)
    assert decision.progress.message == (
        "sex=Female has regressed and cannot go back alone: 16 rules, and at most 16 fit"
    )
    assert situation(full.endpoints(baseline=0).decide()) == (None, Phase.HELD, Reason.ROUTE_UNFIT)
    unserved = diverted(prepared(), "sex=Female").route_says(diverted=()).refused("16 rules, and at most 16 fit")
    assert situation(unserved.decide()) == (None, Phase.HELD, Reason.ROUTE_UNFIT)


def test_an_attempt_that_begins_again_at_0_sends_the_slice_back_before_its_first_weight() -> None:
    lost = diverted(prepared(), "sex=Female").route_says(diverted=())
    assert lost.decide().action == Divert(ATTEMPT.id, (FEMALE,))
    assert isinstance(diverted(prepared(), "sex=Female").decide().action, Raise)
    bare = diverted(prepared(), "sex=Female").with_route(replace(CLEAN, weight=NONE))
    assert not isinstance(bare.decide().action, Divert)


def test_the_others_go_on_and_are_never_promoted_over_the_slice() -> None:
    going = diverted(baked_at(5), "sex=Female")
    assert going.decide().action == Raise(ATTEMPT.id, Weight(25))
    decision = diverted(baked_at(50), "sex=Female").with_metrics(Metrics.PROVEN).decide()
    assert situation(decision) == (None, Phase.HELD, Reason.SLICE_ROLLED_BACK)
    assert decision.progress.message == (
        "all has passed but sex=Female, which stays with credit-fp32:8080, so the candidate cannot take the whole "
        "route: deploy a better one, or leave the route as it is"
    )
    unproven = diverted(baked_at(50), "sex=Female").with_metrics(Metrics.INCONCLUSIVE).decide()
    assert unproven.progress.reason is Reason.PROVING


def test_slices_that_are_too_small_are_named_in_the_promotion_or_keep_it_waiting() -> None:
    ready = baked_at(50).with_metrics(Metrics.PROVEN, small={"truePositiveRate[race=Black]": 12})
    promoted = ready.planned(slices=RULES).decide()
    assert promoted.progress.reason is Reason.PROMOTION_STARTED
    assert promoted.progress.message.startswith(
        "all gates passed (too small to judge: truePositiveRate[race=Black] (12 of 50 pairs)): "
    )
    held = ready.planned(slices=HOLDING).decide()
    assert situation(held) == (None, Phase.HELD, Reason.SLICE_TOO_SMALL)
    assert held.progress.message == (
        "too small to judge, and promotion waits for it: truePositiveRate[race=Black] (12 of 50 pairs)"
    )
    enough = baked_at(50).with_metrics(Metrics.PROVEN).planned(slices=HOLDING).decide()
    assert enough.progress.reason is Reason.PROMOTION_STARTED
    assert promoting().decide().action == Repoint()


def test_another_attempt_begins_with_every_slice() -> None:
    changed = diverted(baked_at(5), "sex=Female").planned(spec_hash="another")
    back = changed.decide()
    assert back.action == Lower(ATTEMPT.id, NONE, Ruling.CONTINUE)
    fresh = replace(changed, progress=back.progress).with_route(CLEAN).decide()
    assert fresh.progress.attempt is not None
    assert fresh.progress.attempt.number == 2
    assert fresh.progress.diverted == ()
