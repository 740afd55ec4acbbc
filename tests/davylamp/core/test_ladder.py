"""What raises: from the first reference on the route to the promotion."""

from dataclasses import replace
from datetime import timedelta

import pytest

from davylamp.core import decide
from davylamp.core.case import Case
from davylamp.core.model import ALL, NONE, Outcome, Phase, Progress, Reason, Ruling, Severity, Weight
from davylamp.core.moves import Lower, Prepare, Raise, Repoint
from davylamp.core.plan import Step
from davylamp.core.world import Judgement, World
from tests.davylamp.core.rollouts import (
    ATTEMPT,
    BAKE,
    INTERVAL,
    MISSING,
    NOW,
    PLAN,
    REPOINTED,
    SECOND,
    Rollout,
    baked_at,
    baking_at,
    pausing,
    pending,
    prepared,
    promoting,
    started_at,
)
from tests.simulation.settings import Metrics


def raised(weight: int) -> Raise:
    return Raise(ATTEMPT.id, Weight(weight))


# The first step.


def test_the_candidate_is_put_beside_the_baseline_at_weight_0_first() -> None:
    decision = pending().decide()
    assert decision.action == Prepare(ATTEMPT.id)
    assert (decision.progress.phase, decision.progress.step) == (Phase.PENDING, -1)


@pytest.mark.parametrize(
    ("baseline", "candidate", "reason", "who"),
    [
        (0, 2, Reason.BASELINE_NOT_READY, "credit-fp32:8080"),
        (2, 0, Reason.CANDIDATE_NOT_READY, "credit-int8:8080"),
    ],
)
@pytest.mark.parametrize("rollout", [pending(), prepared()], ids=["pending", "prepared"])
def test_traffic_waits_for_endpoints(rollout: Rollout, baseline: int, candidate: int, reason: Reason, who: str) -> None:
    decision = rollout.endpoints(baseline=baseline, candidate=candidate).decide()
    assert (decision.action, decision.progress.phase, decision.progress.reason) == (None, Phase.PENDING, reason)
    assert f"Service {who} has no ready endpoint" in decision.progress.message


def test_weights_that_are_there_before_the_first_step_are_taken_back_even_from_a_candidate_without_endpoints() -> None:
    there = prepared().route_says(weight=Weight(25), asked=Weight(25))
    assert there.endpoints(candidate=0).decide().action == Prepare(ATTEMPT.id)
    assert there.endpoints(baseline=0).decide().action is None
    alone = there.route_says(repointed=True, weight=ALL).decide()
    assert alone.action == Lower(ATTEMPT.id, NONE, Ruling.CONTINUE)


def test_the_first_step_waits_for_the_gateway_and_tells_after_two_minutes() -> None:
    waiting = prepared().route_says(accepted=False, acceptance="Gateway public has seen generation 2, it is at 3")
    decision = waiting.decide()
    assert (decision.progress.phase, decision.progress.reason) == (Phase.PENDING, Reason.ROUTE_NOT_ACCEPTED)
    assert "has seen generation 2" in decision.progress.message
    assert decision.facts == ()
    late = replace(waiting, progress=decision.progress).later(timedelta(minutes=2)).decide()
    assert late.progress.phase is Phase.HELD
    assert late.facts
    accepted = replace(prepared(), progress=late.progress).decide()
    assert (accepted.action, accepted.progress.hold_since) == (raised(5), None)


@pytest.mark.parametrize("metrics", [Metrics.UNREAD, Metrics.SILENT, Metrics.SOURCE_DOWN])
def test_a_blind_rollout_does_not_begin(metrics: Metrics) -> None:
    decision = prepared().with_metrics(metrics).decide()
    assert (decision.action, decision.progress.reason) == (None, Reason.BASELINE_SILENT)
    assert "the rollout would be blind" in decision.progress.message


def test_the_first_step_needs_no_data_of_a_candidate_that_has_no_traffic() -> None:
    decision = prepared().with_metrics(Metrics.WARMING).decide()
    progress = decision.progress
    assert decision.action == raised(5)
    assert (progress.phase, progress.reason, progress.step) == (Phase.PROGRESSING, Reason.STEP_STARTED, 0)
    assert progress.message == "step 1 of 4: the candidate gets 5 %"
    assert (progress.requested, progress.entered_at, progress.accepted_at) == (Weight(5), NOW, None)
    assert [(fact.key, fact.severity) for fact in decision.facts] == [("rollout1-1/0/StepStarted", Severity.INFO)]


