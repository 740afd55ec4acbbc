"""Whole rollouts of variants that are equal, or worse by exactly what is accepted.

Seeds are fixed, so every count is exact. What it says about the true share is given by Clopper and Pearson: 0 of 150 is
at most 2.0 % with 95 % confidence. `tests.simulation_statistics.campaign` runs as many as there is time for.
"""

from dataclasses import replace

import pytest

from tests.simulation_statistics.campaign import upper_bound
from tests.simulation_statistics.rollout import GATES, Rollout, plan_of
from tests.simulation_statistics.scenarios import SCENARIOS, SCRAPINGS, Scenario

_CHUNK = 30
_RUNS = 150
_AT_MARGIN = 40


def rolled_back(scenario: Scenario, seeds: range) -> list[int]:
    return [seed for seed in seeds if scenario.run(seed).rolled_back is not None]


@pytest.mark.parametrize("first", range(0, _RUNS, _CHUNK))
def test_equal_variants_are_left_alone_whatever_drifts_restarts_or_comes_late(first: int) -> None:
    # Errors grow fourfold while the weight rises from 5 to 50 %: a comparison of running totals alarms nearly always.
    scenario = replace(SCENARIOS["equal"], bake=4, looks=20)
    assert rolled_back(scenario, range(first, first + _CHUNK)) == []
    assert upper_bound(0, _RUNS) < 0.02


def test_an_outage_of_both_is_not_the_candidates_though_servers_are_scraped_at_different_moments() -> None:
    # Without a bound on what one look can say, 39 of 100 such rollouts were rolled back.
    assert rolled_back(replace(SCENARIOS["outage-servers"], gate="errors", alone=True), range(30)) == []


@pytest.mark.parametrize(
    "name",
    ["margin-errors", "margin-latency-native", "margin-latency-coarse", "margin-approvals-up", "margin-refusals"],
)
def test_at_the_exact_margin_neither_rollback_nor_promotion_exceeds_its_level(name: str) -> None:
    scenario = SCENARIOS[name]
    outcomes = [scenario.run(seed) for seed in range(_AT_MARGIN)]
    assert [outcome.rolled_back for outcome in outcomes] == [None] * _AT_MARGIN
    # At 5 % more than 4 of 40 have a chance of 4.8 %.
    assert sum(scenario.gate in outcome.proven for outcome in outcomes) <= 4


def test_equal_variants_are_promoted() -> None:
    # Without promotions the tests above would hold for an operator that does nothing.
    gates = tuple(gate for gate in GATES if gate.name != "refusals")
    plan, truth = plan_of(4, gates), SCENARIOS["equal"].truth
    outcomes = [Rollout(plan, truth, scraping, seed).run(60) for seed, scraping in enumerate(SCRAPINGS[:2])]
    assert all(outcome.promoted is not None for outcome in outcomes)
