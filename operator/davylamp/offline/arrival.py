"""When evidence arrives: the distribution of the look at which a threshold is passed, over a ladder of weights.

The path of the mean is walked first, with every bet and the stakes of `gatestats.late_change`; it tells which bet
leads when the threshold is met, and how far that bet has come by then. Around this, the time is inverse Gaussian in
the clock of that bet's mean gain (`gatestats.planning.passed`).
A regression on a ladder is another matter: half-way to its threshold the weight stops rising. There the bets' walks are
drawn (`Climb`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np

from davylamp.offline.timeline import Timeline
from gatestats.arrays import FloatArray, as_array
from gatestats.late_change import FIRST_STAKE, stake
from gatestats.outlook import Backing
from gatestats.planning import OVERSHOOT, passed

#: Walks that are drawn: the mean of their times is off by 2 % at most times.
_PATHS: Final = 1000
_SEED: Final = 1


@dataclass(frozen=True)
class Arrival:
    """When something happens.

    Parameters
    ----------
    chances
        The chance that it has happened after t looks, from 0 on.
    late
        What the mean lies after that of the line through the chances: half a look if it can happen at looks only, 0 if
        the chances are those of a time in between (`gatestats.planning.OVERSHOOT`).
    """

    chances: FloatArray
    late: float = field(default=0.0, kw_only=True)

    @property
    def surely(self) -> float:
        """The chance that it happens at all within the looks that were looked at, 0..1."""
        return float(self.chances[-1])

    @cached_property
    def mean(self) -> float:
        """Expected looks, of those runs in which it happens; inf if it hardly ever does."""
        if self.surely < 0.01:
            return float("inf")
        return float(np.trapezoid(1 - self.chances / self.surely)) + self.late

    def by(self, looks: float) -> float:
        """Return the chance that it has happened after so many looks."""
        return float(np.interp(looks, np.arange(self.chances.size), self.chances))

    def quantile(self, chance: float) -> float:
        """Return the look by which it has happened with this chance; inf if that is not within sight."""
        index = int(np.searchsorted(self.chances, chance, side="left"))
        return float(index) if index < self.chances.size else float("inf")


@dataclass(frozen=True, slots=True)
class Lead:
    """The bet that leads where the mean path meets a threshold.

    Parameters
    ----------
    bet
        Its index.
    distance
        What it has gained by then, nats.
    look
        When that is; None if it is not within sight.
    """

    bet: int
    distance: float
    look: int | None


@dataclass(frozen=True, slots=True)
class Walk:
    """The bets of one stream over a timeline.

    Parameters
    ----------
    drifts, variances
        Of each bet at each look, shape (looks, bets).
    masses
        Prior mass of each bet.
    stakes
        What is put up before each look, by `gatestats.late_change.stake`; all at once for promotion.
    """

    drifts: FloatArray
    variances: FloatArray
    masses: FloatArray
    stakes: FloatArray

    def lead(self, threshold: float) -> Lead:
        """Return which bet leads where the mean path meets a threshold (nats)."""
        gained = np.cumsum(self.drifts, axis=0)
        before = np.vstack([np.zeros((1, self.masses.size)), gained[:-1]])
        with np.errstate(divide="ignore"):
            started = np.logaddexp.accumulate(np.log(self.stakes)[:, None] - before, axis=0)
        wealth = gained + started + np.log(self.masses)
        evidence = np.logaddexp.reduce(wealth, axis=1)
        met = np.flatnonzero(evidence >= threshold)
        if not met.size:
            bet = int(np.argmax(gained[-1] + np.log(self.masses)))
            return Lead(bet, threshold - float(np.log(self.masses[bet] * self.stakes[0])), None)
        look = int(met[0])
        bet = int(np.argmax(wealth[look]))
        low = float(evidence[look - 1]) if look else float(np.log(self.stakes[0]))
        part = (threshold - low) / (float(evidence[look]) - low)
        distance = float(before[look, bet] + part * self.drifts[look, bet])
        return Lead(bet, max(distance, 1e-6), look)

    def chances(self, lead: Lead) -> FloatArray:
        """Return the chance that the bet in the lead has come so far after each look, from 0 on."""
        drifts, variances = self.drifts[:, lead.bet], self.variances[:, lead.bet]
        seen = slice(0, None if lead.look is None else lead.look + 1)
        gain = float(drifts[seen].sum())
        chances = np.zeros(drifts.size + 1)
        if gain > 0:
            raised = lead.distance + OVERSHOOT * float(np.sqrt(variances[seen][-1]))
            chances[1:] = passed(np.cumsum(drifts), raised, float(variances[seen].sum()) / gain)
        return np.maximum.accumulate(chances)


def walk(timeline: Timeline, backings: Sequence[Sequence[Backing]], looks: int, *, at_once: bool) -> Walk:
    """Return the bets of a stream at each look.

    Parameters
    ----------
    timeline, backings
        The stages, and the bets in each of them.
    looks
        How many.
    at_once
        Whether the whole stake is put up before the first look, as for promotion.
    """
    place, counts = timeline.of_look(looks)
    drifts = np.array([[backing.pace.drift for backing in stage] for stage in backings])
    variances = np.array([[backing.pace.variance for backing in stage] for stage in backings])
    planned = timeline.planned
    stakes = np.array([1.0, *[0.0] * (looks - 1)]) if at_once else as_array([stake(t, planned) for t in range(looks)])
    return Walk(
        drifts[place] * counts[:, None],
        variances[place] * counts[:, None],
        as_array([backing.mass for backing in backings[0]]),
        stakes,
    )


def proof(timeline: Timeline, backings: Sequence[Sequence[Backing]], threshold: float, looks: int) -> Arrival:
    """Return when promotion evidence passes its threshold (nats) while nothing holds the ladder."""
    path = walk(timeline, backings, looks, at_once=True)
    return Arrival(path.chances(path.lead(threshold)))


@dataclass(frozen=True)
class Detection(Arrival):
    """When a regression is found, and what it costs until then.

    Parameters
    ----------
    exposure
        Requests of the candidate until then on average, in requests at full weight and one look: the sum of weights.
    """

    exposure: float


def detection(
    timeline: Timeline, backings: Sequence[Sequence[Backing]], thresholds: tuple[float, float], looks: int
) -> Detection:
    """Return when rollback evidence passes its threshold.

    Parameters
    ----------
    timeline, backings
        The stages, and the bets in each of them.
    thresholds
        Nats of the stream at which the weight stops rising, and at which the traffic is taken back.
    looks
        How far to look.
    """
    if len(timeline.stages) > 1:
        return Climb(timeline, backings, thresholds).run(looks)
    path = walk(timeline, backings, looks, at_once=False)
    chances = path.chances(path.lead(thresholds[1]))
    return Detection(chances, timeline.stages[0].weight * float((1 - chances[:-1]).sum()))


class Climb:
    """Random walks of the bets of a regression up a ladder, with normal steps that all bets of a walk share.

    Where the weight stops rising while evidence is half-way, the time depends on the path, and no formula holds.
    The random numbers are the same each time.

    Parameters
    ----------
    timeline, backings, thresholds
        As in `detection`.
    """

    def __init__(
        self, timeline: Timeline, backings: Sequence[Sequence[Backing]], thresholds: tuple[float, float]
    ) -> None:
        self._stages = timeline.stages
        self._planned = timeline.planned
        self._drifts = np.array([[backing.pace.drift for backing in stage] for stage in backings])
        self._deviations = np.sqrt([[backing.pace.variance for backing in stage] for stage in backings])
        self._log_masses = np.log([backing.mass for backing in backings[0]])
        self._half, self._full = thresholds
        self._random = np.random.default_rng(_SEED)
        self._wealth = np.full((_PATHS, self._log_masses.size), math.log(FIRST_STAKE))
        self._place = np.zeros(_PATHS, dtype=np.intp)
        self._stayed = np.zeros(_PATHS, dtype=np.intp)

    def run(self, looks: int) -> Detection:
        """Return when the walks arrive within so many looks."""
        lasting = np.array([stage.looks for stage in self._stages])
        weights = np.array([stage.weight for stage in self._stages])
        found, exposure = np.zeros(looks + 1), 0.0
        for look in range(1, looks + 1):
            if not self._place.size:
                break
            exposure += float(weights[self._place].sum())
            evidence = self._step(look)
            gone = evidence >= self._full
            found[look] = gone.sum()
            rises = (evidence < self._half) & (self._stayed >= lasting[self._place])
            rises &= self._place < len(self._stages) - 1
            self._place = (self._place + rises)[~gone]
            self._stayed = np.where(rises, 0, self._stayed)[~gone]
            self._wealth = self._wealth[~gone]
        return Detection(np.cumsum(found) / _PATHS, exposure / _PATHS, late=0.5)

    def _step(self, look: int) -> FloatArray:
        """Take one look; return the evidence of every walk, nats."""
        self._stayed += 1
        dead = np.array([stage.dead for stage in self._stages])
        counts = (self._stayed > dead[self._place])[:, None]
        normal = self._random.standard_normal(_PATHS)[: self._place.size, None]
        gains = self._drifts[self._place] + self._deviations[self._place] * normal
        self._wealth = np.logaddexp(self._wealth + counts * gains, math.log(stake(look, self._planned)))
        terms = self._wealth + self._log_masses
        top = terms.max(axis=1)
        evidence: FloatArray = top + np.log(np.exp(terms - top[:, None]).sum(axis=1))
        return evidence
