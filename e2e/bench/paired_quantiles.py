"""How a quantile of one arm of a benchmark compares with that of another, measured in turn within one run.

Neighbouring requests share what the machine does just then, so requests are drawn again by whole blocks, and rounds by
whole rounds; an interval from single requests would be far too narrow.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: One arm in one round: the latencies of each block, seconds.
Blocks = Sequence[NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio of two quantiles.

    Parameters
    ----------
    value
        Geometric mean over the rounds.
    low, high
        Bounds of the 95 % interval.
    """

    value: float
    low: float
    high: float


def quantile_of(rounds: Sequence[Blocks], quantile: float) -> float:
    """Return a quantile of all rounds together."""
    return float(np.quantile(np.concatenate([block for blocks in rounds for block in blocks]), quantile))


def paired_ratio(
    arm: Sequence[Blocks], control: Sequence[Blocks], quantile: float, *, draws: int = 1000, seed: int = 0
) -> Ratio:
    """Return how an arm's quantile relates to the control's of the same round.

    Parameters
    ----------
    arm, control
        Round by round, as many of each; each block has one request at least.
    quantile
        Of the latencies, 0..1.
    draws
        How often rounds and blocks are drawn again, >= 100.
    seed
        Of what is drawn.
    """
    random = np.random.default_rng(seed)
    logs = np.array(
        [
            np.log(_redrawn(ours, quantile, draws, random)) - np.log(_redrawn(theirs, quantile, draws, random))
            for ours, theirs in zip(arm, control, strict=True)
        ]
    )
    chosen = random.integers(len(logs), size=(len(logs), draws))
    means = np.take_along_axis(logs[:, 1:], chosen, axis=0).mean(axis=0)
    low, high = np.quantile(means, (0.025, 0.975))
    return Ratio(math.exp(logs[:, 0].mean()), math.exp(low), math.exp(high))


def _redrawn(blocks: Blocks, quantile: float, draws: int, random: np.random.Generator) -> NDArray[np.float64]:
    """Return the quantile of the blocks as they are, and then of each redraw of them."""
    drawn = [random.integers(len(blocks), size=len(blocks)) for _ in range(draws)]
    samples = (np.concatenate([blocks[place] for place in places]) for places in (range(len(blocks)), *drawn))
    return np.array([np.quantile(sample, quantile) for sample in samples])
