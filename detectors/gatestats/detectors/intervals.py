"""Intervals of rates at a fixed n, for display: Jeffreys' for one rate, Newcombe's for a difference.

Coverage is close to the level on average over true rates, not at each of them, for independent requests and one look
at n fixed beforehand. They describe; they never decide. For bounds at every look: `gatestats.proportion_bounds`.
Source: Brown, Cai and DasGupta (2001), "Interval estimation for a binomial proportion"; Newcombe (1998), "Interval
estimation for the difference between independent proportions", method 10.
"""

import math
from dataclasses import dataclass

from scipy.special import betaincinv, ndtri

from gatestats.detectors.inputs import NoData
from gatestats.ticks import refuse_bad_count, refuse_bad_level


@dataclass(frozen=True, slots=True)
class FixedInterval:
    """An estimate between its bounds, at one fixed n.

    Parameters
    ----------
    estimate, low, high
        In the unit of the quantity.
    level
        Nominal coverage, in (0, 1).
    """

    estimate: float
    low: float
    high: float
    level: float


def jeffreys(events: int, total: int, *, level: float = 0.95) -> FixedInterval | NoData:
    """Return the equal-tailed interval of a rate under a Beta(1/2, 1/2) prior, in 0..1.

    Validity and source: see the module. Without events the lower bound is 0, with nothing else the upper one is 1.

    Parameters
    ----------
    events
        Count, 0..total.
    total
        Count, >= 0; 0 gives NoData.
    level
        Nominal coverage, in (0, 1).
    """
    refuse_bad_level(level)
    refuse_bad_count("total", total)
    refuse_bad_count("events", events, total)
    if not total:
        return NoData("nothing was counted, so there is no rate")
    tail, shape = (1 - level) / 2, (events + 0.5, total - events + 0.5)
    low = float(betaincinv(*shape, tail)) if events else 0.0
    high = float(betaincinv(*shape, 1 - tail)) if events < total else 1.0
    return FixedInterval(events / total, low, high, level)


def newcombe(baseline: tuple[int, int], candidate: tuple[int, int], *, level: float = 0.95) -> FixedInterval | NoData:
    """Return Newcombe's hybrid score interval of (candidate's rate - baseline's rate), in -1..1.

    Validity and source: see the module.

    Parameters
    ----------
    baseline, candidate
        (events, total) of each variant, counts, events 0..total; a total of 0 gives NoData.
    level
        Nominal coverage, in (0, 1).
    """
    refuse_bad_level(level)
    for name, (events, total) in (("baseline", baseline), ("candidate", candidate)):
        refuse_bad_count(f"{name} total", total)
        refuse_bad_count(f"{name} events", events, total)
        if not total:
            return NoData(f"nothing was counted of the {name}, so there is no difference")
    rates = [events / total for events, total in (baseline, candidate)]
    theirs, ours = (_wilson(*counts, level) for counts in (baseline, candidate))
    difference = rates[1] - rates[0]
    low = difference - math.hypot(rates[1] - ours[0], theirs[1] - rates[0])
    high = difference + math.hypot(ours[1] - rates[1], rates[0] - theirs[0])
    return FixedInterval(difference, low, high, level)


def _wilson(events: int, total: int, level: float) -> tuple[float, float]:
    z = -float(ndtri((1 - level) / 2))
    middle = events + z * z / 2
    half = z * math.sqrt(events * (total - events) / total + z * z / 4)
    return max(0.0, (middle - half) / (total + z * z)), min(1.0, (middle + half) / (total + z * z))
