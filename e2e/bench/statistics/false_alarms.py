"""T1: how often equal variants are rolled back."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from e2e.bench.statistics.bounds import share_bounds
from e2e.bench.statistics.campaign import ROLLOUTS, Campaign
from e2e.bench.statistics.ingest import Ticks, evidence_after, ticks_of
from e2e.bench.statistics.row import Row
from e2e.bench.statistics.scene import Line, Scene
from e2e.bench.statistics.system import (
    HALF_AN_HOUR,
    STREAMS,
    THREE_HOURS,
    THRESHOLD,
    both,
    outages,
    whole,
)

_MOST: Final = 0.005
_MOST_BOUND: Final = 0.01
_BURSTS: Final = (2.0, 5.0)
_CLUSTERED: Final = 300
#: Labels: missed positives of a service whose true positive rate falls from 90 to 87 %.
_LABELS: Final = Line(2.0, 0.10)
_STEPS: Final = (5, 10, 25, 50)
_SHORT_LAG: Final = (600.0, 150)
_LONG_LAG: Final = (3600.0, 400)


def rows(campaign: Campaign) -> list[Row]:
    """Measure all parts of T1."""
    halves = [run.mean for run in campaign.equal()]
    drifting = [run.mean for run in campaign.drifting()]
    long = [run.mean[:THREE_HOURS] for run in campaign.long()]
    failing = campaign.each("outages of both", partial(_mean, outages()), ROLLOUTS, 5)
    clusters = campaign.each("clusters", clustered, _CLUSTERED, 6)
    short, slow = (
        campaign.each(f"labels, lag {lag[0] / 60:.0f} min", partial(labelled, *lag), full, series)
        for lag, full, series in ((_SHORT_LAG, 240, 7), (_LONG_LAG, 80, 8))
    )
    operator, requests = ([one[place] for one in clusters] for place in range(2))
    streams = f"{STREAMS} streams"
    return [
        _row("T1a", f"30 min, {streams}, weight 10 %", halves),
        _row("T1b", f"30 min, {streams}, events grow fourfold while the weight rises from 5 to 50 %", drifting),
        _row("T1c", f"3 h, {streams}, the same drift and steps", long),
        _row("T1d", f"30 min, {streams}, as T1b with outages of 17 s in which 30 % fail in both variants", failing),
        _row(
            "T1e",
            "30 min, errors in clusters of 2 and 5 in a pod, 5 + 5 pods, 2 streams",
            operator,
        ),
        _info("T1e′", "the same counts tested request by request (why pods are used)", requests),
        _row("T1f", "labels 10 min and 1 h late, counted by cohort, true positives drift; 4 streams", [*short, *slow]),
    ]


def _mean(scene: Scene, seed: int) -> NDArray[np.float32]:
    return whole(scene, seed).mean


def clustered(seed: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the evidence of clustered errors: as the operator tests them, and request by request."""
    lines = tuple(Line(50, 0.02, burst=burst, servers=(5, 5)) for burst in _BURSTS)
    scene = Scene(lines, HALF_AN_HOUR, ((0, 50),))
    path = np.zeros((scene.looks, len(lines)))
    for look, evidence in evidence_after(scene, seed):
        path[look - 1 :] = [stream.design.log_e(stream.state) for stream in evidence.streams.values()]
    return _mixed(path), _mixed(both(ticks_of(scene, seed))[0])


def labelled(lag: float, looks: int, seed: int) -> NDArray[np.float32]:
    """Return the evidence of two lines of labels, each in both directions, over a ladder of weights."""
    parts = [
        ticks_of(
            Scene(
                lines=(Line(_LABELS.requests, _LABELS.rate, drift=1.3, lag=lag),) * 2,
                looks=looks,
                ladder=((0, percent),),
                drifted=(place / len(_STEPS), (place + 1) / len(_STEPS)),
            ),
            10 * seed + place,
        )
        for place, percent in enumerate(_STEPS)
    ]
    ticks = Ticks(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("counts", "seen", "apart")))
    return _mixed(np.concatenate(both(ticks), axis=1))


def _mixed(paths: NDArray[np.float64]) -> NDArray[np.float32]:
    mean: NDArray[np.float32] = (np.logaddexp.reduce(paths, axis=1) - math.log(paths.shape[1])).astype(np.float32)
    return mean


def _row(name: str, target: str, paths: Sequence[NDArray[np.float32]]) -> Row:
    alarms, runs = _alarms(paths)
    bound = share_bounds(alarms, runs)[1]
    passed = alarms / runs <= _MOST and bound <= _MOST_BOUND
    words = f"{target}: ≤ 0.5 %, bound ≤ 1 %"
    return Row(name, words, alarms / runs, bound, passed, "%", f"{alarms} of {runs} rollouts rolled back")


def _info(name: str, target: str, paths: Sequence[NDArray[np.float32]]) -> Row:
    alarms, runs = _alarms(paths)
    note = f"{alarms} of {runs}; no target, shown for comparison"
    return Row(name, target, alarms / runs, share_bounds(alarms, runs)[1], passed=True, unit="%", note=note)


def _alarms(paths: Sequence[NDArray[np.float32]]) -> tuple[int, int]:
    return sum(bool((path >= THRESHOLD).any()) for path in paths), len(paths)
