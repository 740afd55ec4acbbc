"""Normaliser of the tilt: how a split of pooled counts behaves when every value weighs its exponent.

For pooled counts m_j and n of the N = sum m_j requests drawn for one variant, with u ~ multivariate hypergeometric:

    E exp(sum_j e_j u_j) = [z^n] prod_j (1 + z exp(e_j))^m_j / C(N, n)

For any z the coefficient is  prod_j (1 + z exp(e_j))^m_j z^-n  times the probability that independent binomials
(m_j, p_j = z exp(e_j) / (1 + z exp(e_j))) add up to n. With z such that their mean is n (the saddle point), that
probability is large, about 0.4 / sd, and a short sum over the characteristic function gives it to full precision,
whatever N. Both short cuts, a coarse frequency grid (aliasing) and leaving out high frequencies (their bound is
added), can only make the result larger, so an e-variable divided by it stays valid.
"""

import math

import numpy as np

from gatestats.arrays import FloatArray

_NEWTON_STEPS = 40
#: Squared distance from the saddle point in standard deviations; any point gives the identity, near ones precisely.
_NEAR = 1e-4
#: exp(-50): what the frequencies left out can add, relative to a probability of about 0.4 / sd.
_NEGLIGIBLE_NATS = 50.0
#: Distance of the aliases, in standard deviations and in counts; at 12 sd a binomial sum has mass below 1e-30.
_ALIAS_DEVIATIONS = 12.0
_ALIAS_COUNTS = 40


def log_tilted_expectation(pooled: FloatArray, drawn: int, exponents: FloatArray) -> FloatArray:
    """Return ln E exp(sum_j e_j u_j) for u ~ multivariate hypergeometric(pooled, drawn), never too small.

    Parameters
    ----------
    pooled
        Pooled counts per value, shape (J,), whole and > 0.
    drawn
        Requests of the variant, 0 < drawn < sum of ``pooled``.
    exponents
        Weight of one request of each value, nats, shape (K, J): one row for each tilt.

    Returns
    -------
    FloatArray
        Shape (K,), nats. The result of a row of equal exponents e is e * drawn.

    Notes
    -----
    Exact up to rounding (about 1e-13 relative), from above: see the head of this module. Cost grows with
    K * J * 20, not with the counts.
    """
    total = pooled.sum()
    level = exponents.mean(axis=1, keepdims=True)
    rows = np.concatenate([exponents - level, np.zeros((1, pooled.size))])
    log_z = _saddle_points(pooled, drawn, rows)
    chance = 1 / (1 + np.exp(-(log_z[:, None] + rows)))
    log_scale = (pooled * np.logaddexp(0.0, log_z[:, None] + rows)).sum(axis=1) - log_z * drawn
    log_coefficient = log_scale + np.log(_chance_of_sum(pooled, chance, drawn, int(total)))
    result: FloatArray = log_coefficient[:-1] - log_coefficient[-1] + level[:, 0] * drawn
    return result


def _saddle_points(pooled: FloatArray, drawn: int, rows: FloatArray) -> FloatArray:
    """Solve sum_j m_j p_j(z) = drawn for ln z, by Newton steps kept inside a shrinking bracket."""
    centre = math.log(drawn) - math.log(pooled.sum() - drawn)
    low, high = centre - rows.max(axis=1), centre - rows.min(axis=1)
    log_z: FloatArray = centre - (rows * pooled).sum(axis=1) / pooled.sum()
    for _ in range(_NEWTON_STEPS):
        chance = 1 / (1 + np.exp(-(log_z[:, None] + rows)))
        excess = (pooled * chance).sum(axis=1) - drawn
        low, high = np.where(excess < 0, log_z, low), np.where(excess > 0, log_z, high)
        slope = (pooled * chance * (1 - chance)).sum(axis=1)
        if (excess * excess <= _NEAR * slope).all():
            break
        proposal = log_z - excess / slope
        log_z = np.where((proposal >= low) & (proposal <= high), proposal, (low + high) / 2)
    return log_z


def _chance_of_sum(pooled: FloatArray, chance: FloatArray, drawn: int, total: int) -> FloatArray:
    """Bound P(sum of binomials = drawn) from above, shape (K,)."""
    spread = chance * (1 - chance)
    variance = (pooled * spread).sum(axis=1)
    grid = min(total + 1, math.ceil(_ALIAS_DEVIATIONS * math.sqrt(variance.max())) + _ALIAS_COUNTS) | 1
    # |characteristic function at t| <= exp(-variance (1 - cos t))
    smallest = 1 - _NEGLIGIBLE_NATS / variance.min()
    last = (grid - 1) // 2
    kept = last if smallest <= -1 else min(last, math.ceil(math.acos(smallest) * grid / (2 * math.pi)))
    angle = 2 * math.pi / grid * np.arange(1, kept + 1)
    sine, vertex = np.sin(angle), 1 - np.cos(angle)
    drop = spread[:, :, None] * vertex
    log_size = (pooled[:, None] * (0.5 * np.log1p(-2 * drop))).sum(axis=1)
    turn = np.arctan2(chance[:, :, None] * sine, 1 - chance[:, :, None] * vertex)
    phase = (pooled[:, None] * turn).sum(axis=1) - drawn * angle
    seen = (1 + 2 * (np.exp(log_size) * np.cos(phase)).sum(axis=1)) / grid
    left_out = np.exp(-variance * vertex[-1]) if kept < last else 0.0
    result: FloatArray = seen + left_out
    return result
