"""Fisher's noncentral hypergeometric law: how events split between two variants, given their pooled number."""

import numpy as np

from gatestats.arrays import FloatArray, log_sum_exp
from gatestats.ticks import TwoArmCounts
from gatestats.tilted_sum import log_tilted_expectation

#: Above this many possible splits the sum over all of them costs more than the tilted sum.
_LARGEST_SUPPORT = 600


def log_normalisers(counts: TwoArmCounts, log_odds: FloatArray) -> FloatArray:
    """Return ln Z(w) - ln Z(1) for odds ratios w of candidate against baseline.

    Z(w) = sum_u C(n_C, u) C(n_B, X - u) w^u over the possible candidate events u, X pooled events. The candidate's
    events, given n_B, n_C and X, have P(u) = C(n_C, u) C(n_B, X - u) w^u / Z(w), whatever the event rate is.

    Parameters
    ----------
    counts
        Counts of one tick.
    log_odds
        ln w, finite, nats, shape (K,).

    Returns
    -------
    FloatArray
        Shape (K,), nats.

    Notes
    -----
    Fog (2008), "Calculation methods for Fisher's noncentral hypergeometric distribution". Coefficients are built
    from ratios of neighbours and summed in log space; long sums use `log_tilted_expectation`.
    """
    baseline, candidate = counts.baseline_total, counts.candidate_total
    pooled = counts.baseline_events + counts.candidate_events
    first, last = max(0, pooled - baseline), min(pooled, candidate)
    if last - first > _LARGEST_SUPPORT:
        values = np.array([pooled, baseline + candidate - pooled], dtype=np.float64)
        return log_tilted_expectation(values, candidate, np.stack([log_odds, np.zeros_like(log_odds)], axis=1))
    lower = np.arange(first, last, dtype=np.float64)
    rises = np.log((candidate - lower) * (pooled - lower)) - np.log((lower + 1) * (baseline - pooled + lower + 1))
    log_weight = np.concatenate([[0.0], np.cumsum(rises)])
    support = np.arange(first, last + 1, dtype=np.float64)
    result: FloatArray = log_sum_exp(log_weight + log_odds[:, None] * support) - log_sum_exp(log_weight)
    return result
