"""Margins that bear bursts: the pods must say so, too."""

import itertools
import math
from collections import Counter
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import hypergeom

from gatestats.non_inferiority import ErrorRateDesign
from gatestats.odds_ratio import OddsRatioDesign
from gatestats.outlook import promotion_outlook, rollback_outlook
from gatestats.planning import Arms
from gatestats.podwise import PodwiseDesign, pod_statistics
from gatestats.process import restore
from gatestats.rates import AbsoluteRateDesign
from gatestats.tempered import TemperedDesign
from gatestats.ticks import OneArmCounts, PodCounts, PodwiseCounts, TwoArmCounts, Worse

Arm = Mapping[str, OneArmCounts]
DESIGN = PodwiseDesign(ErrorRateDesign())


def arm(name: str, *pods: tuple[int, int]) -> Arm:
    return {f"{name}-{number}": OneArmCounts(events, total) for number, (events, total) in enumerate(pods)}


def tick(baseline: Arm, candidate: Arm, seed: str = "errors/1", worse: Worse = Worse.HIGHER) -> PodwiseCounts:
    sums = [sum(getattr(pod, field) for pod in pods.values()) for pods in (baseline, candidate) for field in FIELDS]
    return PodwiseCounts(TwoArmCounts(*sums), pod_statistics(baseline, candidate, worse=worse, seed=seed))


FIELDS = ("events", "total")


def test_one_pod_among_many_has_as_many_chances_as_there_are_pods() -> None:
    """Whatever the pods show, the mean over all ways to call two of them the candidate is 1."""
    shown = [(0, 50), (0, 50), (7, 50), (1, 50), (0, 50), (3, 50)]
    pods = DESIGN.pods()
    for worse in Worse:
        evidence = []
        for chosen in itertools.combinations(range(6), 2):
            theirs = arm("b", *(pod for place, pod in enumerate(shown) if place not in chosen))
            ours = arm("c", *(shown[place] for place in chosen))
            counts = pod_statistics(theirs, ours, worse=worse, seed="any")
            evidence.append(math.exp(pods.log_e(pods.update(pods.start(), counts))))
        assert math.fsum(evidence) / len(evidence) <= 1 + 1e-12


@pytest.mark.parametrize(("total", "events", "drawn"), [(100, 3, 20), (1000, 5, 100), (50, 49, 2), (40, 2, 39)])
def test_requests_are_thinned_by_the_hypergeometric_law(total: int, events: int, drawn: int) -> None:
    seen: Counter[float] = Counter()
    for number in range(3000):
        full, least = {"full": OneArmCounts(events, total)}, {"least": OneArmCounts(0, drawn)}
        (statistic,) = pod_statistics(full, least, worse=Worse.HIGHER, seed=str(number)).baseline
        # With the other pod at 0 the statistic is 2 + k / 2, as long as it is neither cut nor scaled.
        seen[min(3.0, statistic)] += 1
    law = hypergeom(total, events, drawn)
    for k in (0, 1):
        assert seen[2 + k / 2] / 3000 == pytest.approx(law.pmf(k), abs=0.03)


def test_the_same_tick_is_thinned_alike_and_another_otherwise() -> None:
    baseline, candidate = arm("b", *[(50, 1000)] * 6), arm("c", (4, 100), (6, 100))
    first = pod_statistics(baseline, candidate, worse=Worse.HIGHER, seed="errors/1")
    turned = {name: baseline[name] for name in sorted(baseline, reverse=True)}
    assert first == pod_statistics(turned, candidate, worse=Worse.HIGHER, seed="errors/1")
    assert first != pod_statistics(baseline, candidate, worse=Worse.HIGHER, seed="errors/2")


def test_fewer_events_are_worse_where_they_are_what_is_wanted() -> None:
    approvals = pod_statistics(arm("b", *[(40, 100)] * 5), arm("c", (10, 100)), worse=Worse.LOWER, seed="x")
    assert approvals.candidate[0] > approvals.baseline[0]


def test_a_tempered_error_rate_divides_all_evidence() -> None:
    plain, calm = ErrorRateDesign(), ErrorRateDesign(phi=4.0)
    states = [plain.start(), calm.start()]
    for _ in range(60):
        counts = TwoArmCounts(10, 1000, 10, 1000)
        states = [design.update(state, counts) for design, state in zip((plain, calm), states, strict=True)]
    fast, slow = plain.log_e_non_inferior(states[0]), calm.log_e_non_inferior(states[1])
    assert slow < fast / 2
    assert calm.estimate(states[1]) == plain.estimate(states[0])


@pytest.mark.parametrize("empty", [{}, {"c": OneArmCounts(0, 0)}])
def test_a_variant_without_requests_says_nothing(empty: Arm) -> None:
    counts = pod_statistics(arm("b", *[(1, 10)] * 5), empty, worse=Worse.HIGHER, seed="x")
    assert counts == PodCounts((), ())
    state = DESIGN.update(DESIGN.start(), PodwiseCounts(TwoArmCounts(5, 50, 0, 0), counts))
    assert DESIGN.log_e(state) == pytest.approx(0.0, abs=1e-12)


