"""Bursts and clusters of errors: the pod-permutation e-process, and how to see that it is needed.

H0: given the past, the pods of both variants are exchangeable within a tick. Any dependence within a pod is allowed:
bursts, heavy tails, outages common to all pods. Validity: anytime, exact under that H0.
A pod that is worse for a reason of its own (node, cold cache) breaks it, and a version of one pod cannot be told from
the pod: use at least two candidate pods on different nodes. All pods must expect the same traffic.
Source: statistics.md 1.6.
"""

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from gatestats.arrays import FloatArray, as_array
from gatestats.late_change import FIRST_STAKE, first_wealth, log_evidence, refuse_bad_plan, step_wealth
from gatestats.state import State, mark, must_belong
from gatestats.ticks import Estimate, Interval, Measure, OneArmCounts, PodCounts, Tick, refuse_bad_level, tick_as

#: Log odds per unit of the pod statistic that rollback bets on.
_TILTS: Final = tuple(math.log(odds) for odds in (1.3, 1.7, 2.2, 3.5, 6.0, 12.0))
#: Standard deviations of the dispersion of independent requests that count as chance.
_BEYOND_CHANCE: Final = 2.0
_WEIGHTS: Final = (0.30, 0.25, 0.20, 0.12, 0.08, 0.05)


@dataclass(frozen=True, slots=True)
class PodDesign:
    """A test that the candidate's pods are like the baseline's; a process for `PodCounts`.

    Parameters
    ----------
    cap
        Largest value of the pod statistic, > 0, or None. With bursts, 2 keeps the power that raw counts lose.
    planned_ticks
        Ticks within which a late regression is expected, >= 0; None for an open end.
    """

    cap: float | None = 2.0
    planned_ticks: int | None = None

    def __post_init__(self) -> None:
        if self.cap is not None and not 0 < self.cap < math.inf:
            raise ValueError(f"cap must be above 0 and finite, or None, got {self.cap}")
        refuse_bad_plan(self.planned_ticks)

    def start(self) -> State:
        """Return the state before the first tick."""
        return _fresh(self)

    def update(self, state: State, tick: Tick) -> State:
        """Return the state after one more tick; see `gatestats.process.Process`.

        A tick without pods of both variants, or with all pods alike, has factor 1.
        """
        must_belong(state, _fresh(self))
        pods = tick_as(PodCounts, tick)
        top = math.inf if self.cap is None else self.cap
        baseline, candidate = ([min(value, top) for value in arm] for arm in (pods.baseline, pods.candidate))
        factors = log_permutation_factors(baseline, candidate, as_array(_TILTS))
        wealth, spent = step_wealth(state, factors, self.planned_ticks)
        return dataclasses.replace(
            state,
            ticks=state.ticks + 1,
            informative=state.informative + bool(factors.any()),
            spent=spent,
            wealth=wealth,
            totals=(state.totals[0] + len(baseline), state.totals[1] + len(candidate)),
            sums=(state.sums[0] + math.fsum(baseline), state.sums[1] + math.fsum(candidate)),
        )

    def log_e(self, state: State) -> float:
        """Return ln E against "the candidate's pods are exchangeable with the baseline's in every tick", nats."""
        return log_evidence(state, as_array(_WEIGHTS))

    def log_e_non_inferior(self, state: State) -> float | None:
        """Return None: exchangeability has no margin to be within; promote by a rate or odds ratio margin."""
        must_belong(state, _fresh(self))
        return None

    def estimate(self, state: State) -> Estimate | None:
        """Return the mean (capped) statistic of a pod in a tick and its difference, or None without pods."""
        their_pods, our_pods = state.totals
        if not their_pods and not our_pods:
            return None
        theirs = state.sums[0] / their_pods if their_pods else None
        ours = state.sums[1] / our_pods if our_pods else None
        effect = None if theirs is None or ours is None else ours - theirs
        return Estimate(Measure.POD_DIFFERENCE, effect, theirs, ours, their_pods, our_pods)

    def interval(self, state: State, level: float) -> Interval | None:
        """Return None: exchangeability has no effect size to bound."""
        must_belong(state, _fresh(self))
        refuse_bad_level(level)
        return None


