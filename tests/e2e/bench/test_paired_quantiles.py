import numpy as np
import pytest
from scipy.stats import gmean

from e2e.bench.paired_quantiles import Blocks, paired_ratio, quantile_of


def rounds(seed: int, scale: float, *, number: int = 8, weather: float = 0.0) -> list[Blocks]:
    """Return rounds of five blocks of exponential latencies; each round has a machine of its own speed."""
    random = np.random.default_rng(seed)
    speeds = np.exp(weather * np.random.default_rng(1).normal(size=number))
    return [[random.exponential(scale * speed, 200) for _ in range(5)] for speed in speeds]


def test_the_quantile_is_of_all_requests() -> None:
    arm = rounds(2, 1.0)

    assert quantile_of(arm, 0.99) == np.quantile(np.concatenate([np.concatenate(blocks) for blocks in arm]), 0.99)


def test_the_ratio_is_the_geometric_mean_over_the_rounds() -> None:
    arm, control = rounds(3, 1.2, weather=1.0), rounds(4, 1.0, weather=1.0)
    each = [quantile_of([ours], 0.9) / quantile_of([theirs], 0.9) for ours, theirs in zip(arm, control, strict=True)]
    found = paired_ratio(arm, control, 0.9)

    assert found.value == pytest.approx(gmean(each))
    assert found.low < found.value < found.high


def test_an_arm_that_is_twice_as_slow_is_found_to_be_whatever_the_rounds_are_like() -> None:
    found = paired_ratio(rounds(5, 2.0, weather=1.0), rounds(6, 1.0, weather=1.0), 0.5)

    assert 1.8 < found.low < 2 < found.high < 2.2


def test_the_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    intervals = [
        paired_ratio(rounds(2 * seed, 1.0, number=6), rounds(2 * seed + 1, 1.0, number=6), 0.9, draws=200)
        for seed in range(10, 30)
    ]

    # Of 20 intervals of 95 %, fewer than 15 would hold it less than once in three thousand times.
    assert sum(found.low <= 1 <= found.high for found in intervals) >= 15


def test_the_same_input_gives_the_same_interval() -> None:
    assert len({paired_ratio(rounds(7, 1.0), rounds(8, 1.0), 0.5, draws=100) for _ in range(3)}) == 1
