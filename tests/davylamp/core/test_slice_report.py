"""What a gate on a slice says."""

import pytest

from davylamp.core.counting import Span
from davylamp.core.plan import RelativeMargin, SliceMeasure
from davylamp.core.slice_gates import slice_designs, slice_ticks
from davylamp.core.slice_report import SliceEffect, slice_effect, slice_text
from tests.davylamp.core.readings import TICK, at
from tests.davylamp.core.slice_readings import EVERYBODY, WOMEN, pairs, slice_gate

LOOK = Span(at(TICK), at(2 * TICK), {})
FOUND = pairs(
    {EVERYBODY: (170, 10, 6, 200), WOMEN: (50, 8, 2, 60)},
    {EVERYBODY: (700, 20, 10, 800), WOMEN: (200, 12, 3, 240)},
    {EVERYBODY: (150, 30, 10, 1000), WOMEN: (40, 20, 2, 300)},
)


def effect(measure: SliceMeasure, stream: str = "", margin: object = None) -> SliceEffect:
    gate = slice_gate(measure, WOMEN) if margin is None else slice_gate(measure, WOMEN, margin=margin)  # type: ignore[arg-type]  # a margin
    name = gate.name + stream
    design = slice_designs(gate, None)[name]
    return slice_effect(gate, design, design.update(design.start(), slice_ticks(gate, FOUND, LOOK)[name]))


@pytest.mark.parametrize(
    ("measure", "stream", "difference", "count"),
    [
        (SliceMeasure.TRUE_POSITIVE_RATE, "", -6 / 60, 60),
        (SliceMeasure.FALSE_POSITIVE_RATE, "", 9 / 240, 240),
        (SliceMeasure.ACCURACY, "", -15 / 300, 300),
        (SliceMeasure.SELECTION_RATE, "", -18 / 300, 300),
        (SliceMeasure.PRECISION, "", 52 / (52 + 37) - 58 / (58 + 28), 89),
        (SliceMeasure.EQUALIZED_ODDS, ":positive", -(6 / 60 - (-2) / 140), 60),
        (SliceMeasure.DEMOGRAPHIC_PARITY, "", -(18 / 300 - 2 / 700), 300),
    ],
)
def test_a_difference_is_the_candidates_rate_less_the_baselines_on_the_same_pairs(
    measure: SliceMeasure, stream: str, difference: float, count: int
) -> None:
    found = effect(measure, stream)
    assert found.difference == pytest.approx(difference)
    assert found.pairs == count
    if found.low is not None and found.high is not None:
        assert found.low <= difference <= found.high


def test_a_relative_margin_shows_points_all_the_same() -> None:
    rise = effect(SliceMeasure.FALSE_POSITIVE_RATE, margin=RelativeMargin(0.2))
    assert rise.difference == pytest.approx(9 / 240)
    found = effect(SliceMeasure.TRUE_POSITIVE_RATE, margin=RelativeMargin(0.05))
    assert found.difference == pytest.approx(-6 / 60)
    assert found.low is not None
    assert found.high is not None
    assert found.low < -6 / 60 < found.high


def test_a_slice_without_pairs_has_no_effect() -> None:
    gate = slice_gate(of=WOMEN)
    design = slice_designs(gate, None)[gate.name]
    assert slice_effect(gate, design, design.start()) == SliceEffect(0)


@pytest.mark.parametrize(
    ("measure", "shown", "stream", "text"),
    [
        (
            SliceMeasure.TRUE_POSITIVE_RATE,
            SliceEffect(1204, -0.18, -0.265, -0.091),
            "",
            "true positive rate of sex=Female fell by 18.0 points, 95 % sequence 9.1 to 26.5, 1,204 pairs",
        ),
        (
            SliceMeasure.FALSE_POSITIVE_RATE,
            SliceEffect(50, 0.04, -0.01, 0.09),
            "",
            "false positive rate of sex=Female rose by 4.0 points, 95 % sequence -1.0 to 9.0, 50 pairs",
        ),
        (
            SliceMeasure.EQUALIZED_ODDS,
            SliceEffect(50, -0.04),
            ":negative",
            "true negative rate of sex=Female fell by 4.0 points, against everybody else's, 50 pairs",
        ),
        (SliceMeasure.SELECTION_RATE, SliceEffect(0), "", "selection rate of sex=Female: no pairs yet"),
        (SliceMeasure.PRECISION, SliceEffect(0), "", "precision of sex=Female: no labels yet"),
    ],
)
def test_the_numbers_of_a_slice_are_one_sentence(
    measure: SliceMeasure, shown: SliceEffect, stream: str, text: str
) -> None:
    assert slice_text(slice_gate(measure, WOMEN), shown, stream) == text
