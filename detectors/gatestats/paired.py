"""Is the candidate wrong more often than the baseline on the same requests: McNemar with a margin, at every look.

D = +1 where the baseline was right and the candidate wrong, -1 the other way round, 0 otherwise. H0 of rollback: in
every tick E[D | past] <= margin. H0 of promotion: >= margin. Nothing else is assumed of the pairs: they may drift and
depend on the past; bets 1 + l (D - margin) are nonnegative with mean at most 1 under H0.
Restrict pairs to positives for the true positive rate, to negatives for the false positive rate.
Source: statistics.md 1.4; Waudby-Smith and Ramdas (2024), arXiv:2010.09686.
"""

import dataclasses
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from gatestats.arrays import FloatArray, as_array, log_mixture
from gatestats.late_change import FIRST_STAKE, first_wealth, log_evidence, refuse_bad_plan, step_wealth
from gatestats.state import State, mark, must_belong, plain
from gatestats.ticks import Estimate, Interval, Measure, PairedCounts, Tick, refuse_bad_level, tick_as

#: Sizes of the bets, as shares of the largest that cannot go broke.
_BETS: Final = (0.05, 0.1, 0.2, 0.35, 0.55, 0.75)
_WEIGHTS: Final = (0.1, 0.15, 0.2, 0.25, 0.2, 0.1)
_HALVINGS: Final = 50


@dataclass(frozen=True, slots=True)
class PairedDesign:
    """A margin on the share of pairs lost; a process for `PairedCounts`.

    Parameters
    ----------
    margin
        Largest accepted mean loss (share of pairs lost minus share won), 0..0.9.
    planned_ticks
        Ticks within which a late regression is expected, >= 0; None for an open end.
    """

    margin: float = 0.0
    planned_ticks: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.margin <= 0.9:
            raise ValueError(f"margin must be a share of pairs in 0..0.9, got {self.margin}")
        refuse_bad_plan(self.planned_ticks)

    def start(self) -> State:
        """Return the state before the first tick."""
        return _fresh(self)

    def update(self, state: State, tick: Tick) -> State:
        """Return the state after one more tick; see `gatestats.process.Process`."""
        must_belong(state, _fresh(self))
        pairs = tick_as(PairedCounts, tick)
        wealth, spent = step_wealth(state, log_bets(pairs, self.margin, _sizes(self.margin)), self.planned_ticks)
        turned = PairedCounts(pairs.better, pairs.worse, pairs.total)
        reverse = log_bets(turned, -self.margin, _sizes(-self.margin))
        seen = (pairs.worse, pairs.better, pairs.total)
        return dataclasses.replace(
            state,
            ticks=state.ticks + 1,
            informative=state.informative + (pairs.total > 0),
            spent=spent,
            wealth=wealth,
            reverse=plain(as_array(state.reverse) + reverse),
            totals=tuple(before + now for before, now in zip(state.totals, seen, strict=True)),
        )

    def log_e(self, state: State) -> float:
        """Return ln E against "the mean loss is at most the margin in every tick", nats."""
        return log_evidence(state, as_array(_WEIGHTS))

    def log_e_non_inferior(self, state: State) -> float:
        """Return ln E against "the mean loss is at least the margin in every tick", nats."""
        return log_mixture(as_array(state.reverse), as_array(_WEIGHTS))

    def estimate(self, state: State) -> Estimate | None:
        """Return the mean loss, or None without pairs."""
        worse, better, total = state.totals
        if not total:
            return None
        return Estimate(Measure.PAIRED_LOSS, (worse - better) / total, None, None, total, total)

    def interval(self, state: State, level: float) -> Interval | None:
        """Return the confidence sequence of a constant mean loss; None without pairs."""
        refuse_bad_level(level)
        worse, better, total = state.totals
        if not total:
            return None
        limit, middle = -math.log((1 - level) / 2), (worse - better) / total
        pairs, turned = PairedCounts(worse, better, total), PairedCounts(better, worse, total)
        low = _furthest(pairs, middle, limit)
        return Interval(Measure.PAIRED_LOSS, low, -_furthest(turned, -middle, limit), level)


def log_bets(pairs: PairedCounts, margin: float, sizes: FloatArray) -> FloatArray:
    """Return ln of the wealth that each bet on "mean loss above ``margin``" makes of 1, nats.

    H0: E[D | past] <= margin. Valid on one tick or, with fixed bets, on running totals at any time.

    Parameters
    ----------
    pairs
        Counts.
    margin
        In (-1, 1).
    sizes
        Size l of each bet, above 0 and below 1 / (1 + margin).
    """
    equal = pairs.total - pairs.worse - pairs.better
    result: FloatArray = (
        pairs.worse * np.log1p(sizes * (1 - margin))
        + pairs.better * np.log1p(-sizes * (1 + margin))
        + equal * np.log1p(-sizes * margin)
    )
    return result


def _sizes(margin: float) -> FloatArray:
    return as_array(_BETS) / (1 + max(0.0, margin))


def _furthest(pairs: PairedCounts, middle: float, limit: float) -> float:
    """Return the largest margin below the mean whose "at most" is still rejected; -1 if none is."""
    low, high = -1.0, middle
    for _ in range(_HALVINGS):
        margin = (low + high) / 2
        if log_mixture(log_bets(pairs, margin, _sizes(margin)), as_array(_WEIGHTS)) >= limit:
            low = margin
        else:
            high = margin
    return low


@lru_cache(maxsize=512)
def _fresh(design: PairedDesign) -> State:
    bets = len(_BETS)
    return State(mark("paired", design), 0, 0, FIRST_STAKE, first_wealth(bets), (0.0,) * bets, (0,) * 3, ())
