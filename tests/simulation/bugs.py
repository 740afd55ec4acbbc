"""Bugs that are put in by intent, to show that each is met by an invariant."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final

import pytest

from davylamp.core import attempts, decide, interference, ladder, safety
from davylamp.core.case import Case, stay
from davylamp.core.decide import Rule
from davylamp.core.model import Decision, Judgement, Lower, Phase, Raise, Reason, Release, Ruling, Verdict, Weight
from davylamp.routers import httproute_changes
from tests.simulation.cluster import Cluster, Stored
from tests.simulation.shell import Shell, Steps
from tests.simulation.watch import Look

Patch = Callable[[pytest.MonkeyPatch], None]


def _rule(before: Rule, after: Rule | None) -> Patch:
    """Replace a rule, or take it out."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        rules = [after if rule is before else rule for rule in decide.RULES]
        monkeypatch.setattr(decide, "RULES", tuple(rule for rule in rules if rule is not None))

    return patch


def _set(owner: object, name: str, value: object) -> Patch:
    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(owner, name, value)

    return patch


# The write protocol.


def _without_version(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Cluster.patch_route
    monkeypatch.setattr(
        Cluster, "patch_route", lambda self, seen, wanted, **_: honest(self, seen, wanted, versioned=False)
    )
    monkeypatch.setattr(httproute_changes, "refuse_older", lambda *_: None)


def _status_without_version(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Cluster.put_status
    monkeypatch.setattr(Cluster, "put_status", lambda self, seen, status: honest(self, self.rollout or seen, status))


def _route_before_status(shell: Shell, session: Any, seen: Look, decision: Decision) -> Steps:
    yield from shell.write_route(seen, decision.action)
    yield from shell.write_status(session, seen, decision.progress)
    session.progress = decision.progress


def _status_before_route(shell: Shell, session: Any, seen: Look, decision: Decision) -> Steps:
    yield from shell.write_status(session, seen, decision.progress)
    yield from shell.write_route(seen, decision.action)
    session.progress = decision.progress


def _no_lease(shell: Shell, session: Any, seen: Look, decision: Decision) -> Steps:
    yield from shell.write_status(session, seen, decision.progress)
    session.progress = decision.progress
    yield from shell.write_route(seen, decision.action)


def _no_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Cluster.put_status

    def put(self: Cluster, seen: Any, status: Stored) -> Any:
        known = 0 if self.rollout is None or self.rollout.status is None else self.rollout.status.epoch
        return honest(self, seen, replace(status, epoch=max(known, status.epoch)))

    monkeypatch.setattr(Cluster, "put_status", put)
    monkeypatch.setattr(httproute_changes, "refuse_older", lambda *_: None)


def _memory_first(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Shell._open

    def open_session(self: Shell, rollout: Any) -> Any:
        if self.session is None:
            return honest(self, rollout)
        self.session.known = rollout.status
        return self.session

    monkeypatch.setattr(Shell, "_open", open_session)


# The rules.


def _settle_upwards(case: Case, asked: Weight) -> Decision:
    requested = case.progress.requested
    action = Raise(case.attempt, requested) if requested > asked else Lower(case.attempt, requested, Ruling.CONTINUE)
    return stay(case, Phase.PROGRESSING, Reason.STEP_STARTED, "the route is put right", action=action)


def _settle_unfenced(case: Case, asked: Weight) -> Decision:
    decision = interference_settle(case, asked)
    return replace(decision, action=None) if asked < case.progress.requested else decision


interference_settle = interference._settle
_honest_clock = decide._clocked
_honest_enter = ladder.enter


def _by_the_wall(case: Case) -> Any:
    begun = case.progress.accepted_at
    return replace(_honest_clock(case), baked=case.since(begun) if begun else timedelta(0))


def _bake_carried_on(case: Case, step: int, weight: Weight) -> Any:
    return replace(_honest_enter(case, step, weight), baked=case.progress.baked)


def _only_status_counts(case: Case) -> Decision | None:
    return safety.finish_rollback(case) if case.progress.ruling is Ruling.ROLLBACK else None


def _rolled_back_at_once(case: Case) -> Decision | None:
    decision = safety.finish_rollback(case)
    if decision is None or case.progress.ruling is not Ruling.ROLLBACK:
        return decision
    over = safety.ended(case, safety.Outcome.ROLLED_BACK)
    return Decision(replace(over, phase=Phase.ROLLED_BACK), decision.action)


def _rollback_waits_for_a_pause(case: Case) -> Decision | None:
    return None if case.plan.paused else safety.roll_back(case)


def _rollback_needs_data(case: Case) -> Decision | None:
    return safety.roll_back(case) if case.observed else None


def _released_at_once(case: Case) -> Decision | None:
    return stay(case, case.progress.phase, Reason.DELETED, "gone", action=Release()) if case.world.deleting else None


def _superseded_at_once(case: Case) -> Decision | None:
    another = case.progress.attempt is not None and attempts._another(case)
    return attempts._new_attempt(case) if another else None


def _put_back_up(case: Case) -> Decision | None:
    asked = case.view.asked
    if case.progress.step >= 0 and asked is not None and case.view.weight < asked:
        return stay(case, Phase.PROGRESSING, Reason.ROUTE_LOWERED, "put back", action=Raise(case.attempt, asked))
    return interference.edited(case)


def _raises_adopted(case: Case) -> Decision | None:
    asked = case.view.asked
    return None if asked is not None and case.view.weight > asked else interference.edited(case)


def _two_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    def leap(case: Case) -> Decision:
        weights = [(i, s.weight) for i, s in enumerate(case.plan.steps) if s.weight and i > case.progress.step]
        return ladder._raise(case, *weights[-1], "far")

    monkeypatch.setattr(ladder, "_next", leap)


def _onto_no_baseline(case: Case) -> Decision | None:
    accusation = safety._accusation(case)
    return safety.rollback(case, *accusation) if accusation else None


def _lost_without_notice(case: Case) -> Decision | None:
    return safety.roll_back(replace(case, world=replace(case.world, candidate_ready=1)))


def _nan_is_good(self: Judgement) -> bool:
    return self.log_evidence >= self.log_threshold / 2


def _always(value: object) -> property:
    return property(lambda _: value)


#: By what is wrong: how it is put in, and the invariants of which at least one must meet it.
BUGS: Final[Mapping[str, tuple[Patch, frozenset[str]]]] = MappingProxyType(
    {
        "the route is written whatever version it has": (_without_version, frozenset({"A3", "I1", "I2", "I6", "I9"})),
        "the status is written whatever version it has": (_status_without_version, frozenset({"API", "A3", "I10"})),
        "a raise writes the route before status": (_set(Shell, "carry_raise", _route_before_status), frozenset({"A3", "I7"})),
        "a lowering writes status before the route": (_set(Shell, "carry_lowering", _status_before_route), frozenset({"A3"})),
        "a raise asks for no lease": (_set(Shell, "carry_raise", _no_lease), frozenset({"I7"})),
        "a former leader is not fenced": (_no_fence, frozenset({"I6"})),
        "memory counts more than what others stored": (_memory_first, frozenset({"API", "I2", "I10", "I17", "A3", "I9"})),
        "a disagreement is repaired upwards": (_set(interference, "_settle", _settle_upwards), frozenset({"I3", "I4", "I12", "I17", "A9", "I21", "I7"})),
        "a late raise of a former leader is not kept out": (_set(interference, "_settle", _settle_unfenced), frozenset({"A3"})),
        "a bake is measured by the wall clock": (_set(decide, "_clocked", _by_the_wall), frozenset({"I17"})),
        "a bake is carried on to the next step": (_set(ladder, "enter", _bake_carried_on), frozenset({"I17"})),
        "a rollback on the route is not read": (_rule(safety.finish_rollback, _only_status_counts), frozenset({"I2"})),
        "a rollback is called done before the route shows it": (_rule(safety.finish_rollback, _rolled_back_at_once), frozenset({"I24", "I18"})),
        "a paused rollout is not rolled back": (_rule(safety.roll_back, _rollback_waits_for_a_pause), frozenset({"I20", "I13"})),
        "a rollback waits for complete data": (_rule(safety.roll_back, _rollback_needs_data), frozenset({"I20", "I13"})),
        "a paused rollout is raised": (_set(ladder, "_paused", lambda _: None), frozenset({"I21"})),
        "a deleted object goes at once": (_rule(safety.let_go, _released_at_once), frozenset({"I14"})),
        "another spec goes on from the weight that is there": (_rule(attempts.supersede, _superseded_at_once), frozenset({"I10"})),
        "a weight that a person lowered is put back": (_rule(interference.edited, _put_back_up), frozenset({"I9"})),
        "a weight that a person raised is adopted": (_rule(interference.edited, _raises_adopted), frozenset({"I4", "I17"})),
        "foreign raises are fought without end": (_set(interference, "_TRUCE", timedelta(0)), frozenset({"I9"})),
        "two steps are taken at once": (_two_steps, frozenset({"I4"})),
        "traffic is shifted onto a baseline that is gone": (_rule(safety.roll_back, _onto_no_baseline), frozenset({"I12"})),
        "a candidate without endpoints is waited for": (_rule(safety.roll_back, _lost_without_notice), frozenset({"I13"})),
        "evidence that is not a number is good": (_set(Judgement, "suspicious", property(_nan_is_good)), frozenset({"I3"})),
        "missing data are good": (_set(Case, "observed", _always(value=True)), frozenset({"A9"})),
        "promotion needs no proof": (_set(Judgement, "proven", _always(value=True)), frozenset({"I18"})),
        "no verdict at all is success": (_set(Judgement, "verdict", _always(Verdict.NON_INFERIOR)), frozenset({"A9", "I18", "I3", "I20"})),
        "a quarantine is forgotten": (_set(attempts, "quarantined", lambda *_: None), frozenset({"Q"})),
        "a route that another rollout has is written": (_rule(interference.troubled, None), frozenset({"I22"})),
    }
)
