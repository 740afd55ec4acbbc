"""Whole rollouts, from the first look to the last, as files that a person can read and agree with.

After an intended change: ``GOLDEN=write pytest tests/golden``, and read the difference.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.golden.stepping import Story, trace
from tests.simulation.cluster import Cluster
from tests.simulation.settings import PLANS, Metrics

FOLDER = Path(__file__).parent
Change = Callable[[Cluster], None]


def says(metrics: Metrics) -> Change:
    def change(cluster: Cluster) -> None:
        cluster.metrics = metrics

    return change


def delete(cluster: Cluster) -> None:
    cluster.change(deleting=True)


def shadow_first(cluster: Cluster) -> None:
    cluster.change(plan=next(plan for plan in PLANS if plan.comparator))
    cluster.metrics = Metrics.INCONCLUSIVE


def lose_comparator(cluster: Cluster) -> None:
    cluster.comparator_ready = 0


def have_comparator(cluster: Cluster) -> None:
    cluster.comparator_ready = 2


def lose_candidate(cluster: Cluster) -> None:
    cluster.candidate_ready = 0


STORIES: dict[str, tuple[Story, int]] = {
    "promoted": ({30: says(Metrics.FEW), 70: says(Metrics.INCONCLUSIVE), 140: says(Metrics.PROVEN)}, 240),
    "regressed": ({30: says(Metrics.INCONCLUSIVE), 90: says(Metrics.SUSPICIOUS), 110: says(Metrics.REGRESSED)}, 180),
    "prometheus-down-for-a-minute": (
        {30: says(Metrics.INCONCLUSIVE), 50: says(Metrics.SOURCE_DOWN), 110: says(Metrics.PROVEN)},
        220,
    ),
    "no-data-any-more": ({30: says(Metrics.INCONCLUSIVE), 50: says(Metrics.NO_DATA)}, 220),
    "candidate-lost": ({30: says(Metrics.INCONCLUSIVE), 50: lose_candidate}, 90),
    "shadow-passed": ({0: shadow_first, 60: says(Metrics.PROVEN)}, 260),
    "shadow-regressed": ({0: shadow_first, 60: says(Metrics.REGRESSED)}, 100),
    "shadow-deleted": ({0: shadow_first, 60: delete}, 90),
    "shadow-not-proven": ({0: shadow_first}, 720),
    "shadow-without-a-comparator": (
        {0: shadow_first, 10: lose_comparator, 60: have_comparator},
        120,
    ),
    "deleted": ({30: says(Metrics.INCONCLUSIVE), 50: delete}, 90),
}


@pytest.mark.parametrize("name", STORIES)
def test_a_rollout_goes_as_written_down(name: str) -> None:
    path = FOLDER / f"{name}.txt"
    told = trace(*STORIES[name])
    if os.environ.get("GOLDEN") == "write":
        path.write_text(told, encoding="utf-8")
    assert told.splitlines() == path.read_text(encoding="utf-8").splitlines()


def test_every_golden_file_has_its_story() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(STORIES)
