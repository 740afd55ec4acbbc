"""Which test judges a gate: by the pods that there are, and by what the baseline's have shown."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from davylamp.core.checkpoint import resume
from davylamp.core.evidence import Evidence, begin, learn_baseline, new_stratum, observe
from davylamp.core.judge import judge
from davylamp.core.method import from_plain
from davylamp.core.model import Variant, Verdict
from davylamp.core.plan import AbsoluteMargin, Gate
from davylamp.core.reading import SignalReading, Target
from gatestats.method import Method
from gatestats.non_inferiority import ErrorRateDesign
from gatestats.podwise import PodwiseDesign
from gatestats.tempered import TemperedDesign
from tests.davylamp.core.readings import CLICKS, ERRORS, LATENCY, TICK, at, counters, plan, reading, watched, window

TICKS = 40


def pods(name: str, number: int, events: Callable[[int, int], int], requests: int = 100) -> tuple[Target, ...]:
    """Return pods with as many events as a function of pod and tick says, cumulative over time."""
    targets = []
    for pod in range(number):
        counts = [(0, 0)]
        for tick in range(TICKS):
            counts.append((counts[-1][0] + events(pod, tick), counts[-1][1] + requests))
        targets.append(counters(*((TICK * t, *count) for t, count in enumerate(counts)), name=f"{name}-{pod}"))
    return tuple(targets)


def calm(pod: int, tick: int) -> int:
    return 1 + (pod + tick) % 2


def bursts(pod: int, tick: int) -> int:
    return 12 if (pod * 7 + tick * 3) % 10 == 0 else 0


def both(baseline: tuple[Target, ...], candidate: tuple[Target, ...]) -> SignalReading:
    return SignalReading({Variant.BASELINE: baseline, Variant.CANDIDATE: candidate})


def rollout(gate: Gate, found: SignalReading) -> tuple[Evidence, Any]:
    """Learn the first half without traffic, judge one look of the second, and return evidence and the gate's report."""
    of, half = plan(gate), TICKS // 2
    before = reading({gate.name: SignalReading({Variant.BASELINE: found.targets[Variant.BASELINE]})})
    learnt = learn_baseline(of, begin(of), before, window(0, TICK * half))
    start = new_stratum(learnt, at(TICK * half))
    seen = observe(of, start, reading({gate.name: found}), window(TICK * half, TICK * (half + 1)))
    return seen, judge(of, seen)[1][0]


def test_five_pods_of_the_baseline_are_held_against_those_of_the_candidate() -> None:
    seen, shown = rollout(ERRORS, both(pods("old", 5, calm), pods("new", 2, calm)))
    design = seen.streams["errors"].design
    assert isinstance(design, PodwiseDesign)
    assert isinstance(design.requests, ErrorRateDesign)
    assert seen.streams["errors"].state.parts[1].totals == (5, 2)
    assert shown.method == "by requests and by pods: 5 baseline pods, so bursts within a pod are allowed for"


def test_both_directions_of_a_counter_are_held_against_its_pods() -> None:
    seen, _ = rollout(CLICKS, both(pods("old", 6, calm), pods("new", 1, calm)))
    for name, stream in seen.streams.items():
        assert isinstance(stream.design, PodwiseDesign)
        assert name == f"clicks:{stream.design.worse}"
    assert seen.methods["clicks"].reason.endswith("a bad pod cannot be told from a bad version")


def test_a_gateway_shows_no_pods() -> None:
    seen, shown = rollout(ERRORS, both(pods("envoy", 6, calm), pods("envoy", 6, calm)))
    assert isinstance(seen.streams["errors"].design, ErrorRateDesign)
    assert shown.method.startswith("by requests: a gateway counts both variants")


def test_bursts_on_few_pods_before_the_rollout_divide_the_evidence() -> None:
    seen, shown = rollout(ERRORS, both(pods("old", 3, bursts), pods("new", 2, bursts)))
    design = seen.streams["errors"].design
    assert isinstance(design, ErrorRateDesign)
    assert design.phi == seen.methods["errors"].phi > 3
    assert "so evidence is divided by" in shown.method
    for stream in rollout(CLICKS, both(pods("old", 3, bursts), pods("new", 2, bursts)))[0].streams.values():
        assert isinstance(stream.design, TemperedDesign)


