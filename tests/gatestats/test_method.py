"""Bursts on few pods: tempering, and which method a stream may use."""

import itertools
import math
import re
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatestats.method import Method, cautious_phi, choose_method
from gatestats.odds_ratio import OddsRatioDesign
from gatestats.pods import Dispersion, dispersion
from gatestats.process import Process, restore
from gatestats.state import State
from gatestats.tempered import TemperedDesign
from gatestats.ticks import OneArmCounts, Tick, TwoArmCounts, Worse
from tests.gatestats.enumeration import noncentral_law, splits


def run(design: TemperedDesign | OddsRatioDesign, sequence: list[Tick]) -> State:
    state = design.start()
    for tick in sequence:
        state = design.update(state, tick)
    return state


@pytest.mark.parametrize("phi", [1.0, 1.7, 5.0])
@pytest.mark.parametrize("worse", list(Worse))
@pytest.mark.parametrize("margin", [0.5, 1.0, 1.5])
def test_independent_requests_expect_at_most_one_under_drifting_nulls(phi: float, worse: Worse, margin: float) -> None:
    design = TemperedDesign(phi, margin, worse)
    # (baseline, candidate, pooled) and the true odds ratio as a part of the margin
    ladder = [(5, 1, 2, 1.0), (3, 3, 3, 0.5), (2, 5, 4, 1.0)]
    outcomes = [splits(*rung[:3]) for rung in ladder]
    turn = 1 if worse is Worse.HIGHER else -1
    expected = [0.0, 0.0]
    for index, sign in enumerate((1, -1)):
        laws = [
            noncentral_law(split, (margin * rung[3] ** sign) ** turn)
            for split, rung in zip(outcomes, ladder, strict=True)
        ]
        for path in itertools.product(*(range(len(split)) for split in outcomes)):
            state = run(design, [split[place] for split, place in zip(outcomes, path, strict=True)])
            chance = math.prod(float(law[place]) for law, place in zip(laws, path, strict=True))
            evidence = design.log_e_non_inferior(state) if index else design.log_e(state)
            expected[index] += chance * math.exp(evidence)
    assert max(expected) <= 1 + 1e-12


def burst(random: np.random.Generator, requests: int, rate: float, size: int) -> int:
    return min(requests, size * int(random.poisson(requests * rate / size)))


def test_tempering_holds_false_alarms_where_the_plain_test_does_not() -> None:
    random = np.random.default_rng(2)
    alarms = {"plain": 0, "tempered": 0}
    for _ in range(60):
        pods = [[OneArmCounts(burst(random, 200, 0.01, 5), 200) for _ in range(4)] for _ in range(60)]
        seen = dispersion(pods)
        assert seen is not None
        designs: dict[str, Process] = {"plain": OddsRatioDesign(), "tempered": TemperedDesign(cautious_phi(seen))}
        states = {name: design.start() for name, design in designs.items()}
        crossed = dict.fromkeys(designs, False)
        for _ in range(60):
            tick = TwoArmCounts(burst(random, 800, 0.01, 5), 800, burst(random, 200, 0.01, 5), 200)
            for name, design in designs.items():
                states[name] = design.update(states[name], tick)
                crossed[name] |= design.log_e(states[name]) >= math.log(100)
        for name in alarms:
            alarms[name] += crossed[name]
    assert alarms["plain"] >= 8
    assert alarms["tempered"] <= 3


def test_a_phi_of_one_is_the_plain_promotion_test_and_more_takes_more_ticks() -> None:
    tick = TwoArmCounts(45, 4500, 5, 500)
    plain = OddsRatioDesign(1.25)
    evidence = plain.log_e_non_inferior(run(plain, [tick] * 60))
    for phi in (1.0, 3.0):
        design = TemperedDesign(phi, 1.25)
        assert design.log_e_non_inferior(run(design, [tick] * 60)) == pytest.approx(evidence / phi)
    bad = TwoArmCounts(45, 4500, 12, 500)
    slow = TemperedDesign(3.0, 1.25)
    assert slow.log_e(run(slow, [bad] * 8)) < math.log(100) < slow.log_e(run(slow, [bad] * 40))


