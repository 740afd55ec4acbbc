"""How far two answers' rows are apart as distributions and as rankings.

All functions take both sides at once: shape (2, items, classes), the baseline's first, finite, one item at least.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from davylamp.shadow.formats.reading import Array

#: How far the sum of a row may be from 1, as half precision leaves it.
_SLACK: Final = 5e-3
#: What an empty class is taken for in the divergences, so that they stay finite.
_SMALLEST: Final = 1e-10


@dataclass(frozen=True, slots=True)
class Rankings:
    """How alike the rankings of classes are.

    Parameters
    ----------
    overlap
        Mean share of the k highest classes of a row that both sides have, 0..1; of equals the first ones count.
    correlation
        Mean of Spearman's rank correlation over the rows, -1..1; None if each row is constant on a side.
    """

    overlap: float
    correlation: float | None


def are_distributions(both: Array) -> bool:
    """Whether each row is one already."""
    return bool(both.min() >= 0 and np.abs(both.sum(axis=2) - 1).max() <= _SLACK)


def softmax(both: Array) -> Array:
    """Return the distributions that rows of logits stand for."""
    powers = np.exp(both - both.max(axis=2, keepdims=True))
    distributions: Array = powers / powers.sum(axis=2, keepdims=True)
    return distributions


def divergences(both: Array) -> tuple[float, float]:
    """Return the mean divergences of the second rows from the first: Kullback-Leibler's and Jensen-Shannon's.

    Parameters
    ----------
    both
        Distributions; a class under 1e-10 is taken for that.

    Returns
    -------
    tuple of float
        In nats: the former >= 0, the latter 0..ln 2 and symmetric.
    """
    first, second = clear = np.maximum(both, _SMALLEST)
    logs, others = np.log(clear)
    middle = np.log((first + second) / 2)
    items = len(first)
    kl = np.vdot(first, logs - others) / items
    js = (np.vdot(first, logs - middle) + np.vdot(second, others - middle)) / (2 * items)
    return max(0.0, float(kl)), max(0.0, float(js))


def rankings(both: Array, k: int) -> Rankings:
    """Return how alike the rankings of classes are.

    Parameters
    ----------
    both
        Scores of three classes or more, the highest ones best.
    k
        Highest classes that the overlap looks at.
    """
    _, items, classes = both.shape
    order = (-both).argsort(axis=2, kind="stable")
    places = np.empty_like(order)
    places.reshape(-1, classes)[np.arange(2 * items)[:, None], order.reshape(-1, classes)] = np.arange(classes)
    highest = places < k
    overlap = np.count_nonzero(highest[0] & highest[1]) / (items * min(k, classes))
    ordered = np.sort(both, axis=2)
    if (ordered[:, :, 1:] == ordered[:, :, :-1]).any():
        return Rankings(overlap, _correlation_of_tied(both))
    apart = (places[0] - places[1]).astype(np.float64)
    return Rankings(overlap, float(1 - 6 * np.vdot(apart, apart) / (items * classes * (classes**2 - 1))))


def _correlation_of_tied(both: Array) -> float | None:
    """Return Spearman's rank correlation where values are equal: these share the mean of their ranks."""
    ranks = np.array([_ranks(row) for row in both.reshape(-1, both.shape[2])]).reshape(both.shape)
    ranks -= ranks.mean(axis=2, keepdims=True)
    spread = np.sqrt((ranks[0] ** 2).sum(axis=1) * (ranks[1] ** 2).sum(axis=1))
    known = spread > 0
    if not known.any():
        return None
    return float(np.clip(((ranks[0] * ranks[1]).sum(axis=1)[known] / spread[known]).mean(), -1, 1))


def _ranks(row: Array) -> Array:
    _, places, counts = np.unique(row, return_inverse=True, return_counts=True)
    ranks: Array = (counts.cumsum() - (counts - 1) / 2)[places]
    return ranks
