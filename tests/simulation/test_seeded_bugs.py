"""A checker that never fails checks nothing: each bug that is put in is met by the invariant that it breaks."""

import pytest
from hypothesis.stateful import run_state_machine_as_test

from tests.simulation.bugs import BUGS as LIVE_BUGS
from tests.simulation.bugs import Bug
from tests.simulation.machine import World
from tests.simulation.running import SEEDED
from tests.simulation.shadow_bugs import SHADOW_BUGS
from tests.simulation.slice_bugs import SLICE_BUGS
from tests.simulation.watch import SENTENCES, Violation

BUGS = {**LIVE_BUGS, **SHADOW_BUGS, **SLICE_BUGS}


@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
def test_a_bug_is_met_by_the_invariant_that_it_breaks(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.patch(monkeypatch)
    with pytest.raises(Violation) as met:
        bug.story(World())
    assert met.value.invariant in bug.invariants, str(met.value)


@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
def test_the_same_story_without_the_bug_breaks_nothing(bug: Bug) -> None:
    bug.story(World())


@pytest.mark.parametrize(
    "bug", [bug for bug in BUGS.values() if bug.by_chance], ids=[n for n in BUGS if BUGS[n].by_chance]
)
def test_chance_alone_meets_a_bug(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.patch(monkeypatch)
    with pytest.raises(Violation):
        run_state_machine_as_test(World, settings=SEEDED)


def test_every_invariant_that_a_bug_names_is_known() -> None:
    assert {invariant for bug in BUGS.values() for invariant in bug.invariants} <= SENTENCES.keys()
