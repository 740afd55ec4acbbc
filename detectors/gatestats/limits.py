"""Is a rate beyond a known limit: the share of shadow pairs that disagree, or any count against a fixed bound.

H0 of rollback: in every tick the rate is at most the limit (LOWER: at least). H0 of promotion: it is at least the
limit (LOWER: at most). The rate may drift in any way within the null.
Validity: anytime, exact, for independent requests: the likelihood ratio of a larger rate grows with the events.
Source: statistics.md 1.3.
"""

import dataclasses
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from gatestats.arrays import FloatArray, as_array, log_mixture
from gatestats.late_change import FIRST_STAKE, first_wealth, log_evidence, refuse_bad_plan, step_wealth
from gatestats.proportion_bounds import rate_bounds
from gatestats.state import State, mark, must_belong, plain
from gatestats.ticks import Estimate, Interval, Measure, OneArmCounts, Tick, Worse, share, tick_as

#: Multiples of the limit that rollback bets on.
_EFFECTS: Final = (1.5, 2.0, 3.0, 4.0, 6.0, 12.0)
_WEIGHTS: Final = (0.25, 0.25, 0.2, 0.12, 0.1, 0.08)
#: Shares of the limit that promotion bets on.
_SMALLER: Final = (0.8, 0.5, 0.2, 0.02)
_SMALLER_WEIGHTS: Final = (0.25, 0.35, 0.25, 0.15)


@dataclass(frozen=True, slots=True)
class LimitDesign:
    """A limit that a rate must not cross; a process for `OneArmCounts`.

    Parameters
    ----------
    limit
        Rate in (0, 1).
    worse
        HIGHER: the rate must not exceed the limit; LOWER: it must not fall below.
    planned_ticks
        Ticks within which a late regression is expected, >= 0; None for an open end.
    """

    limit: float
    worse: Worse = Worse.HIGHER
    planned_ticks: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.limit < 1:
            raise ValueError(f"limit must be a rate between 0 and 1, both excluded, got {self.limit}")
        refuse_bad_plan(self.planned_ticks)

    def start(self) -> State:
        """Return the state before the first tick."""
        return _fresh(self)

    def update(self, state: State, tick: Tick) -> State:
        """Return the state after one more tick; see `gatestats.process.Process`."""
        must_belong(state, _fresh(self))
        counts = tick_as(OneArmCounts, tick)
        events = counts.events if self.worse is Worse.HIGHER else counts.total - counts.events
        bets = _bets(self)
        factors = events * bets.event + (counts.total - events) * bets.none
        split = len(_EFFECTS)
        wealth, spent = step_wealth(state, factors[:split], self.planned_ticks)
        return dataclasses.replace(
            state,
            ticks=state.ticks + 1,
            informative=state.informative + (counts.total > 0),
            spent=spent,
            wealth=wealth,
            reverse=plain(as_array(state.reverse) + factors[split:]),
            totals=(state.totals[0] + counts.events, state.totals[1] + counts.total),
        )

    def log_e(self, state: State) -> float:
        """Return ln E against "the rate is within the limit in every tick", nats."""
        return log_evidence(state, as_array(_WEIGHTS))

    def log_e_non_inferior(self, state: State) -> float:
        """Return ln E against "the rate is at or beyond the limit in every tick", nats."""
        return log_mixture(as_array(state.reverse), as_array(_SMALLER_WEIGHTS))

    def estimate(self, state: State) -> Estimate | None:
        """Return the observed rate, or None without data."""
        events, total = state.totals
        rate = share(events, total)
        return None if rate is None else Estimate(Measure.RATE, rate, None, rate, 0, total)

    def interval(self, state: State, level: float) -> Interval | None:
        """Return the confidence sequence of a constant rate; None without data."""
        events, total = state.totals
        return Interval(Measure.RATE, *rate_bounds(events, total, level), level) if total else None


def log_e_beta(counts: OneArmCounts, limit: float, prior: tuple[float, float]) -> float:
    """Return ln E of the conjugate mixture against "rate <= limit", nats: a reference for planning and tests.

    H0: the rate is at most the limit; anytime-valid on running totals.
    E = B(a+S, b+n-S) I(a+S, b+n-S) / (B(a, b) I(a, b) limit^S (1-limit)^(n-S)), I the upper incomplete beta at limit.

    Parameters
    ----------
    counts
        Running totals S and n.
    limit
        Rate in (0, 1).
    prior
        a and b of the beta prior, > 0, cut off below the limit.
    """
    from scipy.special import betaincc, betaln

    if not 0 < limit < 1 or not all(0 < shape < math.inf for shape in prior):
        raise ValueError(f"limit must lie between 0 and 1 and both prior parameters above 0, got {limit}, {prior}")
    (a, b), events, rest = prior, counts.events, counts.total - counts.events
    before, after = float(betaincc(a, b, limit)), float(betaincc(a + events, b + rest, limit))
    if before == 0 or after == 0:
        raise ValueError(f"the prior {prior} has no mass above the limit {limit} that doubles can hold")
    mass = float(betaln(a + events, b + rest) - betaln(a, b)) + math.log(after / before)
    return mass - events * math.log(limit) - rest * math.log1p(-limit)


@dataclass(frozen=True, slots=True)
class _Bets:
    """Log likelihood ratios of each bet: of one event, and of none."""

    event: FloatArray
    none: FloatArray


@lru_cache(maxsize=512)
def _bets(design: LimitDesign) -> _Bets:
    limit = design.limit if design.worse is Worse.HIGHER else 1 - design.limit
    # Multiples of the odds where multiples of the rate would leave 0..1.
    odds = limit / (1 - limit)
    larger = as_array(_EFFECTS) * limit
    if larger.max() >= 1:
        larger = as_array(_EFFECTS) * odds / (1 + as_array(_EFFECTS) * odds)
    rates = np.concatenate([larger, as_array(_SMALLER) * limit])
    return _Bets(np.log(rates / limit), np.log1p(-rates) - math.log1p(-limit))


@lru_cache(maxsize=512)
def _fresh(design: LimitDesign) -> State:
    return State(
        design=mark("limit", design),
        ticks=0,
        informative=0,
        spent=FIRST_STAKE,
        wealth=first_wealth(len(_EFFECTS)),
        reverse=(0.0,) * len(_SMALLER),
        totals=(0, 0),
        sums=(),
    )
