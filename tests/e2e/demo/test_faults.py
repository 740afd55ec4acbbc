import os
from pathlib import Path

import pytest

from e2e.demo.serving.faults import FaultSwitch, write_fault_share


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "share"


def failed(switch: FaultSwitch, requests: int) -> int:
    return sum(switch.fails() for _ in range(requests))


def test_a_server_without_a_file_never_fails(file: Path) -> None:
    assert failed(FaultSwitch(None, seed=1), 1000) == 0
    assert failed(FaultSwitch(file, seed=1), 1000) == 0


def test_the_asked_share_of_requests_fails(file: Path) -> None:
    write_fault_share(file, 0.03)
    # Binomial(20,000, 3 %): mean 600, standard deviation 24; the seed makes the count repeatable.
    assert 500 < failed(FaultSwitch(file, seed=1), 20_000) < 700


def test_a_change_takes_effect_with_the_next_request_even_within_one_tick_of_the_clock(file: Path) -> None:
    write_fault_share(file, 0)
    switch = FaultSwitch(file, seed=1)
    assert not switch.fails()
    before = file.stat()
    write_fault_share(file, 1)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert switch.fails()
    file.unlink()
    assert not switch.fails()


def test_the_same_seed_fails_the_same_requests(file: Path) -> None:
    write_fault_share(file, 0.5)
    first, second, other = (FaultSwitch(file, seed=seed) for seed in (7, 7, 8))
    draws = [[switch.fails() for _ in range(64)] for switch in (first, second, other)]
    assert draws[0] == draws[1]
    assert draws[0] != draws[2]


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan"), 3])
def test_a_share_out_of_range_is_not_written(file: Path, share: float) -> None:
    with pytest.raises(ValueError, match=r"must be in 0\.\.1"):
        write_fault_share(file, share)
    assert not file.exists()


def test_a_file_with_nonsense_is_an_error_and_an_empty_one_is_no_fault(file: Path) -> None:
    file.write_text("often", encoding="utf-8")
    with pytest.raises(ValueError, match="often"):
        FaultSwitch(file, seed=1).fails()
    file.write_text("", encoding="utf-8")
    assert not FaultSwitch(file, seed=1).fails()
