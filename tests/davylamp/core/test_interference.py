"""The route as others leave it."""

from dataclasses import replace
from datetime import timedelta

import pytest

from davylamp.core.model import ALL, NONE, Phase, Reason, Ruling, Severity, Weight
from davylamp.core.moves import Lower, Prepare, Raise
from tests.davylamp.core.rollouts import (
    ATTEMPT,
    BAKE,
    CLEAN,
    MISSING,
    NOW,
    REPOINTED,
    SECOND,
    TAKEN,
    UNFIT,
    Rollout,
    baked_at,
    baking_at,
    pausing,
    pending,
    prepared,
    promoting,
)
from tests.simulation.settings import Metrics


def settled(weight: int) -> Lower:
    return Lower(ATTEMPT.id, Weight(weight), Ruling.CONTINUE)


# Troubles.


@pytest.mark.parametrize(
    ("route", "reason"),
    [(MISSING, Reason.ROUTE_MISSING), (UNFIT, Reason.ROUTE_UNFIT), (TAKEN, Reason.ROUTE_TAKEN)],
    ids=["missing", "unfit", "taken"],
)
@pytest.mark.parametrize("rollout", [pending(), baked_at(25), promoting()], ids=["pending", "baked", "promoting"])
def test_a_route_that_cannot_be_used_holds_and_says_why(rollout: Rollout, route: object, reason: Reason) -> None:
    decision = replace(rollout, route=route).decide()  # type: ignore[arg-type]  # any trouble
    progress = decision.progress
    assert (decision.action, progress.phase, progress.reason) == (None, Phase.HELD, reason)
    assert progress.message
    assert decision.facts
    assert (progress.accepted_at, progress.baked) == (None, timedelta(0))


def test_a_rollout_without_a_route_is_not_rolled_back_and_stays_for_its_return() -> None:
    decision = replace(baking_at(25), route=MISSING).with_metrics(Metrics.REGRESSED).decide()
    assert (decision.action, decision.progress.ruling) == (None, Ruling.CONTINUE)


def test_a_route_that_points_to_the_candidate_alone_before_any_promotion_is_unfit() -> None:
    decision = pending().with_route(REPOINTED).endpoints(candidate=0).decide()
    assert (decision.action, decision.progress.reason) == (None, Reason.ROUTE_UNFIT)
    assert "point it to the baseline credit-fp32:8080" in decision.progress.message


def test_what_the_router_refuses_is_held_with_its_words_and_nothing_is_written_again() -> None:
    for rollout in (prepared(), baked_at(5), baked_at(50), promoting()):
        decision = rollout.refused("5 % of 97 is no whole number").decide()
        assert (decision.action, decision.progress.phase) == (None, Phase.HELD)
        assert decision.progress.reason is Reason.ROUTE_UNFIT
        assert decision.progress.message == "5 % of 97 is no whole number"


def test_a_refusal_never_stands_before_a_rollback() -> None:
    decision = baking_at(25).refused("no").with_metrics(Metrics.REGRESSED).decide()
    assert decision.action == Lower(ATTEMPT.id, NONE, Ruling.ROLLBACK)


# Lost marks.


@pytest.mark.parametrize(
    "route",
    [
        replace(CLEAN, weight=Weight(25)),
        replace(CLEAN, uid="another"),
        replace(baking_at(25).route, attempt="rollout1-0"),  # type: ignore[arg-type]  # a view
    ],
    ids=["stripped", "made anew", "of another attempt"],
)
def test_a_route_without_this_attempts_marks_begins_again_at_weight_0(route: object) -> None:
    decision = replace(baked_at(25), route=route).decide()  # type: ignore[arg-type]  # any route
    progress = decision.progress
    assert decision.action == Prepare(ATTEMPT.id)
    assert (progress.phase, progress.reason) == (Phase.PENDING, Reason.ROUTE_REPLACED)
    assert (progress.step, progress.requested, progress.accepted_at, progress.baked) == (-1, NONE, None, timedelta(0))
    assert decision.facts[0].severity is Severity.WARNING


def test_a_promotion_whose_marks_are_lost_begins_again_without_its_ruling() -> None:
    progress = promoting().with_route(replace(CLEAN, weight=ALL)).decide().progress
    assert (progress.ruling, progress.ruling_reason, progress.requested) == (Ruling.CONTINUE, None, NONE)


def test_a_route_left_to_the_candidate_alone_with_foreign_marks_gets_its_baseline_back() -> None:
    left = replace(baking_at(25).route, repointed=True, weight=ALL, attempt="rollout1-0")  # type: ignore[arg-type]
    assert baking_at(25).with_route(left).decide().action == settled(0)


# Edited weights.


