"""Whole rollouts of candidates that are worse: every one is found, and the right gate is blamed."""

import pytest

from tests.simulation_statistics.scenarios import SCENARIOS


@pytest.mark.parametrize(
    ("name", "looks"),
    [
        ("errors-double", 100),
        ("errors-fivefold", 30),
        ("latency-quarter", 20),
        ("latency-quarter-coarse", 100),
        ("approvals-fall", 40),
    ],
)
def test_a_regression_is_found_in_time_and_blamed_on_its_gate(name: str, looks: int) -> None:
    scenario = SCENARIOS[name]
    for seed in range(3):
        outcome = scenario.run(seed)
        assert outcome.rolled_back is not None
        assert outcome.rolled_back <= looks * 10
        assert scenario.gate in outcome.culprits
