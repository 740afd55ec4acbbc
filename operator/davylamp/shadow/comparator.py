"""The comparator of one process: its rollouts, its ports, its metrics."""

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random, SystemRandom
from typing import Any, Final

import structlog
from aiohttp import web

from davylamp.shadow import admin
from davylamp.shadow.captures_key import CapturesKey
from davylamp.shadow.capturing import Redact, keep_nothing
from davylamp.shadow.doorway import Doorway, Limits
from davylamp.shadow.lane import Compare, Lane, Means
from davylamp.shadow.predictions import LabelsService, Predictions
from davylamp.shadow.receiving import HttpListener, Patience
from davylamp.shadow.receiving_grpc import Entry, GrpcListener
from davylamp.shadow.room import Room
from davylamp.shadow.task import Task
from davylamp.shadow.telemetry import Registry, Tallies, Telemetry

#: Namespace and name of a rollout.
Name = tuple[str, str]
_log: Final = structlog.get_logger("davylamp")


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """Return what makes the event loop that serves this process best."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


@dataclass(frozen=True, slots=True)
class Ports:
    """Where the process listens, who may see what it captures, and where it sends decisions.

    Parameters
    ----------
    host
        Address; None for all.
    admin
        Port of probes, metrics and captures; 0 picks one.
    grpc_offset
        From a task's port to the port where it takes gRPC; a task whose port is 0 gets free ones for both.
    captures_key
        File with the key that captures are behind; None to show them to nobody.
    labels
        Where decisions are joined with labels; None for nowhere.
    """

    host: str | None = None
    admin: int = 8080
    grpc_offset: int = 100
    captures_key: Path | None = None
    labels: LabelsService | None = None


@dataclass(slots=True)
class _Open:
    """A rollout that is served."""

    lane: Lane
    http: HttpListener
    grpc: GrpcListener
    ports: tuple[int, int]


class Comparator:
    """Serves any number of rollouts.

    Parameters
    ----------
    compare
        Compares two answers.
    redact
        Blots out what must not be kept of captured pairs.
    ports
        Where to listen.
    patience
        With those who send requests.
    room
        How many requests and bytes may be held.
    randomness
        For the order of calls and for what is captured.
    """

    def __init__(
        self,
        compare: Compare,
        *,
        redact: Redact = keep_nothing,
        ports: Ports | None = None,
        patience: Patience | None = None,
        room: Room | None = None,
        randomness: Random | None = None,
    ) -> None:
        self._aside = ThreadPoolExecutor(max_workers=1, thread_name_prefix="comparing")
        chance = randomness or SystemRandom()
        self._ports = ports or Ports()
        self._telemetry = Telemetry()
        labels = self._ports.labels
        self._predictions = None if labels is None else Predictions(labels, self._telemetry.registry, chance)
        self._means = Means(compare, redact, chance, room or Room(), self._aside, self._predictions)
        self._patience = patience or Patience()
        self._entry = Entry(Doorway(Limits()), self._patience.whole)
        self._sending: asyncio.Task[None] | None = None
        self._open: dict[Name, _Open] = {}
        self._one_at_a_time = asyncio.Lock()
        self._admin: web.AppRunner | None = None
        self._started = False
        #: Port of probes, metrics and captures, once started.
        self.admin_port = 0

    @property
    def registry(self) -> Registry:
        """All metrics."""
        return self._telemetry.registry

    def ports_of(self, namespace: str, rollout: str) -> tuple[int, int] | None:
        """Return where a rollout's requests are taken, over HTTP and over gRPC; None if they are not."""
        served = self._open.get((namespace, rollout))
        return served.ports if served is not None else None

    async def start(self) -> None:
        """Serve probes and metrics; it is ready when the tasks are set.

        Raises
        ------
        OSError
            If the port cannot be had.
        """
        key = CapturesKey(self._ports.captures_key)
        pages = admin.Pages(self.registry, self._trouble, self._captures, key)
        self._admin, self.admin_port = await admin.serve(self._ports.host, self._ports.admin, pages)
        if self._predictions is not None:
            self._sending = asyncio.create_task(self._predictions.run())

    async def set_tasks(self, tasks: Iterable[Task]) -> None:
        """Serve these rollouts and no others; what is the same stays as it is.

        A rollout whose port cannot be had shows no series, as if there were no comparator, and is tried again the next
        time; others are served meanwhile.
        """
        wanted = {(task.namespace, task.rollout): task for task in tasks}
        async with self._one_at_a_time:
            for name in self._open.keys() - wanted.keys():
                await self._end(name)
            # Before any port is taken, so that rollouts can exchange theirs.
            for name, task in wanted.items():
                served = self._open.get(name)
                if served is not None and _listens_otherwise(served.lane.task, task):
                    await served.http.close()
                    await served.grpc.close()
            for name, task in wanted.items():
                await self._serve(name, task)
            self._started = True

    async def stop(self) -> None:
        """Stop at once: what waits is dropped, all is closed."""
        async with self._one_at_a_time:
            for name in tuple(self._open):
                await self._end(name)
            if self._sending is not None:
                self._sending.cancel()
                await asyncio.gather(self._sending, return_exceptions=True)
            runner, self._admin = self._admin, None
            if runner is not None:
                await runner.cleanup()
            self._aside.shutdown(wait=False, cancel_futures=True)

    async def _serve(self, name: Name, task: Task) -> None:
        served = self._open.get(name)
        if served is not None and served.lane.task == task:
            return
        if served is None:
            await self._begin(name, task)
            return
        otherwise = _listens_otherwise(served.lane.task, task)
        await served.lane.change(task)
        if otherwise:
            await self._listen(name, served.lane)

    async def _begin(self, name: Name, task: Task) -> None:
        await self._listen(name, Lane(task, self._means, Tallies(self._telemetry, *name)))

    async def _listen(self, name: Name, lane: Lane) -> None:
        http, grpc = HttpListener(lane, self._patience), GrpcListener(lane, self._entry)
        port, host = lane.task.port, self._ports.host
        try:
            taken = await http.open(host, port)
            ports = (taken, await grpc.open(host, port + self._ports.grpc_offset if port else 0))
        except OSError as error:
            await http.close()
            await self._give_up(name, lane, f"cannot listen on port {port} for {name[0]}/{name[1]}: {error}")
            return
        self._open[name] = _Open(lane, http, grpc, ports)
        _log.info("rollout_shadowed", rollout="/".join(name), port=ports[0], grpc=ports[1])

    async def _give_up(self, name: Name, lane: Lane, why: str) -> None:
        self._open.pop(name, None)
        _log.error("port_taken", rollout="/".join(name), why=why)
        await lane.end()
        self._telemetry.forget(*name)

    async def _end(self, name: Name) -> None:
        served = self._open.pop(name)
        await served.http.close()
        await served.grpc.close()
        await served.lane.end()
        self._telemetry.forget(*name)
        _log.info("rollout_left", rollout="/".join(name))

    def _trouble(self) -> str:
        return "" if self._started else "the rollouts are not known yet"

    def _captures(self, namespace: str, rollout: str) -> list[dict[str, Any]] | None:
        served = self._open.get((namespace, rollout))
        if served is None or not served.lane.reservoir.is_on:
            return None
        return served.lane.reservoir.pairs


def _listens_otherwise(before: Task, after: Task) -> bool:
    """Return whether listeners have to be made anew: those of gRPC are made for the largest message."""
    return before.port != after.port or before.replay.max_body != after.replay.max_body
