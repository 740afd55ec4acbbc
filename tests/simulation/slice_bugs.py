"""Bugs of slices that are put in by intent, to show that each is met by an invariant."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import pytest

from davylamp.core import decide, ladder, slicing
from davylamp.core.case import Case
from davylamp.core.moves import Decision
from tests.simulation.bugs import Bug, looks
from tests.simulation.machine import World
from tests.simulation.settings import PLANS, Metrics

_SLICED: Final = next(number for number, plan in enumerate(PLANS) if plan.slices)
Patch = Callable[[pytest.MonkeyPatch], None]


def _set(owner: object, name: str, value: object) -> Patch:
    return lambda monkeypatch: monkeypatch.setattr(owner, name, value)


def _without(gone: decide.Rule) -> Patch:
    return _set(decide, "RULES", tuple(rule for rule in decide.RULES if rule is not gone))


def _instead(rule: decide.Rule) -> Patch:
    return _set(decide, "RULES", tuple(rule if each is slicing.divert else each for each in decide.RULES))


def _hesitate(case: Case) -> Decision | None:
    return Decision(case.progress) if case.world.judgement.regressed_slices else None


def _back(world: World) -> None:
    """Let a slice go back at the first weight, and the rest be well from then on."""
    world.begin(looks=0)
    world.spec_changes(plan=_SLICED, paused=False, looks=0)
    looks(world, Metrics.INCONCLUSIVE, times=5)
    looks(world, Metrics.UNFAIR, times=1)
    looks(world, Metrics.INCONCLUSIVE, times=2)


def _replaced(world: World) -> None:
    _back(world)
    world.marks_stripped()
    looks(world, Metrics.INCONCLUSIVE, times=12)


def _proven(world: World) -> None:
    _back(world)
    looks(world, Metrics.PROVEN, times=30)


SLICE_BUGS: Final[Mapping[str, Bug]] = MappingProxyType(
    {
        "a slice that went back is forgotten with the marks": Bug(_without(slicing.keep), _replaced, frozenset({"S3"})),
        "a candidate is promoted over a slice that went back": Bug(
            _set(ladder, "unfinished", lambda _: None), _proven, frozenset({"S3"})
        ),
        "a slice that has regressed is looked at a little longer": Bug(_instead(_hesitate), _back, frozenset({"I20"})),
    }
)
