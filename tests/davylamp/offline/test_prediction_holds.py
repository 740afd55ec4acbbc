"""What is predicted against whole simulated rollouts: target T6 of the statistics' design.

The mean within 20 %, and nine of ten runs within the predicted time. Seeds are fixed, so every number is exact; of 150
runs 85 to 97 % are asked for, and of each 25, which say little alone, at least three quarters.
"""

import numpy as np
import pytest

from davylamp.core.plan import Gate
from davylamp.offline.demand import Demand
from davylamp.offline.prediction import Scope, forecast
from davylamp.offline.simulation import Simulator
from davylamp.offline.timeline import timeline
from davylamp.offline.traffic import Harm
from tests.davylamp.offline.planned import APPROVALS, ERRORS, LATENCY, gateway, planned, pods

_RUNS = 25


def _against(demand: Demand, gate: Gate, margins: float) -> tuple[float, float, float]:
    """Return the predicted and the simulated mean in looks, and the share of runs within the predicted q90."""
    plan = planned()
    scope = Scope(plan, demand, timeline(plan, demand))
    arrival = scope.prospect(gate, margins, scope.timeline).arrival
    sample = Simulator(plan, demand).run(Harm(gate, margins), _RUNS, 300, seed=3)
    assert len(sample.rolled_back) == _RUNS
    assert {name for outcome in sample.outcomes for name in outcome.culprits} == {gate.name}
    return arrival.mean, float(np.mean(sample.rolled_back)), sample.within(arrival.quantile(0.9))


@pytest.fixture(scope="module")
def compared() -> dict[tuple[str, str], tuple[float, float, float]]:
    harms = ((ERRORS, 5.0), (LATENCY, 2.0), (APPROVALS, 4.0))
    return {
        (label, gate.name): _against(demand, gate, margins)
        for label, demand in (("pods", pods()), ("gateway", gateway()))
        for gate, margins in harms
    }


def test_the_predicted_mean_is_within_a_fifth_of_the_simulated_one(
    compared: dict[tuple[str, str], tuple[float, float, float]],
) -> None:
    for predicted, simulated, _ in compared.values():
        assert predicted == pytest.approx(simulated, rel=0.2)


def test_nine_of_ten_runs_end_within_the_predicted_time(
    compared: dict[tuple[str, str], tuple[float, float, float]],
) -> None:
    shares = [share for _, _, share in compared.values()]
    assert min(shares) >= 0.75
    assert 0.85 <= sum(shares) / len(shares) <= 0.97


def test_a_healthy_variant_is_promoted_when_it_was_predicted() -> None:
    plan, demand = planned(), gateway()
    seen = forecast(plan, demand)
    sample = Simulator(plan, demand).run(Harm(), 15, 200, seed=5)
    assert sample.rolled_back == ()
    assert len(sample.promoted) == 15
    assert seen.chance > 0.99
    assert seen.promotion.mean == pytest.approx(float(np.mean(sample.promoted)), rel=0.2)
