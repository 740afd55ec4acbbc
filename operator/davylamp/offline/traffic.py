"""Traffic of a simulated rollout: steady at given rates, or resampled from what the baseline has served."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from davylamp.core.model import Variant
from davylamp.core.plan import Gate, SignalKind
from davylamp.offline.demand import Demand, Durations
from davylamp.offline.effects import slowdown_of, slowed, worse_share

_SMALLEST = 1e-9


@dataclass(frozen=True, slots=True)
class Moment:
    """What is true for a while.

    Parameters
    ----------
    requests
        Of both variants, a second, >= 0.
    shares
        The baseline's share of events by gate, in 0..1.
    durations
        The baseline's shares by bucket; empty without a latency gate.
    """

    requests: float
    shares: Mapping[str, float]
    durations: tuple[float, ...] = ()


class Traffic(Protocol):
    """What is true at each second of a rollout."""

    def at(self, second: float) -> Moment:
        """Return what is true at a second since the beginning, >= 0."""
        ...


@dataclass(frozen=True, slots=True)
class Steady:
    """The same at all times."""

    demand: Demand

    def at(self, second: float) -> Moment:  # noqa: ARG002 - the same at all times
        """Return what is always true."""
        durations = self.demand.durations
        return Moment(self.demand.requests, self.demand.shares, durations.shares if durations else ())


@dataclass(frozen=True, slots=True)
class Resampled:
    """The baseline's history from some moment on, and from its beginning when it is over.

    Parameters
    ----------
    moments
        Of equal length, oldest first.
    seconds
        Length of a moment.
    offset
        Seconds from the beginning of the history to the beginning of the rollout.
    """

    moments: tuple[Moment, ...]
    seconds: float
    offset: float

    def at(self, second: float) -> Moment:
        """Return what was true then."""
        return self.moments[int((self.offset + second) / self.seconds) % len(self.moments)]


@dataclass(frozen=True, slots=True)
class Harm:
    """What is wrong with a candidate: one gate's margin, so many times; nothing if ``gate`` is None."""

    gate: Gate | None = None
    margins: float = 0.0

    def share(self, name: str, share: float) -> float:
        """Return the candidate's share of events of a gate."""
        if self.gate is None or self.gate.name != name or not _SMALLEST < share < 1 - _SMALLEST:
            return share
        return worse_share(self.gate, share, self.margins)

    @property
    def slowdown(self) -> float:
        """The ratio of the candidate's durations to the baseline's."""
        if self.gate is None or self.gate.kind is not SignalKind.LATENCY:
            return 1.0
        return slowdown_of(self.gate, self.margins)


@dataclass(frozen=True, slots=True)
class Gain:
    """What one server did in a short time: requests, events by gate, and requests by bucket of duration."""

    requests: int
    events: Mapping[str, int]
    durations: NDArray[np.int64]


@dataclass(slots=True)
class Tap:
    """Where the requests of a simulated rollout come from.

    Parameters
    ----------
    traffic, harm
        What is true of the baseline, and how the candidate differs.
    grid
        The buckets of durations; None without a latency gate.
    random
        Decides the rest.
    """

    traffic: Traffic
    harm: Harm
    grid: Durations | None
    random: np.random.Generator
    _slowed: dict[tuple[float, ...], NDArray[np.float64]] = field(default_factory=dict)

    def serve(self, variant: Variant, share: float, span: tuple[float, float]) -> Gain:
        """Return what a server that gets ``share`` of all requests does in (start, end], seconds."""
        start, end = span
        moment = self.traffic.at((start + end) / 2)
        requests = int(self.random.poisson(moment.requests * share * (end - start)))
        worse = variant is Variant.CANDIDATE
        events = {
            name: int(self.random.binomial(requests, self.harm.share(name, rate) if worse else rate))
            for name, rate in moment.shares.items()
        }
        return Gain(requests, events, self._durations(requests, moment, worse=worse))

    def _durations(self, requests: int, moment: Moment, *, worse: bool) -> NDArray[np.int64]:
        if self.grid is None:
            return np.zeros(0, dtype=np.int64)
        shares = np.array(moment.durations)
        if worse and self.harm.slowdown != 1:
            shares = self._slowed.setdefault(moment.durations, slowed(self.grid.edges, shares, self.harm.slowdown))
        return self.random.multinomial(requests, shares / shares.sum())
