"""Traffic as the baseline's history shows it."""

from datetime import timedelta

import numpy as np
import pytest

from davylamp.core.evidence import begin
from davylamp.errors import SpecError
from davylamp.offline.past_demand import past_demand
from davylamp.offline.simulation import Simulator, mean, quantile
from davylamp.offline.traffic import Harm
from tests.davylamp.offline.pasts import BEGINS, Past, subject
from tests.simulation_statistics.traffic import Truth

TRUTH = Truth(100, error_rate=0.02, drift=1.0)


def test_rates_shares_and_durations_are_those_that_were_served() -> None:
    rollout, past = subject(), Past(TRUTH, weights=())
    seen = past_demand(rollout, past.history(rollout), (BEGINS, past.ends)).demand
    assert seen.requests == pytest.approx(100, rel=0.05)
    assert seen.shares["errors"] == pytest.approx(0.02, rel=0.1)
    assert seen.servers[0] == 3
    assert seen.durations is not None
    assert sum(seen.durations.shares) == pytest.approx(1)
    below = sum(
        share for edge, share in zip(seen.durations.edges, seen.durations.shares, strict=True) if edge <= 0.0125
    )
    assert 0.4 < below < 0.65  # the median is 12 ms


def test_a_resampled_rollout_begins_somewhere_in_the_history_and_goes_round() -> None:
    rollout, past = subject(), Past(TRUTH, weights=())
    learnt = past_demand(rollout, past.history(rollout), (BEGINS, past.ends))
    length = learnt.seconds * len(learnt.moments)
    first, second = (learnt.source()(np.random.default_rng(seed)) for seed in (1, 2))
    assert first.at(0) != second.at(0)
    assert first.at(3.0) == first.at(3.0 + length)
    assert first.at(0.0).requests == pytest.approx(100, rel=0.5)


def test_rollouts_on_resampled_traffic_are_decided() -> None:
    rollout, past = subject(), Past(TRUTH, weights=())
    learnt = past_demand(rollout, past.history(rollout), (BEGINS, past.ends))
    gate = rollout.plan.gates[0]
    sample = Simulator(rollout.plan, learnt.demand, learnt.source()).run(Harm(gate, 8.0), 4, 200, seed=1)
    assert sample.within(200) == 1.0
    assert {outcome.culprits for outcome in sample.outcomes} == {("errors",)}
    assert quantile(sample.rolled_back, 0.9, sample.runs) == max(sample.rolled_back)
    assert mean(()) == float("inf")
    assert quantile((), 0.9, 4) == float("inf")


def test_a_history_without_the_baseline_is_refused() -> None:
    rollout, past = subject(), Past(TRUTH, weights=())
    with pytest.raises(SpecError, match=r"requests of the baseline in \d looks, and at least 6 are needed"):
        past_demand(rollout, past.history(rollout), (BEGINS, BEGINS + timedelta(seconds=40)))


def test_the_same_seed_gives_the_same_rollouts_and_too_many_are_refused() -> None:
    rollout, past = subject(), Past(TRUTH, weights=())
    learnt = past_demand(rollout, past.history(rollout), (BEGINS, past.ends))
    simulator = Simulator(rollout.plan, learnt.demand)
    trials = [simulator.trial(Harm(), (7, 1)) for _ in range(2)]
    states = []
    for trial in trials:
        trial.evidence = begin(rollout.plan)
        states.append((trial.run(10), trial.evidence.to_json()))
    assert states[0] == states[1]
    with pytest.raises(ValueError, match="rollouts to simulate must be 1 to 100000, got 0"):
        simulator.run(Harm(), 0, 10, 1)
