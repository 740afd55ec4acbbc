"""What is true of a simulated rollout, and the raw counters that its servers show at their scrapes.

All scrapes of a line of counters are drawn at once; times are seconds since the candidate got its first traffic, and a
look comes every ten seconds.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

INTERVAL: Final = 10.0
#: Seconds of the baseline alone before the candidate gets traffic, and of samples that a look is given.
BEFORE: Final = 70.0
LOOKBACK: Final = 50.0
#: Seconds that a changed weight takes to reach the data plane.
DATA_PLANE: Final = 0.3
#: Looks after a change of weight that count nothing.
CUT: Final = 1


@dataclass(frozen=True, slots=True)
class Outage:
    """A dependency of both variants fails: requests in (start, end], seconds of traffic, fail at ``rate``."""

    start: float
    end: float
    rate: float


@dataclass(frozen=True, slots=True)
class Line:
    """One pair of counters, events among requests.

    Parameters
    ----------
    requests
        Of both variants together, per second.
    rate
        Share of events of the baseline at the beginning.
    odds
        The candidate's odds over the baseline's, once the effect has begun.
    drift
        By what the rate of both grows over the scene, evenly in the logarithm.
    burst
        Mean size of a cluster of events, at one server at one moment; 1 is independent.
    servers
        Servers of the baseline and of the candidate, scraped each at its own moment; None for one gateway that shows
        both variants in one scrape.
    lag
        Seconds after which a request is counted, as labels are; only requests of the scene itself are.
    """

    requests: float = 50.0
    rate: float = 0.01
    odds: float = 1.0
    drift: float = 1.0
    burst: float = 1.0
    servers: tuple[int, int] | None = None
    lag: float = 0.0


@dataclass(frozen=True, slots=True)
class Scene:
    """A rollout.

    Parameters
    ----------
    lines
        What is counted.
    looks
        How many, from the first traffic on.
    ladder
        The candidate's weights in per cent, each from a look on.
    late
        Look at which effects begin.
    outages
        Common to both variants.
    missed, delayed, restarts
        Shares of scrapes that fail, that can be queried only up to 12 s later, and before which the server restarted.
    drifted
        Where the drift stands at the beginning and at the end, 0..1.
    planned
        Looks that the rollout's plan expects; None for those of the scene.
    """

    lines: tuple[Line, ...]
    looks: int
    ladder: tuple[tuple[int, int], ...] = ((0, 10),)
    late: int = 0
    outages: tuple[Outage, ...] = ()
    missed: float = 0.03
    delayed: float = 0.05
    restarts: float = 0.004
    drifted: tuple[float, float] = (0.0, 1.0)
    planned: int | None = None

    @property
    def length(self) -> float:
        """Seconds of traffic."""
        return self.looks * INTERVAL


@dataclass(frozen=True, slots=True)
class Shown:
    """All that one target showed of one variant: a row for each scrape that succeeded.

    Parameters
    ----------
    name
        Of the target.
    times, visible
        When it was scraped, and when that can be queried.
    events, total
        The counters.
    """

    name: str
    times: FloatArray
    visible: FloatArray
    events: IntArray
    total: IntArray


def shown(scene: Scene, line: Line, random: np.random.Generator) -> tuple[list[Shown], list[Shown]]:
    """Return what the baseline's and the candidate's targets show."""
    if line.servers is None:
        scrapes = _Scrapes.drawn(scene, 1, random)
        arms = [_counters(scene, line, (scrapes, candidate, "gateway"), random) for candidate in (False, True)]
        return arms[0], arms[1]
    parts = [_Scrapes.drawn(scene, servers, random) for servers in line.servers]
    return (
        _counters(scene, line, (parts[0], False, "baseline"), random),
        _counters(scene, line, (parts[1], True, "candidate"), random),
    )


@dataclass(frozen=True, slots=True)
class _Scrapes:
    """Of some servers: (servers, scrapes) arrays."""

    times: FloatArray
    visible: FloatArray
    kept: NDArray[np.bool_]
    restarted: NDArray[np.bool_]

    @classmethod
    def drawn(cls, scene: Scene, servers: int, random: np.random.Generator) -> "_Scrapes":
        count = int((BEFORE + scene.length) / INTERVAL)
        first = random.uniform(0, INTERVAL, (servers, 1)) - BEFORE
        times = first + INTERVAL * np.arange(count)
        size = times.shape
        wait = np.where(random.random(size) < scene.delayed, random.uniform(1, 12, size), 0.05)
        chances = random.random((2, *size))
        # Prometheus takes the scrapes of one target in order.
        kept = chances[0] >= scene.missed
        visible = np.maximum.accumulate(np.where(kept, times + wait, -np.inf), axis=1)
        return cls(times, visible, kept, chances[1] < scene.restarts)


def _counters(scene: Scene, line: Line, part: tuple[_Scrapes, bool, str], random: np.random.Generator) -> list[Shown]:
    scrapes, candidate, name = part
    end = scrapes.times
    start = np.concatenate([np.full((end.shape[0], 1), -BEFORE), end[:, :-1]], axis=1)
    share = _share(scene, start - line.lag, end - line.lag)
    share = share if candidate else 1 - share
    if line.lag:  # labels of requests from before are not of this cohort
        share = share * np.clip((end - line.lag) / (end - start), 0, 1)
    requests = random.poisson(line.requests * share * (end - start) / end.shape[0])
    events = _events(line, requests, _rates(scene, line, (start, end), odds=line.odds if candidate else 1.0), random)
    return [
        Shown(f"{name}-{place}", *(row[scrapes.kept[place] & (total > 0)] for row in (times, visible, some, total)))
        for place, (times, visible, some, total) in enumerate(
            zip(
                scrapes.times,
                scrapes.visible,
                _cumulative(events, scrapes.restarted),
                _cumulative(requests, scrapes.restarted),
                strict=True,
            )
        )
    ]


def _share(scene: Scene, start: FloatArray, end: FloatArray) -> FloatArray:
    """Return the candidate's mean share over each span."""
    share, before = np.zeros_like(start), 0
    for look, percent in scene.ladder:
        after = np.clip((end - look * INTERVAL - DATA_PLANE) / (end - start), 0, 1)
        share += after * (percent - before) / 100
        before = percent
    return share


