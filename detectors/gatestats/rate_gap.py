"""Has the gap between a slice and everybody else become wider: difference-in-differences of four rates.

The gap of a variant is how far its rate inside the slice lies from its rate outside, in the worse direction. H0 of
rollback: in every tick the candidate's gap exceeds the baseline's by at most the margin. H0 of promotion: by at least
the margin. All four rates may drift in any way within the null.
Bets are made before each tick from the past only: the slice is worse in the candidate, the rest is not.
Validity: anytime, exact, for independent requests given routing; `gatestats.projection` with four cells.
Source: statistics.md 1.2.
"""

import dataclasses
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from gatestats.arrays import as_array, log_mixture
from gatestats.late_change import FIRST_STAKE, first_wealth, held, log_evidence, refuse_bad_plan, step_wealth
from gatestats.projection import LinearNull, log_factor, project
from gatestats.proportion_bounds import difference_bounds
from gatestats.rate_bets import EFFECT_WEIGHTS, EFFECTS, SMALLER, SMALLER_WEIGHTS, Bet, place
from gatestats.state import State, mark, must_belong
from gatestats.strata import common_rate_terms, common_rates
from gatestats.ticks import (
    Estimate,
    GapCounts,
    Interval,
    Measure,
    Tick,
    TwoArmCounts,
    Worse,
    refuse_bad_level,
    share,
    tick_as,
)

#: Without a margin there is no scale for an effect; these parts of the room that the slice's rate leaves stand in.
_PARTS: Final = (0.2, 0.5, 0.9)
_PARTS_BETTER: Final = (-0.2, -0.5, -0.9)
_MEMORY: Final = 0.98


@dataclass(frozen=True, slots=True)
class GapDesign:
    """A margin on the widening of a gap; a process for `GapCounts`.

    Parameters
    ----------
    margin
        Largest accepted widening in absolute rate (0.01 is one percentage point), 0..0.9.
    worse
        LOWER: the slice is worse off with a lower rate (true positives); HIGHER: with a higher one (errors).
    planned_ticks
        Ticks within which a late regression is expected, >= 0; None for an open end.
    """

    margin: float
    worse: Worse = Worse.LOWER
    planned_ticks: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.margin <= 0.9:
            raise ValueError(f"margin must be a difference of rates in 0..0.9, got {self.margin}")
        refuse_bad_plan(self.planned_ticks)

    def start(self) -> State:
        """Return the state before the first tick."""
        return _fresh(self)

    def update(self, state: State, tick: Tick) -> State:
        """Return the state after one more tick; see `gatestats.process.Process`.

        A tick in which one of the four cells served nothing, or without past in either part, carries no bet.
        """
        must_belong(state, _fresh(self))
        counts = tick_as(GapCounts, tick)
        recent, strata = state.sums[:4], state.sums[4:]
        cells = _cells(counts)
        informative = recent[1] > 0 and recent[3] > 0 and all(total for _, total in cells)
        factors, reverse = _log_factors(self, recent, cells) if informative else (_NONE, _NONE)
        apart = counts.inside.apart or counts.outside.apart
        wealth, spent = step_wealth(state, held(as_array(factors), apart=apart), self.planned_ticks)
        seen = (*_pooled(counts.inside), *_pooled(counts.outside))
        terms = (*common_rate_terms(counts.inside), *common_rate_terms(counts.outside))
        return dataclasses.replace(
            state,
            ticks=state.ticks + 1,
            informative=state.informative + informative,
            spent=spent,
            wealth=wealth,
            reverse=tuple(before + now for before, now in zip(state.reverse, reverse, strict=True)),
            totals=tuple(before + now for before, now in zip(state.totals, _seen(counts), strict=True)),
            sums=(
                *(_MEMORY * before + now for before, now in zip(recent, seen, strict=True)),
                *(before + now for before, now in zip(strata, terms, strict=True)),
            ),
        )

    def log_e(self, state: State) -> float:
        """Return ln E against "the gap widens by at most the margin in every tick", nats."""
        return log_evidence(state, as_array(EFFECT_WEIGHTS))

    def log_e_non_inferior(self, state: State) -> float:
        """Return ln E against "the gap widens by at least the margin in every tick", nats."""
        return log_mixture(as_array(state.reverse), as_array(SMALLER_WEIGHTS))

    def estimate(self, state: State) -> Estimate | None:
        """Return by how much the gap is wider in the candidate, stratified over ticks; None without data of the slice.

        The levels are the variants' rates inside the slice.
        """
        theirs, their_total, ours, our_total = state.totals[:4]
        if not their_total and not our_total:
            return None
        differences = [(c - b) / mass if mass > 0 else None for c, b, mass, _ in (state.sums[4:8], state.sums[8:12])]
        inside, outside = differences
        effect = None if inside is None or outside is None else _sign(self) * (inside - outside)
        baseline, candidate = share(theirs, their_total), share(ours, our_total)
        return Estimate(Measure.GAP_DIFFERENCE, effect, baseline, candidate, their_total, our_total)

    def interval(self, state: State, level: float) -> Interval | None:
        """Return the confidence sequence of the widening; None until all four cells have data.

        Inside and outside are bounded at half of the error each; both hold together by the union bound.
        """
        refuse_bad_level(level)
        arms = common_rates(state.sums[4:8]), common_rates(state.sums[8:12])
        if arms[0] is None or arms[1] is None:
            return None
        half = 1 - (1 - level) / 2
        (low, high), (least, most) = (difference_bounds(*pair, half) for pair in arms if pair is not None)
        ends = _sign(self) * (low - most), _sign(self) * (high - least)
        return Interval(Measure.GAP_DIFFERENCE, min(ends), max(ends), level)


