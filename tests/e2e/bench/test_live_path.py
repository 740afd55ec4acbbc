"""That the benchmark of the live path does to the comparator what it says, and that no live request fails of it."""

from collections.abc import Iterator

import pytest

from e2e.bench.live_path import Arm, Bench
from e2e.lab import Lab


@pytest.fixture
def bench(lab: Lab) -> Iterator[Bench]:
    made = Bench(lab, rate=100, sample=0.5)
    yield made
    made.stop()


def test_every_arm_mirrors_what_it_says_and_no_live_request_fails(bench: Bench) -> None:
    p99 = bench.round(1)

    assert set(p99) == set(Arm)
    for arm, measured in bench.measured.items():
        assert measured.requests > 0
        assert measured.failed == 0
        assert (measured.mirrored > 0) is (arm not in {Arm.NONE, Arm.AGAIN})
