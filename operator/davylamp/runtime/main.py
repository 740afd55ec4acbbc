"""Put the operator together and run it."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Coroutine
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

import structlog

from davylamp.errors import DavylampError, SpecError
from davylamp.routers import ROUTERS
from davylamp.runtime.act import Actor
from davylamp.runtime.catalogue import Catalogue, name_of
from davylamp.runtime.clock import SystemClock
from davylamp.runtime.endpoints import Endpoints
from davylamp.runtime.engine import Engine, Parts
from davylamp.runtime.hints import Hints
from davylamp.runtime.kube import Kube, connect
from davylamp.runtime.lease import Leadership
from davylamp.runtime.logs import configure_logs
from davylamp.runtime.notify import Messenger
from davylamp.runtime.observe import Observer
from davylamp.runtime.publish import Publisher
from davylamp.runtime.reading import Sources
from davylamp.runtime.rights import Right, missing
from davylamp.runtime.settings import Settings, from_environment
from davylamp.runtime.telemetry import Telemetry
from davylamp.runtime.web import serve

#: A loop that has not turned for so long is stuck.
_STUCK: Final = timedelta(seconds=60)
_RELIST_RETRY: Final = 2.0
#: What is under way at the end is given so long, within the pod's grace period.
_LAST_ACTS: Final = timedelta(seconds=6)
#: Rights are asked for again this often, in seconds: while some are missing, and for good.
_RIGHTS_RETRY: Final = 10.0
_RIGHTS_EVERY: Final = 300.0


def main() -> None:
    """Run the operator until it is told to stop; exit code 2 if it cannot start."""
    try:
        settings = from_environment(os.environ)
        configure_logs(settings.log_format)
        asyncio.run(Operator(settings).run())
    except DavylampError as error:
        sys.stderr.write(f"davylamp: {error}\n")
        raise SystemExit(2) from error


class Operator:
    """All parts of one process.

    Parameters
    ----------
    settings
        What the operator is told at its start.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._clock = SystemClock()
        self._telemetry = Telemetry()
        self._listed_at: datetime | None = None
        self._epoch = 0
        self._missing: tuple[Right, ...] | None = None
        self._unknown = asyncio.Event()
        self._log = structlog.get_logger("davylamp")
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, stop: asyncio.Event | None = None) -> None:
        """Run until SIGTERM or SIGINT, or until ``stop`` is set."""
        kube = await connect(self._settings, lambda kind: self._telemetry.api_errors.labels(kind).inc())
        parts = self._parts(kube)
        engine = Engine(parts)
        stop = stop or asyncio.Event()
        for name in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(name, stop.set)
        hints = Hints(lambda *what: self._hinted(parts, engine, *what), self._settings.watch_namespaces)
        registry = self._telemetry.registry
        alive = partial(self._stuck, engine)
        host, port = self._settings.host, self._settings.port
        try:
            runner, port = await serve(host, port, registry, alive=alive, ready=self._unready)
        except SpecError:
            await kube.close()
            raise
        self._log.info("started", identity=self._settings.identity, port=port)
        if self._settings.kopf_hints:
            hints.start()
        leading = asyncio.create_task(parts.leadership.keep(lambda: self._leadership_changed(parts, engine)))
        try:
            await self._until(stop, leading, self._relist(parts, engine), self._rights(kube), engine.run())
        finally:
            hints.stop()
            await self._end(parts, engine, leading)
            await runner.cleanup()
            await kube.close()
            self._log.info("stopped")

    async def _end(self, parts: Parts, engine: Engine, leading: asyncio.Task[None]) -> None:
        """Let acts that are under way come to their end while the lease still holds, then let another lead."""
        await engine.drain(_LAST_ACTS)
        leading.cancel()
        await asyncio.gather(leading, return_exceptions=True)
        await parts.leadership.release()
        await parts.messenger.close()
        await parts.observer.sources.close()

    def _stuck(self, engine: Engine) -> str:
        return "" if self._clock.now() - engine.beat < _STUCK else "the decision loop does not turn"

    def _unready(self) -> str:
        if self._missing is None:
            return "the API server was not asked yet whether the service account has its rights"
        if self._missing:
            return "the service account may not " + "; ".join(map(str, self._missing))
        if self._listed_at is None or self._clock.now() - self._listed_at >= 3 * _STUCK:
            return "the API server does not list Davylamp's objects"
        return ""

    def _parts(self, kube: Kube) -> Parts:
        settings, clock, telemetry = self._settings, self._clock, self._telemetry
        catalogue = Catalogue(kube, settings.watch_namespaces)
        router = ROUTERS["gateway-api"](kube)
        sources = Sources(kube, clock, catalogue, settings.namespace)
        leadership = Leadership(kube, clock, settings)
        publisher = Publisher(kube, catalogue, telemetry, settings.status_every)
        return Parts(
            clock=clock,
            catalogue=catalogue,
            observer=Observer(router, Endpoints(kube, clock), sources, catalogue, telemetry),
            actor=Actor(router, publisher, leadership, clock),
            publisher=publisher,
            messenger=Messenger(kube, catalogue, clock, telemetry=telemetry, endpoints=settings.endpoints),
            leadership=leadership,
            telemetry=telemetry,
        )

    async def _until(self, stop: asyncio.Event, leading: asyncio.Task[None], *loops: Coroutine[Any, Any, None]) -> None:
        """Run the loops until the stop; a loop that ends by itself ends the process, so that it is started again."""
        tasks = [asyncio.create_task(loop) for loop in loops]
        waiting = asyncio.create_task(stop.wait())
        done, _ = await asyncio.wait([waiting, leading, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in (waiting, *tasks):
            task.cancel()
        await asyncio.gather(waiting, *tasks, return_exceptions=True)
        for task in done - {waiting}:
            task.result()

    async def _relist(self, parts: Parts, engine: Engine) -> None:
        """List everything, again and again, and at once when something unknown has changed."""
        while True:
            self._unknown.clear()
            wait = self._settings.relist_every.total_seconds()
            try:
                await parts.catalogue.relist()
                self._listed_at = self._clock.now()
                if parts.leadership.valid:
                    engine.catch_up()
            except DavylampError as error:
                self._log.warning("relist_failed", why=str(error))
                wait = _RELIST_RETRY
                await asyncio.sleep(wait)
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._unknown.wait()

    async def _rights(self, kube: Kube) -> None:
        """Ask whether the service account has its rights, and say which are missing."""
        while True:
            try:
                found = await missing(kube, self._settings)
            except DavylampError as error:
                self._log.warning("rights_unknown", why=str(error))
                await asyncio.sleep(_RELIST_RETRY)
                continue
            if found and found != self._missing:
                self._log.error("rights_missing", may_not=[str(right) for right in found])
            self._missing = found
            await asyncio.sleep(_RIGHTS_RETRY if found else _RIGHTS_EVERY)

    def _leadership_changed(self, parts: Parts, engine: Engine) -> None:
        """Begin from what is stored if another may have led meanwhile; an outage of the API server forgets nothing."""
        self._telemetry.leads.set(parts.leadership.valid)
        if not parts.leadership.valid:
            engine.hide()
            return
        if parts.leadership.epoch != self._epoch:
            self._epoch = parts.leadership.epoch
            engine.forget()
        engine.catch_up()

    def _hinted(self, parts: Parts, engine: Engine, *what: str) -> None:
        """Look at the rollouts that a change may concern; one that is not known yet is found by a listing."""
        kind, namespace, name, version = what
        self._telemetry.hints.labels(kind).inc()
        if not parts.leadership.valid:
            return
        concerned = [
            uid
            for uid, manifest in parts.catalogue.rollouts.items()
            if name_of(manifest).namespace == namespace
            and name in ({name_of(manifest).name} if kind == "rollout" else _names(manifest))
        ]
        if kind != "rollout":
            for uid in concerned:
                engine.hint(uid)
        elif not concerned:
            self._unknown.set()
        elif news := [uid for uid in concerned if not parts.catalogue.knows(uid, version)]:
            self._background(self._refreshed(parts, engine, news))

    async def _refreshed(self, parts: Parts, engine: Engine, uids: list[str]) -> None:
        """Read changed rollouts anew. A change that is only Davylamp's own status is no reason for another look."""
        rollouts = parts.catalogue.rollouts
        before = {uid: _wish(rollouts.get(uid)) for uid in uids}
        try:
            for uid in uids:
                await parts.catalogue.refresh(uid)
        except DavylampError as error:
            self._log.warning("hint_lost", why=str(error))
            return
        engine.catch_up()
        for uid in uids:
            if _wish(rollouts.get(uid)) != before[uid]:
                engine.hint(uid)

    def _background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _wish(manifest: Any) -> tuple[Any, ...] | None:
    """Return what a person may have changed of an object."""
    if manifest is None:
        return None
    metadata = manifest["metadata"]
    return metadata.get("generation"), metadata.get("deletionTimestamp"), metadata.get("finalizers")


def _names(manifest: Any) -> set[str]:
    with contextlib.suppress(KeyError, TypeError):
        spec = manifest["spec"]
        return {
            spec["route"]["gatewayAPI"]["httpRoute"],
            spec["baseline"]["backend"]["name"],
            spec["candidate"]["backend"]["name"],
        }
    return set()