@pytest.mark.parametrize("percent", [0, 1, 24])
def test_a_weight_that_somebody_lowered_is_respected_and_holds(percent: int) -> None:
    decision = baked_at(25).route_says(weight=Weight(percent), editor="kubectl-edit").decide()
    progress = decision.progress
    assert (decision.action, progress.phase, progress.reason) == (None, Phase.HELD, Reason.ROUTE_LOWERED)
    assert f"kubectl-edit lowered the candidate on route credit from 25 % to {percent} %" in progress.message
    assert "set it back to 25 % to go on" in progress.message
    assert (progress.accepted_at, progress.baked) == (None, timedelta(0))


def test_a_lowering_is_respected_even_if_the_status_was_damaged() -> None:
    decision = baked_at(25).route_says(weight=NONE).knows(step=-1, requested=NONE, accepted_at=None).decide()
    assert (decision.action, decision.progress.reason) == (None, Reason.ROUTE_LOWERED)


def test_a_weight_that_is_set_back_is_accepted_and_baked_anew() -> None:
    held = baked_at(25).route_says(weight=NONE).decide().progress
    decision = replace(baked_at(25), progress=held).decide()
    assert (decision.progress.accepted_at, decision.progress.baked) == (NOW, timedelta(0))


def test_a_weight_that_was_edited_in_a_pause_goes_back_to_its_step() -> None:
    assert pausing().route_says(weight=NONE).decide().progress.step == 1


def test_a_pause_at_weight_0_stays_where_it_is() -> None:
    first = pausing().plan.steps[2]
    rollout = prepared().planned(steps=(first, *prepared().plan.steps)).knows(step=0, requested=NONE)
    assert replace(rollout, route=MISSING).decide().progress.step == 0


def test_a_weight_that_somebody_raised_is_put_right() -> None:
    decision = baked_at(25).route_says(weight=Weight(80)).decide()
    progress = decision.progress
    assert decision.action == settled(25)
    assert (progress.phase, progress.reason, progress.fights) == (Phase.HELD, Reason.ROUTE_RAISED, (NOW,))
    assert progress.message == "somebody else raised the candidate on route credit from 25 % to 80 %: put right"


def test_a_raise_is_fought_at_most_once_a_minute() -> None:
    rollout = baked_at(25).route_says(weight=Weight(80)).knows(fights=(NOW - 59 * SECOND,))
    assert (rollout.decide().action, rollout.decide().progress.reason) == (None, Reason.ROUTE_RAISED)
    assert rollout.later(SECOND).decide().action == settled(25)


def test_a_war_of_raises_is_given_up_with_a_remedy_and_taken_up_after_ten_minutes() -> None:
    fights = (NOW - 9 * timedelta(minutes=1), NOW - timedelta(minutes=5), NOW - timedelta(minutes=2))
    rollout = baked_at(25).route_says(weight=Weight(80)).knows(fights=fights)
    decision = rollout.decide()
    assert (decision.action, decision.progress.reason) == (None, Reason.ROUTE_CONTESTED)
    assert "for the 4th time in 10 minutes" in decision.progress.message
    assert decision.facts[0].severity is Severity.INCIDENT
    assert rollout.later(timedelta(minutes=1)).decide().action == settled(25)


def test_a_clock_that_was_set_back_does_not_lengthen_the_truce() -> None:
    before = NOW + timedelta(hours=1)
    rollout = baked_at(25).route_says(weight=Weight(80)).knows(fights=(before - 2 * timedelta(minutes=1), before))
    held = rollout.decide().progress
    assert held.fights == (NOW - 2 * timedelta(minutes=1), NOW)
    assert rollout.knows(fights=held.fights).later(timedelta(minutes=1)).decide().action == settled(25)


def test_a_rollback_does_not_wait_for_the_end_of_a_war() -> None:
    rollout = baked_at(25).route_says(weight=Weight(80)).knows(fights=(NOW - SECOND,) * 3)
    assert rollout.with_metrics(Metrics.REGRESSED).decide().action == Lower(ATTEMPT.id, NONE, Ruling.ROLLBACK)


def test_a_route_that_was_left_to_the_candidate_alone_is_put_right() -> None:
    left = replace(baking_at(25).route, repointed=True, prepared=False, weight=ALL)  # type: ignore[arg-type]  # a view
    assert baking_at(25).with_route(left).decide().action == settled(25)


def test_the_users_own_weights_before_the_first_step_are_not_fought_over() -> None:
    assert pending().with_route(replace(CLEAN, weight=Weight(10))).decide().action == Prepare(ATTEMPT.id)


# Route and status disagree.


def test_a_raise_that_did_not_arrive_is_not_repaired_upwards_but_decided_anew() -> None:
    decision = baked_at(25).route_says(weight=Weight(5), asked=Weight(5)).decide()
    progress = decision.progress
    assert decision.action == settled(5)
    assert (progress.step, progress.requested, progress.phase) == (0, Weight(5), Phase.PROGRESSING)
    assert (progress.accepted_at, progress.baked, progress.hold_since) == (None, timedelta(0), None)


