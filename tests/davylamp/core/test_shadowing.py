"""Shadow traffic: how a step of it begins, what it waits for, and how it ends."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from davylamp.core.model import ALL, NONE, Outcome, Phase, Reason, Ruling, Severity, Verdict, Weight
from davylamp.core.moves import Decision, Lower, Mirror, Raise, Repoint, Restore
from davylamp.core.plan import Shadow, Step
from davylamp.core.shadowing import ALTERNATIVE
from davylamp.core.world import Extent
from tests.davylamp.core.rollouts import (
    ATTEMPT,
    BAKE,
    CLEAN,
    INTERVAL,
    NOW,
    SECOND,
    Rollout,
    baked_at,
    prepared,
    promoting,
)
from tests.simulation.settings import Metrics

COMPARATOR = "davylamp-shadow:8090"
ON, OFF = Mirror(ATTEMPT.id, COMPARATOR), Mirror(ATTEMPT.id, "")
MINUTE = timedelta(minutes=1)
SHADOW = Shadow(sample=0.2, min_pairs=100, max_duration=10 * MINUTE)
#: Shadow traffic alone, then beside 5 %, then none, then alone again at 25 %, and at last beside 50 %.
STEPS = (
    Step(None, BAKE, shadow=SHADOW),
    Step(Weight(5), BAKE, 100, shadow=SHADOW),
    Step(Weight(25), BAKE, 100),
    Step(None, BAKE, shadow=SHADOW),
    Step(Weight(50), BAKE, 100, shadow=SHADOW),
)
#: The same at 5 % with a day to wait.
PATIENT = (STEPS[0], replace(STEPS[1], shadow=replace(SHADOW, max_duration=timedelta(days=1))), *STEPS[2:])
#: Gates that say nothing of shadow traffic yet, while those on live traffic are fine.
UNSEEN = {"verdicts": {"errors": Verdict.INCONCLUSIVE, "latency": Verdict.NO_DATA}, "pairs": 0, "mirrored": 0}


def before_the_first_step() -> Rollout:
    return prepared().planned(steps=STEPS, comparator=COMPARATOR)


def at_step(step: int, minutes: float = 5, baked: timedelta = BAKE) -> Rollout:
    """Return a rollout that has been at a step for so long, as the plan has it there."""
    plan = before_the_first_step().plan
    weight, since = plan.weight_at(step), NOW - minutes * MINUTE
    mirrored = plan.steps[step].shadow is not None
    return (
        before_the_first_step()
        .route_says(
            weight=weight,
            asked=weight,
            mirror=COMPARATOR if mirrored else "",
            mirroring=Extent.ALL if mirrored else Extent.NONE,
        )
        .knows(phase=Phase.PROGRESSING, step=step, requested=weight, entered_at=since, accepted_at=since, baked=baked)
    )


def in_the_shadow(minutes: float = 5, baked: timedelta = BAKE) -> Rollout:
    return at_step(0, minutes, baked)


def situation(decision: Decision) -> tuple[object, Phase, Reason]:
    return decision.action, decision.progress.phase, decision.progress.reason


def waiting(reason: Reason) -> tuple[object, Phase, Reason]:
    return None, Phase.PROGRESSING, reason


def held(reason: Reason) -> tuple[object, Phase, Reason]:
    return None, Phase.HELD, reason


# The beginning.


def test_a_shadow_step_begins_with_its_mirror_and_gives_no_weight() -> None:
    decision = before_the_first_step().decide()
    assert situation(decision) == (ON, Phase.PROGRESSING, Reason.SHADOWING)
    assert (decision.progress.step, decision.progress.requested) == (0, NONE)
    assert decision.progress.message == "step 1 of 5: in the shadow, both variants answer 20 % of the requests"
    assert [(fact.key, fact.severity) for fact in decision.facts] == [("rollout1-1/0/Shadowing", Severity.INFO)]


@pytest.mark.parametrize("metrics", [Metrics.UNREAD, Metrics.SILENT, Metrics.SOURCE_DOWN])
def test_a_shadow_step_needs_no_metrics_to_begin_and_the_first_weight_after_it_does(metrics: Metrics) -> None:
    assert before_the_first_step().with_metrics(metrics).decide().action == ON
    blind = in_the_shadow().with_metrics(Metrics.PROVEN, baseline_readable=False).decide()
    assert situation(blind) == (None, Phase.PENDING, Reason.BASELINE_SILENT)


@pytest.mark.parametrize(
    ("rollout", "reason"),
    [
        (before_the_first_step().planned(paused=True), Reason.PAUSED_BY_SPEC),
        (before_the_first_step().with_metrics(Metrics.SUSPICIOUS), Reason.SUSPICION),
        (before_the_first_step().route_says(accepted=False), Reason.ROUTE_NOT_ACCEPTED),
        (before_the_first_step().endpoints(candidate=0), Reason.CANDIDATE_NOT_READY),
    ],
)
def test_what_keeps_a_weight_back_keeps_the_shadow_back(rollout: Rollout, reason: Reason) -> None:
    decision = rollout.decide()
    assert (decision.action, decision.progress.reason, decision.progress.step) == (None, reason, -1)


def test_without_a_comparator_nothing_is_mirrored_and_people_are_told_what_to_install() -> None:
    begun = before_the_first_step().unheard().decide()
    assert situation(begun) == waiting(Reason.SHADOWING)
    next_look = replace(before_the_first_step().unheard(), progress=begun.progress).later(INTERVAL)
    decision = next_look.decide()
    assert situation(decision) == held(Reason.COMPARATOR_NOT_READY)
    assert decision.progress.message == (
        "the comparator, Service davylamp-shadow:8090, has no ready endpoint: install it in this namespace (the "
        "chart's value comparator.enabled), and the step begins by itself"
    )
    assert decision.facts[0].severity is Severity.WARNING
    there = replace(next_look, comparator_ready=1, progress=decision.progress).decide()
    assert situation(there) == (ON, Phase.PROGRESSING, Reason.SHADOWING)


def test_evidence_counts_once_the_gateway_has_accepted_the_mirror() -> None:
    young = in_the_shadow(baked=timedelta(0)).knows(accepted_at=None)
    assert young.route_says(accepted=False).decide().progress.reason is Reason.ROUTE_NOT_ACCEPTED
    accepted = young.decide()
    assert (accepted.progress.accepted_at, accepted.action) == (NOW, None)


# The mirror on the route.


def test_the_mirror_is_put_on_with_a_word_on_what_it_does() -> None:
    decision = in_the_shadow().route_says(mirror="", mirroring=Extent.NONE).decide()
    assert situation(decision) == (ON, Phase.PROGRESSING, Reason.SHADOWING)
    assert decision.progress.message == (
        "requests are mirrored to davylamp-shadow:8090: credit-int8:8080 and credit-fp32:8080 answer a share of them"
    )


def test_a_rule_without_the_mirror_gets_it_and_whoever_keeps_taking_it_off_is_let_and_told_of() -> None:
    rollout = in_the_shadow().route_says(mirroring=Extent.SOME, editor="argocd")
    for _ in range(3):
        decision = rollout.decide()
        assert situation(decision) == (ON, Phase.HELD, Reason.MIRROR_REMOVED)
        assert decision.progress.message == (
            "argocd left a rule of route credit without the mirror to davylamp-shadow:8090: put right"
        )
        soon = replace(rollout, progress=decision.progress).later(INTERVAL).decide()
        assert situation(soon) in {held(Reason.MIRROR_REMOVED), held(Reason.ROUTE_CONTESTED)}
        rollout = replace(rollout, progress=decision.progress).later(MINUTE)
    over = rollout.decide()
    assert situation(over) == held(Reason.ROUTE_CONTESTED)
    assert "for the 4th time in 10 minutes" in over.progress.message
    assert "ignoreDifferences on spec.rules" in over.progress.message


def test_a_port_of_the_comparator_that_another_rollout_has_is_waited_for_before_a_step_begins() -> None:
    wanting = replace(before_the_first_step(), comparator_user="ml/churn")
    decision = wanting.decide()
    assert (situation(decision), decision.progress.step) == (held(Reason.COMPARATOR_TAKEN), -1)
    assert decision.progress.message == (
        "davylamp-shadow:8090 is used by ModelRollout ml/churn, and a port belongs to one rollout: wait for its end, "
        "or set spec.shadow.comparator.port to another port of the comparator"
    )
    assert decision.facts[0].severity is Severity.WARNING
    free = replace(wanting, progress=decision.progress, comparator_user="").decide()
    assert (situation(free), free.progress.hold_since) == ((ON, Phase.PROGRESSING, Reason.SHADOWING), None)
    live = replace(at_step(2), comparator_user="ml/churn").decide()
    assert (situation(live), live.progress.step) == (held(Reason.COMPARATOR_TAKEN), 2)


def test_a_port_that_becomes_an_older_rollouts_is_given_up_at_once() -> None:
    taken = replace(in_the_shadow(), comparator_user="ml/churn").decide()
    assert situation(taken) == (OFF, Phase.HELD, Reason.COMPARATOR_TAKEN)
    given = replace(in_the_shadow(), progress=taken.progress, comparator_user="ml/churn")
    assert situation(given.route_says(mirror="", mirroring=Extent.NONE).decide()) == held(Reason.COMPARATOR_TAKEN)


def test_whose_port_it_is_matters_only_to_steps_that_mirror() -> None:
    ladder = (*STEPS[:3], Step(Weight(50), BAKE))
    plain = replace(at_step(2).planned(steps=ladder), comparator_user="ml/churn").decide()
    assert plain.action == Raise(ATTEMPT.id, Weight(50))


def test_a_mirror_to_elsewhere_is_led_to_the_comparator() -> None:
    assert in_the_shadow().route_says(mirror="davylamp-shadow:8091").decide().action == ON


@pytest.mark.parametrize(("editor", "who"), [("kubectl-edit", "kubectl-edit"), (None, "somebody else")])
@pytest.mark.parametrize("step", [0, 1])
def test_a_mirror_that_somebody_took_off_is_not_put_back_and_the_step_is_held(
    step: int, editor: str | None, who: str
) -> None:
    decision = at_step(step).route_says(mirroring=Extent.NONE, editor=editor).decide()
    assert situation(decision) == held(Reason.MIRROR_REMOVED)
    assert decision.progress.message == (
        f"{who} took the mirror to davylamp-shadow:8090 off route credit: put it back, or take the shadow step out of "
        "the ModelRollout"
    )
    assert decision.facts[0].severity is Severity.WARNING
    back = replace(at_step(step), progress=decision.progress).decide()
    assert (type(back.action), back.progress.hold_since) == (Raise, None)


def test_a_mirror_that_is_on_stays_while_the_comparator_is_away() -> None:
    assert in_the_shadow().unheard().with_metrics(Metrics.INCONCLUSIVE).decide().action is None


def test_a_mirror_is_taken_off_where_the_step_does_not_ask_for_it() -> None:
    left = at_step(2).route_says(mirror=COMPARATOR, mirroring=Extent.ALL).decide()
    assert left.action == OFF
    assert left.progress.message == "requests are no longer mirrored to davylamp-shadow:8090"
    assert at_step(2).unheard().route_says(mirror=COMPARATOR, mirroring=Extent.SOME).decide().action == OFF


def test_the_raise_to_a_step_without_shadow_takes_the_mirror_off_itself() -> None:
    assert at_step(0).decide().action == Raise(ATTEMPT.id, Weight(5))
    assert at_step(1).decide().action == Raise(ATTEMPT.id, Weight(25), unmirror=True)
    assert at_step(3).decide().action == Raise(ATTEMPT.id, Weight(50))
    assert baked_at(5).decide().action == Raise(ATTEMPT.id, Weight(25))


def test_a_promotion_mirrors_nothing_even_if_the_last_step_did() -> None:
    decision = at_step(4).decide()
    assert decision.action == Raise(ATTEMPT.id, ALL, unmirror=True)
    promoting = replace(at_step(4), progress=decision.progress).route_says(weight=ALL, asked=ALL).later(INTERVAL)
    assert promoting.decide().action == OFF
    assert promoting.route_says(mirror="", mirroring=Extent.NONE).decide().action is None


def test_a_mirror_that_somebody_puts_back_on_a_promoted_route_is_taken_off_and_the_promotion_stands() -> None:
    promoted = replace(CLEAN, repointed=True)
    rollout = promoting().with_route(replace(promoted, mirror=COMPARATOR, mirroring=Extent.ALL))
    decision = rollout.decide()
    assert situation(decision) == (Repoint(), Phase.PROMOTING, Reason.ALL_GATES_PASSED)
    ended = replace(rollout, progress=decision.progress).with_route(promoted).decide()
    assert (ended.action, ended.progress.phase) == (None, Phase.PROMOTED)


# What a step of shadow traffic alone waits for.


def test_a_shadow_step_with_its_bake_its_pairs_and_its_proof_is_passed() -> None:
    decision = in_the_shadow().decide()
    assert situation(decision) == (Raise(ATTEMPT.id, Weight(5)), Phase.PROGRESSING, Reason.STEP_STARTED)
    assert (decision.progress.step, decision.progress.accepted_at) == (1, None)


def test_a_shadow_step_bakes_to_the_second_although_the_candidate_has_no_traffic() -> None:
    almost = in_the_shadow(baked=BAKE - 11 * SECOND).decide()
    assert situation(almost) == waiting(Reason.BAKING)
    assert almost.progress.message == "baking at 0 % for 59 of 60 s"
    assert in_the_shadow(baked=BAKE - 10 * SECOND).decide().action == Raise(ATTEMPT.id, Weight(5))


def test_a_shadow_step_waits_for_its_pairs_whatever_is_proven() -> None:
    decision = in_the_shadow().with_metrics(Metrics.FEW_AND_PROVEN).decide()
    assert situation(decision) == waiting(Reason.SAMPLING)
    assert decision.progress.message == "99 of 100 shadow pairs"


def test_a_shadow_step_waits_for_the_proof_of_its_own_gates_alone() -> None:
    decision = in_the_shadow().with_metrics(Metrics.HALF_PROVEN).decide()
    assert situation(decision) == waiting(Reason.PROVING)
    assert decision.progress.message == (
        "proving on shadow traffic that the candidate is no worse: latency says Inconclusive"
    )
    live = {"errors": Verdict.INCONCLUSIVE, "latency": Verdict.NON_INFERIOR}
    passed = in_the_shadow().with_metrics(Metrics.PROVEN, verdicts=live).decide()
    assert passed.action == Raise(ATTEMPT.id, Weight(5))


def test_gates_that_nothing_waits_for_are_named_and_not_waited_for() -> None:
    optional = in_the_shadow().with_metrics(Metrics.HALF_PROVEN, required=frozenset({"errors"}))
    assert optional.decide().action == Raise(ATTEMPT.id, Weight(5))
    late = in_the_shadow(10).with_metrics(Metrics.FEW, required=frozenset({"errors"})).decide()
    assert late.progress.message.endswith("(99 of 100 shadow pairs): latency says Inconclusive")


def test_without_any_gate_on_shadow_traffic_nothing_is_shown() -> None:
    assert situation(in_the_shadow().with_metrics(Metrics.PROVEN, shadow=frozenset()).decide()) == held(Reason.NO_DATA)


def test_a_gate_that_was_not_read_is_named() -> None:
    late = in_the_shadow(10).with_metrics(Metrics.FEW, shadow=frozenset({"disagreement"}), verdicts={}).decide()
    assert late.progress.message.endswith("disagreement was not read")


@pytest.mark.parametrize("metrics", [Metrics.INCONCLUSIVE, Metrics.FEW, Metrics.WARMING])
def test_a_shadow_step_that_shows_nothing_in_its_time_is_held_and_told_and_goes_on_with_the_proof(
    metrics: Metrics,
) -> None:
    assert in_the_shadow(9.9).with_metrics(metrics, mirrored=1).decide().progress.reason is not Reason.DEADLINE
    decision = in_the_shadow(10).with_metrics(metrics, mirrored=1).decide()
    pairs = metrics.value.pairs
    assert situation(decision) == held(Reason.DEADLINE)
    assert decision.progress.message == (
        f"not shown on shadow traffic to be no worse within 10 min ({pairs} of 100 shadow pairs): "
        f"latency says {metrics.value.verdicts['latency']}"
    )
    assert decision.facts[0].severity is Severity.WARNING
    proven = replace(in_the_shadow(10), progress=decision.progress).later(INTERVAL).decide()
    assert (proven.action, proven.progress.hold_since) == (Raise(ATTEMPT.id, Weight(5)), None)


# Nothing arrives, or nothing can be read.


@pytest.mark.parametrize("step", [0, 1, 3, 4])
def test_a_mirror_from_which_nothing_comes_for_two_minutes_is_told_with_the_alternative(step: int) -> None:
    silent = {"mirrored": 0, "pairs": 0}
    early = at_step(step, 1.9).with_metrics(Metrics.INCONCLUSIVE, **silent).decide()
    assert situation(early) == waiting(Reason.SAMPLING)
    decision = at_step(step, 2).with_metrics(Metrics.INCONCLUSIVE, **silent).decide()
    assert situation(decision) == held(Reason.MIRROR_SILENT)
    assert "davylamp-shadow:8090 has had no mirrored request to replay for 2 min" in decision.progress.message
    assert decision.progress.message.endswith(ALTERNATIVE)
    assert decision.facts[0].severity is Severity.WARNING


def test_a_mirror_that_was_just_put_on_at_a_weight_of_long_ago_has_its_two_minutes() -> None:
    young = at_step(3).knows(entered_at=NOW - MINUTE).with_metrics(Metrics.INCONCLUSIVE, mirrored=0, pairs=0)
    assert situation(young.decide()) == waiting(Reason.SAMPLING)
    assert young.later(MINUTE).decide().progress.reason is Reason.MIRROR_SILENT


@pytest.mark.parametrize(
    ("verdict", "reason"), [(Verdict.NO_DATA, Reason.NO_DATA), (Verdict.SOURCE_DOWN, Reason.SOURCE_DOWN)]
)
def test_metrics_that_cannot_be_read_are_awaited_and_then_told_and_no_gateway_is_blamed(
    verdict: Verdict, reason: Reason
) -> None:
    unseen = {**UNSEEN, "verdicts": {"errors": Verdict.INCONCLUSIVE, "latency": verdict}}
    early = in_the_shadow(1.9).with_metrics(Metrics.NO_DATA, **unseen).decide()
    assert situation(early) == waiting(Reason.SAMPLING)
    assert early.progress.message == "the comparator's metrics are awaited: latency says NoData"
    late = in_the_shadow(2).with_metrics(Metrics.NO_DATA, **unseen).decide()
    assert situation(late) == held(reason)
    assert late.facts[0].severity is Severity.WARNING


def test_of_gates_without_data_one_that_was_not_read_is_named() -> None:
    unread = in_the_shadow(1).with_metrics(Metrics.NO_DATA, shadow=frozenset({"latency"}), messages={})
    assert unread.decide().progress.message == "the comparator's metrics are awaited: latency was not read"
    nothing = in_the_shadow(1).with_metrics(Metrics.UNREAD)
    assert nothing.decide().progress.message == "the comparator's metrics are awaited: no gate was read"


@pytest.mark.parametrize(
    "metrics", [Metrics.UNREAD, Metrics.WARMING, Metrics.SILENT, Metrics.NO_DATA, Metrics.SOURCE_DOWN]
)
def test_without_data_a_shadow_step_is_never_passed_and_ends_in_its_deadline(metrics: Metrics) -> None:
    decisions = [in_the_shadow(minutes).with_metrics(metrics).decide() for minutes in (1, 5, 10, 600)]
    assert all((decision.action, decision.progress.step) == (None, 0) for decision in decisions)
    assert [decision.progress.reason for decision in decisions[2:]] == [Reason.DEADLINE] * 2


# Beside live traffic.


def test_beside_live_traffic_a_step_waits_for_its_pairs_and_not_for_their_proof() -> None:
    few = at_step(1).with_metrics(Metrics.INCONCLUSIVE, pairs=99).decide()
    assert (situation(few), few.progress.message) == (waiting(Reason.SAMPLING), "99 of 100 shadow pairs")
    assert at_step(1).with_metrics(Metrics.INCONCLUSIVE).decide().action == Raise(ATTEMPT.id, Weight(25), unmirror=True)


def test_beside_live_traffic_a_step_that_has_no_pairs_in_its_time_is_held_too() -> None:
    early, late = (at_step(1, minutes).with_metrics(Metrics.INCONCLUSIVE, pairs=99) for minutes in (9.9, 10))
    assert situation(early.decide()) == waiting(Reason.SAMPLING)
    assert situation(late.decide()) == held(Reason.DEADLINE)


def test_the_last_step_that_mirrors_waits_for_the_proof_since_none_comes_after_it() -> None:
    ladder = (*STEPS[:2], Step(Weight(25), BAKE), Step(Weight(50), BAKE))
    last = at_step(1).planned(steps=ladder).with_metrics(Metrics.INCONCLUSIVE)
    assert situation(last.decide()) == waiting(Reason.PROVING)
    assert last.with_metrics(Metrics.PROVEN).decide().action == Raise(ATTEMPT.id, Weight(25), unmirror=True)


def test_a_mirror_that_falls_silent_after_some_pairs_is_told_after_ten_minutes() -> None:
    lull = at_step(1, 30).planned(steps=PATIENT)
    arrived = {"mirrored": 99, "pairs": 99}
    quiet = lull.with_metrics(Metrics.INCONCLUSIVE, **arrived, mirrored_at=NOW - 9.9 * MINUTE).decide()
    assert situation(quiet) == waiting(Reason.SAMPLING)
    for moment in (NOW - 10 * MINUTE, None):
        silent = lull.with_metrics(Metrics.INCONCLUSIVE, **arrived, mirrored_at=moment).decide()
        assert situation(silent) == held(Reason.MIRROR_SILENT)
        assert "no mirrored request to replay for 10 min" in silent.progress.message
    enough = lull.with_metrics(Metrics.INCONCLUSIVE, mirrored=99, pairs=100, mirrored_at=NOW - 20 * MINUTE)
    assert enough.decide().action == Raise(ATTEMPT.id, Weight(25), unmirror=True)


def test_beside_live_traffic_a_comparator_that_falls_silent_holds_the_weight_as_any_gate_does() -> None:
    decision = at_step(1).with_metrics(Metrics.NO_DATA).decide()
    assert situation(decision) == held(Reason.NO_DATA)
    assert decision.progress.requested == Weight(5)


def test_a_step_without_shadow_waits_for_no_pairs() -> None:
    decision = at_step(2).with_metrics(Metrics.INCONCLUSIVE, pairs=0, mirrored=0).decide()
    assert (decision.action, decision.progress.step) == (ON, 3)


def test_a_comparators_first_series_may_take_a_few_looks_after_its_step_began() -> None:
    young = at_step(3).knows(entered_at=NOW - 2.9 * INTERVAL).with_metrics(Metrics.NO_DATA, **UNSEEN)
    assert young.decide().progress.phase is Phase.PROGRESSING
    assert young.later(INTERVAL).decide().progress.reason is Reason.NO_DATA
    blind = young.with_metrics(Metrics.NO_DATA, verdicts={"errors": Verdict.NO_DATA, "latency": Verdict.NO_DATA})
    assert situation(blind.decide()) == held(Reason.NO_DATA)


def test_after_live_weight_a_step_of_shadow_alone_waits_for_its_proof_too() -> None:
    decision = at_step(3).with_metrics(Metrics.INCONCLUSIVE).decide()
    assert situation(decision) == waiting(Reason.PROVING)
    assert at_step(3, 10).with_metrics(Metrics.INCONCLUSIVE).decide().progress.reason is Reason.DEADLINE


# What comes before all of it.


def test_a_candidate_that_regresses_in_the_shadow_is_rolled_back_without_ever_having_had_weight() -> None:
    regressed = in_the_shadow().with_metrics(Metrics.REGRESSED)
    decision = regressed.decide()
    assert decision.action == Lower(ATTEMPT.id, NONE, Ruling.ROLLBACK)
    assert (decision.progress.phase, decision.progress.reason) == (Phase.ROLLING_BACK, Reason.REGRESSED)
    assert decision.progress.message == "errors says Regressed"
    lowered = replace(regressed, progress=decision.progress).route_says(ruling=Ruling.ROLLBACK)
    assert lowered.decide().action == Restore()
    # Its marks are stripped, its mirror is left: that is not clean yet.
    stripped = lowered.with_route(replace(CLEAN, mirror=COMPARATOR, mirroring=Extent.ALL))
    assert stripped.decide().action == Restore()
    over = lowered.with_route(CLEAN).decide()
    assert (over.action, over.progress.phase) == (None, Phase.ROLLED_BACK)
    assert [past.outcome for past in over.progress.history] == [Outcome.ROLLED_BACK]
    assert [entry.digest for entry in over.progress.quarantine] == ["int8"]


def test_a_regression_in_the_shadow_beside_live_traffic_takes_the_traffic_back() -> None:
    assert at_step(1).with_metrics(Metrics.REGRESSED).decide().action == Lower(ATTEMPT.id, NONE, Ruling.ROLLBACK)


@pytest.mark.parametrize(
    "also",
    [
        lambda rollout: rollout.unheard(),
        lambda rollout: rollout.planned(paused=True),
        lambda rollout: rollout.route_says(mirroring=Extent.NONE, editor="kubectl-edit"),
        lambda rollout: rollout.route_says(accepted=False),
        lambda rollout: rollout.endpoints(candidate=0),
        lambda rollout: rollout.refused("Gateway public cannot mirror requests"),
    ],
    ids=["no comparator", "paused", "mirror removed", "not accepted", "no candidate", "refused"],
)
def test_nothing_stands_between_a_regression_in_the_shadow_and_its_rollback(also: Callable[[Any], Rollout]) -> None:
    decision = also(in_the_shadow().with_metrics(Metrics.REGRESSED)).decide()
    assert decision.progress.ruling is Ruling.ROLLBACK


def test_suspicion_in_the_shadow_holds_and_gives_no_weight() -> None:
    decision = in_the_shadow().with_metrics(Metrics.SUSPICIOUS).decide()
    assert situation(decision) == held(Reason.SUSPICION)


def test_a_paused_spec_keeps_the_proven_candidate_in_the_shadow() -> None:
    decision = in_the_shadow().planned(paused=True).decide()
    assert situation(decision) == (None, Phase.PAUSED, Reason.PAUSED_BY_SPEC)


def test_a_gateway_that_refuses_the_mirror_is_told_in_its_own_words() -> None:
    decision = in_the_shadow().route_says(mirror="", mirroring=Extent.NONE).refused("Gateway a cannot mirror").decide()
    assert (decision.action, decision.progress.phase) == (None, Phase.HELD)
    assert "Gateway a cannot mirror" in decision.progress.message


def test_a_candidate_without_endpoints_holds_the_shadow_and_is_not_lost_since_it_serves_nobody() -> None:
    decision = in_the_shadow().endpoints(candidate=0).decide()
    assert situation(decision) == held(Reason.CANDIDATE_NOT_READY)


def test_a_deleted_rollout_takes_its_mirror_along() -> None:
    deleted = in_the_shadow().deleted()
    assert deleted.decide().action == Restore()
    assert deleted.with_route(replace(CLEAN, mirror=COMPARATOR, mirroring=Extent.ALL)).decide().action == Restore()
