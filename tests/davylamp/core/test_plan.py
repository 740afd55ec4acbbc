from dataclasses import replace
from datetime import timedelta

import pytest

from davylamp.core.model import Weight
from davylamp.core.plan import Plan, Step
from tests.davylamp.core.readings import ERRORS, plan
from tests.davylamp.core.shadow_readings import DISAGREEMENT, SHADOW

#: 5 %, pause, 50 %.
LADDER = plan(ERRORS)
FIRST_A_PAUSE = replace(LADDER, steps=(Step(None, timedelta(minutes=1), 7), *LADDER.steps))
#: Shadow traffic alone, then beside the first weight, then none; and beside the last weight.
SHADOWED = replace(
    LADDER,
    steps=(
        Step(None, timedelta(minutes=1), 9, SHADOW),
        replace(LADDER.steps[0], shadow=SHADOW),
        LADDER.steps[1],
        replace(LADDER.steps[2], shadow=SHADOW),
    ),
    comparator="davylamp-shadow:8090",
)
#: Step, whether it mirrors, whether it does nothing else.
MIRRORED = [
    (-1, False, False),
    (0, True, True),
    (1, True, False),
    (2, False, False),
    (3, True, False),
    (4, True, False),
]


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


@pytest.mark.parametrize(("step", "mirrors", "alone"), MIRRORED)
def test_shadow_traffic_goes_on_after_the_last_step_as_there_and_before_the_first_there_is_none(
    step: int, mirrors: bool, alone: bool
) -> None:
    assert SHADOWED.shadow_at(step) == (SHADOW if mirrors else None)
    assert SHADOWED.shadow_alone(step) == (SHADOW if alone else None)
    assert (LADDER.shadow_at(step), LADDER.shadow_alone(step)) == (None, None)


def test_a_step_of_shadow_traffic_alone_holds_the_weight_before_it_as_a_pause_does() -> None:
    assert [SHADOWED.weight_at(step).percent for step in range(4)] == [0, 5, 5, 50]
    assert [SHADOWED.samples_at(step) for step in range(4)] == [0, 100, 100, 200]
    assert SHADOWED.rung_below(Weight(49)) == 1


def test_the_live_part_of_a_plan_mirrors_nothing_and_judges_live_traffic_alone() -> None:
    live = replace(SHADOWED, gates=(*SHADOWED.gates, DISAGREEMENT)).live
    assert live == LADDER
    assert live.live == live
    assert [gate.name for gate in replace(live, gates=(ERRORS, DISAGREEMENT)).shadow_gates] == ["disagreement"]


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
