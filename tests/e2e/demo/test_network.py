import numpy as np
import pytest

from e2e.demo.models import network


def loss(parameters: list[network.Array], inputs: network.Array, targets: network.Array) -> float:
    hidden = inputs
    for weight, bias in zip(parameters[0:-2:2], parameters[1:-2:2], strict=True):
        hidden = np.maximum(hidden @ weight + bias, 0)
    scores = (hidden @ parameters[-2] + parameters[-1])[:, 0]
    return float(np.mean(np.logaddexp(0, scores) - targets * scores))


def test_the_slopes_are_those_of_finite_differences() -> None:
    draws = np.random.default_rng(1)
    parameters = network._initial((5, 4, 3, 1), draws)
    inputs, targets = draws.normal(size=(20, 5)), draws.integers(0, 2, 20).astype(float)
    slopes = network._gradients(parameters, inputs, targets)
    step = 1e-6
    for parameter, slope in zip(parameters, slopes, strict=True):
        for index in np.ndindex(parameter.shape):
            middle = parameter[index]
            parameter[index] = middle + step
            above = loss(parameters, inputs, targets)
            parameter[index] = middle - step
            below = loss(parameters, inputs, targets)
            parameter[index] = middle
            assert slope[index] == pytest.approx((above - below) / (2 * step), abs=1e-7)


def test_the_same_data_give_the_same_network() -> None:
    draws = np.random.default_rng(2)
    features, labels = draws.normal(size=(500, 6)), draws.integers(0, 2, 500) == 1
    first, second = network.train(features, labels), network.train(features, labels)
    assert all(np.array_equal(one, other) for one, other in zip(first.weights, second.weights, strict=True))


def test_a_column_that_never_changes_breaks_nothing() -> None:
    features = np.column_stack([np.zeros(300), np.linspace(-1, 1, 300)])
    trained = network.train(features, features[:, 1] > 0)
    assert all(np.isfinite(weight).all() for weight in trained.weights)


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
