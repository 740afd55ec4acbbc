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

#: Newton steps stand still when they move by less than this share.
_STILL = 1e-13


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


def project(bet: Sequence[float], sizes: Sequence[int], null: LinearNull) -> tuple[float, ...]:
    """Return the rates of the null nearest to ``bet`` in the sense of sum_k n_k KL(bet_k || rate_k).

    Parameters
    ----------
    bet
        Rate of each cell, in (0, 1).
    sizes
        Requests of each cell, > 0.
    null
        Where to project to; a bet inside it is its own projection.

    Notes
    -----
    Stationary points solve n_k (theta_k - theta*_k) + mu c_k theta_k (1 - theta_k) = 0 for one mu >= 0; the excess
    falls in mu, and mu is found by Newton steps kept inside a bracket. Once they stand still, a hair more of mu lies
    inside the null, which is the side to be on.
    """
    if null.excess(bet) <= 0:
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
