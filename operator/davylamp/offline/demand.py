"""What is known, or assumed, of the traffic that a rollout will judge by."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from scipy.special import ndtr

from davylamp.core.latency import ENOUGH, Baseline
from davylamp.errors import SpecError
from gatestats.buckets import edges_of

#: Seconds of the baseline's traffic that are learnt before the first weight, at least.
_LEARNT: Final = 60.0
#: Rates of exactly 0 and 1 leave nothing to compute with.
_SMALLEST: Final = 1e-7


@dataclass(frozen=True, slots=True)
class Durations:
    """How long the baseline's requests take.

    Parameters
    ----------
    edges
        Upper edges of the buckets in seconds, as in `gatestats.ticks.TwoArmHistogram`.
    shares
        Of the requests by bucket, adding up to 1.
    native
        Whether they come from a native histogram, whose empty buckets are not transmitted.
    """

    edges: tuple[float, ...]
    shares: tuple[float, ...]
    native: bool = False

    def learnt(self, requests: float) -> Baseline:
        """Return the histogram that the operator has after so many requests of the baseline (> 0), on average."""
        counts = tuple(round(requests * share) for share in self.shares)
        if not self.native:
            return Baseline(self.edges, counts)
        bounds = zip((0.0, *self.edges), self.edges, counts, strict=False)
        edges = edges_of({(low, high): count for low, high, count in bounds if math.isfinite(high)})
        return Baseline(edges, tuple(int(count) for count in self.on(edges, np.array(counts))))

    def on(self, edges: tuple[float, ...], values: np.ndarray) -> np.ndarray:
        """Return values by bucket of these durations as values by bucket of wider ``edges`` on the same grid."""
        middles = [
            math.sqrt(low * high) for low, high in zip((self.edges[0] / 2, *self.edges), self.edges, strict=False)
        ]
        places = np.searchsorted(edges, [min(middle, edges[-2] * 2) for middle in middles], side="left")
        return np.bincount(places, values, len(edges))


@dataclass(frozen=True, slots=True)
class Demand:
    """Traffic of both variants together, and what the baseline does with it.

    Parameters
    ----------
    requests
        A second, > 0.
    shares
        The baseline's share of events by gate, for errors and own counters, in 0..1.
    durations
        For the latency gate; None if there is none.
    apart
        Gates whose variants are scraped at different moments, as those of pods are.
    servers
        Targets of the baseline and of the candidate, >= 1 each.
    remarks
        What was assumed, in sentences.
    """

    requests: float
    shares: Mapping[str, float]
    durations: Durations | None = None
    apart: frozenset[str] = frozenset()
    servers: tuple[int, int] = (3, 2)
    remarks: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        if not 0 < self.requests < math.inf:
            raise SpecError(f"requests a second must be above 0 and finite, got {self.requests:g}")
        for gate, share in self.shares.items():
            if not 0 <= share <= 1:
                raise SpecError(f"the share of {gate} must lie in 0 % to 100 %, got {100 * share:g} %")

    def share(self, gate: str) -> float:
        """Return the baseline's share of a gate's events, in (0, 1)."""
        return min(max(self.shares[gate], _SMALLEST), 1 - _SMALLEST)

    def baseline(self) -> Baseline | None:
        """Return what the operator learns of the durations before it gives the candidate traffic."""
        return None if self.durations is None else self.durations.learnt(max(2.0 * ENOUGH, _LEARNT * self.requests))

    def times(self, factor: float) -> "Demand":
        """Return the demand with more (or fewer) requests."""
        return replace(self, requests=self.requests * factor)


def lognormal(edges: tuple[float, ...], median: float, spread: float) -> Durations:
    """Return durations that are spread lognormally: ``median`` in seconds, ``spread`` the sd of the logarithm."""
    if not (0 < median < math.inf and 0 < spread < math.inf):
        raise SpecError(f"a median and a spread of durations are above 0, got {median:g} s and {spread:g}")
    below = ndtr((np.log(edges[:-1]) - math.log(median)) / spread)
    shares = np.diff(np.concatenate([[0.0], below, [1.0]]))
    return Durations(edges, tuple(float(share) for share in shares))
