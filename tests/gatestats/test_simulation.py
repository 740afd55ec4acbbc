"""Whole streams, from raw samples of restarting pods with missed scrapes to evidence, many times with a fixed seed."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.stats import beta

from gatestats.counters import Sample, count_events, pool
from gatestats.non_inferiority import ErrorRateDesign
from gatestats.odds_ratio import OddsRatioDesign
from gatestats.process import Process
from gatestats.ticks import OneArmCounts, TwoArmCounts

TICK = 10.0
ALPHA = 0.01


@dataclass
class Pod:
    """A pod with two counters, scraped each tick but for some misses; it restarts now and then."""

    random: np.random.Generator
    events: int = 0
    total: int = 0

    def __post_init__(self) -> None:
        self.error_samples: list[Sample] = []
        self.total_samples: list[Sample] = []

    def serve(self, time: float, requests: int, rate: float) -> None:
        if self.random.random() < 0.01:
            self.events = self.total = 0
        self.events += int(self.random.binomial(requests, rate))
        self.total += requests
        if self.random.random() >= 0.05:
            # the error series is first exported with the first error, as client libraries do
            if self.events or self.error_samples:
                self.error_samples.append(Sample(time, self.events))
            self.total_samples.append(Sample(time, self.total))

    def counts(self, start: float, end: float) -> OneArmCounts | None:
        errors, totals = self.error_samples[-5:], self.total_samples[-5:]
        return count_events({"500": errors} if errors else {}, {"all": totals}, (start, end))


def simulate(design: Process, seed: int, ticks: int, factor: float) -> tuple[float, float]:
    """Largest rollback evidence over all looks, and the last promotion evidence, of one rollout."""
    random = np.random.default_rng(seed)
    baseline, candidate = [Pod(random) for _ in range(2)], [Pod(random) for _ in range(1)]
    state, largest = design.start(), 0.0
    for tick in range(ticks + 1):
        time = tick * TICK
        # the error rate of both drifts fourfold while the weight steps up: a naive pooled comparison alarms
        rate = 0.02 * 4.0 ** (tick / ticks)
        weight = 0.1 if tick < ticks // 2 else 0.5
        for pods, share, odds in ((baseline, 1 - weight, 1.0), (candidate, weight, factor)):
            for pod in pods:
                pod.serve(time, int(random.poisson(300 * share / len(pods))), rate * odds)
        if tick:
            arms = [pool(pod.counts(time - TICK, time) for pod in pods) for pods in (baseline, candidate)]
            theirs, ours = (OneArmCounts(0, 0) if arm is None else arm for arm in arms)
            state = design.update(state, TwoArmCounts(theirs.events, theirs.total, ours.events, ours.total))
            largest = max(largest, design.log_e(state))
    promotion = design.log_e_non_inferior(state)
    assert promotion is not None
    return largest, promotion


def upper_bound(alarms: int, runs: int) -> float:
    """One-sided 95 % Clopper-Pearson bound."""
    return float(beta.ppf(0.95, alarms + 1, runs - alarms))


def test_equal_variants_are_rarely_rolled_back_whatever_drifts_restarts_or_is_missed() -> None:
    runs = 1000
    largest = np.array([simulate(OddsRatioDesign(), seed, 30, 1.0)[0] for seed in range(runs)])
    for alpha in (ALPHA, 0.05):
        assert upper_bound(int((largest >= -math.log(alpha)).sum()), runs) <= alpha


@pytest.mark.parametrize("design", [OddsRatioDesign(margin=1.25), ErrorRateDesign(margin=1.25)])
def test_a_doubled_error_rate_is_rolled_back_and_not_promoted(design: Process) -> None:
    results = [simulate(design, seed, 40, 2.0) for seed in range(20)]
    assert all(rollback >= -math.log(ALPHA) for rollback, _ in results)
    assert all(promotion < math.log(20) for _, promotion in results)


def test_an_equal_variant_is_promoted() -> None:
    results = [simulate(OddsRatioDesign(margin=1.5), seed, 100, 1.0) for seed in range(20)]
    assert sum(promotion >= math.log(20) for _, promotion in results) >= 16


def test_at_the_exact_margin_promotion_is_rarer_than_its_level() -> None:
    runs, level = 150, 0.1
    # odds, not rates, are multiplied: at rates of 2 to 8 % a rate ratio of 1.5 is an odds ratio above 1.5
    passed = sum(
        simulate(OddsRatioDesign(margin=1.5), seed, 30, 1.5)[1] >= -math.log(level) for seed in range(1000, 1000 + runs)
    )
    assert upper_bound(passed, runs) <= level
