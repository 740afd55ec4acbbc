"""A checker that never fails checks nothing: each bug that is put in is met by the invariant that it breaks."""

import pytest
from hypothesis.stateful import run_state_machine_as_test

from tests.simulation.bugs import BUGS
from tests.simulation.machine import World
from tests.simulation.running import SEEDED
from tests.simulation.watch import SENTENCES, Violation


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_is_met_by_its_invariant(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    patch, invariants = BUGS[name]
    patch(monkeypatch)
    with pytest.raises(Violation) as caught:
        run_state_machine_as_test(World, settings=SEEDED)
    assert caught.value.invariant in invariants, str(caught.value)


def test_every_invariant_that_a_bug_names_is_known() -> None:
    assert {invariant for _, invariants in BUGS.values() for invariant in invariants} <= SENTENCES.keys()
