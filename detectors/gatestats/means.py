"""Means of unbounded values (revenue, cost): an asymptotic confidence sequence, and evidence from the same mixture.

APPROXIMATE: the only kind here that relies on a central limit theorem. Ticks are pooled into blocks; each block gives
one difference of means, weighted as in Mantel-Haenszel. H0 of rollback: the blocks' weighted differences have
conditional means of at most the margin; of promotion: at least. The error is at most the level as the number of
blocks grows; nothing is said before the first eight. Blocks must be longer than the correlation time, and values
winsorised beforehand where single ones can dominate a block.
Source: statistics.md 1.7; Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas (2024), arXiv:2103.06476.
"""

import dataclasses
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Final

from gatestats.state import State, mark, must_belong
from gatestats.ticks import Estimate, Interval, Measure, Tick, TwoArmSums, Worse, refuse_bad_level, tick_as

#: Blocks before which nothing is said: the spread must be known.
_BURN_IN: Final = 8
#: Scale of the Gaussian mixture per block: tightest after some tens of blocks.
_SCALE: Final = 0.1


@dataclass(frozen=True, slots=True)
class MeanDesign:
    """A margin on the difference of two means; a process for `TwoArmSums`. Approximate.

    Parameters
    ----------
    margin
        Largest accepted difference of the means in the worse direction, in the unit of the value, finite, >= 0; or,
        if ``relative``, as a part of the baseline's mean, in 0..1.
    worse
        Direction that counts as worse.
    relative
        Whether the margin is a part of the baseline's mean, which is then assumed to be positive.
    block_ticks
        Ticks with requests of both variants that make up one block, >= 1.
    """

    margin: float = 0.0
    worse: Worse = Worse.LOWER
    relative: bool = False
    block_ticks: int = 6

    #: Whether errors are bounded exactly or only in the limit.
    approximate: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 <= self.margin < math.inf or (self.relative and self.margin > 1):
            limit = "0..1" if self.relative else "0 or more, finite"
            raise ValueError(f"margin must be {limit}, got {self.margin}")
        if self.block_ticks < 1:
            raise ValueError(f"block_ticks must be at least 1, got {self.block_ticks}")

    def start(self) -> State:
        """Return the state before the first tick."""
        return _fresh(self)

    def update(self, state: State, tick: Tick) -> State:
        """Return the state after one more tick; see `gatestats.process.Process`.

        A tick in which one of the variants served nothing belongs to no block.
        """
        must_belong(state, _fresh(self))
        sums = tick_as(TwoArmSums, tick)
        ticks, blocks = state.totals[:2]
        block, past = state.sums[:3], state.sums[3:]
        informative = sums.baseline_total > 0 and sums.candidate_total > 0
        if informative:
            weight = sums.baseline_total * sums.candidate_total / (sums.baseline_total + sums.candidate_total)
            means = sums.candidate_sum / sums.candidate_total, sums.baseline_sum / sums.baseline_total
            terms = (weight, weight * means[0], weight * means[1])
            block, ticks = tuple(before + now for before, now in zip(block, terms, strict=True)), ticks + 1
        if ticks == self.block_ticks:
            past = tuple(before + now for before, now in zip(past, _block_terms(self, block), strict=True))
            block, ticks, blocks = (0.0, 0.0, 0.0), 0, blocks + 1
        seen = state.totals[2] + sums.baseline_total, state.totals[3] + sums.candidate_total
        return dataclasses.replace(
            state,
            ticks=state.ticks + 1,
            informative=state.informative + informative,
            totals=(ticks, blocks, *seen),
            sums=(*block, *past),
        )

    def log_e(self, state: State) -> float:
        """Return ln E against "the mean is worse by at most the margin", nats; approximate, 0 before eight blocks."""
        return _evidence(state, 1.0)

    def log_e_non_inferior(self, state: State) -> float:
        """Return ln E against "the mean is worse by at least the margin", nats; approximate, 0 before eight blocks."""
        return _evidence(state, -1.0)

    def estimate(self, state: State) -> Estimate | None:
        """Return the difference of the means (candidate minus baseline) over whole blocks; None without requests."""
        _, _, theirs, ours = state.totals
        if not theirs and not ours:
            return None
        mass, candidate, baseline, *_ = state.sums[3:]
        if not mass:
            return Estimate(Measure.MEAN_DIFFERENCE, None, None, None, theirs, ours)
        levels = baseline / mass, candidate / mass
        return Estimate(Measure.MEAN_DIFFERENCE, levels[1] - levels[0], *levels, theirs, ours)

    def interval(self, state: State, level: float) -> Interval | None:
        """Return the asymptotic confidence sequence of the difference of means; None before eight blocks.

        With a relative margin it is that of (candidate's mean minus the margin's part of the baseline's mean).
        """
        refuse_bad_level(level)
        blocks, spread = state.totals[1], _spread(state)
        if spread is None:
            return None
        mass, losses = state.sums[3], state.sums[6]
        scale = blocks / mass
        width = mean_margin(blocks, spread, level) * scale
        loss = losses / mass + (0.0 if self.relative else self.margin)
        middle = loss if self.worse is Worse.HIGHER else -loss
        return Interval(Measure.MEAN_DIFFERENCE, middle - width, middle + width, level)


