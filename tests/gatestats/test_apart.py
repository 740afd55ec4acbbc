"""Ticks whose variants were counted at different moments: none of them decides alone."""

import math

import pytest

from gatestats.histogram import HistogramDesign
from gatestats.odds_ratio import OddsRatioDesign
from gatestats.process import Process
from gatestats.rates import AbsoluteRateDesign, RelativeRateDesign
from gatestats.ticks import Tick, TwoArmCounts, TwoArmHistogram, Worse

EDGES = (1.0, 2.0, 4.0, 8.0, math.inf)
HEALTHY = TwoArmCounts(2, 450, 0, 50)


def outage(*, apart: bool) -> TwoArmCounts:
    """An outage of both that only the candidate's later scrape has seen."""
    return TwoArmCounts(2, 450, 30, 50, apart=apart)


def slow(*, apart: bool) -> TwoArmHistogram:
    return TwoArmHistogram(EDGES, (300, 100, 40, 10, 0), (0, 0, 0, 10, 40), apart=apart)


def after(design: Process, *ticks: Tick) -> float:
    state = design.start()
    for tick in ticks:
        state = design.update(state, tick)
    return design.log_e(state)


@pytest.mark.parametrize("design", [OddsRatioDesign(1.25), AbsoluteRateDesign(0.01), RelativeRateDesign(0.25)])
def test_one_such_tick_does_not_cross_a_threshold_and_three_do(design: Process) -> None:
    assert after(design, HEALTHY, outage(apart=False)) > math.log(100)
    assert after(design, HEALTHY, outage(apart=True)) < math.log(20)
    assert after(design, HEALTHY, *[outage(apart=True)] * 3) > math.log(100)


def test_latency_is_held_in_the_same_way() -> None:
    design = HistogramDesign.from_baseline(EDGES, (300, 100, 40, 10, 1))
    assert after(design, slow(apart=False)) > math.log(100)
    assert after(design, slow(apart=True)) < math.log(20)
    assert after(design, *[slow(apart=True)] * 3) > math.log(100)


def test_small_evidence_and_evidence_against_are_left_as_they_are() -> None:
    design = OddsRatioDesign(1.25)
    for counts in ((5, 450, 1, 50), (40, 450, 0, 50)):
        assert after(design, TwoArmCounts(*counts)) == after(design, TwoArmCounts(*counts, apart=True))


def test_the_variants_exchanged_are_as_far_apart() -> None:
    swapped = TwoArmCounts(1, 10, 2, 20, apart=True).swapped()
    assert swapped == TwoArmCounts(2, 20, 1, 10, apart=True)
    lower = OddsRatioDesign(1.25, Worse.LOWER)
    assert after(lower, outage(apart=True).swapped()) < math.log(20)
