"""The bets of the rate processes, and one tick of them.

Rule 1: a bet is placed before its tick is looked at: from past ticks, and from how many requests each variant had.
Rule 2: a bet that lies inside the null is not made; its factor is 1.
Within this module the arm under test is the one that would be worse by being higher; LOWER exchanges the variants.
"""

import dataclasses
from dataclasses import dataclass
from typing import Final

from gatestats.arrays import as_array
from gatestats.late_change import FIRST_STAKE, first_wealth, held, step_wealth
from gatestats.projection import Null, log_factor, nearest_null
from gatestats.state import State
from gatestats.strata import common_rate_terms
from gatestats.ticks import TwoArmCounts


@dataclass(frozen=True, slots=True)
class Bet:
    """A true effect to bet on: rate under test = factor * rate of the reference + points.

    Parameters
    ----------
    points
        Difference of rates, in -1..1.
    factor
        Ratio of rates, > 0.
    """

    points: float = 0.0
    factor: float = 1.0


#: Rollback bets on effects of this many margins, with equal mass.
EFFECTS: Final = (1.5, 3.0, 5.0)
EFFECT_WEIGHTS: Final = (1 / 3, 1 / 3, 1 / 3)
#: Promotion bets on effects of this many margins: "equal", "half the margin", "better by it".
SMALLER: Final = (0.0, 0.5, -1.0)
SMALLER_WEIGHTS: Final = (0.6, 0.2, 0.2)
#: A margin of 0 gives no scale; these stand in.
EFFECTS_BESIDE_EQUALITY: Final = (Bet(factor=1.3), Bet(factor=1.7), Bet(factor=2.5))
SMALLER_BESIDE_EQUALITY: Final = (Bet(factor=1 / 1.15), Bet(factor=1 / 1.3), Bet(factor=1 / 1.7))
#: The weight of past ticks in the pooled rate falls by this factor a tick: the recent fifty count.
_MEMORY: Final = 0.98
#: A bet leaves each arm at least this share of the pooled rate and of its complement.
_LEAST_SHARE: Final = 0.25


@dataclass(frozen=True, slots=True)
class RateBets:
    """The two nulls of a margin and the bets against them, for (arm under test, reference)."""

    swap: bool
    null: Null
    reverse: Null
    effects: tuple[Bet, ...]
    smaller: tuple[Bet, ...]
    planned_ticks: int | None


def fresh(mark: str, bets: RateBets) -> State:
    """Return the state before the first tick."""
    return State(
        design=mark,
        ticks=0,
        informative=0,
        spent=FIRST_STAKE,
        wealth=first_wealth(len(bets.effects)),
        reverse=(0.0,) * len(bets.smaller),
        totals=(0,) * 4,
        sums=(0.0,) * 6,
    )


def advance(state: State, tick: TwoArmCounts, bets: RateBets) -> State:
    """Return the state after one more tick.

    H0 and validity: see `gatestats.rates`. A tick without past, or in which a variant served nothing, carries no bet.

    Parameters
    ----------
    state
        State before the tick; its first two sums are the recent events and requests of both variants.
    tick
        Counts of the tick.
    bets
        Nulls and bets.
    """
    counts = tick.swapped() if bets.swap else tick
    recent_events, recent_total, *strata = state.sums
    informative = recent_total > 0 and counts.baseline_total > 0 and counts.candidate_total > 0
    if informative:
        pooled = (recent_events + 0.5) / (recent_total + 1)
        factors = [_log_factor(pooled, counts, bet, bets.null) for bet in bets.effects]
        reverse = [_log_factor(pooled, counts, bet, bets.reverse) for bet in bets.smaller]
    else:
        factors, reverse = [0.0] * len(bets.effects), [0.0] * len(bets.smaller)
    wealth, spent = step_wealth(state, held(as_array(factors), apart=tick.apart), bets.planned_ticks)
    seen = (tick.baseline_events, tick.baseline_total, tick.candidate_events, tick.candidate_total)
    return dataclasses.replace(
        state,
        ticks=state.ticks + 1,
        informative=state.informative + informative,
        spent=spent,
        wealth=wealth,
        reverse=tuple(before + now for before, now in zip(state.reverse, reverse, strict=True)),
        totals=tuple(before + now for before, now in zip(state.totals, seen, strict=True)),
        sums=(
            _MEMORY * recent_events + tick.baseline_events + tick.candidate_events,
            _MEMORY * recent_total + tick.baseline_total + tick.candidate_total,
            *(before + now for before, now in zip(strata, common_rate_terms(tick), strict=True)),
        ),
    )


def place(pooled: float, share: float, bet: Bet) -> tuple[float, float]:
    """Return the rates (arm under test, reference) that show the bet's effect and pool to the past rate.

    Parameters
    ----------
    pooled
        Rate over both arms so far, in (0, 1).
    share
        Share of the tick's requests that went to the arm under test, in (0, 1).
    bet
        The effect. Where the pooled rate leaves no room for it the reference gives way first, then the effect.
    """
    least, most = _LEAST_SHARE * pooled, 1 - _LEAST_SHARE * (1 - pooled)
    reference = (pooled - share * bet.points) / (1 - share + share * bet.factor)
    reference = min(max(reference, least), most)
    under_test = min(max(bet.factor * reference + bet.points, least), most)
    reference = min(max((under_test - bet.points) / bet.factor, least), most)
    return under_test, reference


def _log_factor(pooled: float, counts: TwoArmCounts, bet: Bet, null: Null) -> float:
    share = counts.candidate_total / (counts.candidate_total + counts.baseline_total)
    rates = place(pooled, share, bet)
    nearest = nearest_null(rates, (counts.candidate_total, counts.baseline_total), null)
    cells = ((counts.candidate_events, counts.candidate_total), (counts.baseline_events, counts.baseline_total))
    return log_factor(rates, nearest, cells)