def test_intervals_are_wider_and_open_where_doubles_end() -> None:
    ticks: list[Tick] = [TwoArmCounts(100, 1000, 110, 1000)] * 20
    plain, design = OddsRatioDesign(), TemperedDesign(3.0)
    narrow, wide = plain.interval(run(plain, ticks), 0.9), design.interval(run(design, ticks), 0.9)
    assert narrow is not None
    assert wide is not None
    assert wide.low is not None
    assert wide.high is not None
    assert wide.low < (narrow.low or 0.0) < (narrow.high or 0.0) <= wide.high
    assert wide.level == 0.9
    endless = TemperedDesign(100.0)
    interval = endless.interval(run(endless, ticks), 0.9)
    assert interval is not None
    assert (interval.low, interval.high) == (None, None)
    assert endless.interval(endless.start(), 0.9) is None
    assert design.interval(design.start(), 0.9) is None
    estimate = design.estimate(run(design, ticks))
    assert estimate is not None
    assert estimate.effect == pytest.approx(110 * 900 / (100 * 890))
    assert TemperedDesign.approximate


COUNTS = st.builds(
    lambda n, m, x, y: TwoArmCounts(min(x, n), n, min(y, m), m),
    *(st.integers(0, 40) for _ in range(4)),
)


@given(st.lists(COUNTS, max_size=5), st.sampled_from(list(Worse)))
@settings(max_examples=40)
def test_replay_and_restore_give_the_same_bits(sequence: list[TwoArmCounts], worse: Worse) -> None:
    design = TemperedDesign(2.5, 1.25, worse)
    live = design.start()
    for tick in sequence:
        live = restore(design, design.update(live, tick).to_json())
    assert live == run(design, list(sequence))


def test_ticks_without_information_change_no_evidence() -> None:
    design = TemperedDesign(2.0, 1.25)
    state = run(design, [TwoArmCounts(0, 0, 0, 0), TwoArmCounts(0, 50, 0, 5)])
    assert design.log_e(state) == pytest.approx(0.0, abs=1e-12)
    assert design.log_e_non_inferior(state) == pytest.approx(0.0, abs=1e-12)
    assert design.estimate(design.start()) is None
    assert (state.ticks, state.informative) == (2, 0)


CALM, LOUD = Dispersion(1.05, 0.1, 300), Dispersion(4.0, 0.5, 300)


@pytest.mark.parametrize(
    ("pods", "seen", "options", "method", "approximate", "reason"),
    [
        (5, LOUD, {}, Method.PODWISE, False, "5 baseline pods, so bursts"),
        (9, None, {}, Method.PODWISE, False, "9 baseline pods"),
        (9, LOUD, {"shared": True}, Method.CONDITIONAL, False, "a gateway counts both"),
        (4, LOUD, {}, Method.TEMPERED, True, r"4 baseline pods, .* 4\.00 ± 0\.50 .* divided by 5\.00"),
        (4, LOUD, {"tempers": False}, Method.CONDITIONAL, True, "may be exceeded"),
        (4, CALM, {}, Method.CONDITIONAL, False, r"1\.05 ± 0\.10 before the rollout shows no bursts"),
        (4, Dispersion(1.9, 0.5, 8), {}, Method.CONDITIONAL, False, "shows no bursts"),
        (1, None, {}, Method.CONDITIONAL, False, "1 baseline pod, .* could not be looked for"),
        (0, None, {}, Method.CONDITIONAL, False, "0 baseline pods"),
    ],
)
def test_the_method_follows_from_what_the_pods_are_and_have_shown(
    pods: int, seen: Dispersion | None, options: dict[str, bool], method: Method, approximate: bool, reason: str
) -> None:
    choice = choose_method(pods, seen, **options)
    assert (choice.method, choice.approximate) == (method, approximate)
    assert choice.phi == (5.0 if method is Method.TEMPERED else 1.0)
    assert re.search(reason, choice.reason), choice.reason


def test_a_cautious_phi_is_never_below_one_or_beyond_what_tempering_takes() -> None:
    assert cautious_phi(Dispersion(0.2, 0.1, 10)) == 1.0
    assert cautious_phi(Dispersion(5000.0, 1.0, 10)) == 1000.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: TemperedDesign(0.9), r"1\.\.1000, got 0\.9"),
        (lambda: TemperedDesign(math.nan), "got nan"),
        (lambda: TemperedDesign(2.0, 0.0), "odds ratio"),
        (lambda: TemperedDesign(2.0).interval(TemperedDesign(2.0).start(), 1.0), "level"),
        (lambda: TemperedDesign(2.0).update(TemperedDesign(3.0).start(), TwoArmCounts(0, 0, 0, 0)), "start again"),
        (lambda: TemperedDesign(2.0).update(TemperedDesign(2.0).start(), OneArmCounts(0, 0)), "TwoArmCounts"),
        (lambda: choose_method(-1, None), "baseline_pods"),
    ],
)
def test_refuses_what_makes_no_sense(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