def test_suspicion_from_before_keeps_the_first_step_back() -> None:
    decision = prepared().with_metrics(Metrics.SUSPICIOUS).decide()
    assert (decision.action, decision.progress.reason) == (None, Reason.SUSPICION)


def test_a_paused_spec_keeps_the_first_step_back() -> None:
    decision = prepared().planned(paused=True).decide()
    assert (decision.action, decision.progress.phase, decision.progress.reason) == (
        None,
        Phase.PAUSED,
        Reason.PAUSED_BY_SPEC,
    )


def test_a_ladder_may_begin_with_a_pause() -> None:
    steps = (Step(None, 20 * SECOND), *PLAN.steps)
    first = prepared().planned(steps=steps).decide()
    assert (first.action, first.progress.phase, first.progress.step) == (None, Phase.PAUSED, 0)
    story = prepared().planned(steps=steps).with_metrics(Metrics.WARMING)
    accepted = replace(story, progress=first.progress).later(INTERVAL).decide().progress
    waiting = replace(story, progress=accepted).later(2 * INTERVAL)
    assert waiting.decide().progress.reason is Reason.PAUSED_BY_STEP
    over = replace(story, progress=waiting.decide().progress).later(3 * INTERVAL)
    assert over.decide().action == raised(5)
    assert over.with_metrics(Metrics.SILENT).decide().progress.reason is Reason.BASELINE_SILENT


# Acceptance.


def test_evidence_counts_from_the_gateways_acceptance() -> None:
    waiting = started_at(25)
    decision = waiting.decide()
    assert (decision.progress.phase, decision.progress.reason) == (Phase.PROGRESSING, Reason.ROUTE_NOT_ACCEPTED)
    accepted = waiting.route_says(accepted=True).decide()
    assert (accepted.progress.accepted_at, accepted.progress.baked) == (NOW, timedelta(0))
    assert accepted.progress.message == "the gateway has accepted 25 %: evidence counts from now"


def test_a_promotion_waits_for_the_gateway_as_well() -> None:
    accepted = promoting().knows(accepted_at=None).decide()
    assert (accepted.action, accepted.progress.phase) == (None, Phase.PROMOTING)


def test_an_edit_that_the_gateway_has_not_seen_yet_stops_the_ladder_and_tells_nobody() -> None:
    decision = baked_at(25).route_says(accepted=False).decide()
    assert (decision.action, decision.facts, decision.progress.phase) == (None, (), Phase.PROGRESSING)


# Steps.


@pytest.mark.parametrize(("here", "above"), [(5, 25)])
def test_a_step_that_has_baked_and_has_its_samples_goes_on(here: int, above: int) -> None:
    assert baked_at(here).with_metrics(Metrics.INCONCLUSIVE).decide().action == raised(above)


def test_a_step_bakes_to_the_second() -> None:
    almost = baking_at(5, BAKE - 11 * SECOND).decide()
    assert (almost.action, almost.progress.reason) == (None, Reason.BAKING)
    assert almost.progress.message == "baking at 5 % for 59 of 60 s"
    assert baking_at(5, BAKE - 10 * SECOND).decide().action == raised(25)


def test_a_bake_grows_only_with_complete_data() -> None:
    for metrics in (Metrics.UNREAD, Metrics.NO_DATA, Metrics.SOURCE_DOWN):
        assert baking_at(5).with_metrics(metrics).decide().progress.baked == 30 * SECOND


@pytest.mark.parametrize(
    ("ticked_at", "grown"),
    [
        (NOW - INTERVAL, INTERVAL),
        (NOW - timedelta(hours=5), 3 * INTERVAL),
        (NOW + timedelta(hours=1), timedelta(0)),
        (None, timedelta(0)),
    ],
    ids=["in time", "after an outage", "the clock went back", "after a restart"],
)
def test_neither_an_outage_nor_a_clock_nor_a_restart_shortens_a_bake(ticked_at: object, grown: timedelta) -> None:
    baked = baking_at(5, timedelta(0)).knows(ticked_at=ticked_at).decide().progress.baked
    assert baked == grown


