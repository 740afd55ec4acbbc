from dataclasses import replace
from datetime import timedelta

import pytest

from davylamp.core.model import Weight
from davylamp.core.plan import Plan, Step
from tests.davylamp.core.readings import ERRORS, plan

#: 5 %, pause, 50 %.
LADDER = plan(ERRORS)
FIRST_A_PAUSE = replace(LADDER, steps=(Step(None, timedelta(minutes=1), 7), *LADDER.steps))


def test_the_weights_of_the_ladder_leave_pauses_out() -> None:
    assert LADDER.weights == (Weight(5), Weight(50))


@pytest.mark.parametrize(("step", "percent"), [(-1, 0), (0, 5), (1, 5), (2, 50), (3, 50), (99, 50)])
def test_a_pause_holds_the_weight_before_it_and_past_the_end_the_last_holds(step: int, percent: int) -> None:
    assert LADDER.weight_at(step) == Weight(percent)


@pytest.mark.parametrize(("step", "requests"), [(-1, 0), (0, 100), (1, 100), (2, 200), (3, 200)])
def test_a_pause_asks_for_the_requests_of_the_step_before_it(step: int, requests: int) -> None:
    assert LADDER.samples_at(step) == requests


def test_a_pause_before_every_weight_gives_no_traffic_and_asks_for_none() -> None:
    assert FIRST_A_PAUSE.weight_at(0) == Weight(0)
    assert FIRST_A_PAUSE.samples_at(0) == 0


@pytest.mark.parametrize(
    ("of", "percent", "step"),
    [
        (LADDER, 0, -1),
        (LADDER, 4, -1),
        (LADDER, 5, 0),
        (LADDER, 49, 0),
        (LADDER, 50, 2),
        (LADDER, 100, 2),
        (FIRST_A_PAUSE, 4, -1),
        (FIRST_A_PAUSE, 5, 1),
    ],
)
def test_the_rung_below_a_weight_is_never_above_it(of: Plan, percent: int, step: int) -> None:
    assert of.rung_below(Weight(percent)) == step
