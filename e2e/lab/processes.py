"""Processes that outlive the program that started them.

A pid alone does not name a process, since pids come round again. A process is named by its pid, the moment it started
and the boot it started in; nothing else is ever sent a signal.
"""

import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Self

from e2e.lab.failure import LabError
from e2e.lab.waiting import until

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def _boot() -> str:
    return _BOOT_ID.read_text(encoding="ascii").strip()


def _stat(entry: Path) -> list[str] | None:
    """Return the fields of a process' or a thread's stat from the third one, its state, on; None if it is gone."""
    try:
        stat = (entry / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The command name may hold spaces and brackets: count from the last bracket (proc_pid_stat(5)).
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in {"Z", "X"} else fields


def _started_at(pid: int) -> int | None:
    """Return the start of a living process in clock ticks since boot (field 22); a zombie counts as gone."""
    fields = _stat(Path("/proc") / str(pid))
    return None if fields is None else int(fields[19])


@dataclass(frozen=True, slots=True)
class Process:
    """One process, once and for all.

    Parameters
    ----------
    pid
        Its number.
    started
        When it started, in clock ticks since boot.
    boot
        The boot it runs in.
    """

    pid: int
    started: int
    boot: str

    @classmethod
    def of(cls, pid: int) -> Self | None:
        """Name the process that has `pid` now; None if there is none."""
        started = _started_at(pid)
        return None if started is None else cls(pid, started, _boot())

    @classmethod
    def read(cls, file: Path) -> Self | None:
        """Read a process written by `write`; None if the file is absent or damaged."""
        try:
            stored = json.loads(file.read_text(encoding="utf-8"))
            return cls(int(stored["pid"]), int(stored["started"]), str(stored["boot"]))
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def write(self, file: Path) -> None:
        """Remember this process in `file`, whole or not at all."""
        fresh = file.with_suffix(".new")
        fresh.write_text(json.dumps(asdict(self)), encoding="utf-8")
        fresh.replace(file)

    @property
    def alive(self) -> bool:
        """Whether it still runs (a stopped process does)."""
        return self.started == _started_at(self.pid) and self.boot == _boot()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, unless the process is gone."""
        if self.alive:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def freeze(self) -> None:
        """Stop it, and return when each of its threads has stopped: a signal is on its way for a while.

        Raises
        ------
        LabError
            It is gone, or some thread still ran after 10 s.
        """
        self.signal(signal.SIGSTOP)
        until(self._stopped, f"process {self.pid} has stopped", within=timedelta(seconds=10))

    def _stopped(self) -> bool:
        if not self.alive:
            raise LabError(f"process {self.pid} has ended")
        threads = (_stat(entry) for entry in (Path("/proc") / str(self.pid) / "task").iterdir())
        return all(fields is None or fields[0] in {"T", "t"} for fields in threads)

    def end(self, *, patience: timedelta) -> None:
        """Ask it to end, and make it end when it has not after `patience`; return when it is gone."""
        if patience > timedelta(0):
            self.signal(signal.SIGTERM)
            # A stopped process sees SIGTERM only when it goes on.
            self.signal(signal.SIGCONT)
            with suppress(LabError):
                until(self._gone, f"process {self.pid} has ended", within=patience)
        self.signal(signal.SIGKILL)
        until(self._gone, f"process {self.pid} has ended after SIGKILL", within=timedelta(seconds=10))

    def _gone(self) -> bool:
        if self.alive:
            return False
        # A child of this program stays a zombie until it is waited for; another's is its parent's to wait for.
        with suppress(ChildProcessError):
            os.waitpid(self.pid, os.WNOHANG)
        return True


def spawn(command: Sequence[str], *, log: Path, environment: Mapping[str, str]) -> Process:
    """Start a program of its own session, its output added to `log`.

    Raises
    ------
    LabError
        It could not be started, or ended at once.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        try:
            child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, start_new_session=True
            )
        except OSError as error:
            raise LabError(f"cannot start {command[0]}: {error}") from error
    process = Process.of(child.pid)
    # Popen would warn at its end that the child still runs; whoever ends the process waits for it.
    child.returncode = 0
    if process is None:
        raise LabError(f"{command[0]} ended at once: see {log}")
    return process


def last_lines(log: Path, count: int = 15) -> str:
    """Return the end of a log for a message, indented."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-count:]
    except OSError:
        lines = []
    return "\n".join(f"  | {line[:400]}" for line in lines) or "  | (nothing)"
