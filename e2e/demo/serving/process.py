"""One model server as a local process: started, waited for by condition, stopped."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Final, Self

import aiohttp

from e2e.demo.serving.environment import CHECKOUT

START_LIMIT: Final = timedelta(seconds=90)
_STOP_LIMIT: Final = timedelta(seconds=10)
_POLL_SECONDS: Final = 0.05
_FIRST_FAULT: Final = "income_first_fault_timestamp_seconds{"


class ServerError(RuntimeError):
    """A model server did not start; the message holds the end of its log and the log's place."""


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """What to serve and where.

    Parameters
    ----------
    model
        The ONNX file.
    version
        The variant's name: the label ``version`` of its counters and the header ``x-model-version`` of its answers.
    host
        The address to listen on.
    http_port, metrics_port
        TCP ports on that address.
    fault_file
        A file with the share of requests to fail (``faults.write_fault_share``), or ``None``.
    seed
        For the draw of the failing requests.
    name
        What the model decides: ``income`` or ``digits``, as in ``/v2/models/income/infer``.
    """

    model: Path
    version: str
    host: str
    http_port: int = 8080
    metrics_port: int = 8082
    fault_file: Path | None = None
    seed: int = 0
    name: str = "income"

    def arguments(self) -> tuple[str, ...]:
        """Return the command line that serves this, without the interpreter."""
        ports = ("--http-port", str(self.http_port), "--metrics-port", str(self.metrics_port))
        fault = ("--fault-file", str(self.fault_file)) if self.fault_file else ()
        where = ("--host", self.host, *ports, "--seed", str(self.seed))
        what = ("--name", self.name, "--version", self.version)
        return ("-m", "e2e.demo.serving", str(self.model), *what, *where, *fault)


class ModelServer:
    """A running model server; ``async with ModelServer(…)`` gives one that is ready and stops it at the end.

    Parameters
    ----------
    spec
        What to serve and where.
    python
        The Python of the model servers' environment (``environment.ensure_environment``).
    log
        Where its output goes.
    prefix
        A command to run it under, such as one that enters a network namespace; it must replace itself by the server
        (exec), so that signals reach it.
    """

    def __init__(self, spec: ServerSpec, python: Path, log: Path, *, prefix: Sequence[str] = ()) -> None:
        self.spec = spec
        self._command = (*prefix, str(python), *spec.arguments(), "--parent", str(os.getpid()))
        self._log = log
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int | None:
        """The process' id, or ``None`` where it is not running."""
        running = self._process is not None and self._process.returncode is None
        return self._process.pid if running and self._process else None

    async def start(self) -> None:
        """Start the process and wait until it answers for its model.

        Raises
        ------
        ServerError
            If it ends, or is not ready within 90 seconds.
        """
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("ab") as output:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=CHECKOUT,
                env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
                # Ctrl-C in the terminal is for the program that started this one; it stops its servers in order.
                start_new_session=True,
            )
        try:
            async with asyncio.timeout(START_LIMIT.total_seconds()):
                await self._until_ready(self._process)
        except BaseException as problem:
            await self.stop()
            if isinstance(problem, TimeoutError):
                raise self._failure(f"was not ready within {START_LIMIT.total_seconds():.0f} s") from problem
            raise

    async def stop(self) -> None:
        """End the process; one that does not end within 10 seconds is killed. Stopping twice does nothing."""
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(_STOP_LIMIT.total_seconds()):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()

    async def first_fault(self) -> datetime | None:
        """Ask the server when it first failed a request on purpose; ``None`` if it has not."""
        url = f"http://{self.spec.host}:{self.spec.metrics_port}/metrics"
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            text = await answer.text()
        return parse_first_fault(text)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def _until_ready(self, process: asyncio.subprocess.Process) -> None:
        # The server's own readiness says yes before it knows of any model; the model's does not.
        url = f"http://{self.spec.host}:{self.spec.http_port}/v2/models/{self.spec.name}/ready"
        async with aiohttp.ClientSession() as session:
            while True:
                if process.returncode is not None:
                    raise self._failure(f"ended with exit code {process.returncode}")
                try:
                    async with session.get(url) as answer:
                        if answer.status == HTTPStatus.OK:
                            return
                except aiohttp.ClientError:
                    pass  # not listening yet
                await asyncio.sleep(_POLL_SECONDS)

    def _failure(self, what: str) -> ServerError:
        tail = self._log.read_text(encoding="utf-8", errors="replace")[-1500:]
        spec = self.spec
        return ServerError(
            f"the model server {spec.version} on {spec.host}:{spec.http_port} {what}. "
            f"Its log is {self._log} and ends with:\n{tail}"
        )


def parse_first_fault(metrics: str) -> datetime | None:
    """Find the instant of the first injected fault in a page of Prometheus metrics; ``None`` if there was none."""
    for line in metrics.splitlines():
        if line.startswith(_FIRST_FAULT):
            seconds = float(line.rsplit(" ", 1)[1])
            return datetime.fromtimestamp(seconds, UTC) if seconds else None
    return None
