"""One running program of a lab, which a test may kill, stop, freeze and bring back."""

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta

from e2e.lab.failure import LabError
from e2e.lab.layout import Layout
from e2e.lab.namespace import Namespace
from e2e.lab.parts import Part
from e2e.lab.processes import Process, last_lines, spawn
from e2e.lab.waiting import until


class Component:
    """A part of a lab as a process; any program may hold one, whoever started the process.

    Parameters
    ----------
    part
        What it is.
    files
        Where the lab keeps its things.
    namespace
        Where it runs.
    """

    def __init__(self, part: Part, files: Layout, namespace: Namespace) -> None:
        self.part = part
        self._files = files
        self._namespace = namespace

    @property
    def name(self) -> str:
        """Its name, such as kube-apiserver."""
        return self.part.name

    @property
    def process(self) -> Process | None:
        """Its process, None where none was started."""
        return Process.read(self._files.process(self.name))

    @property
    def running(self) -> bool:
        """Whether its process lives (frozen counts)."""
        process = self.process
        return process is not None and process.alive

    def start(self) -> None:
        """Start it unless it runs; `wait_ready` tells when it serves."""
        if self.running:
            return
        log = self._files.log(self.name)
        command = self._namespace.command(self.part.command)
        spawn(command, log=log, environment=self._environment()).write(self._files.process(self.name))

    def wait_ready(self) -> None:
        """Wait until it serves.

        Raises
        ------
        LabError
            It ended, or did not become ready in time; the message has the end of its log.
        """
        try:
            until(self._ready_or_dead, f"{self.name} is ready", within=self.part.patience)
        except LabError as error:
            log = self._files.log(self.name)
            raise LabError(f"{error}; the end of {log}:\n{last_lines(log)}") from error

    def stop(self) -> None:
        """End it as an administrator would: SIGTERM first."""
        self._end(self.part.grace)

    def kill(self) -> None:
        """End it as a crash would: SIGKILL."""
        self._end(timedelta(0))

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop it in mid-flight (SIGSTOP) for a while: connections stay open and nothing answers.

        Raises
        ------
        LabError
            It does not run, or could not be stopped.
        """
        process = self.process
        if process is None or not process.alive:
            raise LabError(f"{self.name} does not run")
        try:
            process.freeze()
            yield
        finally:
            process.signal(signal.SIGCONT)

    def _end(self, patience: timedelta) -> None:
        if process := self.process:
            process.end(patience=patience)
        self._files.process(self.name).unlink(missing_ok=True)

    def _ready_or_dead(self) -> bool:
        if not self.running:
            raise LabError(f"{self.name} has ended")
        return self.part.ready()

    def _environment(self) -> Mapping[str, str]:
        proxies = {"http_proxy", "https_proxy", "all_proxy"}
        return {key: value for key, value in os.environ.items() if key.lower() not in proxies} | dict(
            self.part.environment
        )