def test_a_bake_does_not_count_on_beyond_what_any_step_asks() -> None:
    assert baked_at(50).with_metrics(Metrics.INCONCLUSIVE).decide().progress.baked == BAKE


def test_a_step_waits_for_its_samples() -> None:
    decision = baked_at(5).with_metrics(Metrics.FEW).decide()
    assert (decision.action, decision.progress.reason) == (None, Reason.SAMPLING)
    assert decision.progress.message == "99 of 100 requests of each variant at 5 %"


def test_suspicion_holds_the_weight_and_names_the_suspects() -> None:
    decision = baked_at(5).with_metrics(Metrics.SUSPICIOUS, culprits=("latency",)).decide()
    assert (decision.action, decision.progress.phase, decision.progress.reason) == (
        None,
        Phase.HELD,
        Reason.SUSPICION,
    )
    assert decision.progress.message.endswith("half the way to its limit: latency says NonInferior")


def test_evidence_that_is_not_a_number_is_no_evidence() -> None:
    for rollout in (prepared(), baked_at(5), baked_at(50), promoting()):
        assert rollout.with_metrics(Metrics.NOT_A_NUMBER).decide().action is None


def test_the_clock_of_a_hold_goes_on_while_its_reason_stays_and_stops_with_it() -> None:
    held = baked_at(5).with_metrics(Metrics.SUSPICIOUS).decide().progress
    later = replace(baked_at(5), progress=held).later(INTERVAL)
    assert later.with_metrics(Metrics.SUSPICIOUS).decide().progress.hold_since == NOW
    assert later.decide().progress.hold_since is None
    other = later.knows(hold_reason=Reason.SOURCE_DOWN).with_metrics(Metrics.SUSPICIOUS).decide().progress
    assert (other.hold_reason, other.hold_since) == (Reason.SUSPICION, NOW + INTERVAL)


def test_a_paused_spec_holds_every_raise() -> None:
    for rollout in (baked_at(5), baked_at(50), promoting()):
        decision = rollout.planned(paused=True).decide()
        assert (decision.action, decision.progress.phase) == (None, Phase.PAUSED)


def test_a_pause_keeps_the_weight_for_its_time_and_what_was_accepted() -> None:
    entered = baked_at(25).decide()
    progress = entered.progress
    assert (entered.action, progress.phase, progress.step, progress.requested) == (None, Phase.PAUSED, 2, Weight(25))
    assert progress.accepted_at == baked_at(25).progress.accepted_at
    assert progress.message == "the ladder pauses for 60 s"
    assert pausing().knows(baked=30 * SECOND).decide().progress.message == "the ladder pauses at 25 % for 40 of 60 s"
    assert pausing().knows(baked=BAKE).decide().action == raised(50)


def test_a_pause_asks_for_the_samples_of_its_weight() -> None:
    decision = pausing().knows(baked=BAKE).with_metrics(Metrics.FEW).decide()
    assert (decision.action, decision.progress.reason) == (None, Reason.SAMPLING)


# Promotion.


@pytest.mark.parametrize("metrics", [Metrics.INCONCLUSIVE, Metrics.HALF_PROVEN])
def test_no_alarm_is_not_evidence(metrics: Metrics) -> None:
    decision = baked_at(50).with_metrics(metrics).decide()
    assert (decision.action, decision.progress.reason) == (None, Reason.PROVING)
    assert "latency says Inconclusive" in decision.progress.message


def test_a_promotion_that_waits_on_no_gate_is_not_proven() -> None:
    assert baked_at(50).with_metrics(Metrics.PROVEN, required=frozenset()).decide().progress.reason is Reason.PROVING


def test_evidence_that_does_not_come_by_the_deadline_holds_and_is_told() -> None:
    late = baked_at(50).knows(entered_at=NOW - timedelta(hours=1)).with_metrics(Metrics.INCONCLUSIVE)
    decision = late.decide()
    assert (decision.action, decision.progress.phase, decision.progress.reason) == (None, Phase.HELD, Reason.DEADLINE)
    assert "within 1 h" in decision.progress.message
    assert decision.facts[0].severity is Severity.WARNING
    assert replace(late, progress=decision.progress).with_metrics(Metrics.PROVEN).decide().action == raised(100)


