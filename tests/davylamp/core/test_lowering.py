"""What takes traffic back comes first, in every phase."""

from dataclasses import replace
from datetime import timedelta

import pytest

from davylamp.core.model import ALL, NONE, Outcome, Phase, Quarantine, Reason, Ruling, Severity, Weight
from davylamp.core.moves import Decision, Lower, Prepare, Release, Repoint, Restore
from davylamp.core.safety import last_act
from davylamp.core.world import RouteView
from tests.davylamp.core.rollouts import (
    ATTEMPT,
    CLEAN,
    INTERVAL,
    MISSING,
    NOW,
    REPOINTED,
    SECOND,
    TAKEN,
    UNFIT,
    Rollout,
    baked_at,
    baking_at,
    fresh,
    over,
    pausing,
    pending,
    prepared,
    promoting,
    started_at,
)
from tests.simulation.settings import Metrics

TO_ZERO = Lower(ATTEMPT.id, NONE, Ruling.ROLLBACK)
SERVING = {
    "just started": started_at(5),
    "baking": baking_at(25),
    "baked": baked_at(5),
    "in a pause": pausing(),
    "paused by spec": baking_at(5).planned(paused=True).knows(phase=Phase.PAUSED),
    "held": baking_at(50).knows(phase=Phase.HELD, hold_reason=Reason.DEADLINE, hold_since=NOW),
    "promoting": promoting(),
    "promoting, at the gateway": promoting().knows(accepted_at=None).route_says(accepted=False),
}


def ruled(decision: Decision, reason: Reason) -> bool:
    progress = decision.progress
    return (progress.ruling, progress.ruling_reason, progress.phase, progress.requested) == (
        Ruling.ROLLBACK,
        reason,
        Phase.ROLLING_BACK,
        NONE,
    )


@pytest.mark.parametrize("rollout", SERVING.values(), ids=SERVING)
@pytest.mark.parametrize("metrics", [Metrics.REGRESSED, Metrics.REGRESSED_UNSEEN])
def test_a_regression_takes_the_traffic_back_in_every_phase(rollout: Rollout, metrics: Metrics) -> None:
    decision = rollout.with_metrics(metrics).decide()
    assert decision.action == TO_ZERO
    assert ruled(decision, Reason.REGRESSED)
    assert decision.progress.ruled_at == NOW


@pytest.mark.parametrize("rollout", SERVING.values(), ids=SERVING)
def test_a_candidate_without_endpoints_loses_its_traffic_without_asking_metrics(rollout: Rollout) -> None:
    decision = rollout.with_metrics(Metrics.SOURCE_DOWN).endpoints(candidate=0).decide()
    assert decision.action == TO_ZERO
    assert ruled(decision, Reason.CANDIDATE_LOST)
    assert "credit-int8:8080 has no ready endpoint" in decision.progress.message


def test_a_candidate_without_endpoints_loses_what_a_damaged_status_knows_nothing_of() -> None:
    forgotten = prepared().route_says(weight=Weight(3), asked=Weight(5), editor="kubectl-edit").endpoints(candidate=0)
    assert forgotten.decide().action == Prepare(ATTEMPT.id)


def test_traffic_that_somebody_else_gave_the_candidate_is_not_taken_for_lost() -> None:
    theirs = prepared().route_says(weight=Weight(3), asked=None, attempt=None, prepared=False).endpoints(candidate=0)
    assert theirs.decide().progress.reason is not Reason.CANDIDATE_LOST


def test_the_last_act_for_an_object_that_is_gone_lowers_and_then_restores() -> None:
    attempt, view = baked_at(25).progress.attempt, baked_at(25).route
    assert attempt is not None
    assert isinstance(view, RouteView)
    assert last_act(view, attempt) == TO_ZERO
    assert last_act(replace(view, weight=NONE), attempt) == Restore()
    assert last_act(replace(view, attempt="another-1"), attempt) is None
    assert last_act(MISSING, attempt) is None


def test_a_rollback_names_the_guilty_gates_with_their_numbers() -> None:
    decision = baking_at(25).with_metrics(Metrics.REGRESSED).decide()
    assert decision.progress.message == "errors says Regressed"
    assert [(fact.key, fact.severity) for fact in decision.facts] == [("rollout1-1/1/Regressed", Severity.INCIDENT)]


def test_a_regression_without_a_culprit_still_says_what_it_is() -> None:
    assert "crossed its limit" in baking_at(25).with_metrics(Metrics.REGRESSED_UNSEEN).decide().progress.message


