"""Is the candidate right less often than the baseline when it decides positively, on the same requests, at every look.

Precision is the share of true ones among a variant's positive decisions. Most of these are the same requests for both
variants, so their precisions depend on each other, and only where they decide unlike does anything differ. With y the
label of a request, b and c telling who decided positively, m the baseline's precision and t(m) the least that the
candidate's may be, H0 of rollback is E[b (y - m)] = 0 <= E[c (y - t(m))], and H0 of promotion E[c (y - t(m))] <= 0.
So 1 + l (b (y - m) - k c (y - t(m))), and for promotion the same with -l, has mean at most 1 if m is the truth. As
nobody knows m, evidence is the smallest over all m: they lie in cells, and since the logarithm of a bet is concave in
m, what it gains in a tick is least at an end of the cell.

k is the proportion of the variants' positive decisions in the past: then gains hardly depend on m, and the smallest of
them is not much less than that at the true one (measured: about twice the positives of a test that knows m). Validity:
anytime, exact while the baseline's precision stays in one cell of a twentieth, whatever share of requests either
variant decides positively. Where it drifts further, the mean of a bet is off by l times (the error of k) times (the
distance from m): nothing, as long as the variants decide positively at a steady proportion. Tests of m itself, which
leave fewer m, would be sooner, but drift would defeat them.
Source: statistics.md 1.4 on the difference above; the cells are our own argument, held by enumeration in the tests.
"""

import dataclasses
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from gatestats.arrays import FloatArray, as_array, log_sum_exp
from gatestats.late_change import FIRST_STAKE, first_wealth, refuse_bad_plan, step_wealth
from gatestats.state import State, mark, must_belong, plain
from gatestats.ticks import Estimate, Interval, Measure, PrecisionCounts, Tick, refuse_bad_level, share, tick_as
from gatestats.two_margins import Breach

#: Sizes of the bets, as shares of the largest that cannot go broke, and their prior mass.
_BETS: Final = as_array((0.1, 0.3, 0.7))
_WEIGHTS: Final = as_array((0.3, 0.4, 0.3))
#: Ends of the cells of the baseline's precision.
_ENDS: Final = np.linspace(0.0, 1.0, 21)
_LARGEST_MARGIN: Final = 0.9
#: What a positive decision leaves of those before it in the proportion k; and decisions of each before the first one.
_MEMORY: Final = 0.999
_PRIOR: Final = 5.0
#: The proportion k stays between these.
_PROPORTIONS: Final = (0.2, 5.0)
#: Fixed proportions for intervals, a mixture of which leaves no m but those near the truth.
_FIXED: Final = tuple(np.geomspace(*_PROPORTIONS, 13))
_HALVINGS: Final = 24


@dataclass(frozen=True, slots=True)
class PairedPrecisionDesign:
    """A margin on the loss of precision; a process for `PrecisionCounts`.

    Parameters
    ----------
    margin
        Largest accepted loss in points, 0..0.9; None if only ``part`` counts.
    planned_ticks
        Ticks within which a late regression is expected, >= 0; None for an open end.
    part
        Largest accepted loss as a part of the baseline's precision, 0..0.9; None if only ``margin`` counts.
    breach
        Which of two margins must be exceeded to be worse.
    """

    margin: float | None = 0.0
    planned_ticks: int | None = None
    part: float | None = None
    breach: Breach = Breach.EITHER

    def __post_init__(self) -> None:
        if self.margin is None and self.part is None:
            raise ValueError("a margin is needed, in points or as a part, got neither")
        for name, value in (("margin", self.margin), ("part", self.part)):
            if value is not None and not 0 <= value <= _LARGEST_MARGIN:
                raise ValueError(f"{name} must be in 0..{_LARGEST_MARGIN}, got {value}")
        refuse_bad_plan(self.planned_ticks)

    def start(self) -> State:
        """Return the state before the first tick."""
        return _fresh(self)

    def update(self, state: State, tick: Tick) -> State:
        """Return the state after one more tick; see `gatestats.process.Process`."""
        must_belong(state, _fresh(self))
        counts = _counted(tick_as(PrecisionCounts, tick))
        gains, proportion = _gains_of(self), _proportion(state)
        worse, better = (log_bets(counts, gains, sign * proportion) for sign in (1, -1))
        wealth, spent = step_wealth(state, worse.ravel(), self.planned_ticks)
        decided = _positives(counts)
        memory = _MEMORY ** max(decided)
        return dataclasses.replace(
            state,
            ticks=state.ticks + 1,
            informative=state.informative + any(counts),
            spent=spent,
            wealth=wealth,
            reverse=plain(as_array(state.reverse) + better.ravel()),
            totals=tuple(before + now for before, now in zip(state.totals, counts, strict=True)),
            sums=plain(memory * before + now for before, now in zip(state.sums, decided, strict=True)),
        )

    def log_e(self, state: State) -> float:
        """Return ln E against "precision is within the margin in every tick", nats."""
        return _least(as_array(state.wealth), cash=1 - state.spent)

    def log_e_non_inferior(self, state: State) -> float:
        """Return ln E against "precision is at or beyond the margin in every tick", nats."""
        return _least(as_array(state.reverse))

    def estimate(self, state: State) -> Estimate | None:
        """Return the candidate's precision less the baseline's; None without positive decisions."""
        theirs, ours = _precisions(state.totals)
        if theirs is None and ours is None:
            return None
        effect = None if theirs is None or ours is None else ours - theirs
        return Estimate(Measure.DIFFERENCE, effect, theirs, ours, *_positives(state.totals))

    def interval(self, state: State, level: float) -> Interval | None:
        """Return the confidence sequence of constant precisions' difference; None until both decided positively."""
        refuse_bad_level(level)
        theirs, ours = _precisions(state.totals)
        if theirs is None or ours is None:
            return None
        limit, loss = -math.log((1 - level) / 2), theirs - ours
        least, most = (_furthest(state.totals, sign, loss, limit) for sign in (1, -1))
        return Interval(Measure.DIFFERENCE, -most, -least, level)