def test_a_proven_candidate_gets_all_traffic() -> None:
    decision = baked_at(50).decide()
    progress = decision.progress
    assert decision.action == raised(100)
    assert (progress.phase, progress.reason, progress.step) == (Phase.PROMOTING, Reason.PROMOTION_STARTED, 4)
    assert (progress.ruling, progress.ruled_at, progress.baked) == (Ruling.PROMOTE, NOW, timedelta(0))
    assert progress.message == "all gates passed: errors says NonInferior; latency says NonInferior"


def test_a_ladder_up_to_100_is_promoted_without_another_write() -> None:
    steps = (*PLAN.steps, Step(ALL, BAKE))
    rollout = baked_at(50).planned(steps=steps).knows(step=4, requested=ALL).route_says(weight=ALL, asked=ALL)
    decision = rollout.decide()
    assert (decision.action, decision.progress.ruling) == (None, Ruling.PROMOTE)
    assert replace(rollout, progress=decision.progress).later(INTERVAL).decide().progress.reason is Reason.BAKING


def test_a_promotion_is_watched_at_100_before_the_route_is_re_pointed() -> None:
    baking = promoting(30 * SECOND).decide()
    assert (baking.action, baking.progress.phase, baking.progress.reason) == (None, Phase.PROMOTING, Reason.BAKING)
    assert promoting().decide().action == Repoint()


@pytest.mark.parametrize("metrics", [Metrics.NO_DATA, Metrics.SOURCE_DOWN, Metrics.SUSPICIOUS])
def test_a_promotion_does_not_end_without_good_data(metrics: Metrics) -> None:
    decision = promoting().with_metrics(metrics).decide()
    assert (decision.action, decision.progress.phase) == (None, Phase.HELD)


def test_a_promotion_without_a_candidates_first_data_stays_promoting() -> None:
    young = promoting(timedelta(0)).knows(accepted_at=NOW - INTERVAL).with_metrics(Metrics.WARMING)
    assert young.decide().progress.phase is Phase.PROMOTING


def test_a_re_pointed_route_is_the_end_and_is_told() -> None:
    decision = promoting().with_route(REPOINTED).decide()
    progress = decision.progress
    assert (decision.action, progress.phase, progress.reason) == (None, Phase.PROMOTED, Reason.ALL_GATES_PASSED)
    assert [past.outcome for past in progress.history] == [Outcome.PROMOTED]
    assert decision.facts[0].sentence == "promoted: credit-int8:8080 serves all traffic of credit"


def test_a_promotion_whose_attempt_was_lost_is_not_taken_back() -> None:
    decision = promoting().knows(attempt=None).with_route(REPOINTED).decide()
    assert (decision.action, decision.progress.phase, decision.progress.history) == (None, Phase.PROMOTED, ())


def test_a_route_that_is_re_pointed_under_our_marks_is_not_the_end_yet() -> None:
    left = replace(promoting().route, repointed=True, prepared=False)  # type: ignore[arg-type]  # a view
    assert promoting(timedelta(0)).with_route(left).decide().progress.phase is Phase.PROMOTING
    assert promoting().with_route(left).decide().action == Repoint()


def test_no_candidate_endpoint_in_a_pause_at_weight_0_holds() -> None:
    steps = (Step(None, BAKE), *PLAN.steps)
    waiting = prepared().planned(steps=steps).knows(step=0, accepted_at=NOW - BAKE, baked=BAKE)
    decision = waiting.endpoints(candidate=0).decide()
    assert (decision.action, decision.progress.reason) == (None, Reason.CANDIDATE_NOT_READY)
    assert waiting.endpoints(baseline=0).decide().progress.reason is Reason.BASELINE_NOT_READY


def test_there_is_an_answer_even_without_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decide, "RULES", ())
    decision = baked_at(5).decide()
    assert decision.progress == replace(baked_at(5).progress, ticked_at=NOW, baked=BAKE)
    assert (decision.action, decision.facts) == (None, ())


def test_a_route_that_is_asked_for_and_not_there_is_a_broken_order_of_rules() -> None:
    world = World(
        "rollout1-0000", deleting=False, route=MISSING, baseline_ready=1, candidate_ready=1, judgement=Judgement()
    )
    with pytest.raises(ValueError, match="does not exist"):
        _ = Case(PLAN, Progress(), world, NOW).view
