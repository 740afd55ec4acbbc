"""How much pods of one version differ, and the margin that this makes necessary.

Model: a pod's value in a block of a minute is that of the block, plus the pod's own constant, plus noise; blocks take
up the time of day and bursts shorter than themselves. H0 of the F-test: no pod has a constant of its own.
Validity: fixed-n, approximate; noise of different blocks independent. It describes and decides nothing.
Source: two-way layout without replication, Scheffé (1959), ch. 4 and 7.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.stats import f as f_distribution
from scipy.stats import t as t_distribution

from davylamp.core.plan import (
    AbsoluteMargin,
    Direction,
    Gate,
    LimitMargin,
    Margin,
    OddsRatioMargin,
    RelativeMargin,
    SlowdownMargin,
)

#: Of the upper limit of the spread, and of the test whether there is one.
_LEVEL: Final = 0.95
#: Pods from which on an estimate of their spread is more than a guess.
FEW_PODS: Final = 4
_LARGEST_RATIO: Final = 1000.0


@dataclass(frozen=True, slots=True)
class Spread:
    """How much pods differ beyond chance.

    Parameters
    ----------
    pods, blocks
        How many were compared, >= 2 each.
    mean
        Of the value: a share, or ln of seconds.
    sd
        Standard deviation of the pods' own constants, in the unit of the value, >= 0.
    sd_high
        Its upper 95 % limit.
    p
        Of the F-test that there is none.
    """

    pods: int
    blocks: int
    mean: float
    sd: float
    sd_high: float
    p: float

    @property
    def seen(self) -> bool:
        """Whether the pods differ by more than chance."""
        return self.p < 1 - _LEVEL


def spread_of(values: Sequence[Sequence[float]]) -> Spread | None:
    """Return the spread of a table of values.

    Parameters
    ----------
    values
        One row for each pod, one finite value for each block.

    Returns
    -------
    Spread or None
        None with fewer than two pods or two blocks.

    Raises
    ------
    ValueError
        If rows differ in length or hold what is not finite.
    """
    if len({len(row) for row in values}) > 1:
        raise ValueError(f"every pod must have a value in every block, got rows of {[len(row) for row in values]}")
    if len(values) < 2 or len(values[0]) < 2:
        return None
    table = np.array(values, dtype=np.float64)
    if not np.isfinite(table).all():
        raise ValueError("values must be finite")
    pods, blocks = table.shape
    rows, columns, grand = table.mean(axis=1), table.mean(axis=0), float(table.mean())
    between = blocks * float(((rows - grand) ** 2).sum()) / (pods - 1)
    rest = table - rows[:, None] - columns[None, :] + grand
    freedom = (pods - 1, (pods - 1) * (blocks - 1))
    noise = float((rest**2).sum()) / freedom[1]
    sd = math.sqrt(max(0.0, between - noise) / blocks)
    high = between / float(f_distribution.ppf(1 - _LEVEL, *freedom))
    p = float(f_distribution.sf(between / noise, *freedom)) if noise > 0 else float(between == 0)
    return Spread(pods, blocks, grand, sd, math.sqrt(max(0.0, high - noise) / blocks), p)


def difference(spread: Spread, candidate_pods: int, level: float) -> float:
    """Return by how much fresh pods of the same version lie above the baseline's mean in at most ``level`` of cases.

    Parameters
    ----------
    spread
        Of the baseline's pods.
    candidate_pods
        How many pods the candidate has, >= 1.
    level
        In (0, 0.5].

    Notes
    -----
    One-sided prediction limit of Student's t with one degree of freedom for each pod but one; the noise of the
    requests is left out, since the evidence accounts for it already.
    """
    quantile = float(t_distribution.ppf(1 - level, spread.pods - 1))
    return quantile * spread.sd * math.sqrt(1 / candidate_pods + 1 / spread.pods)


def necessary(gate: Gate, spread: Spread, gap: float) -> Margin | None:
    """Return the margin of a gate's own kind that a difference of ``gap`` (in the spread's unit) does not exceed.

    None means that no margin is wide enough: the worse value would leave what a share can be.
    """
    lower = gate.worse is Direction.LOWER
    share = spread.mean
    match gate.margin:
        case SlowdownMargin():
            part = math.expm1(gap)
            return SlowdownMargin(part) if part <= 1 else None
        case AbsoluteMargin():
            return AbsoluteMargin(gap) if gap <= 0.5 else None
        case RelativeMargin():
            return RelativeMargin(gap / share) if share > 0 and gap <= share else None
        case OddsRatioMargin():
            worse = share - gap if lower else share + gap
            if not 0 < worse < 1 or not 0 < share < 1:
                return None
            ratio = worse / (1 - worse) * (1 - share) / share
            ratio = 1 / ratio if lower else ratio
            return OddsRatioMargin(ratio) if ratio <= _LARGEST_RATIO else None
        case LimitMargin():
            return None


def wide_enough(have: Margin, need: Margin) -> bool:
    """Whether a margin is at least as wide as another of the same kind."""
    return amount(have) >= amount(need)


def amount(margin: Margin) -> float:
    """Return the number of a margin: a ratio above 1, or a fraction."""
    match margin:
        case OddsRatioMargin(ratio):
            return ratio
        case AbsoluteMargin(value) | RelativeMargin(value) | SlowdownMargin(value) | LimitMargin(value):
            return value


def spelled(margin: Margin) -> str:
    """Return a margin as it is written into a spec, rounded up so that it is not narrower."""
    value = amount(margin)
    match margin:
        case OddsRatioMargin():
            return f"{{oddsRatio: {max(1.01, math.ceil(value * 100 - 1e-9) / 100):.4g}}}"
        case AbsoluteMargin():
            return f"{{absolute: {_percent(value)}}}"
        case RelativeMargin():
            return f"{{relative: {_percent(value)}}}"
        case SlowdownMargin():
            return f"{{slowdown: {_percent(value)}}}"
        case LimitMargin():
            return f"{{limit: {_percent(value)}}}"


def _percent(fraction: float) -> str:
    """Return a fraction in percent with two digits, rounded up, at least 0.01 %."""
    percent = max(0.01, 100 * fraction)
    decimals = max(0, 1 - math.floor(math.log10(percent)))
    return f"{math.ceil(percent * 10**decimals - 1e-9) / 10**decimals:g}%"