def test_a_regression_counts_at_weight_0_too_so_that_a_hand_lowered_weight_cannot_come_back() -> None:
    decision = baking_at(25).route_says(weight=NONE).with_metrics(Metrics.REGRESSED).decide()
    assert decision.action == TO_ZERO


def test_a_regression_on_a_route_that_was_never_touched_ends_the_attempt_without_a_write() -> None:
    decision = pending().with_metrics(Metrics.REGRESSED).decide()
    assert decision.action is None
    assert ruled(decision, Reason.REGRESSED)


def test_gross_errors_take_the_traffic_back_after_the_ticks_in_a_row_that_the_plan_says() -> None:
    first = baking_at(25).with_metrics(Metrics.ERRORS)
    decision = first.decide()
    assert (decision.action, decision.progress.error_ticks) == (None, 1)
    second = first.knows(error_ticks=1).decide()
    assert second.action == TO_ZERO
    assert ruled(second, Reason.ERROR_SHARE)
    assert "90 of 100 requests failed, over the hard limit of 50% for 2 ticks" in second.progress.message


def test_gross_errors_are_counted_anew_after_a_good_tick() -> None:
    good = {"candidate_errors": 50, "candidate_requests": 100}
    assert baking_at(25).knows(error_ticks=1).with_metrics(Metrics.ERRORS, **good).decide().progress.error_ticks == 0


def test_gross_errors_among_too_few_requests_say_nothing() -> None:
    few = {"candidate_errors": 9, "candidate_requests": 9}
    assert baking_at(25).knows(error_ticks=1).with_metrics(Metrics.ERRORS, **few).decide().progress.error_ticks == 1


def test_gross_errors_that_are_remembered_name_no_numbers_that_are_not_known() -> None:
    decision = baking_at(25).knows(error_ticks=2).with_metrics(Metrics.INCONCLUSIVE).decide()
    assert "the candidate's requests failed" in decision.progress.message


@pytest.mark.parametrize("metrics", [Metrics.REGRESSED, Metrics.PROVEN])
def test_traffic_is_not_shifted_onto_a_baseline_that_is_gone(metrics: Metrics) -> None:
    decision = baked_at(25).with_metrics(metrics).endpoints(baseline=0).decide()
    assert decision.action is None
    assert decision.progress.phase is Phase.HELD
    assert decision.progress.reason is Reason.BASELINE_NOT_READY
    assert decision.facts[0].severity is Severity.INCIDENT


def test_an_alarm_at_weight_0_needs_no_baseline() -> None:
    decision = baking_at(25).route_says(weight=NONE).with_metrics(Metrics.REGRESSED).endpoints(baseline=0).decide()
    assert ruled(decision, Reason.REGRESSED)


# A rollback that is decided is carried out.


def test_a_decided_rollback_lowers_until_the_route_shows_it() -> None:
    decision = baking_at(25).rolled_back().decide()
    assert decision.action == TO_ZERO
    assert decision.progress.message == "errors 30 % against 1 %"


def test_a_lowered_route_is_given_back() -> None:
    decision = prepared().rolled_back().decide()
    assert (decision.action, decision.progress.phase) == (Restore(), Phase.ROLLING_BACK)


def test_marks_that_are_left_in_part_are_taken_off_before_the_attempt_ends() -> None:
    torn = replace(CLEAN, ruling=Ruling.ROLLBACK)
    assert prepared().rolled_back().with_route(torn).decide().action == Restore()


@pytest.mark.parametrize("route", [CLEAN, MISSING, UNFIT, TAKEN], ids=["clean", "missing", "unfit", "taken"])
def test_an_attempt_ends_when_nothing_of_it_is_left(route: object) -> None:
    decision = replace(prepared().rolled_back(), route=route).decide()  # type: ignore[arg-type]  # any route
    progress = decision.progress
    assert (decision.action, progress.phase, progress.reason) == (None, Phase.ROLLED_BACK, Reason.REGRESSED)
    assert [(past.attempt, past.outcome) for past in progress.history] == [(ATTEMPT.id, Outcome.ROLLED_BACK)]
    assert progress.quarantine == (Quarantine("int8", NOW + timedelta(hours=1), 1, "Regressed"),)


@pytest.mark.parametrize("reason", [Reason.EVIDENCE_TIMEOUT, Reason.SUPERSEDED, Reason.DELETED])
def test_a_candidate_that_is_not_to_blame_is_not_put_into_quarantine(reason: Reason) -> None:
    decision = prepared().rolled_back().knows(ruling_reason=reason).with_route(CLEAN).decide()
    assert decision.progress.quarantine == ()


