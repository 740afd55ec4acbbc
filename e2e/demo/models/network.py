"""A network of two hidden layers of 64, trained with Adam, in double precision.

Double precision is for repeatability: the order in which a processor adds numbers up then moves no prediction, so the
figures of the demo are the same on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_HIDDEN: Final = (64, 64)
_SEED: Final = 4
_LEARNING_RATE: Final = 1e-3
_DECAY_MEAN: Final = 0.9
_DECAY_SQUARE: Final = 0.999


@dataclass(frozen=True, slots=True)
class Network:
    """Standardise, then ``len(weights)`` layers with ReLU between them, then the logistic function or softmax.

    One score at the end goes through the logistic function, and gives the probability of one of two classes; several
    go through softmax, one for each class.

    Parameters
    ----------
    mean, scale
        Shape (features,): features enter as (x - mean) / scale.
    weights, biases
        One pair a layer, of shapes (in, out) and (out,).
    """

    mean: Array
    scale: Array
    weights: tuple[Array, ...]
    biases: tuple[Array, ...]


@dataclass(frozen=True, slots=True)
class Schedule:
    """How long to train.

    Parameters
    ----------
    epochs
        How often all rows are gone through.
    batch
        Rows for each step.
    """

    epochs: int
    batch: int


def train(features: Array, targets: Array, schedule: Schedule) -> Network:
    """Fit a network to labels; the same data give the same network.

    Parameters
    ----------
    features
        Shape (n, k), raw.
    targets
        Shape (n, 1): 0 or 1; or shape (n, classes): 1 in the column of the row's class, else 0.
    schedule
        How long.
    """
    mean, scale = features.mean(axis=0), features.std(axis=0)
    # A category that nobody in this half belongs to has no spread.
    scale[scale == 0] = 1.0
    inputs = (features - mean) / scale
    draws = np.random.default_rng(_SEED)
    sizes = (features.shape[1], *_HIDDEN, targets.shape[1])
    parameters = _initial(sizes, draws)
    adam = _Adam(parameters)
    for _ in range(schedule.epochs):
        order = draws.permutation(len(inputs))
        for start in range(0, len(order), schedule.batch):
            batch = order[start : start + schedule.batch]
            adam.step(parameters, _gradients(parameters, inputs[batch], targets[batch]))
    return Network(mean, scale, tuple(parameters[0::2]), tuple(parameters[1::2]))


def prune(network: Network, share: float) -> Network:
    """Set the smallest weights of the whole network to zero, without training again.

    Parameters
    ----------
    network
        The network; it stays as it is.
    share
        In (0, 1): how many of all weights go, whichever layer they stand in.
    """
    if not 0 < share < 1:
        raise ValueError(f"the share of weights to prune must be between 0 and 1, got {share}")
    sizes = np.concatenate([np.abs(weight).ravel() for weight in network.weights])
    limit = np.quantile(sizes, share)
    kept = tuple(np.where(np.abs(weight) >= limit, weight, 0.0) for weight in network.weights)
    return Network(network.mean, network.scale, kept, network.biases)


def _initial(sizes: tuple[int, ...], draws: np.random.Generator) -> list[Array]:
    parameters: list[Array] = []
    for inward, outward in pairwise(sizes):
        bound = np.sqrt(6 / (inward + outward))
        parameters += [draws.uniform(-bound, bound, (inward, outward)), np.zeros(outward)]
    return parameters


def _gradients(parameters: list[Array], inputs: Array, targets: Array) -> list[Array]:
    """Return the slope of the mean cross-entropy for each parameter, by back-propagation."""
    weights, biases = parameters[0::2], parameters[1::2]
    last = len(weights) - 1
    entering = [inputs]
    for layer in range(last):
        entering.append(np.maximum(entering[layer] @ weights[layer] + biases[layer], 0.0))
    slope = (_likelihood(entering[last] @ weights[last] + biases[last]) - targets) / len(targets)
    gradients: list[Array] = []
    for layer in range(last, -1, -1):
        gradients[:0] = [entering[layer].T @ slope, slope.sum(axis=0)]
        slope = (slope @ weights[layer].T) * (entering[layer] > 0)
    return gradients


def _likelihood(scores: Array) -> Array:
    if scores.shape[1] == 1:
        return 1 / (1 + np.exp(-scores))
    # Less the highest, so that no power is too large to be written.
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares: Array = powers / powers.sum(axis=1, keepdims=True)
    return shares


class _Adam:
    """Kingma and Ba (2015), Algorithm 1, with its usual constants."""

    def __init__(self, parameters: list[Array]) -> None:
        self._means = [np.zeros_like(parameter) for parameter in parameters]
        self._squares = [np.zeros_like(parameter) for parameter in parameters]
        self._steps = 0

    def step(self, parameters: list[Array], gradients: list[Array]) -> None:
        self._steps += 1
        unbias_mean = 1 - _DECAY_MEAN**self._steps
        unbias_square = 1 - _DECAY_SQUARE**self._steps
        for index, gradient in enumerate(gradients):
            mean = _DECAY_MEAN * self._means[index] + (1 - _DECAY_MEAN) * gradient
            square = _DECAY_SQUARE * self._squares[index] + (1 - _DECAY_SQUARE) * gradient**2
            self._means[index], self._squares[index] = mean, square
            parameters[index] -= _LEARNING_RATE * (mean / unbias_mean) / (np.sqrt(square / unbias_square) + 1e-8)