def _rates(scene: Scene, line: Line, span: tuple[FloatArray, FloatArray], odds: float) -> FloatArray:
    start, end = span
    low, high = scene.drifted
    passed = low + (high - low) * np.clip(((start + end) / 2 - line.lag) / scene.length, 0, 1)
    rate = line.rate * line.drift**passed
    worse = odds * rate / (1 - rate + odds * rate)
    begun = np.clip((end - scene.late * INTERVAL) / (end - start), 0, 1)
    rate = rate + (worse - rate) * begun
    for outage in scene.outages:
        overlap = np.clip((np.minimum(end, outage.end) - np.maximum(start, outage.start)) / (end - start), 0, 1)
        rate = rate + (1 - rate) * outage.rate * overlap
    return np.asarray(rate, dtype=np.float64)


def _events(line: Line, requests: IntArray, rates: FloatArray, random: np.random.Generator) -> IntArray:
    if line.burst <= 1:
        return random.binomial(requests, rates)
    bursts = random.poisson(requests * rates / line.burst)
    rest = random.negative_binomial(np.maximum(bursts, 1), 1 / line.burst)
    return np.asarray(np.minimum(requests, np.where(bursts > 0, bursts + rest, 0)), dtype=np.int64)


def _cumulative(gains: IntArray, restarted: NDArray[np.bool_]) -> IntArray:
    """Return the counter at each scrape; a restart just before one sets it back to 0."""
    total = gains.cumsum(axis=1)
    lost = np.maximum.accumulate(np.where(restarted, total, 0), axis=1)
    return np.asarray(total - lost, dtype=np.int64)