def test_a_candidate_that_was_rolled_back_before_is_counted_and_stands_in_quarantine_once() -> None:
    others = (Quarantine("int8", NOW, 2, "Regressed"), Quarantine("pruned", NOW, 1, "ErrorShare"))
    decision = prepared().rolled_back().knows(quarantine=others).with_route(CLEAN).decide()
    assert [(entry.digest, entry.attempts) for entry in decision.progress.quarantine] == [("pruned", 1), ("int8", 3)]


def test_a_rollback_whose_reason_was_lost_is_carried_out_all_the_same() -> None:
    decision = prepared().rolled_back().knows(ruling_reason=None).with_route(CLEAN).decide()
    assert decision.progress.phase is Phase.ROLLED_BACK


def test_a_rollback_that_only_the_route_remembers_wins_over_status_and_is_told() -> None:
    decision = baking_at(25).route_says(ruling=Ruling.ROLLBACK).decide()
    assert decision.action == TO_ZERO
    assert ruled(decision, Reason.REGRESSED)
    assert "why was lost in a restart" in decision.progress.message
    assert decision.facts


def test_a_rollback_that_only_the_route_remembers_is_explained_by_the_evidence_if_that_is_there() -> None:
    decision = baking_at(25).route_says(ruling=Ruling.ROLLBACK).endpoints(candidate=0).decide()
    assert ruled(decision, Reason.CANDIDATE_LOST)


def test_the_mark_of_another_attempt_rolls_nothing_back() -> None:
    decision = prepared().route_says(ruling=Ruling.ROLLBACK, attempt="rollout1-0").decide()
    assert decision.action == Prepare(ATTEMPT.id)


# Data that stay away.


@pytest.mark.parametrize(
    ("metrics", "reason"), [(Metrics.NO_DATA, Reason.NO_DATA), (Metrics.SOURCE_DOWN, Reason.SOURCE_DOWN)]
)
def test_missing_data_hold_the_weight_and_blame_nobody(metrics: Metrics, reason: Reason) -> None:
    decision = baked_at(25).with_metrics(metrics).decide()
    assert (decision.action, decision.progress.phase, decision.progress.reason) == (None, Phase.HELD, reason)
    assert decision.progress.hold_since == NOW
    assert decision.facts == ()


def test_no_reading_at_all_is_no_data() -> None:
    decision = baked_at(25).with_metrics(Metrics.UNREAD).decide()
    assert (decision.progress.reason, decision.progress.message) == (
        Reason.NO_DATA,
        "the weight is held, since no gate was read",
    )


def test_missing_data_are_told_after_a_while_with_the_series_that_is_missing() -> None:
    held = baked_at(25).knows(hold_since=NOW - timedelta(minutes=5), hold_reason=Reason.NO_DATA)
    decision = held.with_metrics(Metrics.NO_DATA).decide()
    assert [fact.key for fact in decision.facts] == ["rollout1-1/1/NoData"]
    assert "latency says NoData" in decision.progress.message


@pytest.mark.parametrize("before", [Reason.NO_DATA, Reason.SOURCE_DOWN])
def test_missing_data_take_the_traffic_back_after_the_time_that_the_policy_allows(before: Reason) -> None:
    held = baked_at(25).knows(hold_since=NOW - timedelta(minutes=15), hold_reason=before)
    decision = held.with_metrics(Metrics.NO_DATA).decide()
    assert ruled(decision, Reason.EVIDENCE_TIMEOUT)
    assert "no complete data for 900 s (limit 900 s)" in decision.progress.message


def test_a_clock_that_was_set_back_lengthens_the_wait_for_data_by_what_had_passed_at_most() -> None:
    held = baked_at(25).knows(hold_since=NOW + timedelta(hours=1), hold_reason=Reason.NO_DATA)
    since = held.with_metrics(Metrics.NO_DATA).decide().progress.hold_since
    assert since == NOW
    again = held.knows(hold_since=since).later(timedelta(minutes=15)).with_metrics(Metrics.NO_DATA).decide()
    assert ruled(again, Reason.EVIDENCE_TIMEOUT)


def test_missing_data_hold_for_ever_if_the_policy_says_so() -> None:
    held = baked_at(25).knows(hold_since=NOW - timedelta(days=15), hold_reason=Reason.NO_DATA)
    decision = held.planned(no_data_roll_back_after=None).with_metrics(Metrics.NO_DATA).decide()
    assert (decision.action, decision.progress.phase) == (None, Phase.HELD)


