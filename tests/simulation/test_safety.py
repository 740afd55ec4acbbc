"""Whatever happens to a rollout, the invariants hold, and it comes to rest: four times 500 examples.

`make test` takes the same examples each time, so that what fails is what was changed; `make test-safety` takes others
each time (EXAMPLES=500 a quarter), to find what nobody has thought of.
"""

import os

import pytest
from hypothesis import seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.simulation.machine import World
from tests.simulation.running import THOROUGH


@pytest.mark.parametrize("quarter", range(4))
def test_whatever_happens_the_invariants_hold_and_the_rollout_comes_to_rest(quarter: int) -> None:
    class Quarter(World):
        """Its seed is its own."""

        begun = 0

        def __init__(self) -> None:
            Quarter.begun += 1
            super().__init__()

    examples = os.environ.get("EXAMPLES")
    thorough = settings(THOROUGH, max_examples=int(examples)) if examples else THOROUGH
    run_state_machine_as_test(Quarter if examples else seed(quarter)(Quarter), settings=thorough)
    assert Quarter.begun >= thorough.max_examples
