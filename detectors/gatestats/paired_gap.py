"""Does the candidate lose more pairs inside a slice than outside it: paired difference-in-differences, at every look.

D is +1 where the baseline was right and the candidate wrong, -1 the other way round, 0 otherwise. H0 of rollback: in
every tick the mean of D inside the slice exceeds the mean outside by at most the margin. H0 of promotion: by at least
the margin. What both means are, and how they drift together, is left open.

A bet multiplies 1 + l (D - c) over the n pairs inside and 1 - k (D - c + margin) over the m pairs outside, with c
fixed before the tick. Under H0, with u the mean inside, its expectation is at most
(1 + l (u - c))^n (1 - k (u - c))^m. With l n = k m that is log-concave in u with its top, 1, at u = c: so it is at
most 1 for every u, and no grid over the unknown u is needed. Validity: anytime, exact, for pairs whose means stay the
same within the tick.
Source: the bets of `gatestats.paired`; the balance is our own argument, held by enumeration in the tests.
"""

import dataclasses
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from gatestats.arrays import FloatArray, as_array, log_mixture
from gatestats.late_change import FIRST_STAKE, first_wealth, log_evidence, refuse_bad_plan, step_wealth
from gatestats.paired import PairedDesign, log_bets
from gatestats.state import State, mark, must_belong, plain
from gatestats.ticks import Estimate, Interval, Measure, PairedCounts, PairedGapCounts, Tick, refuse_bad_level, tick_as

#: Sizes of the bets, as shares of the largest that cannot go broke, and their prior mass.
_BETS: Final = (0.05, 0.1, 0.2, 0.35, 0.55, 0.75)
_WEIGHTS: Final = (0.1, 0.15, 0.2, 0.25, 0.2, 0.1)
_LARGEST_MARGIN: Final = 0.4
#: The centre of the bets stays this close to 0, so that no bet can go broke.
_FURTHEST_CENTRE: Final = 0.5
_MEMORY: Final = 0.98


@dataclass(frozen=True, slots=True)
class PairedGapDesign:
    """A margin on how much more is lost inside a slice; a process for `PairedGapCounts`.

    Parameters
    ----------
    margin
        Largest accepted mean loss inside minus mean loss outside, 0..0.4.
    planned_ticks
        Ticks within which a late regression is expected, >= 0; None for an open end.
    """

    margin: float = 0.0
    planned_ticks: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.margin <= _LARGEST_MARGIN:
            raise ValueError(f"margin must be a share of pairs in 0..{_LARGEST_MARGIN}, got {self.margin}")
        refuse_bad_plan(self.planned_ticks)

    def start(self) -> State:
        """Return the state before the first tick."""
        return _fresh(self)

    def update(self, state: State, tick: Tick) -> State:
        """Return the state after one more tick; a tick without pairs inside or outside carries no bet."""
        must_belong(state, _fresh(self))
        pairs = tick_as(PairedGapCounts, tick)
        losses, total = state.sums
        centre = min(max(losses / (total + 1), -_FURTHEST_CENTRE), _FURTHEST_CENTRE)
        parts = tuple(_PART.update(part, counts) for part, counts in zip(state.parts, _both(pairs), strict=True))
        informative = pairs.inside.total > 0 and pairs.outside.total > 0
        factors = reverse = np.zeros(len(_BETS))
        if informative:
            factors = _log_bets(pairs, centre, self.margin)
            turned = PairedGapCounts(_turned(pairs.inside), _turned(pairs.outside))
            reverse = _log_bets(turned, -centre, -self.margin)
        wealth, spent = step_wealth(state, factors, self.planned_ticks)
        return dataclasses.replace(
            state,
            ticks=state.ticks + 1,
            informative=state.informative + informative,
            spent=spent,
            wealth=wealth,
            reverse=plain(as_array(state.reverse) + reverse),
            sums=(
                _MEMORY * losses + sum(counts.worse - counts.better for counts in _both(pairs)),
                _MEMORY * total + sum(counts.total for counts in _both(pairs)),
            ),
            parts=parts,
        )

    def log_e(self, state: State) -> float:
        """Return ln E against "inside exceeds outside by at most the margin in every tick", nats."""
        return log_evidence(state, as_array(_WEIGHTS))

    def log_e_non_inferior(self, state: State) -> float:
        """Return ln E against "inside exceeds outside by at least the margin in every tick", nats."""
        return log_mixture(as_array(state.reverse), as_array(_WEIGHTS))

    def estimate(self, state: State) -> Estimate | None:
        """Return mean loss inside minus mean loss outside; None without pairs inside.

        The levels are the mean loss outside (as baseline) and inside.
        """
        inside, outside = (_PART.estimate(part) for part in state.parts)
        if inside is None or inside.effect is None:
            return None
        size = inside.candidate_total
        if outside is None or outside.effect is None:
            return Estimate(Measure.GAP_DIFFERENCE, None, None, inside.effect, 0, size)
        gap = inside.effect - outside.effect
        return Estimate(Measure.GAP_DIFFERENCE, gap, outside.effect, inside.effect, outside.candidate_total, size)

    def interval(self, state: State, level: float) -> Interval | None:
        """Return the confidence sequence of constant means' difference; None until both have pairs.

        Each mean is bounded at half of the error; both hold together by the union bound.
        """
        refuse_bad_level(level)
        half = 1 - (1 - level) / 2
        inside, outside = (_PART.interval(part, half) for part in state.parts)
        if inside is None or outside is None:
            return None
        (low, high), (least, most) = ((part.low or 0.0, part.high or 0.0) for part in (inside, outside))
        return Interval(Measure.GAP_DIFFERENCE, low - most, high - least, level)


#: Keeps the counts of one side, for display.
_PART: Final = PairedDesign()


def _both(pairs: PairedGapCounts) -> tuple[PairedCounts, PairedCounts]:
    return pairs.inside, pairs.outside


def _turned(pairs: PairedCounts) -> PairedCounts:
    return PairedCounts(pairs.better, pairs.worse, pairs.total)


def _log_bets(pairs: PairedGapCounts, centre: float, margin: float) -> FloatArray:
    """Return ln of the wealth that each bet on "inside above outside + margin" makes of 1.

    H0: mean inside <= mean outside + margin; ``centre`` in -0.5..0.5, ``margin`` in -0.4..0.4.
    """
    ratio = pairs.inside.total / pairs.outside.total
    sizes = as_array(_BETS) * min(1 / (1 + centre), 1 / (ratio * (1 - centre + margin)))
    return log_bets(pairs.inside, centre, sizes) + log_bets(pairs.outside, centre - margin, -sizes * ratio)


@lru_cache(maxsize=512)
def _fresh(design: PairedGapDesign) -> State:
    bets, part = len(_BETS), _PART.start()
    name = mark("paired-gap", design)
    return State(name, 0, 0, FIRST_STAKE, first_wealth(bets), (0.0,) * bets, (), (0.0, 0.0), (part, part))