def test_missing_data_do_not_shift_traffic_onto_a_baseline_that_is_gone() -> None:
    held = baked_at(25).knows(hold_since=NOW - timedelta(hours=1), hold_reason=Reason.NO_DATA)
    decision = held.with_metrics(Metrics.NO_DATA).endpoints(baseline=0).decide()
    assert (decision.action, decision.progress.phase) == (None, Phase.HELD)


def test_a_hold_for_another_reason_does_not_count_as_missing_data() -> None:
    held = baked_at(25).knows(hold_since=NOW - timedelta(hours=1), hold_reason=Reason.SUSPICION)
    assert held.with_metrics(Metrics.NO_DATA).decide().progress.hold_since == NOW


def test_a_candidate_that_has_just_got_traffic_may_have_no_series_yet() -> None:
    young = baking_at(5).knows(accepted_at=NOW - 2 * INTERVAL).with_metrics(Metrics.WARMING)
    assert young.decide().progress.reason is Reason.SAMPLING
    assert young.with_metrics(Metrics.SOURCE_DOWN).decide().progress.reason is Reason.SOURCE_DOWN


# Deletion.


def test_a_deleted_object_lowers_then_gives_back_then_goes() -> None:
    deleted = baking_at(25).deleted()
    lowering = deleted.decide()
    assert lowering.action == TO_ZERO
    assert lowering.progress.ruling_reason is Reason.DELETED
    lowered = replace(deleted, progress=lowering.progress).with_route(prepared().route)
    giving_back = lowered.decide()
    assert giving_back.action == Restore()
    assert replace(lowered, progress=giving_back.progress).with_route(CLEAN).decide().action == Release()


@pytest.mark.parametrize("rollout", SERVING.values(), ids=SERVING)
def test_a_deleted_object_gives_the_traffic_back_in_every_phase(rollout: Rollout) -> None:
    assert rollout.deleted().with_metrics(Metrics.SOURCE_DOWN).endpoints(baseline=0).decide().action == TO_ZERO


def test_a_deleted_object_takes_back_weights_whose_marks_somebody_took_off() -> None:
    stripped = baking_at(25).with_route(replace(CLEAN, weight=Weight(25)))
    assert stripped.deleted().decide().action == TO_ZERO


@pytest.mark.parametrize("route", [MISSING, UNFIT, TAKEN, CLEAN], ids=["missing", "unfit", "taken", "clean"])
def test_a_deleted_object_that_has_nothing_on_the_route_goes(route: object) -> None:
    assert replace(baking_at(25).deleted(), route=route).decide().action == Release()  # type: ignore[arg-type]


def test_a_deleted_object_that_never_began_leaves_the_users_own_weights_alone() -> None:
    assert fresh().with_route(replace(CLEAN, weight=Weight(10))).deleted().decide().action == Release()


def test_a_promotion_stays_when_the_object_is_deleted() -> None:
    assert over(Outcome.PROMOTED).deleted().decide().action == Release()
    assert promoting().with_route(REPOINTED).deleted().decide().action == Release()


def test_marks_that_came_back_after_a_promotion_are_taken_off_without_taking_traffic_back() -> None:
    marked = promoting().route
    assert over(Outcome.PROMOTED).with_route(marked).deleted().decide().action == Repoint()
    assert over(Outcome.PROMOTED).with_route(marked).decide().action == Repoint()
    lower = replace(marked, weight=Weight(40))  # type: ignore[arg-type]  # it is a view
    assert over(Outcome.PROMOTED).with_route(lower).decide().action == Restore()


def test_a_deleted_object_without_a_known_attempt_cleans_what_is_marked() -> None:
    assert fresh().with_route(baking_at(25).route).deleted().decide().action == Restore()


# Rest.


def test_what_a_former_leader_left_on_the_route_is_taken_off() -> None:
    decision = over(Outcome.ROLLED_BACK).with_route(prepared().route).decide()
    assert (decision.action, decision.progress.phase) == (Restore(), Phase.ROLLED_BACK)
    again = replace(promoting().route, repointed=True, weight=ALL)  # type: ignore[arg-type]  # it is a view
    assert over(Outcome.PROMOTED).with_route(again).decide().action == Repoint()


def test_an_attempt_that_is_over_changes_nothing() -> None:
    for outcome in (Outcome.ROLLED_BACK, Outcome.PROMOTED):
        rollout = over(outcome).with_metrics(Metrics.REGRESSED).endpoints(candidate=0).later(1000 * SECOND)
        decision = rollout.decide()
        assert (decision.action, decision.facts) == (None, ())
        assert replace(decision.progress, ticked_at=None) == replace(rollout.progress, ticked_at=None)
