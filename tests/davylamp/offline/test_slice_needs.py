"""What `plan` says of slices."""

from dataclasses import replace

import pytest

from davylamp.core.plan import AbsoluteMargin, Gate, RelativeMargin, SliceMeasure
from davylamp.offline.slice_needs import of_slices, pairs_without_loss
from tests.davylamp.core.rollouts import PLAN
from tests.davylamp.core.slice_readings import RULES, WOMEN, slice_gate, slice_plan

BETS = {0.05: 0.1, 0.1: 0.15, 0.2: 0.2, 0.35: 0.25, 0.55: 0.2, 0.75: 0.1}


def evidence(pairs: int, margin: float) -> float:
    """Return E of statistics.md 1.4 with loss and gain exchanged, on pairs that never differ."""
    return sum(weight * (1 + size * margin) ** pairs for size, weight in BETS.items())


@pytest.mark.parametrize("margin", [0.015, 0.05, 0.2])
@pytest.mark.parametrize("measure", [SliceMeasure.TRUE_POSITIVE_RATE, SliceMeasure.FALSE_POSITIVE_RATE])
def test_a_rate_takes_the_least_pairs_without_a_loss_that_reach_its_proof(measure: SliceMeasure, margin: float) -> None:
    needed = pairs_without_loss(slice_gate(measure, WOMEN, margin=AbsoluteMargin(margin)), 0.05)
    assert evidence(needed, margin) >= 20 > evidence(needed - 1, margin)


@pytest.mark.parametrize("measure", SliceMeasure)
def test_every_metric_needs_some_pairs_and_fewer_for_a_wider_margin(measure: SliceMeasure) -> None:
    narrow, wide = (pairs_without_loss(slice_gate(measure, WOMEN, margin=AbsoluteMargin(m)), 0.05) for m in (0.02, 0.2))
    assert 1 < wide < narrow < 100_000


@pytest.mark.parametrize(
    "gate",
    [
        replace(slice_gate(of=WOMEN), margin=RelativeMargin(0.05)),
        slice_gate(of=WOMEN, relative=0.05),
        slice_gate(of=WOMEN, relative=0.05, beyond_both=True),
    ],
)
def test_relative_margins_need_pairs_too(gate: Gate) -> None:
    assert 1 < pairs_without_loss(gate, 0.05) < 100_000


def test_a_margin_that_no_traffic_could_show_ends_at_the_most_pairs() -> None:
    assert pairs_without_loss(slice_gate(of=WOMEN, margin=AbsoluteMargin(1e-7)), 0.05) == 1 << 22


def test_each_metric_and_the_least_support_are_told() -> None:
    plan = slice_plan(slice_gate(of=WOMEN), slice_gate(), slice_gate(SliceMeasure.EQUALIZED_ODDS, WOMEN))
    rate, odds, small = of_slices(plan)
    pairs = pairs_without_loss(slice_gate(of=WOMEN), plan.false_promotion_rate)
    assert rate == (
        f"true positive rate of each of 1 slices: a candidate that loses nothing has shown it after {pairs:,} labelled "
        "pairs with a positive label of the slice"
    )
    assert odds.startswith("true positive and true negative rate against everybody else's of each of 1 slices")
    assert small == (
        "a slice with less than 50 pairs once 200 labels have come is too small to judge: it is named, and promotion "
        "says nothing about it"
    )
    holding = replace(plan, slices=replace(RULES, hold_when_small=True))
    assert list(of_slices(holding))[-1].endswith("promotion waits for it")
    assert not list(of_slices(PLAN))
    tiny = slice_plan(slice_gate(of=WOMEN, margin=AbsoluteMargin(1e-7)))
    assert f"after more than {1 << 22:,} " in next(iter(of_slices(tiny)))
