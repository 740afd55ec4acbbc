"""Which rows of a data set are trained on, and which are held out."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

_SEED: Final = 0

Rows = NDArray[np.int64]


def halves_of(count: int) -> tuple[Rows, Rows]:
    """Split the numbers from 0 to ``count - 1`` at random, always the same way, into (training, held out)."""
    order = np.random.default_rng(_SEED).permutation(count)
    middle = count // 2
    return order[:middle], order[middle:]