def log_e_gaussian(total: float, variance: float, scale: float) -> float:
    """Return ln E of the one-sided Gaussian mixture against "drift at most 0", nats.

    H0: increments have conditional means of at most 0. Exact at all times if they are Gaussian with the variances
    given; otherwise approximate. E = 2 exp(r S^2 / (2 (1 + r V))) Phi(sqrt(r) S / sqrt(1 + r V)) / sqrt(1 + r V).

    Parameters
    ----------
    total
        S, sum of the increments, finite.
    variance
        V, sum of their conditional variances, >= 0, finite.
    scale
        r, variance of the prior of the drift, > 0, finite.
    """
    if not (math.isfinite(total) and 0 <= variance < math.inf and 0 < scale < math.inf):
        raise ValueError(f"need a finite sum, variance >= 0 and scale > 0, got {total}, {variance} and {scale}")
    growth = 1 + scale * variance
    deviation = total * math.sqrt(scale / growth)
    return math.log(2) - math.log(growth) / 2 + deviation * deviation / 2 + _log_normal_cdf(deviation)


def mean_margin(count: int, deviation: float, level: float, scale: float = _SCALE) -> float:
    """Return half the width of the asymptotic confidence sequence of a mean, in the unit of the values.

    Approximate: coverage at all looks together tends to the level for sequences that begin late.
    Margin = s sqrt(2 (t r + 1) ln(sqrt(t r + 1) / alpha) / (t^2 r)).

    Parameters
    ----------
    count
        Values t, >= 1.
    deviation
        Their standard deviation s, >= 0.
    level
        Coverage, 1 - alpha, in (0, 1).
    scale
        r, > 0.
    """
    refuse_bad_level(level)
    if not (count >= 1 and 0 <= deviation < math.inf and 0 < scale < math.inf):
        raise ValueError(f"need count >= 1, deviation >= 0 and scale > 0, got {count}, {deviation} and {scale}")
    growth = count * scale + 1
    return deviation * math.sqrt(2 * growth * (math.log(growth) / 2 - math.log1p(-level)) / (count * count * scale))


def _log_normal_cdf(value: float) -> float:
    """Return ln Phi, also where Phi itself is below the smallest double."""
    if value > -30:
        return math.log(math.erfc(-value / math.sqrt(2)) / 2)
    return -value * value / 2 - math.log(-value * math.sqrt(2 * math.pi)) + math.log1p(-1 / (value * value))


def _block_terms(design: MeanDesign, block: tuple[float, ...]) -> tuple[float, ...]:
    """Return what a block adds: weight, weighted means, squared weight, loss beyond the margin and its products."""
    weight, candidate, baseline = block
    part, points = (design.margin, 0.0) if design.relative else (0.0, design.margin)
    if design.worse is Worse.HIGHER:
        loss = candidate - (1 + part) * baseline - points * weight
    else:
        loss = (1 - part) * baseline - candidate - points * weight
    return weight, candidate, baseline, loss, weight * weight, weight * loss, loss * loss


def _spread(state: State) -> float | None:
    """Return the standard deviation of the blocks' weighted losses around the common mean; None while unknown."""
    blocks = state.totals[1]
    mass, _, _, losses, mass_squares, products, squares = state.sums[3:]
    if blocks < _BURN_IN:
        return None
    mean = losses / mass
    variance = (squares - 2 * mean * products + mean * mean * mass_squares) / (blocks - 1)
    return math.sqrt(variance) if variance > 1e-12 * squares / blocks else None


def _evidence(state: State, sign: float) -> float:
    spread = _spread(state)
    if spread is None:
        return 0.0
    return log_e_gaussian(sign * state.sums[6] / spread, float(state.totals[1]), _SCALE)


@lru_cache(maxsize=512)
def _fresh(design: MeanDesign) -> State:
    return State(mark("mean", design), 0, 0, 0.0, (), (), (0, 0, 0, 0), (0.0,) * 10)
