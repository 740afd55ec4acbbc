"""Regressions that begin late: the weighted Shiryaev-Roberts recursion.

A plain e-process that lost wealth on a long healthy stretch must first win it back. Here only part of the stake is
put up at once; the rest is kept and put up tick by tick, so that there is always fresh money on "it begins now".

Each bet k has wealth M with M' = L M + (what the schedule adds for the next tick); E is the mixture of all M plus the
cash not yet put up. Under H0, E[L | past] <= 1, so stake at work never grows on average and cash only changes its
pocket: E is a nonnegative supermartingale from 1 whatever the schedule, as long as it adds up to at most 1.
"""

import math
from typing import Final

import numpy as np

from gatestats.arrays import FloatArray, as_array, log_mixture
from gatestats.state import State, plain

#: Put up before the first tick: most regressions are there from the start.
FIRST_STAKE = 0.6
_LATER_STAKE = 1 - FIRST_STAKE
#: Part of the rest that is spread as without a plan where there is one: more of it finds early changes sooner, and
#: those after hours later.
_WHENEVER: Final = 0.5
#: Just below 1 / sum over n >= 3 of 1/(n ln(n)^2) = 1/1.06906, so that the open schedule spends at most all of it.
_OPEN_END = 0.935
#: By what a tick can multiply any bet if the variants were counted apart: it takes three such ticks to a threshold.
MOST_APART: Final = math.log(10.0)


def held(log_factors: FloatArray, *, apart: bool) -> FloatArray:
    """Return the factors of a tick, bounded if the variants were not counted over the same time.

    When a dependency of both fails between the scrapes of one variant and those of the other, the tick in which it
    begins (or ends) holds more of it for one of them, without any difference between them. One such tick must not
    decide; the ticks within the outage are fair, and the one at its other end shows the opposite. A bounded factor
    is smaller, so that its expectation under H0 stays at most 1.

    Parameters
    ----------
    log_factors
        ln L of each rollback bet, nats.
    apart
        See `gatestats.ticks.TwoArmCounts`.
    """
    return np.minimum(log_factors, MOST_APART) if apart else log_factors


def stake(tick: int, planned_ticks: int | None) -> float:
    """Return the share of the prior mass put up for a change at ``tick``.

    Parameters
    ----------
    tick
        Index of the tick, 0 for the first, >= 0.
    planned_ticks
        Ticks over which half of the later changes are spread evenly; None for an open end. What is left has
        mass c / ((t + 2) ln(t + 2)^2), so that a rollout that lasts longer than planned is still watched. 0 puts up
        nothing later, as an endless watch asks, which renews its stakes itself.

    Returns
    -------
    float
        In 0..1; the sum over all ticks is at most 1.
    """
    if tick == 0:
        return FIRST_STAKE
    if planned_ticks == 0:
        return 0.0
    open_end = _LATER_STAKE * _OPEN_END / ((tick + 2) * math.log(tick + 2) ** 2)
    if planned_ticks is None:
        return open_end
    even = _LATER_STAKE * (1 - _WHENEVER) / planned_ticks if tick <= planned_ticks else 0.0
    return even + _WHENEVER * open_end


def first_wealth(bets: int) -> tuple[float, ...]:
    """Return the log wealth of ``bets`` bets before the first tick."""
    return (math.log(FIRST_STAKE),) * bets


def step_wealth(state: State, log_factors: FloatArray, planned_ticks: int | None) -> tuple[tuple[float, ...], float]:
    """Advance the wealth of every rollback bet by one tick.

    H0 and validity: those of the factors; each must have conditional expectation of at most 1 given the past (and
    whatever the tick was conditioned on). A tick without information has factor 1; the schedule goes on all the same,
    because it must not depend on the data.

    Parameters
    ----------
    state
        State before the tick.
    log_factors
        ln L of each bet for this tick, nats.
    planned_ticks
        See `stake`.

    Returns
    -------
    tuple
        New log wealth, and the mass now spent.
    """
    addition = stake(state.ticks + 1, planned_ticks)
    grown = plain(wealth + factor for wealth, factor in zip(state.wealth, log_factors, strict=True))
    if addition == 0:
        return grown, state.spent
    log_addition = math.log(addition)
    return plain(np.logaddexp(grown, log_addition)), min(1.0, state.spent + addition)


def log_evidence(state: State, weights: FloatArray) -> float:
    """Return ln E: the mixture of the bets' wealth and the cash not yet put up, nats."""
    return log_mixture(as_array(state.wealth), weights, cash=1.0 - state.spent)


def refuse_bad_plan(planned_ticks: int | None) -> None:
    """Raise ValueError unless ``planned_ticks`` is None or at least 0."""
    if planned_ticks is not None and planned_ticks < 0:
        raise ValueError(f"planned_ticks must be at least 0, or None for an open end, got {planned_ticks}")