def rollout(random: np.random.Generator, ratio: float, burst: float) -> list[PodwiseCounts]:
    """Return 120 ticks of 500 requests, 1 % errors in bursts of a mean size; the candidate has two of seven pods."""
    ticks = []
    for number in range(120):
        arms = []
        for name, pods, weight, rate in (("b", 5, 0.8, 0.01), ("c", 2, 0.2, 0.01 * ratio)):
            totals = random.poisson(500 * weight / pods, size=pods)
            errors = [
                min(total, int(random.geometric(1 / burst, size=random.poisson(total * rate / burst)).sum()))
                for total in totals
            ]
            arms.append(arm(name, *zip(errors, map(int, totals), strict=True)))
        ticks.append(tick(arms[0], arms[1], f"errors/{number}"))
    return ticks


def looks_until(ticks: list[PodwiseCounts], *, requests_alone: bool = False) -> int | None:
    state = DESIGN.start()
    for number, each in enumerate(ticks, start=1):
        state = DESIGN.update(state, each)
        log_e = DESIGN.requests.log_e(state.parts[0]) if requests_alone else DESIGN.log_e(state)
        if log_e >= math.log(100):
            return number
    return None


def test_bursts_that_fool_the_test_of_requests_do_not_fool_that_of_pods() -> None:
    random = np.random.default_rng(11)
    runs = [rollout(random, 1.0, 5.0) for _ in range(30)]
    assert sum(looks_until(ticks, requests_alone=True) is not None for ticks in runs) >= 15
    assert sum(looks_until(ticks) is not None for ticks in runs) <= 1


def test_a_regression_is_found_with_bursts_and_without() -> None:
    random = np.random.default_rng(12)
    alone = [looks_until(rollout(random, 3.0, 1.0)) or 999 for _ in range(10)]
    bursts = [looks_until(rollout(random, 5.0, 3.0)) or 999 for _ in range(10)]
    assert sorted(alone)[5] <= 20
    assert sorted(bursts)[5] <= 60


def test_promotion_estimate_and_interval_are_those_of_the_requests() -> None:
    requests = AbsoluteRateDesign(0.02, Worse.LOWER)
    design = PodwiseDesign(requests, Worse.LOWER)
    state, alone = design.start(), requests.start()
    for number in range(40):
        counts = tick(arm("b", *[(40, 100)] * 5), arm("c", (41, 100), (39, 100)), str(number), Worse.LOWER)
        state, alone = design.update(state, counts), requests.update(alone, counts.requests)
    assert design.log_e_non_inferior(state) == requests.log_e_non_inferior(alone)
    assert design.estimate(state) == requests.estimate(alone)
    assert design.interval(state, 0.95) == requests.interval(alone, 0.95)
    assert (state.ticks, state.informative) == (alone.ticks, alone.informative)


def test_the_outlook_of_pods_is_that_of_requests_and_tempering_is_slower_by_the_dispersion() -> None:
    arms = Arms(4500, 0.01, 500, 0.03)
    plain, calm = OddsRatioDesign(1.25), TemperedDesign(4.0, 1.25)
    for outlook in (rollback_outlook, promotion_outlook):
        of_requests = outlook(DESIGN.requests, arms)
        assert outlook(DESIGN, arms) == of_requests
        for fast, slow in zip(outlook(plain, arms), outlook(calm, arms), strict=True):
            assert slow.pace.drift == pytest.approx(fast.pace.drift / 4)
            assert slow.pace.variance == pytest.approx(fast.pace.variance / 16)
        tempered = outlook(ErrorRateDesign(phi=4.0), arms)
        assert max(abs(each.pace.drift) for each in tempered) < max(abs(each.pace.drift) for each in of_requests)


PODS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 40)).map(sorted).map(tuple), min_size=1, max_size=6)


@given(st.lists(st.tuples(PODS, PODS), max_size=4), st.sampled_from(list(Worse)))
def test_replay_and_restore_give_the_same_bits(
    looks: list[tuple[list[tuple[int, int]], list[tuple[int, int]]]], worse: Worse
) -> None:
    design = PodwiseDesign(ErrorRateDesign(worse=worse), worse)
    live, again = design.start(), design.start()
    for number, (theirs, ours) in enumerate(looks):
        counts = tick(arm("b", *theirs), arm("c", *ours), str(number), worse)
        live = restore(design, design.update(live, counts).to_json())
        again = design.update(again, tick(arm("b", *theirs), arm("c", *ours), str(number), worse))
    assert live == again
    assert math.isfinite(design.log_e(live))


def test_refuses_a_tick_without_pods() -> None:
    with pytest.raises(ValueError, match="PodwiseCounts"):
        DESIGN.update(DESIGN.start(), TwoArmCounts(0, 1, 0, 1))
    with pytest.raises(ValueError, match="level"):
        DESIGN.interval(DESIGN.start(), 1.0)
