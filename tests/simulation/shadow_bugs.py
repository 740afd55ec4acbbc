"""Bugs of shadow traffic that are put in by intent, to show that each is met by an invariant."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

import pytest

from davylamp.core import decide, ladder, shadowing
from davylamp.core.case import Case
from davylamp.core.moves import Decision, Mirror
from davylamp.core.world import Judgement
from davylamp.routers import httproute_endings
from tests.simulation.bugs import Bug, looks
from tests.simulation.machine import World
from tests.simulation.settings import PLANS, Metrics

_SHADOW: Final = next(number for number, plan in enumerate(PLANS) if plan.comparator)
Patch = Callable[[pytest.MonkeyPatch], None]


def _set(owner: object, name: str, value: object) -> Patch:
    return lambda monkeypatch: monkeypatch.setattr(owner, name, value)


def _mirror_to_nobody(case: Case) -> Decision | None:
    heard = replace(case, world=replace(case.world, comparator_ready=1))
    return shadowing.mirror(heard)


def _mirror_everywhere(case: Case) -> Decision | None:
    wanted = case.plan.comparator
    if not wanted or case.progress.step < 0 or case.view.mirror == wanted:
        return None
    return Decision(case.progress, Mirror(case.attempt, wanted))


def _rule(after: decide.Rule) -> Patch:
    rules = tuple(after if rule is shadowing.mirror else rule for rule in decide.RULES)
    return _set(decide, "RULES", rules)


def _waits_for_proof_alone(case: Case) -> Decision | None:
    judgement = replace(case.world.judgement, pairs=10**9)
    return shadowing.waiting(replace(case, world=replace(case.world, judgement=judgement)))


# How each is met.


def in_the_shadow(world: World) -> None:
    """Let requests be mirrored at the first step."""
    world.begin(looks=0)
    world.spec_changes(plan=_SHADOW, paused=False, looks=0)
    looks(world, Metrics.INCONCLUSIVE, times=8)


def _passed(metrics: Metrics) -> Callable[[World], None]:
    def story(world: World) -> None:
        in_the_shadow(world)
        looks(world, metrics, times=6)

    return story


def _rolled_back(world: World) -> None:
    in_the_shadow(world)
    looks(world, Metrics.REGRESSED, times=4)


def _nobody_listens(world: World) -> None:
    world.comparator_goes(looks=0)
    in_the_shadow(world)


def _to_the_last_step(world: World) -> None:
    in_the_shadow(world)
    looks(world, Metrics.PROVEN, times=20)


SHADOW_BUGS: Final[Mapping[str, Bug]] = MappingProxyType(
    {
        "a shadow step needs no proof": Bug(
            _set(Judgement, "shadow_proven", property(lambda _: True)),
            _passed(Metrics.HALF_PROVEN),
            frozenset({"S1"}),
            by_chance=True,
        ),
        "a shadow step needs no pairs": Bug(
            _set(ladder, "waiting", _waits_for_proof_alone), _passed(Metrics.FEW_AND_PROVEN), frozenset({"S1"})
        ),
        "a shadow step waits for nothing": Bug(
            _set(ladder, "waiting", lambda _: None), _passed(Metrics.INCONCLUSIVE), frozenset({"S1"}), by_chance=True
        ),
        "requests are mirrored to nobody": Bug(
            _rule(_mirror_to_nobody), _nobody_listens, frozenset({"S2"}), by_chance=True
        ),
        "requests are mirrored at every step": Bug(_rule(_mirror_everywhere), _to_the_last_step, frozenset({"S2"})),
        "a mirror is left when the route is given back": Bug(
            _set(httproute_endings, "without_mirror", lambda manifest, *_: manifest),
            _rolled_back,
            frozenset({"A4"}),
            by_chance=True,
        ),
    }
)