#: Requests that both decided positively, the baseline alone, the candidate alone: each with a positive label, and with
#: a negative one.
Counted = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Gains:
    """What b (y - m) and c (y - t(m)) are of each kind of request at both ends of each cell; shape (cells, 2, 6)."""

    baseline: FloatArray
    candidate: FloatArray


def gains(ends: FloatArray, least: FloatArray) -> Gains:
    """Return the gains of each cell.

    Parameters
    ----------
    ends
        Ends of the cells of m, increasing, from 0 to 1, shape (cells + 1,).
    least
        t(m) there; linear in between.
    """
    labels = as_array((1, 0, 1, 0, 1, 0))
    theirs, ours = as_array((1, 1, 1, 1, 0, 0)), as_array((1, 1, 0, 0, 1, 1))
    pairs = (np.stack([values[:-1], values[1:]], axis=1)[..., None] for values in (ends, least))
    baseline, candidate = (who * (labels - each) for who, each in zip((theirs, ours), pairs, strict=True))
    return Gains(baseline, candidate)


def log_bets(counts: Counted, each: Gains, proportion: float) -> FloatArray:
    """Return ln of what each bet makes of 1 in each cell at least, nats; shape (cells, bets).

    H0: precision is within the margin, or for a negative ``proportion`` at or beyond it. Valid in every cell that holds
    the baseline's precision, on one tick or, with a fixed proportion, on running totals at any time.

    Parameters
    ----------
    counts
        As `Counted`.
    each
        Gains of the cells.
    proportion
        The factor k of the module, not 0; its sign is that of the bet.
    """
    gained = math.copysign(1, proportion) * each.baseline - proportion * each.candidate
    sizes = -_BETS / gained.min(axis=(1, 2))[:, None]
    grown = np.log1p(sizes[:, :, None, None] * gained[:, None]) @ as_array(counts)
    result: FloatArray = grown.min(axis=-1)
    return result


def _counted(tick: PrecisionCounts) -> Counted:
    true, false = tick.positives, tick.negatives
    both = false.total - false.both - false.worse - false.better
    return true.both, both, true.worse, false.better, true.better, false.worse


def _positives(counts: Counted) -> tuple[int, int]:
    return sum(counts[:4]), sum(counts[:2] + counts[4:])


def _precisions(counts: Counted) -> tuple[float | None, float | None]:
    theirs, ours = _positives(counts)
    return share(counts[0] + counts[2], theirs), share(counts[0] + counts[4], ours)


def _proportion(state: State) -> float:
    theirs, ours = state.sums
    return min(max((theirs + _PRIOR) / (ours + _PRIOR), _PROPORTIONS[0]), _PROPORTIONS[1])


def _least(wealth: FloatArray, cash: float = 0.0) -> float:
    """Return ln of the mixture of the bets in the cell in which it is smallest."""
    terms = wealth.reshape(-1, _BETS.size) + np.log(_WEIGHTS)
    if cash > 0:
        terms = np.append(terms, np.full((len(terms), 1), math.log(cash)), axis=1)
    return float(log_sum_exp(terms).min())


def _log_against(counts: Counted, loss: float, sign: int) -> float:
    """Return ln E against "at most that loss" (sign 1) or "at least" (-1), of constant precisions."""
    each = gains(_ENDS, _ENDS - loss)
    terms = [log_bets(counts, each, sign * float(fixed)) + np.log(_WEIGHTS) for fixed in _FIXED]
    return float(log_sum_exp(np.concatenate(terms, axis=1)).min()) - math.log(len(_FIXED))


def _furthest(counts: Counted, sign: int, loss: float, limit: float) -> float:
    """Bisect from an end of the scale, next to which losses are rejected if any are; the rejected side is returned."""
    rejecting, keeping = -float(sign), loss
    for _ in range(_HALVINGS):
        middle = (rejecting + keeping) / 2
        if _log_against(counts, middle, sign) >= limit:
            rejecting = middle
        else:
            keeping = middle
    return rejecting


@lru_cache(maxsize=512)
def _gains_of(design: PairedPrecisionDesign) -> Gains:
    margin, part = design.margin, design.part
    if margin is None or part is None:
        ends = _ENDS
        least = ends - margin if margin is not None else ends * (1 - (part or 0.0))
        return gains(ends, least)
    # t(m) bends where both margins are the same
    bend = margin / part if part else 0.0
    ends = np.union1d(_ENDS, [bend]) if bend < 1 else _ENDS
    stricter = np.maximum if design.breach is Breach.EITHER else np.minimum
    return gains(ends, stricter(ends - margin, ends * (1 - part)))


@lru_cache(maxsize=512)
def _fresh(design: PairedPrecisionDesign) -> State:
    bets = len(_gains_of(design).baseline) * _BETS.size
    name = mark("paired-precision", design)
    return State(name, 0, 0, FIRST_STAKE, first_wealth(bets), (0.0,) * bets, (0,) * 6, (0.0, 0.0))
