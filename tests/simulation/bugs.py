"""Bugs that are put in by intent, to show that each is met by an invariant."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final

import pytest

from davylamp.core import attempts, decide, interference, ladder, safety
from davylamp.core.case import Case, ended, enter, stay
from davylamp.core.decide import Rule
from davylamp.core.model import Outcome, Phase, Reason, Ruling, Verdict, Weight
from davylamp.core.moves import Decision, Lower, Prepare, Raise, Release
from davylamp.core.world import Judgement
from davylamp.routers import httproute_changes
from tests.simulation.cluster import Cluster, Stored
from tests.simulation.machine import World
from tests.simulation.settings import Metrics
from tests.simulation.shell import Fate, Shell, Steps
from tests.simulation.watch import Look

Patch = Callable[[pytest.MonkeyPatch], None]
Story = Callable[[World], None]


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


def _by_the_wall(case: Case) -> Any:
    begun = case.progress.accepted_at
    return replace(_honest_clock(case), baked=case.since(begun) if begun else timedelta(0))


def _bake_carried_on(case: Case, step: int, weight: Weight) -> Any:
    return replace(enter(case, step, weight), baked=case.progress.baked)


def _only_status_counts(case: Case) -> Decision | None:
    return safety.finish_rollback(case) if case.progress.ruling is Ruling.ROLLBACK else None


def _rolled_back_at_once(case: Case) -> Decision | None:
    decision = safety.finish_rollback(case)
    if decision is None or case.progress.ruling is not Ruling.ROLLBACK:
        return decision
    over = ended(case, Outcome.ROLLED_BACK)
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


def _blind_to_rivals(case: Case) -> Decision | None:
    decision = interference.troubled(case)
    return None if decision is None else replace(decision, action=Prepare(case.attempt))


# How each is met: a story of what happens to one rollout.


def serving(world: World) -> None:
    """Let the candidate serve 5 % and be observed."""
    world.begin(looks=4)


def about_to_rise(world: World) -> None:
    """Let the next look raise the weight from 5 to 40 %."""
    world.begin(looks=6)
    world.time_passes(seconds=10)


def looks(world: World, metrics: Metrics, times: int = 1, who: int = 0) -> None:
    """Let an operator look, with the gateway following."""
    world.metrics_say(metrics=metrics)
    for _ in range(times):
        world.gateway_accepts()
        world.look(who=who, fates=[], stale=False)
        world.time_passes(seconds=10)


def _late_raise(world: World) -> None:
    about_to_rise(world)
    world.stop_between_two_calls(who=0, calls=1, stale=False)
    world.elect(who=1, told=False)
    looks(world, Metrics.REGRESSED, who=1)
    world.go_on(who=0, fates=[])


def _late_raise_after_none(world: World) -> None:
    about_to_rise(world)
    world.stop_between_two_calls(who=0, calls=1, stale=False)
    world.elect(who=1, told=False)
    looks(world, Metrics.PROVEN, who=1)
    world.go_on(who=0, fates=[])


def _spec_changes_in_a_look(world: World) -> None:
    about_to_rise(world)
    world.stop_between_two_calls(who=0, calls=0, stale=False)
    world.spec_changes(plan=1, paused=False, looks=0)
    world.go_on(who=0, fates=[])


def _deposed_in_a_look(world: World) -> None:
    about_to_rise(world)
    world.stop_between_two_calls(who=0, calls=0, stale=False)
    world.elect(who=1, told=True)
    world.go_on(who=0, fates=[])


def _two_leaders(world: World) -> None:
    about_to_rise(world)
    world.elect(who=1, told=False)
    looks(world, Metrics.SOURCE_DOWN, who=1)
    looks(world, Metrics.PROVEN, times=6)


def _rollback_by_status_alone(world: World) -> None:
    serving(world)
    world.elect(who=1, told=False)
    world.look(who=1, fates=[Fate.REFUSED], stale=False)
    world.metrics_say(metrics=Metrics.REGRESSED)
    world.look(who=0, fates=[Fate.REFUSED, Fate.ANSWERED], stale=False)
    looks(world, Metrics.PROVEN, who=1)


def _rollback_by_route_alone(world: World) -> None:
    serving(world)
    world.metrics_say(metrics=Metrics.REGRESSED)
    world.look(who=0, fates=[Fate.ANSWERED, Fate.REFUSED], stale=False)
    world.crash(who=0)
    world.metrics_say(metrics=Metrics.PROVEN)
    world.teardown()


def _crash_before_the_route(world: World) -> None:
    about_to_rise(world)
    world.stop_between_two_calls(who=0, calls=1, stale=False)
    world.crash(who=0)
    looks(world, Metrics.SOURCE_DOWN)


def _clock_jumps(world: World) -> None:
    serving(world)
    world.clock_jumps_while_down(seconds=3600, who=0)
    for _ in range(3):
        world.time_passes(seconds=1)
        world.look(who=0, fates=[], stale=False)


def _clock_set_back(world: World) -> None:
    serving(world)
    world.weights_edited(percent=17, times=1)
    looks(world, Metrics.PROVEN)
    world.clock_jumps_while_down(seconds=-3600, who=0)
    world.weights_edited(percent=17, times=1)
    world.teardown()


def _up(metrics: Metrics, times: int = 2) -> Story:
    def story(world: World) -> None:
        about_to_rise(world)
        looks(world, metrics, times)

    return story


def _while_serving(metrics: Metrics, **endpoints: int) -> Story:
    def story(world: World) -> None:
        serving(world)
        if endpoints:
            world.endpoints_change(**endpoints)
        looks(world, metrics, times=3)

    return story


def _paused(metrics: Metrics) -> Story:
    def story(world: World) -> None:
        about_to_rise(world)
        world.spec_changes(plan=0, paused=True, looks=0)
        looks(world, metrics, times=2)

    return story


def _edited(percent: int, times: int) -> Story:
    def story(world: World) -> None:
        serving(world)
        for _ in range(times):
            world.weights_edited(percent=percent, times=1)
            looks(world, Metrics.PROVEN)
        looks(world, Metrics.PROVEN, times=6)

    return story


def _edited_to_the_end(world: World) -> None:
    _edited(17, 1)(world)
    world.teardown()


def _deleted(world: World) -> None:
    serving(world)
    world.delete(plan=0, force=False)
    looks(world, Metrics.PROVEN)


def _another_spec(world: World) -> None:
    serving(world)
    world.spec_changes(plan=1, paused=False, looks=1)


def _tried_again(world: World) -> None:
    serving(world)
    looks(world, Metrics.REGRESSED, times=4)
    world.spec_changes(plan=1, paused=False, looks=1)


def _rival(world: World) -> None:
    world.rival(taken=True)
    looks(world, Metrics.PROVEN, times=3)


def _frequent_looks(world: World) -> None:
    serving(world)
    for _ in range(35):
        world.time_passes(seconds=1)
        world.look(who=0, fates=[], stale=False)


@dataclass(frozen=True, slots=True)
class Bug:
    """What is wrong, what happens, and which invariants may meet it; whether chance alone meets it soon."""

    patch: Patch
    story: Story
    invariants: frozenset[str]
    by_chance: bool = False


def _bug(patch: Patch, story: Story, *invariants: str, by_chance: bool = False) -> Bug:
    return Bug(patch, story, frozenset(invariants), by_chance)


BUGS: Final[Mapping[str, Bug]] = MappingProxyType(
    {
        "the route is written whatever version it has": _bug(_without_version, _late_raise, "I6", "I2"),
        "the status is written whatever version it has": _bug(_status_without_version, _spec_changes_in_a_look, "API"),
        "a raise writes the route before status": _bug(
            _set(Shell, "carry_raise", _route_before_status), serving, "A3", by_chance=True
        ),
        "a lowering writes status before the route": _bug(
            _set(Shell, "carry_lowering", _status_before_route), _while_serving(Metrics.REGRESSED), "A3", by_chance=True
        ),
        "a raise asks for no lease": _bug(_set(Shell, "carry_raise", _no_lease), _deposed_in_a_look, "I7"),
        "a former leader is not fenced": _bug(_no_fence, _two_leaders, "I6"),
        "memory counts more than what others stored": _bug(_memory_first, _rollback_by_status_alone, "I2", "API"),
        "a disagreement is repaired upwards": _bug(
            _set(interference, "_settle", _settle_upwards), _crash_before_the_route, "A9"
        ),
        "a late raise of a former leader is not kept out": _bug(
            _set(interference, "_settle", _settle_unfenced), _late_raise_after_none, "I6", "A3"
        ),
        "a bake is measured by the wall clock": _bug(_set(decide, "_clocked", _by_the_wall), _clock_jumps, "I17"),
        "what is still to come is waited for": _bug(
            _set(decide, "_not_ahead", lambda progress, _: progress), _clock_set_back, "L1"
        ),
        "a bake is carried on to the next step": _bug(
            _set(ladder, "enter", _bake_carried_on), _frequent_looks, "I17", by_chance=True
        ),
        "a rollback on the route is not read": _bug(
            _rule(safety.finish_rollback, _only_status_counts), _rollback_by_route_alone, "L1", "I2"
        ),
        "a rollback is called done before the route shows it": _bug(
            _rule(safety.finish_rollback, _rolled_back_at_once), _while_serving(Metrics.REGRESSED), "I24", "I18"
        ),
        "a paused rollout is not rolled back": _bug(
            _rule(safety.roll_back, _rollback_waits_for_a_pause), _paused(Metrics.REGRESSED), "I20"
        ),
        "a rollback waits for complete data": _bug(
            _rule(safety.roll_back, _rollback_needs_data), _while_serving(Metrics.REGRESSED_UNSEEN), "I20", "I13"
        ),
        "a paused rollout is raised": _bug(_set(ladder, "_paused", lambda _: None), _paused(Metrics.PROVEN), "I21"),
        "a deleted object goes at once": _bug(_rule(safety.let_go, _released_at_once), _deleted, "I14", by_chance=True),
        "another spec goes on from the weight that is there": _bug(
            _rule(attempts.supersede, _superseded_at_once), _another_spec, "I10", by_chance=True
        ),
        "a weight that a person lowered is put back": _bug(
            _rule(interference.edited, _put_back_up), _edited(3, 1), "I9"
        ),
        "a weight that a person raised is adopted": _bug(
            _rule(interference.edited, _raises_adopted), _edited_to_the_end, "L1"
        ),
        "foreign raises are fought without end": _bug(_set(interference, "_TRUCE", timedelta(0)), _edited(80, 2), "I9"),
        "two steps are taken at once": _bug(_two_steps, serving, "I4", by_chance=True),
        "traffic is shifted onto a baseline that is gone": _bug(
            _rule(safety.roll_back, _onto_no_baseline),
            _while_serving(Metrics.REGRESSED, baseline=0, candidate=1),
            "I12",
        ),
        "a candidate without endpoints is waited for": _bug(
            _rule(safety.roll_back, _lost_without_notice),
            _while_serving(Metrics.PROVEN, baseline=1, candidate=0),
            "I13",
            by_chance=True,
        ),
        "evidence that is not a number is good": _bug(
            _set(Judgement, "suspicious", property(_nan_is_good)), _up(Metrics.NOT_A_NUMBER), "I3"
        ),
        "missing data are good": _bug(_set(Case, "observed", _always(value=True)), _up(Metrics.NO_DATA), "A9"),
        "promotion needs no proof": _bug(
            _set(Judgement, "proven", _always(value=True)), _up(Metrics.INCONCLUSIVE, times=6), "I18"
        ),
        "no verdict is bad": _bug(
            _set(Judgement, "verdict", _always(Verdict.NON_INFERIOR)), _up(Metrics.NO_DATA), "A9"
        ),
        "a quarantine is forgotten": _bug(_set(attempts, "quarantined", lambda *_: None), _tried_again, "Q"),
        "a route that another rollout has is written": _bug(
            _rule(interference.troubled, _blind_to_rivals), _rival, "I22", by_chance=True
        ),
    }
)
