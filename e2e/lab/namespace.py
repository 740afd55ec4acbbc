"""The network namespace of one lab: held by a process, entered by threads and commands."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from e2e.lab import netns
from e2e.lab.failure import LabError
from e2e.lab.processes import Process

_SCRIPT = str(Path(netns.__file__).absolute())
_REMEDY = (
    "run as root with CAP_SYS_ADMIN, or allow user namespaces to users: "
    "`sysctl -w user.max_user_namespaces=15000`, on Debian also `sysctl -w kernel.unprivileged_userns_clone=1`, "
    "on Ubuntu also `sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`; "
    "a container needs `--privileged` or `--cap-add SYS_ADMIN --security-opt seccomp=unconfined`"
)


class Namespace:
    """A network namespace, alive as long as its holder.

    Parameters
    ----------
    holder
        The process that keeps it.
    """

    def __init__(self, holder: Process) -> None:
        self.holder = holder

    @classmethod
    def make(cls, log: Path) -> "Namespace":
        """Make a fresh one.

        Raises
        ------
        LabError
            The kernel allows it neither directly nor through a user namespace; says what to enable.
        """
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as errors:
            child = subprocess.Popen(
                [sys.executable, "-I", _SCRIPT, "hold"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        with child.stdout or open(os.devnull, "rb") as answers:  # noqa: PTH123 - a pipe was asked for: only for the types
            line = answers.readline()
        answer = json.loads(line or b'{"error": "its holder died"}')
        holder = Process.of(child.pid)
        if "error" in answer or holder is None:
            child.wait()
            raise LabError(f"this machine lets the lab make no network namespace ({answer.get('error')}): {_REMEDY}")
        child.returncode = 0  # it is ended by `remove`, by whatever process that is
        return cls(holder)

    @property
    def entered(self) -> bool:
        """Whether the calling thread is inside."""
        return self.holder.alive and _network_of("thread-self") == _network_of(self.holder.pid)

    def enter(self) -> None:
        """Move the calling thread inside, and with it every thread and child it starts from now on.

        Raises
        ------
        LabError
            The namespace is gone, or lies in a user namespace and this process has several threads.
        """
        if self.entered:
            return
        if not self.holder.alive:
            raise LabError("the lab's network namespace is gone: run `python -m e2e.lab up`")
        try:
            netns.enter(self.holder.pid)
        except OSError as error:
            raise LabError(
                f"cannot enter the lab's network namespace ({error}): without root, a program of several threads must "
                "be started through `python -m e2e.lab exec -- PROGRAM`"
            ) from error

    def command(self, command: Sequence[str]) -> list[str]:
        """Return `command` so that it runs inside, wherever it is started from."""
        if self.entered:
            return list(command)
        return [sys.executable, "-I", _SCRIPT, "enter", str(self.holder.pid), "--", *command]

    @property
    def inhabitants(self) -> tuple[Process, ...]:
        """The processes inside that this one may see, without its holder."""
        network = _network_of(self.holder.pid)
        numbers = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        inside = [number for number in numbers if number != self.holder.pid and _network_of(number) == network]
        return tuple(process for number in inside if network and (process := Process.of(number)))

    def remove(self) -> None:
        """Let go of it; the kernel removes it with its last process."""
        self.holder.end(patience=timedelta(seconds=2))


def _network_of(process: int | str) -> tuple[int, int] | None:
    try:
        network = (Path("/proc") / str(process) / "ns/net").stat()
    except OSError:
        return None
    return network.st_dev, network.st_ino


def allow_namespaces() -> None:
    """Make sure that this process of one thread may make network namespaces: a user becomes root of a user namespace.

    Raises
    ------
    LabError
        The kernel forbids it; says what to enable.
    """
    probe = subprocess.run(
        [
            sys.executable,
            "-I",
            "-c",
            f"import ctypes, sys; sys.exit(ctypes.CDLL(None).unshare({netns.CLONE_NEWNET}) != 0)",
        ],
        check=False,
    )
    if probe.returncode == 0:
        return
    try:
        netns.become_root_of_user_namespace()
    except OSError as error:
        raise LabError(f"this machine lets the lab make no user namespace ({error}): {_REMEDY}") from error
