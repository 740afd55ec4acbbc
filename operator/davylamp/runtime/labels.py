"""The service that joins labels as a process: it takes what is posted, tidies up, and ends when it is told to."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Histogram

from davylamp.errors import DavylampError, SpecError, Unavailable
from davylamp.labels.authentication import SHORTEST, KeyFile, Keys
from davylamp.labels.database import Database
from davylamp.labels.exposition import Exposition
from davylamp.labels.receiving import Doors, Inside
from davylamp.labels.store import Store
from davylamp.labels.writing import Writer
from davylamp.runtime.clock import SystemClock
from davylamp.runtime.labels_settings import LabelsSettings, labels_settings
from davylamp.runtime.logs import configure_logs

#: Rows in one step of tidying: a hundredth of a second, so that no request waits for long.
_TIDIED_AT_ONCE: Final = 500
_SECONDS_UNTIL_TRIED_AGAIN: Final = 2
_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_log: Final = structlog.get_logger("davylamp")


def main(flags: Mapping[str, str] | None = None) -> None:
    """Run the service until it is told to stop; exit code 2 if it cannot start.

    Parameters
    ----------
    flags
        Variables that count before those of the environment.
    """
    try:
        settings = labels_settings({**os.environ, **(flags or {})})
        configure_logs(settings.log_format)
        asyncio.run(LabelsProcess(settings).run())
    except DavylampError as error:
        sys.stderr.write(f"davylamp: {error}\n")
        raise SystemExit(2) from error


class LabelsProcess:
    """All parts of one process.

    Parameters
    ----------
    settings
        What it is told at its start.
    now
        The clock.

    Raises
    ------
    SpecError
        If the settings name no database, or a file without a key.
    """

    def __init__(self, settings: LabelsSettings, now: Callable[[], datetime] | None = None) -> None:
        self._settings = settings
        now = now or SystemClock().now
        self._keys = Keys(KeyFile(settings.tokens), KeyFile(settings.signing_keys))
        if not self._keys.tokens.read() and not self._keys.signers.read():
            files = " or ".join(str(path) for path in (settings.tokens, settings.signing_keys) if path)
            raise SpecError(f"nobody could post: there is no key of {SHORTEST} characters or more in {files}")
        self._database = Database(settings.database)
        self._exporter = self._database.exporter()
        self.registry = CollectorRegistry()
        self.registry.register(Exposition(self._exporter, settings.terms, now))
        meaning = "How long a transaction of posted messages took."
        took = Histogram("davylamp_label_write_seconds", meaning, buckets=_SECONDS, registry=self.registry)
        self._tidyings = Counter(
            "davylamp_label_tidying_failures", "Steps of tidying that failed.", registry=self.registry
        )
        self._writer = Writer(Store(self._database, settings.terms), now, took.observe)
        inside = Inside(self._writer, self._keys, now, self.registry, lambda: self._unready)
        self._doors = Doors(inside)
        self._unready = "the database is not prepared yet"
        #: Where it listens; 0 before it does.
        self.port = 0

    async def run(self, stop: asyncio.Event | None = None) -> None:
        """Run until SIGTERM or SIGINT, or until ``stop`` is set.

        Raises
        ------
        SpecError
            If the tables are of another version, or the port cannot be had.
        """
        stop = stop or asyncio.Event()
        for name in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(name, stop.set)
        runner = web.AppRunner(self._doors.application(), access_log=None, shutdown_timeout=10)
        await runner.setup()
        try:
            await self._listen(runner)
            await self._until(stop, runner)
        finally:
            await runner.cleanup()
            self._exporter.close()
            self._database.close()
            _log.info("stopped")

    async def _listen(self, runner: web.AppRunner) -> None:
        host, port = self._settings.host, self._settings.port
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as taken:
            raise SpecError(f"DAVYLAMP_LISTEN: cannot listen on {host}:{port}: {taken.strerror}") from taken
        self.port = runner.addresses[0][1]
        _log.info("started", database=self._database.name, port=self.port)

    async def _until(self, stop: asyncio.Event, runner: web.AppRunner) -> None:
        """Serve until the stop; a part that ends by itself ends the process, so that it is started again."""
        parts = [asyncio.create_task(self._writer.run()), asyncio.create_task(self._keep_tidy())]
        waiting = asyncio.create_task(stop.wait())
        done, _ = await asyncio.wait([waiting, *parts], return_when=asyncio.FIRST_COMPLETED)
        self._unready = "the service stops"
        # What was posted is written and answered first; nothing new comes in.
        await runner.cleanup()
        for task in (waiting, *parts):
            task.cancel()
        await asyncio.gather(waiting, *parts, return_exceptions=True)
        for task in done - {waiting}:
            task.result()

    async def _keep_tidy(self) -> None:
        await self._prepare()
        while True:
            try:
                tidied = await self._writer.tidy(_TIDIED_AT_ONCE)
            except Unavailable as failed:
                self._tidyings.inc()
                _log.warning("tidying_failed", why=str(failed))
                await asyncio.sleep(_SECONDS_UNTIL_TRIED_AGAIN)
                continue
            if not tidied.more:
                await asyncio.sleep(self._settings.tidy_every.total_seconds())

    async def _prepare(self) -> None:
        """Make the tables; a database that does not answer yet is waited for."""
        while True:
            try:
                await asyncio.to_thread(self._database.prepare)
            except Unavailable as failed:
                _log.warning("database_unavailable", why=str(failed))
            else:
                self._unready = ""
                return
            await asyncio.sleep(_SECONDS_UNTIL_TRIED_AGAIN)