def test_a_margin_that_cannot_be_tempered_says_so() -> None:
    gate = replace(CLICKS, margin=AbsoluteMargin(0.02))
    seen, shown = rollout(gate, both(pods("old", 3, bursts), pods("new", 2, bursts)))
    assert seen.methods["clicks"].approximate
    assert "the false rollback rate may be exceeded" in shown.method


def test_calm_pods_are_judged_by_their_requests() -> None:
    seen, shown = rollout(ERRORS, both(pods("old", 3, calm), pods("new", 2, calm)))
    assert seen.streams["errors"].design == ErrorRateDesign(planned_ticks=plan(ERRORS).planned_looks)
    assert "shows no bursts" in shown.method


def test_nothing_is_chosen_before_the_candidate_shows_anything() -> None:
    of = plan(ERRORS)
    alone = reading({"errors": SignalReading({Variant.BASELINE: pods("old", 5, calm)})})
    seen = observe(of, begin(of), alone, window(0, TICK))
    assert seen.methods == {}
    assert judge(of, seen)[1][0].method == ""
    later = observe(of, seen, reading({"errors": both(pods("old", 5, calm), pods("new", 2, calm))}), window(10, 20))
    assert later.methods["errors"].method is Method.PODWISE


def test_the_choice_outlives_pods_that_come_and_go() -> None:
    of = plan(ERRORS)
    seen = observe(of, begin(of), reading({"errors": both(pods("old", 5, calm), pods("new", 2, calm))}), window(0, 10))
    fewer = reading({"errors": both(pods("old", 2, calm), pods("new", 1, calm))})
    assert isinstance(observe(of, seen, fewer, window(10, 20)).streams["errors"].design, PodwiseDesign)


@pytest.mark.parametrize("gate", [ERRORS, CLICKS])
def test_a_restart_changes_nothing(gate: Gate) -> None:
    of = plan(gate)
    for shown in (both(pods("old", 5, calm), pods("new", 2, calm)), both(pods("old", 3, bursts), pods("new", 2, calm))):
        seen, _ = rollout(gate, shown)
        assert seen.as_of is not None
        again = resume(of, seen.to_json(), seen.as_of)
        assert (again.streams, again.methods, again.spreads) == (seen.streams, seen.methods, seen.spreads)


def test_bursts_alone_roll_nothing_back_and_a_regression_in_bursts_does() -> None:
    random, of = np.random.default_rng(5), plan(ERRORS)

    def clustered(rate: float) -> Callable[[int, int], int]:
        return lambda pod, tick: min(100, 8 * int(random.poisson(rate * 100 / 8)))  # noqa: ARG005 - any pod and tick

    def verdict(rate: float) -> Verdict:
        found = reading({"errors": both(pods("old", 6, clustered(0.02)), pods("new", 3, clustered(rate)))})
        return judge(of, watched(of, begin(of), found, TICKS))[0].verdict

    assert sum(verdict(0.02) is Verdict.REGRESSED for _ in range(10)) == 0
    assert sum(verdict(0.3) is Verdict.REGRESSED for _ in range(10)) == 10


def test_latency_says_what_it_compares() -> None:
    of = plan(LATENCY)
    assert judge(of, begin(of))[1][0].method == ""


def damaged(change: Callable[[Any], None]) -> Any:
    data = json.loads(rollout(ERRORS, both(pods("old", 3, bursts), pods("new", 2, bursts)))[0].to_json())
    change(data)
    return data


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.pop("methods"),
        lambda data: data.update(spreads=[]),
        lambda data: data["spreads"].update(errors=[1.0, 2.0, 3.0, 4, 5, 6]),
        lambda data: data["spreads"].update(errors=[1.0, -2.0, 3.0, 4, 5]),
        lambda data: data["spreads"].update(errors=["1", 2.0, 3.0, 4, 5]),
        lambda data: data["methods"]["errors"].update(phi=0.5),
        lambda data: data["methods"]["errors"].update(phi=True),
        lambda data: data["methods"]["errors"].update(method="Guess"),
        lambda data: data["methods"]["errors"].update(approximate=1),
        lambda data: data["methods"]["errors"].update(reason="x" * 301),
        lambda data: data["methods"]["errors"].pop("reason"),
    ],
)
def test_a_damaged_choice_is_refused(change: Callable[[Any], None]) -> None:
    with pytest.raises(ValueError, match=r"damaged|Guess"):
        from_plain(damaged(change))
