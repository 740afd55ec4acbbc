from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from e2e.demo.models import network

SCHEDULE = network.Schedule(epochs=10, batch=256)
Loss = Callable[[network.Array, network.Array], network.Array]


def logistic(scores: network.Array, targets: network.Array) -> network.Array:
    return np.asarray(np.logaddexp(0, scores) - targets * scores)


def cross_entropy(scores: network.Array, targets: network.Array) -> network.Array:
    return np.asarray(-(targets * log_softmax(scores, axis=1)).sum(axis=1))


def mean_of(loss: Loss, parameters: list[network.Array], inputs: network.Array, targets: network.Array) -> float:
    hidden = inputs
    for weight, bias in zip(parameters[0:-2:2], parameters[1:-2:2], strict=True):
        hidden = np.maximum(hidden @ weight + bias, 0)
    return float(np.mean(loss(hidden @ parameters[-2] + parameters[-1], targets)))


@pytest.mark.parametrize(("outputs", "loss"), [(1, logistic), (4, cross_entropy)])
def test_the_slopes_are_those_of_finite_differences(outputs: int, loss: Loss) -> None:
    draws = np.random.default_rng(1)
    parameters = network._initial((5, 4, 3, outputs), draws)
    # A row may activate no unit of a layer; without biases the next layer is at the kink then, where there is no slope.
    parameters[1::2] = [draws.normal(size=bias.shape) for bias in parameters[1::2]]
    classes = draws.integers(0, max(outputs, 2), 20)
    inputs, targets = draws.normal(size=(20, 5)), np.eye(4)[classes] if outputs > 1 else classes.astype(float)[:, None]
    slopes = network._gradients(parameters, inputs, targets)
    step = 1e-6
    for parameter, slope in zip(parameters, slopes, strict=True):
        for index in np.ndindex(parameter.shape):
            middle = parameter[index]
            parameter[index] = middle + step
            above = mean_of(loss, parameters, inputs, targets)
            parameter[index] = middle - step
            below = mean_of(loss, parameters, inputs, targets)
            parameter[index] = middle
            assert slope[index] == pytest.approx((above - below) / (2 * step), abs=1e-7)


def test_the_same_data_give_the_same_network() -> None:
    draws = np.random.default_rng(2)
    features, labels = draws.normal(size=(500, 6)), draws.integers(0, 2, (500, 1)).astype(float)
    first, second = (network.train(features, labels, SCHEDULE) for _ in range(2))
    assert all(np.array_equal(one, other) for one, other in zip(first.weights, second.weights, strict=True))


def test_a_column_that_never_changes_breaks_nothing() -> None:
    features = np.column_stack([np.zeros(300), np.linspace(-1, 1, 300)])
    trained = network.train(features, (features[:, 1:] > 0).astype(float), SCHEDULE)
    assert all(np.isfinite(weight).all() for weight in trained.weights)


def test_several_scores_become_shares_even_where_their_powers_are_too_large_to_be_written() -> None:
    scores = np.array([[1.0, 2.0, 3.0], [1e4, -1e4, 0.0], [1e4, 1e4, 1e4]])
    assert network._likelihood(scores) == pytest.approx(softmax(scores, axis=1))


def test_a_network_learns_three_classes() -> None:
    features, classes = np.linspace(-1, 1, 600)[:, None], np.arange(600) // 200
    trained = network.train(features, np.eye(3)[classes], network.Schedule(epochs=60, batch=32))
    hidden = (features - trained.mean) / trained.scale
    for weight, bias in zip(trained.weights[:-1], trained.biases[:-1], strict=True):
        hidden = np.maximum(hidden @ weight + bias, 0)
    decided = (hidden @ trained.weights[-1] + trained.biases[-1]).argmax(axis=1)
    assert np.mean(decided == classes) > 0.97


def test_pruning_takes_the_smallest_weights_of_the_whole_network() -> None:
    draws = np.random.default_rng(3)
    big, small = draws.normal(size=(10, 10)), draws.normal(size=(10, 10)) / 1000
    whole = network.Network(np.zeros(10), np.ones(10), (big, small), (np.ones(10), np.ones(10)))
    pruned = network.prune(whole, 0.5)
    # Half of all weights go, and every one of them stands in the layer of small weights.
    assert np.count_nonzero(pruned.weights[1]) == 0
    assert np.count_nonzero(pruned.weights[0]) == 100
    assert np.count_nonzero(big) == 100
    assert pruned.biases is whole.biases


@pytest.mark.parametrize("share", [0, 1, -0.1, 70])
def test_pruning_refuses_shares_that_leave_all_or_nothing(share: float) -> None:
    whole = network.Network(np.zeros(1), np.ones(1), (np.ones((1, 1)),), (np.ones(1),))
    with pytest.raises(ValueError, match="between 0 and 1"):
        network.prune(whole, share)
