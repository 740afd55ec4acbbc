"""When an attempt begins, when another must, and when it may not."""

from dataclasses import replace
from datetime import timedelta

import pytest

from davylamp.core.model import NONE, Outcome, PastAttempt, Phase, Progress, Quarantine, Reason, Ruling, Weight
from davylamp.core.moves import Lower, Restore
from davylamp.core.plan import Step
from tests.davylamp.core.rollouts import (
    ATTEMPT,
    CLEAN,
    MISSING,
    NOW,
    PAIR,
    PLAN,
    REPOINTED,
    ROUTE,
    Rollout,
    baking_at,
    fresh,
    over,
    pending,
    prepared,
    promoting,
)

KEPT = Quarantine("int8", NOW + timedelta(minutes=30), 1, "Regressed")


def test_the_first_look_begins_the_first_attempt_and_writes_nothing_to_the_route() -> None:
    decision = fresh().decide()
    attempt = decision.progress.attempt
    assert attempt is not None
    assert (attempt.id, attempt.number, attempt.candidate_digest, attempt.spec_hash, attempt.pair) == (
        "rollout1-1",
        1,
        "int8",
        "spec",
        PAIR,
    )
    assert (decision.action, decision.progress.phase, decision.progress.reason) == (
        None,
        Phase.PENDING,
        Reason.ACCEPTED,
    )
    assert decision.facts[0].sentence == "attempt 1 begins: credit-int8:8080 beside credit-fp32:8080"


