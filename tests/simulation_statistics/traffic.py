"""What is true of a simulated rollout: how many requests come, fail, how long they take, and how that drifts."""

import math
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from davylamp.core.model import Variant

#: Durations are lognormal: median in milliseconds, and standard deviation of the logarithm.
MEDIAN: Final = 12.0
SPREAD: Final = 0.5
_NATIVE_GROWTH: Final = 2 ** (1 / 8)


class Buckets(Enum):
    """Histograms as servers export them; upper edges in milliseconds."""

    #: Native, schema 3: empty buckets are not transmitted.
    NATIVE = tuple(_NATIVE_GROWTH**k for k in range(4, 64))
    #: Classic, with a constant ratio of 1.1.
    FINE = tuple(round(3.0 * 1.1**k, 9) for k in range(30))
    #: Classic, Envoy's own.
    COARSE = (0.5, 1.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0)


@dataclass(frozen=True, slots=True)
class Outage:
    """A dependency of both variants fails: requests in (start, end], in seconds of traffic, fail at ``rate``."""

    start: float
    end: float
    rate: float


@dataclass(frozen=True, slots=True)
class Truth:
    """Rates of a rollout.

    Parameters
    ----------
    requests
        Of both variants together, per second.
    error_rate, error_odds, error_gain
        Of the baseline at the beginning, the candidate's odds ratio, and what comes on top of its rate.
    drift
        By what the error rate of both grows over ``length``, evenly in the logarithm.
    length
        Seconds over which things drift.
    slowdown, latency_drift
        Ratio of the candidate's durations to the baseline's, and by what both grow over ``length``.
    approvals, approvals_gain
        Share of the baseline, and the candidate's difference.
    refusals, refusals_ratio
        Share of the baseline, and the candidate's ratio.
    late
        Seconds of traffic after which the candidate's effects begin.
    burst
        Mean size of a cluster of errors, at one server at one moment; 1 is independent.
    outages
        Common to both variants.
    """

    requests: float = 50.0
    error_rate: float = 0.005
    error_odds: float = 1.0
    error_gain: float = 0.0
    drift: float = 4.0
    length: float = 600.0
    slowdown: float = 1.0
    latency_drift: float = 1.0
    approvals: float = 0.3
    approvals_gain: float = 0.0
    refusals: float = 0.05
    refusals_ratio: float = 1.0
    late: float = 0.0
    burst: float = 1.0
    outages: tuple[Outage, ...] = ()


@dataclass(frozen=True, slots=True)
class Gain:
    """What one server did in a short time; ``durations`` by bucket, the open one last."""

    requests: int
    errors: int
    approvals: int
    refusals: int
    durations: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Tap:
    """Where requests come from."""

    truth: Truth
    buckets: Buckets
    random: np.random.Generator

    def serve(self, variant: Variant, share: float, span: tuple[float, float]) -> Gain:
        """Return what a server that gets ``share`` of all requests does in (start, end], seconds of traffic."""
        truth, random, (start, end) = self.truth, self.random, span
        requests = int(random.poisson(truth.requests * share * (end - start)))
        worse = variant is Variant.CANDIDATE and end > truth.late
        approvals = truth.approvals + (truth.approvals_gain if worse else 0.0)
        refusals = truth.refusals * (truth.refusals_ratio if worse else 1.0)
        median = MEDIAN * truth.latency_drift ** (end / truth.length) * (truth.slowdown if worse else 1.0)
        return Gain(
            requests,
            self._errors(requests, span, (truth.error_odds, truth.error_gain) if worse else (1.0, 0.0)),
            int(random.binomial(requests, approvals)),
            int(random.binomial(requests, refusals)),
            random.multinomial(requests, _shares(self.buckets, round(math.log(median), 3))),
        )

    def _errors(self, requests: int, span: tuple[float, float], effect: tuple[float, float]) -> int:
        truth, (start, end) = self.truth, span
        rate = truth.error_rate * truth.drift ** (end / truth.length)
        odds = effect[0] * rate / (1 - rate)
        rate = odds / (1 + odds) + effect[1]
        for outage in truth.outages:
            overlap = max(0.0, min(end, outage.end) - max(start, outage.start)) / max(end - start, 1e-9)
            rate += (1 - rate) * outage.rate * overlap
        if truth.burst <= 1:
            return int(self.random.binomial(requests, rate))
        bursts = int(self.random.poisson(requests * rate / truth.burst))
        return min(requests, int(self.random.geometric(1 / truth.burst, bursts).sum()))


@lru_cache(maxsize=4096)
def _shares(buckets: Buckets, log_median: float) -> NDArray[np.float64]:
    below = ndtr((np.log(buckets.value) - log_median) / SPREAD)
    shares: NDArray[np.float64] = np.diff(np.concatenate([[0.0], below, [1.0]]))
    return shares
