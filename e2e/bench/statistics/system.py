"""The rollout that is measured: twelve signals of a service, each tested in both directions, 24 streams in all."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from e2e.bench.statistics.ingest import FALSE_ROLLBACKS, Ticks, ticks_of
from e2e.bench.statistics.paths import log_ratios, rollback_paths
from e2e.bench.statistics.scene import FloatArray, Line, Outage, Scene
from gatestats.combine import log_threshold

LINES: Final = (
    Line(50, 0.01),
    Line(50, 0.01, servers=(3, 2)),
    Line(50, 0.005),
    Line(500, 0.001),
    Line(50, 0.05),
    Line(20, 0.02, servers=(2, 2)),
    *(Line(5, rate) for rate in (0.01, 0.02, 0.05, 0.05, 0.1, 0.1)),
)
STREAMS: Final = 2 * len(LINES)
THRESHOLD: Final = log_threshold(FALSE_ROLLBACKS)
#: Of one stream alone, with its share of the budget.
STREAM_THRESHOLD: Final = THRESHOLD + math.log(STREAMS)
HALF_AN_HOUR: Final = 180
THREE_HOURS: Final = 1080
#: Three hours, and time to find a regression that begins at their end.
LONGEST: Final = 1260
_LADDER: Final = ((0, 5), (45, 10), (90, 25), (135, 50))
_LONG_LADDER: Final = ((0, 5), (270, 10), (540, 25), (810, 50))
_Result = TypeVar("_Result")


def equal(looks: int = HALF_AN_HOUR) -> Scene:
    """Return a rollout of equal variants at 10 %, without drift."""
    return Scene(LINES, looks)


def drifting(looks: int = HALF_AN_HOUR) -> Scene:
    """Return one whose events grow fourfold while the weight rises from 5 to 50 %."""
    lines = tuple(replace(line, drift=4.0) for line in LINES)
    ladder = _LADDER if looks <= HALF_AN_HOUR else _LONG_LADDER
    return Scene(lines, looks, ladder, drifted=(0.0, looks / min(looks, THREE_HOURS)))


def outages() -> Scene:
    """Return one in which a dependency of both variants fails now and then."""
    some = tuple(Outage(start + 0.5, start + 17.5, 0.3) for start in range(120, 1800, 300))
    return replace(drifting(), outages=some)


@dataclass(frozen=True, slots=True)
class Whole:
    """Evidence of one rollout.

    Parameters
    ----------
    mean
        ln of the mean evidence after each look, nats, (looks,).
    others
        Sum of the evidence of all streams but those of the first line, (looks,).
    counts
        As in `Ticks`.
    """

    mean: NDArray[np.float32]
    others: NDArray[np.float32]
    counts: NDArray[np.int32]


def whole(scene: Scene, seed: int) -> Whole:
    """Run one rollout of the system."""
    ticks = ticks_of(scene, seed)
    high, low = both(ticks)
    mean = np.logaddexp.reduce(np.concatenate([high, low], axis=1), axis=1) - math.log(2 * high.shape[1])
    others = np.exp(high[:, 1:]).sum(axis=1) + np.exp(low[:, 1:]).sum(axis=1)
    return Whole(mean.astype(np.float32), others.astype(np.float32), ticks.counts)


def both(ticks: Ticks, margin: float = 1.0, planned: int | None = None) -> tuple[FloatArray, FloatArray]:
    """Return ln E of "more events" and of "fewer events" after each look, (looks, lines) each."""
    swapped = replace(ticks, counts=ticks.counts[..., [2, 3, 0, 1]])
    return rollback_paths(ticks, margin, planned=planned), rollback_paths(swapped, margin, planned=planned)


@dataclass(frozen=True, slots=True)
class Alone:
    """One regressed line of counters; ln E after each look, (looks,), nats.

    Parameters
    ----------
    higher, lower
        Of its two streams.
    favoured
        Of the stream with half of its prior mass on the true effect.
    conditional
        ln of the likelihood ratio of the test that knows the odds ratio, begun at the change.
    knowing
        The same of the test that knows the rates of both variants and looks at the candidate only.
    counts
        As in `Ticks`, (looks, 4).
    """

    higher: NDArray[np.float32]
    lower: NDArray[np.float32]
    favoured: NDArray[np.float32]
    conditional: NDArray[np.float32]
    knowing: NDArray[np.float32]
    counts: NDArray[np.int32]


def alone(scene: Scene, margin: float, seed: int) -> Alone:
    """Run one regressed line of counters, the only one of the scene."""
    ticks, line = ticks_of(scene, seed), scene.lines[0]
    counts = ticks.counts[:, 0].copy()
    counts[: scene.late] = 0
    conditional = log_ratios(counts, np.array([math.log(line.odds)]), math.log(margin))[:, 0].cumsum()
    null = margin * line.rate / (1 - line.rate + margin * line.rate)
    worse = line.odds * line.rate / (1 - line.rate + line.odds * line.rate)
    events, total = counts[:, 2], counts[:, 3]
    knowing = events * math.log(worse / null) + (total - events) * math.log((1 - worse) / (1 - null))
    higher, lower = both(ticks, margin, scene.planned)
    favoured = rollback_paths(ticks, margin, line.odds)
    return Alone(
        higher=higher[:, 0].astype(np.float32),
        lower=lower[:, 0].astype(np.float32),
        favoured=favoured[:, 0].astype(np.float32),
        conditional=conditional.astype(np.float32),
        knowing=knowing.cumsum().astype(np.float32),
        counts=ticks.counts[:, 0],
    )


def first_crossing(path: NDArray[np.floating], threshold: float, begin: int = 0) -> int | None:
    """Return the number of the look, 1 for the first, at which a path first reaches a threshold; None if never."""
    reached = np.flatnonzero(path[begin:] >= threshold)
    return begin + int(reached[0]) + 1 if reached.size else None


def chunk(runs: int) -> int:
    """Return how many runs a process takes at once."""
    return max(1, min(16, runs // 8))


def mean_evidence(run: Alone, others: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return ln of the mean evidence of a system whose first line has regressed; (looks,), nats."""
    looks = run.higher.size
    rest = np.log(np.maximum(others[:looks].astype(np.float64), 1e-300))
    return np.asarray(np.logaddexp.reduce([run.higher, run.lower, rest]) - math.log(STREAMS), dtype=np.float64)


def collected(results: Sequence[_Result | None]) -> list[_Result]:
    """Return the results that there are."""
    return [result for result in results if result is not None]