CHANGES = {
    "gates": {"spec_hash": "other"},
    "model": {"candidate_digest": "pruned"},
    "backend": {"pair": replace(PAIR, candidate="credit-small:8080")},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_in_mid_rollout_lowers_then_gives_back_then_begins_anew(change: dict[str, object]) -> None:
    rollout = baking_at(25).planned(**change)
    lowering = rollout.decide()
    assert lowering.action == Lower(ATTEMPT.id, NONE, Ruling.CONTINUE)
    assert (lowering.progress.phase, lowering.progress.reason) == (Phase.PENDING, Reason.SUPERSEDED)
    lowered = replace(rollout, progress=lowering.progress).with_route(ROUTE)
    assert lowered.decide().action == Restore()
    begun = replace(lowered, progress=lowered.decide().progress).with_route(CLEAN).decide().progress
    assert begun.attempt is not None
    assert (begun.attempt.id, begun.requested, begun.step, begun.baked) == ("rollout1-2", NONE, -1, timedelta(0))
    assert [(past.outcome, past.reason) for past in begun.history] == [(Outcome.SUPERSEDED, "Superseded")]
    assert begun.quarantine == ()


def test_a_change_that_is_taken_back_in_time_goes_on_from_weight_0() -> None:
    lowering = baking_at(25).planned(spec_hash="other").decide()
    decision = prepared().knows(step=lowering.progress.step, requested=lowering.progress.requested).decide()
    assert decision.progress.attempt == ATTEMPT
    assert decision.progress.requested == Weight(5)


def test_a_change_takes_back_weights_whose_marks_somebody_took_off() -> None:
    stripped = baking_at(25).with_route(replace(CLEAN, weight=Weight(25)))
    assert stripped.planned(spec_hash="other").decide().action == Lower(ATTEMPT.id, NONE, Ruling.CONTINUE)


def test_a_change_to_a_ladder_of_another_shape_takes_edited_weights_back_first() -> None:
    edited = baking_at(5).with_route(replace(CLEAN, weight=Weight(3)))
    other = edited.planned(spec_hash="other", steps=(Step(None, timedelta(minutes=1)), *PLAN.steps))
    assert other.decide().action == Lower(ATTEMPT.id, NONE, Ruling.CONTINUE)


@pytest.mark.parametrize("route", [MISSING, REPOINTED, replace(CLEAN, weight=Weight(10))])
def test_a_change_before_any_traffic_begins_anew_at_once(route: object) -> None:
    rollout = replace(pending(), route=route).planned(spec_hash="other")  # type: ignore[arg-type]  # any route
    begun = rollout.decide().progress.attempt
    assert begun is not None
    assert begun.id == "rollout1-2"


def test_a_change_after_the_route_was_re_pointed_finds_the_promotion_done() -> None:
    decision = promoting().planned(spec_hash="other").with_route(REPOINTED).decide()
    assert decision.progress.phase is Phase.PROMOTED
    again = replace(promoting().planned(spec_hash="other"), progress=decision.progress).decide()
    assert again.progress.attempt is not None
    assert again.progress.attempt.id == "rollout1-2"


def test_a_change_to_a_candidate_in_quarantine_ends_the_attempt_and_waits() -> None:
    rollout = prepared().with_route(CLEAN).knows(quarantine=(replace(KEPT, digest="pruned"),))
    decision = rollout.planned(candidate_digest="pruned").decide()
    assert (decision.progress.phase, decision.progress.reason) == (Phase.HELD, Reason.QUARANTINED)
    assert decision.progress.ended
    waited = replace(rollout.planned(candidate_digest="pruned"), progress=decision.progress).later(timedelta(hours=1))
    assert waited.decide().progress.attempt != ATTEMPT
    back = replace(rollout, progress=decision.progress).decide().progress.attempt
    assert back is not None
    assert (back.number, back.candidate_digest) == (2, "int8")


# After the end.


def test_another_spec_begins_another_attempt_after_the_end() -> None:
    decision = over(Outcome.PROMOTED).planned(spec_hash="other").decide()
    assert decision.progress.attempt is not None
    assert decision.progress.attempt.number == 2


def test_a_rolled_back_candidate_is_not_tried_again_before_its_cooldown() -> None:
    rollout = over(Outcome.ROLLED_BACK).knows(quarantine=(KEPT,)).planned(spec_hash="other")
    decision = rollout.decide()
    assert (decision.action, decision.progress.phase, decision.progress.reason) == (
        None,
        Phase.HELD,
        Reason.QUARANTINED,
    )
    assert "until 2026-03-01 12:30:00 UTC" in decision.progress.message
    assert decision.progress.attempt == ATTEMPT
    assert rollout.later(timedelta(minutes=30)).decide().progress.attempt != ATTEMPT


def test_another_candidate_need_not_wait_for_the_quarantine_of_the_first() -> None:
    rollout = over(Outcome.ROLLED_BACK).knows(quarantine=(KEPT,)).planned(candidate_digest="distilled")
    assert rollout.decide().progress.attempt != ATTEMPT


def test_a_spec_that_is_taken_back_shows_the_end_again() -> None:
    waiting = over(Outcome.ROLLED_BACK).knows(phase=Phase.HELD, reason=Reason.QUARANTINED, quarantine=(KEPT,))
    decision = waiting.decide()
    assert (decision.progress.phase, decision.progress.reason) == (Phase.ROLLED_BACK, Reason.REGRESSED)
    assert decision.progress.message == "attempt rollout1-1 ended: RolledBack (Regressed)"
    promoted = over(Outcome.PROMOTED).knows(phase=Phase.HELD, ruling_reason=None).decide()
    assert (promoted.progress.phase, promoted.progress.reason) == (Phase.PROMOTED, Reason.ACCEPTED)


# A status that was lost.


@pytest.mark.parametrize(
    ("history", "marked", "ruling", "number"),
    [
        ((), None, None, 1),
        ((), "rollout1-4", Ruling.CONTINUE, 5),
        ((), "rollout1-4", Ruling.ROLLBACK, 4),
        (("rollout1-6",), "rollout1-4", Ruling.ROLLBACK, 7),
        (("rollout1-2", "rollout1-1"), None, None, 3),
        ((), "stranger-9", Ruling.ROLLBACK, 1),
        (("rollout1-x", "rollout1-²", "rollout1-" + "9" * 12, "rollout1"), None, None, 1),
    ],
)
def test_attempts_are_counted_on_from_what_the_history_and_the_route_remember(
    history: tuple[str, ...], marked: str | None, ruling: Ruling | None, number: int
) -> None:
    past = tuple(PastAttempt(each, Outcome.SUPERSEDED, "Superseded", NOW, NOW) for each in history)
    route = replace(CLEAN, attempt=marked, ruling=ruling)
    attempt = Rollout(progress=Progress(history=past), route=route).decide().progress.attempt
    assert attempt is not None
    assert (attempt.id, attempt.number) == (f"rollout1-{number}", number)


def test_attempts_are_counted_without_a_route_too() -> None:
    attempt = fresh().with_route(MISSING).decide().progress.attempt
    assert attempt is not None
    assert attempt.number == 1


def test_a_rollback_that_only_the_route_remembers_is_finished_by_the_attempt_that_takes_its_number() -> None:
    rolled_back = replace(ROUTE, weight=Weight(25), ruling=Ruling.ROLLBACK, attempt="rollout1-4")
    begun = fresh().with_route(rolled_back).decide().progress
    decision = Rollout(progress=begun, route=rolled_back).decide()
    assert decision.action == Lower("rollout1-4", NONE, Ruling.ROLLBACK)


def test_a_quarantine_outlives_the_attempt_that_made_it() -> None:
    decision = fresh().knows(quarantine=(KEPT,)).decide()
    assert (decision.progress.attempt, decision.progress.reason) == (None, Reason.QUARANTINED)
    running = prepared().knows(quarantine=(KEPT,)).decide()
    assert (running.action, running.progress.reason) == (None, Reason.QUARANTINED)


def test_the_history_is_bounded_and_keeps_the_latest() -> None:
    past = tuple(PastAttempt(f"rollout0-{n}", Outcome.SUPERSEDED, "Superseded", NOW, NOW) for n in range(10))
    ended = prepared().rolled_back().knows(history=past).with_route(CLEAN).decide().progress
    assert len(ended.history) == 10
    assert ended.history[-1].attempt == ATTEMPT.id
