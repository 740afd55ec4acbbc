"""Does the candidate keep the baseline's rate but for some per cent, on the same requests, at every look.

The rate is that of right answers (worse: LOWER) or of wrong ones (worse: HIGHER). With b and c telling whether the
baseline's and the candidate's answer counts, H0 of rollback: in every tick E[c | past] >= r E[b | past] for a ratio r
(HIGHER: <=). H0 of promotion: the reverse. What the rates are, and how they drift together, is left open; nothing else
is assumed of the pairs: bets 1 + l (r b - c) and 1 + l (c / r - b) are nonnegative with mean at most 1 under H0.
Restrict pairs to positives for the true positive rate, to negatives for the false positive rate. Anytime, exact.
Source: the bets of `gatestats.paired` on another difference; statistics.md 1.4.
"""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from gatestats.arrays import FloatArray, as_array, log_mixture
from gatestats.late_change import FIRST_STAKE, first_wealth, log_evidence, refuse_bad_plan, step_wealth
from gatestats.state import State, mark, must_belong, plain
from gatestats.ticks import (
    Estimate,
    Interval,
    Measure,
    PairedOutcomes,
    Tick,
    Worse,
    refuse_bad_level,
    share,
    tick_as,
)

#: Sizes of the bets, as shares of the largest that cannot go broke.
_BETS: Final = as_array((0.05, 0.1, 0.2, 0.35, 0.55, 0.75))
_WEIGHTS: Final = as_array((0.1, 0.15, 0.2, 0.25, 0.2, 0.1))
_LARGEST: Final = {Worse.LOWER: 0.9, Worse.HIGHER: 10.0}
_HALVINGS: Final = 60
#: Ratios are sought between these.
_EXTREMES: Final = (1e-6, 1e6)


@dataclass(frozen=True, slots=True)
class RelativePairedDesign:
    """A margin relative to the baseline's rate; a process for `PairedOutcomes`.

    Parameters
    ----------
    part
        Largest accepted change in the worse direction, as a part of the baseline's rate: 0..0.9 for LOWER, 0..10 for
        HIGHER.
    planned_ticks
        Ticks within which a late regression is expected, >= 0; None for an open end.
    worse
        LOWER: fewer right answers are worse; HIGHER: more wrong ones are.
    """

    part: float = 0.0
    planned_ticks: int | None = None
    worse: Worse = Worse.LOWER

    def __post_init__(self) -> None:
        if not 0 <= self.part <= _LARGEST[self.worse]:
            raise ValueError(f"part must be in 0..{_LARGEST[self.worse]} of the baseline's rate, got {self.part}")
        refuse_bad_plan(self.planned_ticks)

    def start(self) -> State:
        """Return the state before the first tick."""
        return _fresh(self)

    def update(self, state: State, tick: Tick) -> State:
        """Return the state after one more tick; see `gatestats.process.Process`."""
        must_belong(state, _fresh(self))
        pairs = tick_as(PairedOutcomes, tick)
        counts = _counted(pairs, self.worse)
        fall, rise = log_fall(counts, self._ratio), log_rise(counts, self._ratio)
        worse, better = (fall, rise) if self.worse is Worse.LOWER else (rise, fall)
        wealth, spent = step_wealth(state, worse, self.planned_ticks)
        return dataclasses.replace(
            state,
            ticks=state.ticks + 1,
            informative=state.informative + (any(counts)),
            spent=spent,
            wealth=wealth,
            reverse=plain(as_array(state.reverse) + better),
            totals=tuple(before + now for before, now in zip(state.totals, (*counts, pairs.total), strict=True)),
        )

    def log_e(self, state: State) -> float:
        """Return ln E against "the rate is within the margin in every tick", nats."""
        return log_evidence(state, _WEIGHTS)

    def log_e_non_inferior(self, state: State) -> float:
        """Return ln E against "the rate is at or beyond the margin in every tick", nats."""
        return log_mixture(as_array(state.reverse), _WEIGHTS)

    def estimate(self, state: State) -> Estimate | None:
        """Return the ratio of the rates, or None without pairs; the effect is None where the baseline's rate is 0."""
        both, theirs, ours, total = state.totals
        if not total:
            return None
        ratio = share(both + ours, both + theirs)
        return Estimate(Measure.RATIO, ratio, (both + theirs) / total, (both + ours) / total, total, total)

    def interval(self, state: State, level: float) -> Interval | None:
        """Return the confidence sequence of a constant ratio of the rates; None until one of them is above 0."""
        refuse_bad_level(level)
        both, theirs, ours, _ = state.totals
        if not (both or theirs or ours):
            return None
        counts, limit = (both, theirs, ours), -math.log((1 - level) / 2)
        low = _furthest(lambda ratio: log_mixture(log_rise(counts, ratio), _WEIGHTS) >= limit, _EXTREMES)
        high = _furthest(lambda ratio: log_mixture(log_fall(counts, ratio), _WEIGHTS) >= limit, _EXTREMES[::-1])
        return Interval(Measure.RATIO, low, high, level)

    @property
    def _ratio(self) -> float:
        return 1 - self.part if self.worse is Worse.LOWER else 1 + self.part


#: Pairs in which the answers of both count, the baseline's alone, the candidate's alone.
Counted = tuple[int, int, int]


def log_fall(counts: Counted, ratio: float) -> FloatArray:
    """Return ln of the wealth that each bet on "candidate below ``ratio`` times baseline" makes of 1, nats.

    H0: E[c | past] >= ratio E[b | past]. Valid on one tick or, with fixed bets, on running totals at any time.

    Parameters
    ----------
    counts
        As `Counted`.
    ratio
        Above 0.
    """
    both, theirs, ours = counts
    result: FloatArray = (
        both * np.log1p(_BETS * (ratio - 1)) + theirs * np.log1p(_BETS * ratio) + ours * np.log1p(-_BETS)
    )
    return result


def log_rise(counts: Counted, ratio: float) -> FloatArray:
    """Return ln of the wealth of each bet on "candidate above ``ratio`` times baseline"; see `log_fall`."""
    both, theirs, ours = counts
    return log_fall((both, ours, theirs), 1 / ratio)


def _counted(pairs: PairedOutcomes, worse: Worse) -> Counted:
    if worse is Worse.LOWER:
        return pairs.both, pairs.worse, pairs.better
    return pairs.total - pairs.both - pairs.worse - pairs.better, pairs.better, pairs.worse


def _furthest(rejected: Callable[[float], bool], ends: tuple[float, float]) -> float | None:
    """Return the ratio up to which, from the first end on, ratios are rejected; None if not even that one is."""
    rejecting, keeping = (math.log(end) for end in ends)
    if not rejected(ends[0]):
        return None
    for _ in range(_HALVINGS):
        middle = (rejecting + keeping) / 2
        if rejected(math.exp(middle)):
            rejecting = middle
        else:
            keeping = middle
    return math.exp(rejecting)


@lru_cache(maxsize=512)
def _fresh(design: RelativePairedDesign) -> State:
    bets = len(_BETS)
    name = mark("paired-relative", design)
    return State(name, 0, 0, FIRST_STAKE, first_wealth(bets), (0.0,) * bets, (0,) * 4, ())
