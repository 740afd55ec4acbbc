"""When evidence arrives: the distribution of the look at which a threshold is passed, over a ladder of weights.

The path of the mean is walked first, with every bet and the stakes of `gatestats.late_change`; it tells which bet
leads when the threshold is met, and how far that bet has come by then. Around this, the time is inverse Gaussian in
the clock of that bet's mean gain (`gatestats.planning.passed`).
A regression is met in two parts. Half-way to the threshold the weight stops rising; the rest is gained at the weight
of that moment.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from davylamp.offline.timeline import Timeline
from gatestats.arrays import FloatArray, as_array
from gatestats.late_change import stake
from gatestats.outlook import Backing
from gatestats.planning import OVERSHOOT, Pace, passed


@dataclass(frozen=True)
class Arrival:
    """The chance that something has happened after each look: ``chances[t]`` after t looks, from 0 on."""

    chances: FloatArray

    @property
    def surely(self) -> float:
        """The chance that it happens at all within the looks that were looked at, 0..1."""
        return float(self.chances[-1])

    @cached_property
    def mean(self) -> float:
        """Expected looks, of those runs in which it happens; inf if it hardly ever does."""
        if self.surely < 0.01:
            return float("inf")
        return float(np.trapezoid(1 - self.chances / self.surely))

    def by(self, looks: float) -> float:
        """Return the chance that it has happened after so many looks."""
        return float(np.interp(looks, np.arange(self.chances.size), self.chances))

    def quantile(self, chance: float) -> float:
        """Return the looks after which it has happened with this chance; inf if that is not within sight."""
        index = int(np.searchsorted(self.chances, chance, side="left"))
        if index == self.chances.size:
            return float("inf")
        if index == 0:
            return 0.0
        before, after = self.chances[index - 1 : index + 1]
        return index - 1 + float((chance - before) / (after - before))


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
    stakes = np.array([1.0, *[0.0] * (looks - 1)]) if at_once else as_array([stake(t, None) for t in range(looks)])
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
    path = walk(timeline, backings, looks, at_once=False)
    half = path.lead(thresholds[0])
    suspected = path.chances(half)
    begun = np.diff(suspected)
    place, _ = timeline.of_look(looks)
    weights = as_array([stage.weight for stage in timeline.stages])
    chances = np.zeros(looks + 1)
    exposure = float(((1 - suspected[:-1]) * weights[place]).sum())
    for index in range(len(timeline.stages)):
        starts = np.where(place == index, begun, 0.0)
        if starts.sum() <= 1e-9:
            continue
        rest = _rest(path, half, thresholds, [backing.pace for backing in backings[index]])
        found = np.convolve(starts, rest)[:looks]
        chances[1:] += found
        exposure += float(weights[index] * (np.cumsum(starts) - found).sum())
    return Detection(np.minimum(1.0, np.maximum.accumulate(chances)), exposure)


def _rest(path: Walk, half: Lead, thresholds: tuple[float, float], paces: Sequence[Pace]) -> FloatArray:
    """Return the chance of having passed the full threshold so long after the half one, at the pace of one stage."""
    looks, drifts = path.drifts.shape[0], as_array([pace.drift for pace in paces])
    before = slice(0, 0 if half.look is None else half.look + 1)
    gained = path.drifts[before].sum(axis=0)
    wealth = gained - gained[half.bet] + np.log(path.masses) - np.log(path.masses[half.bet])
    wealth += thresholds[0] - np.logaddexp.reduce(wealth)
    times = np.arange(1, looks + 1)
    ahead = np.logaddexp.reduce(wealth + times[:, None] * drifts, axis=1)
    met = np.flatnonzero(ahead >= thresholds[1])
    if not met.size:
        return np.zeros(looks)
    time = int(met[0])
    low = float(ahead[time - 1]) if time else thresholds[0]
    exact = time + (thresholds[1] - low) / (float(ahead[time]) - low)
    pace = paces[int(np.argmax(np.where(drifts > 0, wealth + exact * drifts, -np.inf)))]
    middles = np.arange(looks) + 0.5
    return passed(middles * pace.drift, max(exact * pace.drift, 1e-6), pace.variance / pace.drift)
