"""The watch after promotion: how seldom it cries wolf, and that it does when there is one."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest

from gatestats.arrays import FloatArray
from gatestats.limits import LimitDesign
from gatestats.odds_ratio import OddsRatioDesign
from gatestats.paired import PairedDesign
from gatestats.pods import PodDesign
from gatestats.rates import AbsoluteRateDesign
from gatestats.state import State
from gatestats.ticks import OneArmCounts, PairedCounts, PodCounts, Tick, TwoArmCounts
from gatestats.two_margins import TwoMarginsDesign
from gatestats.watch import WatchDesign, WatchRule
from tests.gatestats.enumeration import binomial

LIMIT = LimitDesign(0.3)


def run(design: WatchDesign, sequence: list[Tick]) -> State:
    state = design.start()
    for tick in sequence:
        state = design.update(state, tick)
    return state


@pytest.mark.parametrize("rule", list(WatchRule))
@pytest.mark.parametrize("run_length", [2.0, 5.0, 30.0])
def test_false_alarms_are_as_rare_as_promised_under_drifting_nulls(rule: WatchRule, run_length: float) -> None:
    design = WatchDesign(LIMIT, run_length, rule)
    rates, size = [0.3, 0.1, 0.3, 0.3, 0.29, 0.3], 2
    mean_level = np.zeros(len(rates))
    alarmed, waited = 0.0, 0.0
    for path in itertools.product(range(size + 1), repeat=len(rates)):
        chance = math.prod(binomial(events, size, rate) for events, rate in zip(path, rates, strict=True))
        state = design.start()
        for place, events in enumerate(path):
            state = design.update(state, OneArmCounts(events, size))
            level = design.log_level(state)
            assert level is not None
            mean_level[place] += chance * math.exp(level)
        first = design.alarm(state)
        alarmed += chance * (first is not None)
        waited += chance * (first or len(rates))
    # the level less the number of ticks never grows on average, so that neither does it at the first alarm
    assert (mean_level <= np.arange(1, len(rates) + 1) + 1e-12).all()
    assert 0 < alarmed * run_length <= waited + 1e-12 or (alarmed == 0 and run_length > 20)


def recursion(factors: FloatArray, weights: FloatArray, rule: WatchRule) -> list[float]:
    wealth, levels = np.zeros(weights.size), []
    for row in factors:
        wealth = np.exp(row) * (wealth + 1 if rule is WatchRule.SHIRYAEV_ROBERTS else np.maximum(wealth, 1))
        levels.append(math.log(weights @ wealth))
    return levels


@pytest.mark.parametrize("rule", list(WatchRule))
def test_levels_are_those_of_the_recursion(rule: WatchRule) -> None:
    design = WatchDesign(LIMIT, rule=rule)
    # of the limit 0.3 only multiples of the odds stay below 1
    odds = 0.3 / 0.7 * np.array([1.5, 2.0, 3.0, 4.0, 6.0, 12.0])
    rates = odds / (1 + odds)
    ticks = [(1, 4), (3, 4), (0, 0), (4, 4), (0, 6)]
    factors = np.array([e * np.log(rates / 0.3) + (n - e) * np.log((1 - rates) / 0.7) for e, n in ticks])
    expected = recursion(factors, np.array([0.25, 0.25, 0.2, 0.12, 0.1, 0.08]), rule)
    state = design.start()
    assert design.log_level(state) is None
    for (events, total), level in zip(ticks, expected, strict=True):
        state = design.update(state, OneArmCounts(events, total))
        assert design.log_level(state) == pytest.approx(level, abs=1e-12)


WATCHES: list[tuple[WatchDesign, Tick, Tick, Tick]] = [
    (WatchDesign(LimitDesign(0.02)), OneArmCounts(9, 500), OneArmCounts(30, 500), OneArmCounts(0, 0)),
    (
        WatchDesign(OddsRatioDesign(1.25, planned_ticks=7)),
        TwoArmCounts(45, 4500, 5, 500),
        TwoArmCounts(45, 4500, 15, 500),
        TwoArmCounts(0, 0, 0, 0),
    ),
    (
        WatchDesign(AbsoluteRateDesign(0.01), rule=WatchRule.CUSUM),
        TwoArmCounts(45, 4500, 5, 500),
        TwoArmCounts(45, 4500, 25, 500),
        TwoArmCounts(0, 0, 0, 0),
    ),
    (WatchDesign(PairedDesign(0.01)), PairedCounts(2, 2, 100), PairedCounts(9, 1, 100), PairedCounts(0, 0, 0)),
    (WatchDesign(PodDesign()), PodCounts((0.0, 1.0), (0.5,)), PodCounts((0.0, 0.0, 0.0), (2.0,)), PodCounts((), ())),
]


@pytest.mark.parametrize(("design", "good", "bad", "empty"), WATCHES)
def test_a_late_regression_raises_an_alarm_that_stays(design: WatchDesign, good: Tick, bad: Tick, empty: Tick) -> None:
    healthy = run(design, [good] * 300)
    assert design.alarm(healthy) is None
    state, ticks = healthy, 0
    while design.alarm(state) is None and ticks < 80:
        state, ticks = design.update(state, bad), ticks + 1
    assert design.alarm(state) == 300 + ticks
    level = design.log_level(state)
    assert level is not None
    assert level >= math.log(259_200)
    for _ in range(5):
        state = design.update(state, good)
    assert design.alarm(state) == 300 + ticks


@pytest.mark.parametrize(("design", "good", "bad", "empty"), WATCHES)
def test_restore_gives_the_same_bits(design: WatchDesign, good: Tick, bad: Tick, empty: Tick) -> None:
    ticks = [good, empty, bad, good, empty]
    live = design.start()
    for tick in ticks:
        live = design.restore(design.update(live, tick).to_json())
    assert live == run(design, ticks)
    assert live.ticks == 5


@pytest.mark.parametrize("rule", list(WatchRule))
def test_time_without_requests_is_no_evidence_but_passes(rule: WatchRule) -> None:
    design = WatchDesign(LIMIT, rule=rule)
    state = run(design, [OneArmCounts(0, 0)] * 4)
    assert design.log_level(state) == pytest.approx(math.log(4 if rule is WatchRule.SHIRYAEV_ROBERTS else 1))
    assert state.informative == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: WatchDesign(LIMIT, 1.0), r"above 1, got 1\.0"),
        (lambda: WatchDesign(LIMIT, math.nan), "got nan"),
        (lambda: WatchDesign(TwoMarginsDesign(0.1, 0.5)), "got TwoMarginsDesign"),
        (lambda: WatchDesign(LIMIT).update(WatchDesign(LIMIT, 9.0).start(), OneArmCounts(0, 1)), "start again"),
        (lambda: WatchDesign(LIMIT).update(WatchDesign(LIMIT).start(), TwoArmCounts(0, 1, 0, 1)), "OneArmCounts"),
        (lambda: WatchDesign(LIMIT).restore(WatchDesign(LimitDesign(0.2)).start().to_json()), "start again"),
    ],
)
def test_refuses_what_makes_no_sense(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