def test_a_first_raise_that_did_not_arrive_goes_back_to_pending() -> None:
    decision = baked_at(5).route_says(weight=NONE, asked=NONE).decide()
    assert (decision.action, decision.progress.step, decision.progress.phase) == (settled(0), -1, Phase.PENDING)


def test_a_promotion_that_did_not_arrive_is_proven_anew() -> None:
    progress = promoting().route_says(weight=Weight(50), asked=Weight(50)).decide().progress
    assert (progress.step, progress.requested, progress.ruling) == (3, Weight(50), Ruling.CONTINUE)


def test_a_route_that_is_replaced_again_and_again_is_not_fought_over_without_end() -> None:
    rollout = baking_at(25).with_route(CLEAN)
    for _ in range(3):
        progress = rollout.decide().progress
        assert (progress.phase, progress.reason) == (Phase.PENDING, Reason.ROUTE_REPLACED)
        rollout = rollout.knows(fights=progress.fights).later(timedelta(minutes=1))
    decision = rollout.decide()
    assert (decision.action, decision.progress.reason) == (None, Reason.ROUTE_CONTESTED)
    assert "for the 4th time in 10 minutes: stop it from writing the rules" in decision.progress.message
    assert (decision.progress.step, decision.progress.requested) == (-1, NONE)
    held = replace(rollout, progress=decision.progress).later(timedelta(minutes=1))
    assert (held.decide().action, held.decide().progress.reason) == (None, Reason.ROUTE_CONTESTED)
    peace = held.later(timedelta(minutes=10)).decide()
    assert peace.action == Prepare(ATTEMPT.id)


def test_a_route_that_is_contested_gives_no_traffic_that_others_have_given() -> None:
    fights = (NOW - SECOND,) * 3
    decision = baking_at(25).with_route(replace(CLEAN, weight=Weight(30))).knows(fights=fights).decide()
    assert decision.action == Prepare(ATTEMPT.id)


def test_a_rule_that_somebody_lowered_alone_is_respected_and_holds() -> None:
    for rollout in (baked_at(25), promoting()):
        decision = rollout.route_says(lowest=NONE, editor="kubectl-edit").decide()
        assert (decision.action, decision.progress.reason) == (None, Reason.ROUTE_LOWERED)
        assert "to 0 % in one of its rules, which is respected" in decision.progress.message
        assert decision.progress.accepted_at is None


def test_where_one_rule_was_raised_and_another_lowered_the_raise_is_put_right_first() -> None:
    decision = baked_at(25).route_says(weight=Weight(60), lowest=NONE, editor="kubectl-edit").decide()
    assert (decision.action, decision.progress.reason) == (settled(25), Reason.ROUTE_RAISED)


def test_a_route_that_is_above_status_is_lowered_to_it() -> None:
    decision = baked_at(5).route_says(weight=Weight(25), asked=Weight(25)).decide()
    assert (decision.action, decision.progress.requested) == (settled(5), Weight(5))
    assert "the route says 25 %, status says 5 %: 5 % counts" in decision.progress.message


def test_an_agreed_weight_that_is_no_step_goes_down_to_the_step_below() -> None:
    decision = baked_at(25).knows(requested=Weight(40)).route_says(weight=Weight(40), asked=Weight(40)).decide()
    assert (decision.action, decision.progress.step) == (settled(25), 1)


@pytest.mark.parametrize(
    ("step", "weight", "ruling", "left"),
    [
        (0, 25, Ruling.CONTINUE, 1),
        (3, 25, Ruling.CONTINUE, 1),
        (1, 25, Ruling.PROMOTE, 1),
        (4, 25, Ruling.PROMOTE, 1),
        (4, 100, Ruling.CONTINUE, 3),
        (9, 50, Ruling.CONTINUE, 3),
    ],
)
def test_a_stored_step_that_does_not_fit_its_weight_is_not_climbed_from(
    step: int, weight: int, ruling: Ruling, left: int
) -> None:
    odd = baked_at(25).knows(step=step, requested=Weight(weight), ruling=ruling)
    decision = odd.route_says(weight=Weight(weight), asked=Weight(weight)).decide()
    assert not isinstance(decision.action, Raise)
    assert (decision.progress.step, decision.progress.ruling) == (left, Ruling.CONTINUE)


def test_an_odd_step_does_no_harm_while_nothing_is_raised() -> None:
    odd = baking_at(25).knows(step=2).planned(paused=True, steps=prepared().plan.steps[:1])
    assert odd.decide().action is None
    assert odd.decide().progress.requested == Weight(25)


def test_a_settled_step_has_its_bake_before_it() -> None:
    progress = baked_at(25).route_says(weight=Weight(5), asked=Weight(5)).decide().progress
    again = replace(baked_at(5), progress=progress)
    accepted = again.later(10 * SECOND).decide()
    assert (accepted.action, accepted.progress.baked) == (None, timedelta(0))
    assert replace(again, progress=accepted.progress).later(BAKE).decide().action is None
