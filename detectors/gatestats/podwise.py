"""A margin, held against clustered events: roll back only when both the requests and the pods say so.

The tests of `gatestats.odds_ratio` and `gatestats.rates` know margins and take requests as independent; the
permutation of pods (`gatestats.pods`) bears any bursts within a pod and knows no margin. The evidence here is the
smaller of the two, which is an e-process for both of their nulls: "no worse than the margin, requests independent" and
"pods like pods, whatever happens within one". Not covered: bursts on a candidate that is a little worse, within its
margin. Promotion evidence, estimate and interval are those of the requests.

Pods need not have the same traffic: their requests are thinned to those of the pod with the fewest, by a draw that
depends on names and times only, so that a replay thins alike. Thinned bursts are smaller bursts; the pod statistic is
cut off at two standard deviations, so that this costs power rather than validity.
Source: statistics.md 1.6 (permutation, thinning); the smaller of two e-processes is one for either null.
"""

import bisect
import dataclasses
import hashlib
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from gatestats.pods import PodDesign
from gatestats.process import Process
from gatestats.state import State, mark, must_belong
from gatestats.ticks import (
    Estimate,
    Interval,
    OneArmCounts,
    PodCounts,
    PodwiseCounts,
    Tick,
    Worse,
    refuse_bad_level,
    tick_as,
)

#: Standard deviations from the mean of a tick at which the statistic of a pod is cut off.
_CUT: Final = 2.0


@dataclass(frozen=True, slots=True)
class PodwiseDesign:
    """A margin for requests that may come in bursts; a process for `PodwiseCounts`.

    Parameters
    ----------
    requests
        The test of the margin: a process for `TwoArmCounts`.
    worse
        Direction that counts as worse, as in ``requests``.
    planned_ticks
        Ticks within which a late regression is expected, >= 0; None for an open end.
    """

    requests: Process
    worse: Worse = Worse.HIGHER
    planned_ticks: int | None = None

    def pods(self) -> PodDesign:
        """Return the test that the candidate's pods are like the baseline's."""
        return PodDesign(cap=None, planned_ticks=self.planned_ticks)

    def start(self) -> State:
        """Return the state before the first tick."""
        return _fresh(self)

    def update(self, state: State, tick: Tick) -> State:
        """Return the state after one more tick; see `gatestats.process.Process`."""
        must_belong(state, _fresh(self))
        counts = tick_as(PodwiseCounts, tick)
        requests, pods = state.parts
        parts = self.requests.update(requests, counts.requests), self.pods().update(pods, counts.pods)
        return dataclasses.replace(state, ticks=state.ticks + 1, informative=parts[0].informative, parts=parts)

    def log_e(self, state: State) -> float:
        """Return ln E against "within the margin, or pods alike", nats: the smaller of the two."""
        return min(self.requests.log_e(state.parts[0]), self.pods().log_e(state.parts[1]))

    def log_e_non_inferior(self, state: State) -> float | None:
        """Return ln E against "worse by at least the margin" of the requests, nats."""
        return self.requests.log_e_non_inferior(state.parts[0])

    def estimate(self, state: State) -> Estimate | None:
        """Return the effect that the requests show, or None without data."""
        return self.requests.estimate(state.parts[0])

    def interval(self, state: State, level: float) -> Interval | None:
        """Return the confidence sequence of the requests; it takes them as independent."""
        refuse_bad_level(level)
        return self.requests.interval(state.parts[0], level)


def pod_statistics(
    baseline: Mapping[str, OneArmCounts], candidate: Mapping[str, OneArmCounts], *, worse: Worse, seed: str
) -> PodCounts:
    """Return one number for each pod of a tick that is larger the worse the pod fares.

    Requests are thinned to those of the pod with the fewest; the events left (or the requests without, if fewer are
    worse) are measured from the mean over all pods in Poisson standard deviations, at least one event, and cut off at
    two. Every pod is treated by the same rule, and the mean is that of all pods together, so exchangeable pods stay so.

    Parameters
    ----------
    baseline, candidate
        Counts of each pod by its name. Pods without requests are left out.
    worse
        Direction that counts as worse.
    seed
        Names the tick and the gate: the draw follows from it and the name of the pod.
    """
    arms = [{name: counts for name, counts in arm.items() if counts.total} for arm in (baseline, candidate)]
    if not all(arms):
        return PodCounts((), ())
    fewest = min(counts.total for arm in arms for counts in arm.values())
    kept = [[_kept(arm[name], fewest, f"{seed}/{name}") for name in sorted(arm)] for arm in arms]
    bad = [[fewest - k if worse is Worse.LOWER else k for k in arm] for arm in kept]
    mean = sum(sum(arm) for arm in bad) / sum(len(arm) for arm in bad)
    spread = max(1.0, math.sqrt(mean))
    theirs, ours = (tuple(_CUT + max(-_CUT, min(_CUT, (k - mean) / spread)) for k in arm) for arm in bad)
    return PodCounts(theirs, ours)


def _kept(counts: OneArmCounts, drawn: int, seed: str) -> int:
    """Return how many events are among ``drawn`` of the requests, drawn without putting back.

    Inversion of the hypergeometric law at a number in (0, 1) that follows from the seed.
    """
    events, others = counts.events, counts.total - counts.events
    low, high = max(0, drawn - others), min(events, drawn)
    if low == high:
        return low
    point = (int.from_bytes(hashlib.blake2b(seed.encode(), digest_size=6).digest()) + 0.5) / 2**48
    # From the mode outwards, so that no probability is too small to begin with.
    mode = min(high, max(low, (drawn + 1) * (events + 1) // (counts.total + 2)))
    masses = {mode: 1.0}
    for step, end in ((1, high), (-1, low)):
        k, mass = mode, 1.0
        while k != end and mass > 1e-18:
            mass *= _ratio(counts, drawn, k, step)
            k += step
            masses[k] = mass
    values = sorted(masses)
    sums = list(itertools.accumulate(masses[k] for k in values))
    return values[bisect.bisect_left(sums, point * sums[-1])]


def _ratio(counts: OneArmCounts, drawn: int, k: int, step: int) -> float:
    """Return P(k + step) / P(k) of the hypergeometric law."""
    events, others = counts.events, counts.total - counts.events
    if step > 0:
        return (events - k) * (drawn - k) / ((k + 1) * (others - drawn + k + 1))
    return k * (others - drawn + k) / ((events - k + 1) * (drawn - k + 1))


@lru_cache(maxsize=512)
def _fresh(design: PodwiseDesign) -> State:
    parts = (design.requests.start(), design.pods().start())
    return State(mark("podwise", design), 0, 0, 0.0, (), (), (), (), parts)
