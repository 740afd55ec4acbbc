"""Many simulated rollouts of one plan, and what came out of them: `davylamp plan --simulate`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from davylamp.core.plan import Plan
from davylamp.offline.demand import Demand
from davylamp.offline.servers import Fleet, Scraping
from davylamp.offline.traffic import Harm, Steady, Tap, Traffic
from davylamp.offline.trial import Outcome, Trial

#: Begins the traffic of one rollout, by its random numbers.
Source = Callable[[np.random.Generator], Traffic]
_MOST_RUNS: Final = 100_000


@dataclass(frozen=True, slots=True)
class Sample:
    """What came out of some rollouts.

    Parameters
    ----------
    outcomes
        Of each rollout.
    harm
        What was wrong with the candidate.
    """

    outcomes: tuple[Outcome, ...]
    harm: Harm

    @property
    def runs(self) -> int:
        """How many rollouts."""
        return len(self.outcomes)

    @property
    def rolled_back(self) -> tuple[float, ...]:
        """Looks to the rollback, of those that were rolled back."""
        return tuple(each.rolled_back for each in self.outcomes if each.rolled_back is not None)

    @property
    def promoted(self) -> tuple[float, ...]:
        """Looks to the promotion, of those that were promoted."""
        return tuple(each.promoted for each in self.outcomes if each.promoted is not None)

    def within(self, looks: float) -> float:
        """Return the share of rollouts that were rolled back within so many looks."""
        return sum(delay <= looks for delay in self.rolled_back) / self.runs


def mean(values: Sequence[float]) -> float:
    """Return the mean; inf of nothing: it did not happen."""
    return float(np.mean(values)) if values else float("inf")


def quantile(values: Sequence[float], share: float, runs: int) -> float:
    """Return the value that a share of all runs does not exceed; inf if in fewer of them it happened."""
    padded = np.sort(np.concatenate([values, np.full(runs - len(values), np.inf)]))
    return float(padded[min(runs - 1, int(np.ceil(share * runs)) - 1)])


@dataclass(frozen=True, slots=True)
class Simulator:
    """Runs rollouts.

    Parameters
    ----------
    plan, demand
        What is rolled out over what.
    source
        Where the traffic comes from; that of the demand if None.
    scraping
        How servers are seen.
    """

    plan: Plan
    demand: Demand
    source: Source | None = None
    scraping: Scraping = field(default_factory=Scraping)

    def run(self, harm: Harm, runs: int, looks: int, seed: int) -> Sample:
        """Run rollouts of a candidate.

        Parameters
        ----------
        harm
            What is wrong with the candidate.
        runs
            How many, 1..100000.
        looks
            When an undecided rollout is left, in looks under traffic.
        seed
            Fixes everything that is random; run i has the seed (seed, i).

        Raises
        ------
        ValueError
            If ``runs`` is out of range.
        """
        if not 1 <= runs <= _MOST_RUNS:
            raise ValueError(f"rollouts to simulate must be 1 to {_MOST_RUNS}, got {runs}")
        return Sample(tuple(self.trial(harm, (seed, run)).run(looks) for run in range(runs)), harm)

    def trial(self, harm: Harm, seed: Sequence[int]) -> Trial:
        """Return one rollout before its first look."""
        random = np.random.default_rng(list(seed))
        traffic = Steady(self.demand) if self.source is None else self.source(random)
        tap = Tap(traffic, harm, self.demand.durations, random)
        names = frozenset(gate.name for gate in self.plan.gates)
        split = ((names - self.demand.apart, True), (names & self.demand.apart, False))
        fleets = tuple(
            (Fleet(tap, self.scraping, self.demand.servers, together=together), gates)
            for gates, together in split
            if gates
        )
        return Trial(self.plan, fleets)
