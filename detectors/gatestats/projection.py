"""Reverse information projection onto a linear null: the nearest null of a bet on event rates.

For cells with rates theta and block sizes n, and the convex null {c . theta <= bound}, the e-variable of a bet theta*
is its likelihood ratio against  theta0 = argmin over the null of sum_k n_k KL(theta*_k || theta_k).
Validity: ln E_theta[e] is concave in theta, 0 at theta0, with gradient - grad KL there; first-order optimality on a
convex null makes it at most 0 in all of the null. It holds for any predictable sizes and bets and any drift within
the null. Source: Turner, Ly and Grünwald (2024), arXiv:2106.02693, for two cells; statistics.md 1.2 in general.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import assert_never

#: Newton steps stand still when they move by less than this share.
_STILL = 1e-13
#: A bet this close to the null is not made: rounding would weigh more than the bet.
_HAIR = 1e-12


@dataclass(frozen=True, slots=True)
class LinearNull:
    """The null {sum_k weights_k theta_k <= bound} on event rates.

    Parameters
    ----------
    weights
        One finite weight for each cell; at least one is negative or the bound is positive, so that the null has an
        inside.
    bound
        Finite, above the smallest value of the sum over rates in 0..1.
    """

    weights: tuple[float, ...]
    bound: float

    def __post_init__(self) -> None:
        lowest = sum(min(weight, 0.0) for weight in self.weights)
        if not (math.isfinite(self.bound) and math.isfinite(lowest) and self.bound > lowest):
            raise ValueError(f"bound must be finite and above {lowest}, got {self.bound}")

    def excess(self, rates: Sequence[float]) -> float:
        """Return weights . rates - bound; positive outside the null."""
        return sum(weight * rate for weight, rate in zip(self.weights, rates, strict=True)) - self.bound


@dataclass(frozen=True, slots=True)
class CornerNull:
    """The null "the rate under test exceeds the reference by at most ``points`` AND by at most a ``relative`` part".

    Or, if ``beyond``, "by at least the points AND by at least the part". Either is convex in the two rates: a corner.

    Parameters
    ----------
    points
        Difference of rates, in (0, 1).
    relative
        Part of the reference's rate, > 0 and finite.
    beyond
        Whether the null is the side on which both are exceeded.
    """

    points: float
    relative: float
    beyond: bool = False

    def __post_init__(self) -> None:
        if not (0 < self.points < 1 and 0 < self.relative < math.inf):
            raise ValueError(f"points must lie in (0, 1) and relative above 0, got {self.points} and {self.relative}")

    @property
    def sides(self) -> tuple[LinearNull, LinearNull]:
        """The two half planes of which the null is the common part, for (rate under test, reference)."""
        return _sides(self)

    @property
    def vertex(self) -> tuple[float, float]:
        """The rates that lie on both margins; perhaps above 1."""
        reference = self.points / self.relative
        return reference + self.points, reference

    def excess(self, rates: Sequence[float]) -> float:
        """Return by how much the rates lie outside the further of the two half planes; positive outside the null."""
        return max(side.excess(rates) for side in self.sides)


@lru_cache(maxsize=512)
def _sides(null: CornerNull) -> tuple[LinearNull, LinearNull]:
    sign = -1.0 if null.beyond else 1.0
    return (
        LinearNull((sign, -sign), sign * null.points),
        LinearNull((sign, -sign * (1 + null.relative)), 0.0),
    )


Null = LinearNull | CornerNull


def nearest_null(bet: Sequence[float], sizes: Sequence[int], null: Null) -> tuple[float, ...]:
    """Return the rates of the null nearest to ``bet``; parameters and sense of "nearest" as in `project`."""
    match null:
        case LinearNull():
            return project(bet, sizes, null)
        case CornerNull():
            return _project_on_corner(bet, sizes, null)
        case never:
            assert_never(never)


def _project_on_corner(bet: Sequence[float], sizes: Sequence[int], null: CornerNull) -> tuple[float, ...]:
    """Project on each half plane; what lies in the other as well is nearest, else the vertex is.

    The distance is convex: where neither lies in the other, both margins bind.
    """
    candidates = [project(bet, sizes, side) for side in null.sides]
    if max(null.vertex) < 1:
        candidates.append(null.vertex)
    return min(candidates, key=lambda rates: max(0.0, null.excess(rates)))


def project(bet: Sequence[float], sizes: Sequence[int], null: LinearNull) -> tuple[float, ...]:
    """Return the rates of the null nearest to ``bet`` in the sense of sum_k n_k KL(bet_k || rate_k).

    Parameters
    ----------
    bet
        Rate of each cell, in (0, 1).
    sizes
        Requests of each cell, > 0.
    null
        Where to project to; a bet inside it, or outside by less than a hair, is its own projection.

    Notes
    -----
    Stationary points solve n_k (theta_k - theta*_k) + mu c_k theta_k (1 - theta_k) = 0 for one mu >= 0; the excess
    falls in mu, and mu is found by Newton steps kept inside a bracket. Once they stand still, a hair more of mu lies
    inside the null, which is the side to be on.
    """
    if null.excess(bet) <= _HAIR:
        return tuple(bet)
    low, high = 0.0, float(sum(sizes))
    while null.excess(_stationary(bet, sizes, null, high)) > 0:
        low, high = high, 2 * high
    mu = high
    while True:  # every turn narrows the bracket, so it ends at neighbouring doubles at the latest
        rates = _stationary(bet, sizes, null, mu)
        excess = null.excess(rates)
        low, high = (mu, high) if excess > 0 else (low, mu)
        step = mu - excess / _slope(rates, sizes, null, mu)
        if abs(step - mu) <= _STILL * mu:
            rates = _stationary(bet, sizes, null, step * (1 + 2 * _STILL))
            if null.excess(rates) <= 0:
                return rates
        following = step if low < step < high else (low + high) / 2
        if not low < following < high:
            return _stationary(bet, sizes, null, high)
        mu = following


def log_factor(bet: Sequence[float], nearest: Sequence[float], cells: Sequence[tuple[int, int]]) -> float:
    """Return ln of the likelihood ratio of a bet against its projection.

    H0: the null that ``nearest`` was projected to. Valid if the bet was fixed before the tick.

    Parameters
    ----------
    bet, nearest
        Rates of each cell, in (0, 1).
    cells
        (events, total) of each cell.
    """
    return sum(
        events * math.log(there / here) + (total - events) * math.log((1 - there) / (1 - here))
        for there, here, (events, total) in zip(bet, nearest, cells, strict=True)
    )


def _stationary(bet: Sequence[float], sizes: Sequence[int], null: LinearNull, mu: float) -> tuple[float, ...]:
    return tuple(_root(rate, size, mu * weight) for rate, size, weight in zip(bet, sizes, null.weights, strict=True))


def _root(rate: float, size: float, pull: float) -> float:
    """Solve size (theta - rate) + pull theta (1 - theta) = 0 in (0, 1), without cancellation."""
    slope = size + pull
    root = math.sqrt(max(0.0, slope * slope - 4 * pull * size * rate))
    if slope > 0:
        return 2 * size * rate / (slope + root)
    return (slope - root) / (2 * pull)


def _slope(rates: Sequence[float], sizes: Sequence[int], null: LinearNull, mu: float) -> float:
    """Return the derivative of the excess in mu; it is negative."""
    return -sum(
        weight * weight * rate * (1 - rate) / (size + mu * weight * (1 - 2 * rate))
        for rate, size, weight in zip(rates, sizes, null.weights, strict=True)
    )
