"""A lab of its own for each of these tests, started and ended by the real commands."""

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from e2e.lab import Lab, LabError, Profile
from e2e.lab.namespace import Namespace
from e2e.lab.places import lab_folder
from e2e.lab.processes import Process
from e2e.lab.waiting import until

pytestmark = pytest.mark.lab

SOON = timedelta(seconds=60)
OWNED = """
import sys
from e2e.lab import Lab, Profile
with Lab(sys.argv[1], profile=Profile.CONTROL_PLANE) as lab:
    print("started", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def name() -> Iterator[str]:
    """A name that no other lab has; whatever it names is gone afterwards."""
    name = f"life-{secrets.token_hex(4)}"
    yield name
    Lab(name, lasting=True).stop()


def lab_command(*arguments: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
    outside = {key: value for key, value in os.environ.items() if not key.startswith("DAVYLAMP_LAB")}
    return subprocess.run(
        [sys.executable, "-m", "e2e.lab", *arguments],
        input=given,
        env=outside,
        capture_output=True,
        text=True,
        check=False,
    )


def processes_of(name: str) -> dict[str, Process]:
    files = sorted((lab_folder(name) / "processes").glob("*.json"))
    return {file.stem: process for file in files if (process := Process.read(file))}


def test_a_second_up_changes_nothing_and_down_leaves_nothing(name: str) -> None:
    first = lab_command("up", "--name", name, "--profile", "control-plane")
    assert f"The lab '{name}' is up after" in first.stdout, first.stderr
    started = processes_of(name)
    assert set(started) == {"network", "etcd", "kube-apiserver", "kube-controller-manager"}

    second = lab_command("up", "--name", name, "--profile", "control-plane")
    assert "was up already" in second.stdout, second.stderr
    assert processes_of(name) == started

    namespaces = lab_command("exec", "--name", name, "--", "kubectl", "get", "namespaces", "--output=name")
    assert "namespace/kube-system" in namespaces.stdout, namespaces.stderr

    network = Namespace(started["network"])
    assert {process.pid for process in network.inhabitants} == {
        process.pid for component, process in started.items() if component != "network"
    }
    down = lab_command("down", "--name", name)
    assert down.returncode == 0, down.stderr
    assert not any(process.alive for process in started.values())
    assert network.inhabitants == ()
    assert not lab_folder(name).exists()
    assert "was down already" in lab_command("down", "--name", name).stdout


def test_what_a_killed_program_leaves_is_cleared_by_the_next_lab_command(name: str) -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", OWNED, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with program:
        assert program.stdout is not None
        assert program.stdout.readline() == "started\n"
        left = processes_of(name)
        program.kill()
    # Any lab that starts or stops clears it: this one, unless another test's was faster.
    lab_command("down", "--name", f"{name}-other")
    assert not any(process.alive for process in left.values())


def test_a_lab_of_a_living_program_is_neither_taken_over_nor_taken_down(name: str) -> None:
    with Lab(name, profile=Profile.CONTROL_PLANE) as lab:
        started = processes_of(name)
        taken = lab_command("exec", "--own", name, "--profile", "control-plane", "--", "true")
        assert taken.returncode == 1
        assert f"is process {os.getpid()}'s own: choose another name" in taken.stderr
        assert processes_of(name) == started
        assert all(component.running for component in lab.components.values())
    assert not lab.up


def test_up_starts_again_when_the_network_was_lost(name: str) -> None:
    lab_command("up", "--name", name, "--profile", "control-plane")
    before = processes_of(name)
    before["network"].end(patience=timedelta(0))
    assert "is down" in lab_command("status", "--name", name).stdout
    again = lab_command("up", "--name", name, "--profile", "control-plane")
    assert "is up after" in again.stdout, again.stderr
    assert not any(process.alive for process in before.values())


def test_own_gives_the_command_a_lab_and_its_exit_code_back(name: str) -> None:
    script = "kubectl get --raw /readyz && exit 7"
    outcome = lab_command("exec", "--own", name, "--profile", "control-plane", "--", "sh", "-c", script)
    assert (outcome.stdout, outcome.returncode) == ("ok", 7), outcome.stderr
    assert not lab_folder(name).exists()


def test_sigterm_ends_the_command_and_removes_its_own_lab(name: str, tmp_path: Path) -> None:
    told = tmp_path / "pid"
    script = f"echo $$ > {told}.new; mv {told}.new {told}; exec sleep 600"
    arguments = ["exec", "--own", name, "--profile", "control-plane", "--", "sh", "-c", script]
    with subprocess.Popen([sys.executable, "-m", "e2e.lab", *arguments]) as program:
        until(told.exists, "the command runs", within=SOON)
        command = Process.of(int(told.read_text(encoding="ascii")))
        program.send_signal(signal.SIGTERM)
        assert program.wait() == 128 + signal.SIGTERM
    assert command is not None
    assert not command.alive
    assert not lab_folder(name).exists()


def test_a_lab_that_cannot_start_names_the_log_and_shows_its_end(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("e2e.lab.layout.ADVERTISED", "no address")
    with pytest.raises(
        LabError, match=rf"(?s)kube-apiserver has ended; the end of .*{name}/logs.*no address"
    ) as failure:
        Lab(name, profile=Profile.CONTROL_PLANE).start()
    assert "  | " in str(failure.value)
    assert [entry.name for entry in lab_folder(name).iterdir()] == ["logs"]
    assert not Lab(name).up


def test_two_labs_at_once_know_nothing_of_each_other(name: str) -> None:
    with Lab(name, profile=Profile.CONTROL_PLANE) as lab:
        lab.api.create("/api/v1/namespaces", {"metadata": {"name": "mine"}})
        other = lab_command(
            "exec", "--own", f"{name}-b", "--profile=control-plane", "--", "kubectl", "get", "ns", "mine"
        )
        assert 'namespaces "mine" not found' in other.stderr
        assert lab.api.find("/api/v1/namespaces/mine") is not None


def test_a_thread_is_back_where_it_was_when_its_lab_has_stopped(name: str) -> None:
    network = Path("/proc/thread-self/ns/net")
    outside = network.readlink()
    with Lab(name, profile=Profile.CONTROL_PLANE):
        assert network.readlink() != outside
    assert network.readlink() == outside


def test_exec_without_a_lab_says_how_to_start_one(name: str) -> None:
    outcome = lab_command("exec", "--name", name, "--", "true")
    assert outcome.returncode == 1
    assert outcome.stderr == f"lab: the lab '{name}' is down: `make lab-up`, or `python -m e2e.lab up`, starts it\n"


def test_exec_of_a_command_that_is_not_there_says_so() -> None:
    assert "cannot run /no/such/command" in lab_command("exec", "--bare", "--", "/no/such/command").stderr
    assert "no command: write it after `--`" in lab_command("exec", "--bare").stderr
