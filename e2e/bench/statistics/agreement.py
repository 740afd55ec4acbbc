"""A0: whole arrays say what the operator itself says, look by look."""

import math
from dataclasses import replace
from typing import Final

import numpy as np

from davylamp.core.judge import judge
from e2e.bench.statistics.campaign import Campaign
from e2e.bench.statistics.ingest import evidence_after, plan_of, ticks_of
from e2e.bench.statistics.paths import promotion_paths, rollback_paths
from e2e.bench.statistics.row import Row
from e2e.bench.statistics.scene import Scene
from e2e.bench.statistics.system import LINES

_RUNS: Final = 6
_LARGEST: Final = 1e-9
_MARGIN: Final = 1.25
_SCENE: Final = Scene(
    lines=tuple(replace(line, drift=4.0) for line in (*LINES[:6], *LINES[-2:])),
    looks=60,
    ladder=((0, 5), (15, 10), (30, 25), (45, 50)),
    missed=0.06,
    restarts=0.02,
)


def rows(campaign: Campaign) -> list[Row]:
    """Measure the largest difference."""
    apart = campaign.each("agreement", difference, _RUNS, 60)
    target = "evidence of the benchmark's arrays and of the operator's own judge differ by ≤ 1e-9 nats"
    note = f"{len(apart)} rollouts of {_SCENE.looks} looks and {len(_SCENE.lines)} streams, rollback and promotion"
    return [Row("A0", target, max(apart), None, max(apart) <= _LARGEST, "nats", note)]


def difference(seed: int) -> float:
    """Return the largest difference between the two ways in one rollout."""
    ticks, plan = ticks_of(_SCENE, seed), plan_of(len(_SCENE.lines), _MARGIN, _SCENE.looks)
    rollback, promotion = rollback_paths(ticks, _MARGIN), promotion_paths(ticks, _MARGIN)
    largest = 0.0
    for look, evidence in evidence_after(_SCENE, seed, _MARGIN):
        pairs: list[tuple[float, float]] = []
        for place, stream in enumerate(evidence.streams.values()):
            pairs.append((rollback[look - 1, place], stream.design.log_e(stream.state)))
            pairs.append((promotion[look - 1, place], stream.design.log_e_non_inferior(stream.state) or 0.0))
        if look % 10 == 0:
            mean = np.logaddexp.reduce(rollback[look - 1]) - math.log(len(_SCENE.lines))
            pairs.append((mean, judge(plan, evidence)[0].log_evidence))
        largest = max(largest, *(abs(ours - theirs) for ours, theirs in pairs))
    return float(largest)
