"""The array types of this package, and sums that stay in log space."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def as_array(values: Sequence[float]) -> FloatArray:
    """Return the numbers as an array of doubles."""
    return np.array(values, dtype=np.float64)


def log_sum_exp(terms: FloatArray) -> FloatArray:
    """Return ln(sum(exp(terms))) along the last axis.

    Parameters
    ----------
    terms
        Natural logarithms, shape (..., n) with n >= 1; ``-inf`` stands for a zero summand, but at least one
        summand of every row is finite.

    Returns
    -------
    FloatArray
        Shape (...), finite.
    """
    largest = terms.max(axis=-1, keepdims=True)
    total: FloatArray = np.log(np.exp(terms - largest).sum(axis=-1)) + largest[..., 0]
    return total


def log_mixture(log_terms: FloatArray, weights: FloatArray, cash: float = 0.0) -> float:
    """Return ln(cash + sum(weights * exp(log_terms))).

    Parameters
    ----------
    log_terms
        Log wealth of each bet, finite, shape (n,).
    weights
        Prior mass of each bet, > 0, shape (n,).
    cash
        Wealth that was never put at stake, >= 0, dimensionless.
    """
    terms = log_terms + np.log(weights)
    if cash > 0:
        terms = np.append(terms, math.log(cash))
    return float(log_sum_exp(terms))