_NONE: Final = (0.0, 0.0, 0.0)
#: Cells in this order: candidate and baseline inside the slice, then outside.
_WIDER: Final = (1.0, -1.0, -1.0, 1.0)


def _sign(design: GapDesign) -> float:
    return 1.0 if design.worse is Worse.HIGHER else -1.0


def _log_factors(
    design: GapDesign, recent: tuple[float, ...], cells: tuple[tuple[int, int], ...]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return ln L of the rollback bets and of the promotion bets."""
    sizes = [total for _, total in cells]
    sign = _sign(design)
    null = LinearNull(tuple(sign * weight for weight in _WIDER), design.margin)
    reverse = LinearNull(tuple(-sign * weight for weight in _WIDER), -design.margin)
    inside, outside = ((events + 0.5) / (total + 1) for events, total in (recent[:2], recent[2:]))
    part = sizes[0] / (sizes[0] + sizes[1])
    room = min(inside, 1 - inside)
    scaled = tuple(tuple(part * room for part in parts) for parts in (_PARTS, _PARTS_BETTER))
    wide, narrow = (tuple(e * design.margin for e in EFFECTS), tuple(e * design.margin for e in SMALLER))
    effects, smaller = (wide, narrow) if design.margin else scaled

    def factor(points: float, hypothesis: LinearNull) -> float:
        rates = (*place(inside, part, Bet(points=sign * points)), outside, outside)
        return log_factor(rates, project(rates, sizes, hypothesis), cells)

    return tuple(factor(e, null) for e in effects), tuple(factor(e, reverse) for e in smaller)


def _cells(counts: GapCounts) -> tuple[tuple[int, int], ...]:
    """Return (events, total) of candidate and baseline inside, then outside."""
    return tuple(
        cell
        for part in (counts.inside, counts.outside)
        for cell in ((part.candidate_events, part.candidate_total), (part.baseline_events, part.baseline_total))
    )


def _pooled(counts: TwoArmCounts) -> tuple[int, int]:
    return counts.baseline_events + counts.candidate_events, counts.baseline_total + counts.candidate_total


def _seen(counts: GapCounts) -> tuple[int, ...]:
    return tuple(
        number
        for part in (counts.inside, counts.outside)
        for number in (part.baseline_events, part.baseline_total, part.candidate_events, part.candidate_total)
    )


@lru_cache(maxsize=512)
def _fresh(design: GapDesign) -> State:
    bets = len(EFFECTS), len(SMALLER)
    empty = (0.0,) * bets[1]
    return State(mark("gap", design), 0, 0, FIRST_STAKE, first_wealth(bets[0]), empty, (0,) * 8, (0.0,) * 12)
