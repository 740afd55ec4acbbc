"""How sure a measured figure is: Clopper-Pearson bounds of shares, paired bootstrap bounds of ratios."""

from typing import Final

import numpy as np
from scipy.stats import beta

from e2e.bench.statistics.scene import FloatArray

_REDRAWS: Final = 2_000
_SEED: Final = 20_261_201


def share_bounds(events: int, runs: int, level: float = 0.95) -> tuple[float, float]:
    """Return the two one-sided Clopper-Pearson bounds of a share, each at ``level``."""
    low = 0.0 if events == 0 else float(beta.ppf(1 - level, events, runs - events + 1))
    high = 1.0 if events == runs else float(beta.ppf(level, events + 1, runs - events))
    return low, high


def ratio_of_means(ours: FloatArray, theirs: FloatArray) -> tuple[float, float, float]:
    """Return the ratio of two means over the same runs, and its one-sided 95 % bounds, lower and upper.

    Parameters
    ----------
    ours, theirs
        Shape (runs,), paired: runs are drawn anew together.
    """
    random = np.random.default_rng(_SEED)
    drawn = random.integers(0, ours.size, (_REDRAWS, ours.size))
    ratios = ours[drawn].mean(axis=1) / theirs[drawn].mean(axis=1)
    low, high = np.quantile(ratios, (0.05, 0.95))
    return float(ours.mean() / theirs.mean()), float(low), float(high)
