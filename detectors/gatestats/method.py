"""Which test a stream of counted events may use: chosen before the rollout, from what its pods have shown.

Rule 1: the choice looks at the baseline before the rollout only, so that no test is chosen by its result.
Rule 2: an approximate method says so.
Source: statistics.md 1.6, 1.7 and 1.12.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gatestats.pods import Dispersion
from gatestats.ticks import refuse_bad_count

#: Baseline pods below which a permutation of pods says too little.
_ENOUGH_PODS: Final = 5
#: Pods whose expected traffic differs by no more than this part count as equal.
_EQUAL: Final = 0.1


class Method(StrEnum):
    """How a stream of events among requests is tested."""

    #: `gatestats.pods`: exact whatever happens within a pod; needs pods that expect the same traffic.
    POD_PERMUTATION = "PodPermutation"
    #: `gatestats.tempered`: approximate; for bursts on few or unequal pods.
    TEMPERED = "Tempered"
    #: `gatestats.odds_ratio` and `gatestats.rates`: exact for independent requests.
    CONDITIONAL = "Conditional"


@dataclass(frozen=True, slots=True)
class Choice:
    """A method and why.

    Parameters
    ----------
    method
        What to use.
    approximate
        Whether its error bound holds only about.
    phi
        Dispersion to temper with, >= 1; 1 for exact methods.
    reason
        One sentence with the numbers that decided.
    """

    method: Method
    approximate: bool
    phi: float
    reason: str


def cautious_phi(dispersion: Dispersion) -> float:
    """Return the dispersion plus two standard errors, at least 1 and at most 1000: what to temper with."""
    return min(1000.0, max(1.0, dispersion.phi + 2 * dispersion.standard_error))


def choose_method(
    baseline_requests: Sequence[int], candidate_pods: int, weight: float, dispersion: Dispersion | None
) -> Choice:
    """Choose the test of one stream.

    Five baseline pods and as much traffic for each pod of both variants: pod permutation. Otherwise, tempering if
    the baseline's events come in bursts, else the conditional test.

    Parameters
    ----------
    baseline_requests
        Requests of each baseline pod before the rollout, >= 0.
    candidate_pods
        Pods of the candidate, >= 0.
    weight
        Share of traffic that the candidate will get, in 0..1.
    dispersion
        `gatestats.pods.dispersion` of the baseline before the rollout; None if it had no events.
    """
    for index, requests in enumerate(baseline_requests):
        refuse_bad_count(f"baseline_requests[{index}]", requests)
    refuse_bad_count("candidate_pods", candidate_pods)
    if not 0 <= weight <= 1:
        raise ValueError(f"weight must be a share in 0..1, got {weight}")
    obstacle = _obstacle(baseline_requests, candidate_pods, weight)
    if obstacle is None:
        alone = " (one candidate pod: a bad pod cannot be told from a bad version)" if candidate_pods == 1 else ""
        reason = f"{len(baseline_requests)} baseline pods expect as much traffic as each candidate pod{alone}"
        return Choice(Method.POD_PERMUTATION, approximate=False, phi=1.0, reason=reason)
    if dispersion is None:
        reason = f"{obstacle}; the baseline had no events, so that bursts could not be looked for"
        return Choice(Method.CONDITIONAL, approximate=False, phi=1.0, reason=reason)
    seen = f"{obstacle}; dispersion {dispersion.phi:.2f} ± {dispersion.standard_error:.2f}"
    if dispersion.bursty:
        phi = cautious_phi(dispersion)
        reason = f"{seen} is above 1.2, so evidence is divided by {phi:.2f} and error bounds hold only about"
        return Choice(Method.TEMPERED, approximate=True, phi=phi, reason=reason)
    return Choice(Method.CONDITIONAL, approximate=False, phi=1.0, reason=f"{seen} is not above 1.2")


def _obstacle(baseline_requests: Sequence[int], candidate_pods: int, weight: float) -> str | None:
    """Return why pods cannot be permuted; None if they can."""
    pods = len(baseline_requests)
    if pods < _ENOUGH_PODS:
        return f"{pods} baseline pods of the {_ENOUGH_PODS} that a permutation needs"
    if not candidate_pods or not 0 < weight < 1:
        return f"{candidate_pods} candidate pods with a weight of {weight:.0%}"
    mean = sum(baseline_requests) / pods
    furthest = max(baseline_requests, key=lambda requests: abs(requests - mean))
    if abs(furthest - mean) > _EQUAL * mean + 3 * math.sqrt(mean):
        return f"a baseline pod had {furthest} requests where the mean is {mean:.0f}"
    ratio = weight / candidate_pods / ((1 - weight) / pods)
    if not 1 - _EQUAL <= ratio <= 1 / (1 - _EQUAL):
        return f"a candidate pod expects {ratio:.2f} times the traffic of a baseline pod"
    return None
