"""What it means that a candidate is worse by so many margins, in shares and in durations."""

import math
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from davylamp.core.evidence import DEFAULT_ALLOWANCE
from davylamp.core.plan import (
    AbsoluteMargin,
    Direction,
    Gate,
    LimitMargin,
    OddsRatioMargin,
    RelativeMargin,
    SignalKind,
    SlowdownMargin,
)

_SMALLEST = 1e-7


def worse_share(gate: Gate, share: float, margins: float) -> float:
    """Return the candidate's share of events if it is worse by ``margins`` margins (0 is equal).

    Parameters
    ----------
    gate
        Reads a share.
    share
        The baseline's, in (0, 1).
    margins
        How often the margin is used up, in its own unit: an odds ratio of 1.25 twice is 1.5.
    """
    lower = direction(gate, share) is Direction.LOWER
    match gate.margin:
        case OddsRatioMargin(ratio):
            factor = 1 + margins * (ratio - 1)
            odds = share / (1 - share) * (1 / factor if lower else factor)
            moved = odds / (1 + odds)
        case AbsoluteMargin(difference):
            moved = share + (-1 if lower else 1) * margins * difference
        case RelativeMargin(part):
            moved = share * (1 + (-1 if lower else 1) * margins * part)
        case SlowdownMargin() | LimitMargin():
            raise ValueError(f"gate {gate.name} does not compare the shares of two variants")
        case never:
            assert_never(never)
    return min(max(moved, _SMALLEST), 1 - _SMALLEST)


def direction(gate: Gate, share: float) -> Direction:
    """Return the direction that is planned for: the gate's, and for either that in which there is more room."""
    if gate.worse is not Direction.EITHER:
        return gate.worse
    return Direction.LOWER if share > 0.5 else Direction.HIGHER


def forgiven(gate: Gate, share: float, margins: float) -> bool:
    """Return whether such a loss lies within the gate's allowance, so that promotion takes it for no loss."""
    if gate.kind is not SignalKind.ERRORS or not isinstance(gate.margin, OddsRatioMargin) or margins <= 1:
        return False
    return worse_share(gate, share, margins) - share < (gate.allowance or DEFAULT_ALLOWANCE)


def slowdown_of(gate: Gate, margins: float) -> float:
    """Return the ratio of durations if the candidate is slower by ``margins`` margins; 1 is equal."""
    if not isinstance(gate.margin, SlowdownMargin):
        message = f"gate {gate.name} reads a share, not durations"
        raise ValueError(message)  # noqa: TRY004 - the value of a gate is wrong, not a caller's type
    return 1 + margins * gate.margin.part


def slowed(edges: tuple[float, ...], shares: NDArray[np.float64], factor: float) -> NDArray[np.float64]:
    """Return shares by bucket when every value is multiplied by ``factor`` (>= 1).

    Within a bucket values lie evenly on the logarithmic scale; the first bucket counts as wide as the second, and
    what is in an open bucket stays there.
    """
    if factor == 1:
        return shares
    finite = np.log([edge for edge in edges if math.isfinite(edge)])
    bounds = np.concatenate([[2 * finite[0] - finite[1]], finite])
    reached = np.concatenate([[0.0], np.cumsum(shares)[: finite.size]])
    below = np.interp(finite - math.log(factor), bounds, reached)
    end = [] if finite.size == len(edges) else [1.0]
    moved: NDArray[np.float64] = np.diff(np.concatenate([[0.0], below, end]))
    return moved
