"""Which test a stream of counted events may use: chosen before its first tick, from what pods there are and were.

Rule 1: the choice looks at the names of pods and at the baseline before the rollout only, so that no test is chosen by
its result.
Rule 2: a bound that holds only about is said to do so.
Source: statistics.md 1.6, 1.7 and 1.12.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gatestats.pods import Dispersion
from gatestats.ticks import refuse_bad_count

#: Baseline pods below which a permutation of pods says too little.
ENOUGH_PODS: Final = 5


class Method(StrEnum):
    """How a stream of events among requests is tested."""

    #: `gatestats.podwise`: both the requests and the pods must speak for a regression; bears any bursts within a pod.
    PODWISE = "Podwise"
    #: `gatestats.tempered`: evidence divided by the dispersion; for bursts on few pods.
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
        Dispersion to temper with, >= 1; 1 for other methods.
    reason
        In words, with the numbers that decided.
    """

    method: Method
    approximate: bool
    phi: float
    reason: str


def cautious_phi(dispersion: Dispersion) -> float:
    """Return the dispersion plus two standard errors, at least 1 and at most 1000: what to temper with."""
    return min(1000.0, max(1.0, dispersion.phi + 2 * dispersion.standard_error))


def choose_method(
    baseline_pods: int, dispersion: Dispersion | None, *, shared: bool = False, tempers: bool = True
) -> Choice:
    """Choose the test of one stream.

    Parameters
    ----------
    baseline_pods
        Pods of the baseline, >= 0.
    dispersion
        Of the baseline before the rollout; None if it had no events, or one pod.
    shared
        Whether both variants are counted by the same targets, as by a gateway: then no pod can be seen.
    tempers
        Whether the margin has a tempered test: an odds ratio has.
    """
    refuse_bad_count("baseline_pods", baseline_pods)
    if shared:
        reason = "a gateway counts both variants, so pods cannot be told apart, and requests are taken as independent"
        return Choice(Method.CONDITIONAL, approximate=False, phi=1.0, reason=reason)
    if baseline_pods >= ENOUGH_PODS:
        reason = f"{baseline_pods} baseline pods, so bursts within a pod are allowed for"
        return Choice(Method.PODWISE, approximate=False, phi=1.0, reason=reason)
    some = f"{baseline_pods} baseline pod{'' if baseline_pods == 1 else 's'}"
    pods = f"{some}, and to allow for bursts {ENOUGH_PODS} are needed"
    if dispersion is None:
        reason = f"{pods}; bursts could not be looked for, and requests are taken as independent"
        return Choice(Method.CONDITIONAL, approximate=False, phi=1.0, reason=reason)
    seen = f"{pods}; dispersion {dispersion.phi:.2f} ± {dispersion.standard_error:.2f} before the rollout"
    if not dispersion.bursty:
        return Choice(Method.CONDITIONAL, approximate=False, phi=1.0, reason=f"{seen} shows no bursts")
    if not tempers:
        reason = f"{seen} shows bursts, which this margin does not allow for: the false rollback rate may be exceeded"
        return Choice(Method.CONDITIONAL, approximate=True, phi=1.0, reason=reason)
    phi = cautious_phi(dispersion)
    reason = f"{seen} shows bursts, so evidence is divided by {phi:.2f}, and bounds hold only about"
    return Choice(Method.TEMPERED, approximate=True, phi=phi, reason=reason)
