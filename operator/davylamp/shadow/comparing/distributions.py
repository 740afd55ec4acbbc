"""How far two answers' distributions over classes are apart. All functions take rows that are finite."""

from typing import Final

import numpy as np

from davylamp.shadow.formats.reading import Array

#: How far the sum of a row may be from 1, as half precision leaves it.
_SLACK: Final = 5e-3
#: What an empty class is taken for in the divergence, so that it stays finite.
_SMALLEST: Final = 1e-10


def are_distributions(rows: Array) -> bool:
    """Whether each row is one already."""
    return bool(rows.min() >= 0 and (np.abs(rows.sum(axis=1) - 1) <= _SLACK).all())


def softmax(rows: Array) -> Array:
    """Return the distributions that rows of logits stand for."""
    powers = np.exp(rows - rows.max(axis=1, keepdims=True))
    distributions: Array = powers / powers.sum(axis=1, keepdims=True)
    return distributions


def kl(first: Array, second: Array) -> float:
    """Return the mean Kullback-Leibler divergence of the second rows from the first, in nats, >= 0.

    Parameters
    ----------
    first, second
        Distributions; classes under 1e-10 are taken for that, so that the divergence is finite.
    """
    first, second = np.maximum(first, _SMALLEST), np.maximum(second, _SMALLEST)
    return max(0.0, float((first * np.log(first / second)).sum(axis=1).mean()))


def js(first: Array, second: Array) -> float:
    """Return the mean Jensen-Shannon divergence of the rows, in nats, 0..ln 2; it is symmetric."""
    middle = (first + second) / 2
    return max(0.0, (_entropy(middle) - (_entropy(first) + _entropy(second)) / 2))


def rank_correlation(first: Array, second: Array) -> float | None:
    """Return the mean of Spearman's rank correlation over the rows, -1..1; None if every row is constant on a side."""
    ranks, others = (_ranks(rows) for rows in (first, second))
    ranks -= ranks.mean(axis=1, keepdims=True)
    others -= others.mean(axis=1, keepdims=True)
    spread = np.sqrt((ranks * ranks).sum(axis=1) * (others * others).sum(axis=1))
    known = spread > 0
    if not known.any():
        return None
    found = (ranks * others).sum(axis=1)[known] / spread[known]
    return float(np.clip(found.mean(), -1, 1))


def top_overlap(first: Array, second: Array, k: int) -> float:
    """Return the mean share of the k highest classes of a row that are the same; of equals the first ones count."""
    highest = np.zeros((2, *first.shape), np.bool_)
    for marks, rows in zip(highest, (first, second), strict=True):
        np.put_along_axis(marks, np.argsort(-rows, axis=1, kind="stable")[:, :k], values=True, axis=1)
    return float((highest[0] & highest[1]).sum() / (k * len(first)))


def _entropy(rows: Array) -> float:
    return float(-(rows * np.log(np.maximum(rows, np.finfo(np.float64).tiny))).sum(axis=1).mean())


def _ranks(rows: Array) -> Array:
    """Return each value's rank in its row; equals share the mean of theirs."""
    ordered = np.sort(rows, axis=1)
    if (ordered[:, 1:] != ordered[:, :-1]).all():
        return np.argsort(np.argsort(rows, axis=1), axis=1).astype(np.float64)
    sides = [
        [np.searchsorted(order, row, side) for order, row in zip(ordered, rows, strict=True)]
        for side in ("left", "right")
    ]
    ranks: Array = np.mean(sides, axis=0) - 0.5
    return ranks
