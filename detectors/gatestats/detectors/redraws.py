"""The law of a statistic under H0, by dealing out again what was seen.

Both variants' counts are pooled and dealt out at the sizes they had. Under H0 what was seen is one such deal like any
other, so thresholds and p-values are exact at every n, up to the number of redraws.
Source: Phipson and Smyth (2010), "Permutation p-values should never be zero".
"""

import math

import numpy as np
from numpy.typing import NDArray

from gatestats.arrays import FloatArray

#: From this many counts on numpy cannot draw from the multivariate hypergeometric distribution.
_TOO_MANY = 10**9
#: Rounding must not make a redraw of the very same counts a smaller value.
_SAME = 1e-9


def deal(baseline: FloatArray, candidate: FloatArray, draws: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """Return redrawn counts of both variants, each shape (draws, J).

    Parameters
    ----------
    baseline, candidate
        Whole counts >= 0, shape (J,), fewer than a thousand million together.
    draws
        Number of redraws, >= 1.
    seed
        >= 0.
    """
    pooled: NDArray[np.int64] = (baseline + candidate).astype(np.int64)
    if pooled.sum() >= _TOO_MANY:
        raise ValueError(
            f"counts of both variants must be below {_TOO_MANY} together, got {pooled.sum()}: compare a shorter window"
        )
    random = np.random.default_rng(seed)
    dealt = random.multivariate_hypergeometric(pooled, int(candidate.sum()), size=draws, method="marginals")
    return (pooled - dealt).astype(np.float64), dealt.astype(np.float64)


def threshold(redrawn: FloatArray, alpha: float) -> float:
    """Return the value that one more redraw exceeds with chance at most alpha; inf if there are too few to tell."""
    place = math.ceil((1 - alpha) * (redrawn.size + 1))
    return float(np.sort(redrawn)[place - 1]) * (1 + _SAME) if place <= redrawn.size else math.inf


def p_value(redrawn: FloatArray, seen: float) -> float:
    """Return the chance of a value of at least ``seen``, in (0, 1]."""
    return float((1 + (redrawn >= seen * (1 - _SAME)).sum()) / (1 + redrawn.size))
