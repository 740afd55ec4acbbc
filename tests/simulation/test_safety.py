"""Whatever happens to a rollout, the invariants hold, and it comes to rest: four times 500 examples."""

import pytest
from hypothesis.stateful import run_state_machine_as_test

from tests.simulation.machine import World
from tests.simulation.running import THOROUGH


@pytest.mark.parametrize("quarter", range(4))
def test_whatever_happens_the_invariants_hold_and_the_rollout_comes_to_rest(quarter: int) -> None:
    assert quarter in range(4)  # the examples are shared by test processes
    run_state_machine_as_test(World, settings=THOROUGH)