def log_permutation_factors(baseline: Sequence[float], candidate: Sequence[float], tilts: FloatArray) -> FloatArray:
    """Return ln L(b) = b sum_C y - ln mean over all choices of as many pods of exp(b sum of their y), nats.

    H0: the pods are exchangeable. Valid in one tick whatever the past.

    Parameters
    ----------
    baseline, candidate
        Statistic of each pod, finite.
    tilts
        b of each bet, shape (K,).

    Notes
    -----
    The mean is an elementary symmetric polynomial of exp(b y) over C(P, m), built up pod by pod in log space.
    """
    values, chosen = [*baseline, *candidate], len(candidate)
    if not baseline or not candidate or min(values) == max(values):
        return np.zeros(tilts.size)
    sums = np.full((tilts.size, chosen + 1), -math.inf)
    sums[:, 0] = 0.0
    for value in values:
        sums[:, 1:] = np.logaddexp(sums[:, 1:], sums[:, :-1] + tilts[:, None] * value)
    result: FloatArray = tilts * math.fsum(candidate) - sums[:, chosen] + math.log(math.comb(len(values), chosen))
    return result


@dataclass(frozen=True, slots=True)
class Dispersion:
    """How much more pods differ than independent requests would make them.

    Parameters
    ----------
    phi
        Variance over binomial variance, >= 0; 1 is independence.
    standard_error
        Of phi, over ticks, >= 0.
    degrees
        Degrees of freedom behind it, >= 1.
    """

    phi: float
    standard_error: float
    degrees: int

    @property
    def bursty(self) -> bool:
        """Whether tests of requests would alarm too often: phi is above 1.2, and above what chance makes of 1."""
        return self.phi > max(1.2, 1 + _BEYOND_CHANCE * math.sqrt(2 / self.degrees))


@dataclass(frozen=True, slots=True)
class Spread:
    """What ticks of several pods have shown of their dispersion so far: sums that need no memory of the ticks.

    Parameters
    ----------
    squares, squared, crossed
        Sums over ticks of Pearson's statistic, of its square, and of its product with the degrees of freedom, >= 0.
    degrees, degrees_squared
        Sums over ticks of the degrees of freedom and of their squares, >= 0.
    """

    squares: float = 0.0
    squared: float = 0.0
    crossed: float = 0.0
    degrees: int = 0
    degrees_squared: int = 0

    def plus(self, pods: Sequence[OneArmCounts]) -> "Spread":
        """Return the sums with one more tick, given the counts of each pod.

        Pods without requests, and ticks in which nothing or everything was an event, say nothing.
        """
        seen = [pod for pod in pods if pod.total]
        events, total = sum(pod.events for pod in seen), sum(pod.total for pod in seen)
        if len(seen) < 2 or not 0 < events < total:
            return self
        rate, degree = events / total, len(seen) - 1
        misses = ((pod.events - pod.total * rate) ** 2 / pod.total for pod in seen)
        square = math.fsum(misses) / (rate * (1 - rate))
        return Spread(
            self.squares + square,
            self.squared + square * square,
            self.crossed + square * degree,
            self.degrees + degree,
            self.degrees_squared + degree * degree,
        )

    def dispersion(self) -> Dispersion | None:
        """Return the dispersion that the ticks have shown; None if none of them says anything."""
        if not self.degrees:
            return None
        phi = self.squares / self.degrees
        spread = self.squared - 2 * phi * self.crossed + phi * phi * self.degrees_squared
        return Dispersion(phi, math.sqrt(max(0.0, spread)) / self.degrees, self.degrees)


def dispersion(ticks: Iterable[Sequence[OneArmCounts]]) -> Dispersion | None:
    """Estimate the dispersion of events over baseline pods, from before the rollout.

    Pearson's statistic of each tick against its own pooled rate, over its degrees of freedom. Fixed-n and descriptive:
    it chooses the method beforehand and decides nothing.

    Parameters
    ----------
    ticks
        For each tick, counts of each baseline pod; see `Spread.plus`.

    Returns
    -------
    Dispersion or None
        None if no tick says anything.
    """
    spread = Spread()
    for pods in ticks:
        spread = spread.plus(pods)
    return spread.dispersion()


@lru_cache(maxsize=512)
def _fresh(design: PodDesign) -> State:
    return State(mark("pods", design), 0, 0, FIRST_STAKE, first_wealth(len(_TILTS)), (), (0, 0), (0.0, 0.0))
