import dataclasses
import itertools
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatestats.arrays import as_array
from gatestats.late_change import FIRST_STAKE, first_wealth, log_evidence, refuse_bad_plan, stake, step_wealth
from gatestats.odds_ratio import OddsRatioDesign
from gatestats.process import restore
from gatestats.state import State, from_json, mark, must_fit
from gatestats.ticks import (
    OneArmCounts,
    PairedCounts,
    PodCounts,
    TwoArmCounts,
    TwoArmHistogram,
)

FINITE = st.floats(allow_nan=False, allow_infinity=False)
EMPTY = State("test:1", 0, 0, FIRST_STAKE, first_wealth(2), (), (), ())


@given(st.lists(FINITE, max_size=5), st.lists(st.integers(0, 2**60), max_size=3), st.floats(0, 1))
def test_json_restores_every_bit(values: list[float], totals: list[int], spent: float) -> None:
    part = State("x", 3, 2, spent, tuple(values), (), tuple(totals), ())
    state = State("y", 9, 9, spent, (), tuple(values), (), (0.1 + 0.2,), (part,))
    assert from_json(state.to_json()) == state
    assert [math.copysign(1, value) for value in from_json(state.to_json()).reverse] == [
        math.copysign(1, value) for value in state.reverse
    ]


DAMAGE: list[tuple[str, Any, str]] = [
    ("ticks", -1, "state.ticks"),
    ("ticks", True, "state.ticks"),
    ("ticks", 1.0, "state.ticks"),
    ("informative", 7, r"0\.\.0, got 7"),
    ("spent", 1.5, "state.spent"),
    ("spent", "0.6", "finite float"),
    ("wealth", [None], "finite float"),
    ("wealth", [1], "finite float"),
    ("wealth", "abc", "must be a list, got str"),
    ("wealth", [0.0], "state.wealth must hold 6"),
    ("totals", [0.5] * 5, "state.totals"),
    ("totals", [0], "state.totals must hold 5"),
    ("sums", {}, "must be a list, got dict"),
    ("parts", [1], "got int"),
    ("parts", [{}], "fields"),
    ("design", 4, "must be a text"),
    ("design", "odds-ratio:000", "start again or replay"),
    ("extra", 0, "fields"),
]


@pytest.mark.parametrize(("field", "value", "message"), DAMAGE)
def test_refuses_a_damaged_state_and_says_why(field: str, value: object, message: str) -> None:
    design = OddsRatioDesign()
    data = json.loads(design.start().to_json())
    data[field] = value
    with pytest.raises(ValueError, match=message):
        restore(design, json.dumps(data))


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000, '{"design": NaN}', "Infinity"])
def test_refuses_what_is_no_state(text: str) -> None:
    with pytest.raises(ValueError, match="state"):
        from_json(text)


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    with pytest.raises(ValueError, match="state"):
        from_json(text)


def test_parts_must_fit_as_well() -> None:
    whole = dataclasses.replace(EMPTY, parts=(EMPTY,))
    must_fit(whole, whole)
    with pytest.raises(ValueError, match="belongs to test:2"):
        must_fit(dataclasses.replace(whole, parts=(dataclasses.replace(EMPTY, design="test:2"),)), whole)


def test_a_mark_tells_designs_apart() -> None:
    marks = {mark("odds-ratio", OddsRatioDesign(margin=margin, mde=mde)) for margin in (1.0, 1.25) for mde in (None, 2)}
    assert len(marks) == 4


def test_the_open_schedule_never_puts_up_more_than_everything() -> None:
    # the sum over n > m of 1 / (n ln(n)^2) is at most 1 / ln(m): the tail beyond the part that is added up here
    last = 200_000
    spent = sum(stake(tick, None) for tick in range(last + 1))
    tail = 0.4 * 0.935 / math.log(last + 2)
    assert spent < 1 - 0.02
    assert spent + tail <= 1.0
    assert spent + tail > 0.999


@pytest.mark.parametrize("planned", [1, 7, 360])
def test_a_planned_schedule_puts_up_most_by_its_end_and_something_for_ever(planned: int) -> None:
    spent = sum(stake(tick, planned) for tick in range(planned + 1))
    beyond = sum(stake(tick, planned) for tick in range(planned + 1, 200_000)) + 0.2 * 0.935 / math.log(200_001)
    assert 0.8 < spent < spent + beyond <= 1.0
    assert stake(planned + 1, planned) == 0.5 * stake(planned + 1, None) > 0
    assert all(stake(tick, planned) >= 0.2 / planned for tick in range(1, planned + 1))
    state = EMPTY
    for _ in range(planned + 3):
        wealth, spent = step_wealth(state, as_array([0.0, 0.0]), planned)
        state = dataclasses.replace(state, ticks=state.ticks + 1, wealth=wealth, spent=spent)
    assert state.spent <= 1.0
    assert log_evidence(state, as_array([0.5, 0.5])) == pytest.approx(0.0, abs=1e-12)
    with pytest.raises(ValueError, match="at least 0"):
        refuse_bad_plan(-1)


def test_a_schedule_without_late_stakes_puts_up_the_first_alone() -> None:
    assert [stake(tick, 0) for tick in range(4)] == [0.6, 0.0, 0.0, 0.0]


def test_late_stakes_are_the_sum_over_start_times() -> None:
    factors = np.array([[0.3, -0.1], [0.7, 0.2], [-0.4, 1.1]])
    state = EMPTY
    for row in factors:
        wealth, spent = step_wealth(state, row, None)
        state = dataclasses.replace(state, ticks=state.ticks + 1, wealth=wealth, spent=spent)
    weights = np.array([0.25, 0.75])
    direct = 1 - sum(stake(tick, None) for tick in range(3))
    for tick, bet in itertools.product(range(3), range(2)):
        direct += weights[bet] * stake(tick, None) * math.exp(factors[tick:, bet].sum())
    assert log_evidence(state, weights) == pytest.approx(math.log(direct), abs=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: OneArmCounts(3, 2), r"events must be a whole number in 0\.\.2, got 3"),
        (lambda: OneArmCounts(-1, 2), "got -1"),
        (lambda: OneArmCounts(0.5, 2), r"got 0\.5"),  # type: ignore[arg-type]
        (lambda: OneArmCounts(True, 2), "got True"),
        (lambda: TwoArmCounts(0, -1, 0, 0), "baseline_total"),
        (lambda: TwoArmCounts(0, 1, 2, 1), "candidate_events"),
        (lambda: TwoArmHistogram((1.0,), (1,), (1,)), "at least 2 buckets, got 1"),
        (lambda: TwoArmHistogram((1.0, 1.0), (1, 1), (1, 1)), "increase strictly"),
        (lambda: TwoArmHistogram((math.nan, 1.0), (1, 1), (1, 1)), "increase strictly"),
        (lambda: TwoArmHistogram((1.0, math.inf), (1,), (1, 1)), "baseline must have one count for each of 2"),
        (lambda: TwoArmHistogram((1.0, math.inf), (1, 1), (1, -1)), r"candidate\[1\]"),
        (lambda: PodCounts((1.0, math.nan), (1.0,)), "got nan"),
        (lambda: PodCounts((1.0,), (-1.0,)), r"got -1\.0"),
        (lambda: PairedCounts(2, 2, 3), "better"),
    ],
)
def test_refuses_ticks_that_cannot_be(call: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()  # type: ignore[operator]
