"""Simulated servers that count, crash and are scraped, each at its own moment: raw samples as a source hands them on.

Times are seconds since the beginning of a rollout.
"""

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import accumulate, pairwise
from typing import Final

import numpy as np

from davylamp.core.model import Variant
from davylamp.core.plan import SignalKind
from davylamp.core.reading import SignalReading, Target
from davylamp.offline.demand import Durations
from davylamp.offline.traffic import Gain, Tap
from gatestats.counters import Sample

BEGINNING: Final = datetime(2026, 1, 1, tzinfo=UTC)
_ZERO: Final = BEGINNING.timestamp()
#: Scrapes of a target that a look can reach back to.
_KEPT: Final = 16


@dataclass(frozen=True, slots=True)
class Scraping:
    """How servers are seen.

    Parameters
    ----------
    interval
        Seconds between two scrapes of a server.
    missed, late, restarts
        Shares of scrapes that fail, that arrive up to 12 s late, and before which the server has restarted.
    """

    interval: float = 10.0
    missed: float = 0.01
    late: float = 0.02
    restarts: float = 0.0005


@dataclass(frozen=True, slots=True)
class _Scrape:
    """All that one server showed at one moment, and when it can be queried."""

    time: float
    visible: float
    requests: int
    events: dict[str, int]
    durations: tuple[int, ...]


@dataclass(slots=True)
class _Server:
    """One target of one variant; its counters begin at 0 again when it restarts."""

    name: str
    variant: Variant
    at: float = 0.0
    requests: int = 0
    events: Counter[str] = field(default_factory=Counter)
    durations: "np.ndarray" = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    scrapes: list[_Scrape] = field(default_factory=list)

    def restart(self) -> None:
        self.requests, self.events = 0, Counter()
        self.durations = np.zeros_like(self.durations)

    def count(self, gain: Gain) -> None:
        self.requests += gain.requests
        self.events.update(gain.events)
        self.durations = self.durations + gain.durations if self.durations.size else gain.durations

    def scraped(self, time: float, visible: float) -> None:
        """Show the counters; no series exists before the first request, and scrapes come in order."""
        if not self.requests and not self.scrapes:
            return
        seen = max(visible, self.scrapes[-1].visible if self.scrapes else 0.0)
        durations = tuple(int(count) for count in self.durations)
        self.scrapes = [*self.scrapes[1 - _KEPT :], _Scrape(time, seen, self.requests, dict(self.events), durations)]


class Fleet:
    """Servers that are scraped for some gates.

    Parameters
    ----------
    tap
        Where their requests come from.
    scraping
        How they are seen.
    servers
        Of the baseline and of the candidate; of gateways, which count both, the first.
    together
        Whether both variants are counted by the same scrapes, as gateways do.
    """

    def __init__(self, tap: Tap, scraping: Scraping, servers: tuple[int, int], *, together: bool) -> None:
        self._tap = tap
        self._scraping = scraping
        counts = (servers[0], servers[0]) if together else servers
        self._servers = {
            variant: [
                _Server(f"gateway-{i}" if together else f"{variant.value.lower()}-{i}", variant) for i in range(n)
            ]
            for variant, n in zip(Variant, counts, strict=True)
        }
        every = [server for servers_of in self._servers.values() for server in servers_of]
        pairs = zip(*self._servers.values(), strict=True) if together else ([server] for server in every)
        self._jobs = [list(job) for job in pairs]
        random = tap.random
        self._due = [(float(random.uniform(0, scraping.interval)), place) for place in range(len(self._jobs))]
        heapq.heapify(self._due)

    def run(self, until: float, share: float) -> None:
        """Serve and be scraped at a constant share of the candidate; the last moment is that of a change or a look."""
        while self._due[0][0] <= until:
            due, place = self._due[0]
            self._advance(self._jobs[place], due, share)
            self._scrape(self._jobs[place], due)
            heapq.heapreplace(self._due, (due + self._scraping.interval, place))

    def settle(self, now: float, share: float) -> None:
        """Count what every server has served up to now, before the share changes."""
        self._advance((server for job in self._jobs for server in job), now, share)

    def _advance(self, servers: Iterable[_Server], to: float, share: float) -> None:
        for server in servers:
            part = share if server.variant is Variant.CANDIDATE else 1 - share
            if part > 0 and to > server.at:
                mine = part / len(self._servers[server.variant])
                server.count(self._tap.serve(server.variant, mine, (server.at, to)))
            server.at = to

    def _scrape(self, servers: Sequence[_Server], time: float) -> None:
        restarts, missed, late = self._tap.random.random(3)
        if restarts < self._scraping.restarts:
            for server in servers:
                server.restart()
        if missed < self._scraping.missed:
            return
        visible = time + (self._tap.random.uniform(1, 12) if late < self._scraping.late else 0.05)
        for server in servers:
            server.scraped(time, visible)

    def signal(self, gate: str, kind: SignalKind, span: tuple[float, float]) -> SignalReading:
        """Return the raw samples of a gate in (start, end] that can be queried at the end."""
        targets: dict[Variant, tuple[Target, ...]] = {}
        newest: dict[Variant, datetime] = {}
        for variant, servers in self._servers.items():
            seen = [(server.name, _within(server.scrapes, span)) for server in servers]
            seen = [(name, scrapes) for name, scrapes in seen if scrapes]
            if seen:
                latest = max(scrapes[-1].time for _, scrapes in seen)
                newest[variant] = datetime.fromtimestamp(_ZERO + latest, UTC)
                targets[variant] = tuple(
                    _histogram(name, scrapes, self._tap.grid)
                    if kind is SignalKind.LATENCY and self._tap.grid is not None
                    else _counters(name, scrapes, gate)
                    for name, scrapes in seen
                )
        return SignalReading(targets, newest)


def _within(scrapes: Sequence[_Scrape], span: tuple[float, float]) -> list[_Scrape]:
    return [scrape for scrape in scrapes if span[0] < scrape.time <= span[1] and scrape.visible <= span[1]]


def _counters(name: str, scrapes: Sequence[_Scrape], gate: str) -> Target:
    """Return a pair of counters; that of events exists from the first event on, as client libraries do."""
    happened = tuple(Sample(_ZERO + scrape.time, n) for scrape in scrapes if (n := scrape.events.get(gate, 0)))
    return Target(
        name,
        events={"events": happened} if happened else {},
        total={"total": tuple(Sample(_ZERO + scrape.time, scrape.requests) for scrape in scrapes)},
    )


def _histogram(name: str, scrapes: Sequence[_Scrape], grid: Durations) -> Target:
    if grid.native:
        bounds = list(pairwise((0.0, *grid.edges)))
        native = tuple(
            (_ZERO + s.time, {bound: count for bound, count in zip(bounds, s.durations, strict=True) if count})
            for s in scrapes
        )
        return Target(name, native=native)
    rows = [list(accumulate(scrape.durations)) for scrape in scrapes]
    edges = grid.edges if math.isinf(grid.edges[-1]) else (*grid.edges[:-1], math.inf)
    return Target(
        name,
        buckets={
            edge: tuple(Sample(_ZERO + s.time, row[place]) for s, row in zip(scrapes, rows, strict=True))
            for place, edge in enumerate(edges)
        },
    )
