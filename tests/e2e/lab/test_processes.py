import json
import os
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from e2e.lab import LabError
from e2e.lab.processes import Process, last_lines, spawn
from e2e.lab.waiting import until

STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('on', flush=True); signal.pause()"
SOON = timedelta(seconds=10)


@pytest.fixture
def sleeper(tmp_path: Path) -> Process:
    return spawn(["sleep", "600"], log=tmp_path / "log", environment=os.environ)


def test_a_process_is_remembered_and_ended_by_another_program(sleeper: Process, tmp_path: Path) -> None:
    sleeper.write(tmp_path / "process.json")
    remembered = Process.read(tmp_path / "process.json")
    assert remembered == sleeper
    assert remembered.alive
    remembered.end(patience=SOON)
    assert not sleeper.alive


def test_a_pid_that_came_round_again_is_never_sent_a_signal(sleeper: Process) -> None:
    for stale in (
        Process(sleeper.pid, sleeper.started - 1, sleeper.boot),
        Process(sleeper.pid, sleeper.started, "another boot"),
    ):
        assert not stale.alive
        stale.end(patience=SOON)
        stale.signal(signal.SIGKILL)
    assert sleeper.alive
    sleeper.end(patience=timedelta(0))


def test_a_process_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    stubborn = spawn([sys.executable, "-c", STUBBORN], log=log, environment=os.environ)
    until(lambda: "on" in log.read_text(encoding="utf-8"), "it ignores SIGTERM", within=SOON)
    stubborn.end(patience=timedelta(milliseconds=50))
    assert not stubborn.alive


def test_a_frozen_process_can_be_ended_gently(sleeper: Process) -> None:
    sleeper.freeze()
    assert sleeper.alive
    sleeper.end(patience=SOON)
    assert not sleeper.alive


def test_a_child_that_ended_is_not_left_as_a_zombie(sleeper: Process) -> None:
    sleeper.end(patience=SOON)
    with pytest.raises(ChildProcessError):
        os.waitpid(sleeper.pid, os.WNOHANG)


def test_a_zombie_counts_as_gone() -> None:
    child = subprocess.Popen(["true"])
    process = Process.of(child.pid)
    until(lambda: process is None or not process.alive, "it is a zombie", within=SOON)
    assert Process.of(child.pid) is None
    child.wait()


@pytest.mark.parametrize(
    "stored", ["", "{", "[]", "3", json.dumps({"pid": 1}), json.dumps({"pid": "x", "started": 1, "boot": "b"})]
)
def test_a_damaged_memory_of_a_process_is_no_process(stored: str, tmp_path: Path) -> None:
    (tmp_path / "process.json").write_text(stored, encoding="utf-8")
    assert Process.read(tmp_path / "process.json") is None
    assert Process.read(tmp_path / "absent.json") is None


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="cannot start /no/such/program"):
        spawn(["/no/such/program"], log=tmp_path / "log", environment={})


def test_the_end_of_a_log_is_shown_shortened(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("\n".join([*map(str, range(100)), "x" * 1000]), encoding="utf-8")
    assert last_lines(log, 2) == "  | 99\n  | " + "x" * 400
    assert last_lines(tmp_path / "absent") == "  | (nothing)"


def test_waiting_in_vain_says_for_what() -> None:
    with pytest.raises(LabError, match=r"waited 0\.01 s in vain until the moon is ready"):
        until(lambda: None, "the moon is ready", within=timedelta(milliseconds=10))
