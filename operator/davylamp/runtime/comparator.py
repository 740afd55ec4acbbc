"""The comparator as a process: it learns its rollouts by watching them, and ends when it is told to."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial
from typing import Any, Final

import structlog
from prometheus_client import Counter, Gauge

from davylamp.api.v1alpha1.kinds import CLUSTER_ROLLOUT_POLICY, MODEL_ROLLOUT, ROLLOUT_POLICY
from davylamp.api.v1alpha1.policy import PolicyKind
from davylamp.errors import DavylampError, SpecError
from davylamp.runtime.catalogue import collection
from davylamp.runtime.comparator_addresses import at_endpoint, by_name
from davylamp.runtime.comparator_settings import ComparatorSettings, comparator_settings
from davylamp.runtime.comparator_tasks import Choice, Policies, Refusal, Refused
from davylamp.runtime.comparator_watch import Collection
from davylamp.runtime.kube import Kube, connect
from davylamp.runtime.logs import configure_logs
from davylamp.runtime.settings import Settings
from davylamp.shadow.comparator import Comparator, Ports, loop_factory
from davylamp.shadow.comparing import compare
from davylamp.shadow.formats.redaction import redacted
from davylamp.shadow.predictions import LabelsService

#: Enough for a watch of each kind beside a list, and no more.
_CONNECTIONS: Final = 12
_REQUESTS_PER_SECOND: Final = 20.0
_log: Final = structlog.get_logger("davylamp")


def main(flags: Mapping[str, str] | None = None) -> None:
    """Run the comparator until it is told to stop; exit code 2 if it cannot start.

    Parameters
    ----------
    flags
        Variables that count before those of the environment.
    """
    try:
        settings = comparator_settings({**os.environ, **(flags or {})})
        configure_logs(settings.log_format)
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(ComparatorProcess(settings).run())
    except DavylampError as error:
        sys.stderr.write(f"davylamp: {error}\n")
        raise SystemExit(2) from error


def redact(body: bytes, paths: tuple[str, ...]) -> bytes:
    """Return what may be kept of a body; what is no text is told by size and hash."""
    return redacted(body, "text/plain", paths).encode("utf-8", "replace")


class ComparatorProcess:
    """All parts of one process.

    Parameters
    ----------
    settings
        What it is told at its start.
    """

    def __init__(self, settings: ComparatorSettings) -> None:
        self._settings = settings
        self._changed = asyncio.Event()
        self._choice = Choice(settings.service)
        self._refused: frozenset[Refused] = frozenset()
        url = settings.labels_url
        labels = LabelsService(url, settings.labels_token_file) if url else None
        ports = Ports(settings.host, settings.port, captures_key=settings.captures_key_file, labels=labels)
        self.comparator = Comparator(compare, redact=redact, ports=ports)
        registry = self.comparator.registry
        self._api_errors = Counter(
            "davylamp_shadow_api_errors", "Failed requests to the API server.", ("kind",), registry=registry
        )
        meaning = "Rollouts that are not served, though they mirror."
        self._refusals = Gauge("davylamp_shadow_refused_rollouts", meaning, ("reason",), registry=registry)
        self._tell(())

    async def run(self, stop: asyncio.Event | None = None) -> None:
        """Run until SIGTERM or SIGINT, or until ``stop`` is set.

        Raises
        ------
        SpecError
            If there is no way to the API server, or the port cannot be had.
        """
        stop = stop or asyncio.Event()
        for name in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(name, stop.set)
        limits = Settings(requests_per_second=_REQUESTS_PER_SECOND, burst=_CONNECTIONS, connections=_CONNECTIONS)
        kube = await connect(limits, lambda kind: self._api_errors.labels(kind).inc())
        try:
            await self._start()
            await self._until(stop, kube)
        finally:
            await self.comparator.stop()
            await kube.close()
            _log.info("stopped")

    async def _start(self) -> None:
        host, port = self._settings.host, self._settings.port
        try:
            await self.comparator.start()
        except OSError as taken:
            raise SpecError(f"DAVYLAMP_LISTEN: cannot listen on {host}:{port}: {taken.strerror}") from taken
        _log.info("started", namespace=self._settings.namespace, port=self.comparator.admin_port)

    async def _until(self, stop: asyncio.Event, kube: Kube) -> None:
        """Serve until the stop; a part that ends by itself ends the process, so that it is started again."""
        kept = _Kept(kube, self._settings, self._changed.set)
        parts: list[Coroutine[Any, Any, None]] = [self._serve(kept), *(each.keep() for each in kept.all)]
        tasks = [asyncio.create_task(part) for part in parts]
        waiting = asyncio.create_task(stop.wait())
        done, _ = await asyncio.wait([waiting, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in (waiting, *tasks):
            task.cancel()
        await asyncio.gather(waiting, *tasks, return_exceptions=True)
        for task in done - {waiting}:
            task.result()

    async def _serve(self, kept: "_Kept") -> None:
        """Serve what is to be served, anew after each change, and now and then: a port may be free by now."""
        loop, every = asyncio.get_running_loop(), self._settings.relist_every
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(every):
                    await self._changed.wait()
            self._changed.clear()
            if kept.complete:
                resolve = partial(kept.address, turn=int(loop.time()) // every)
                chosen = self._choice.tasks(kept.rollouts.objects, kept.policies, resolve)
                self._tell(chosen.refused)
                await self.comparator.set_tasks(chosen.tasks)

    def _tell(self, refused: Iterable[Refused]) -> None:
        now = frozenset(refused)
        for each in now - self._refused:
            _log.error("rollout_refused", rollout=str(each.rollout), reason=each.refusal.value, why=each.why)
        self._refused = now
        for refusal in Refusal:
            self._refusals.labels(refusal.value).set(sum(each.refusal is refusal for each in now))


class _Kept:
    """All collections that the comparator reads."""

    def __init__(self, kube: Kube, settings: ComparatorSettings, changed: Callable[[], None]) -> None:
        def kept(path: str) -> Collection:
            return Collection(kube, path, settings.relist_every, changed)

        self._namespace = settings.namespace
        self.rollouts = kept(collection(MODEL_ROLLOUT, settings.namespace))
        self._policies = {
            PolicyKind.ROLLOUT_POLICY: kept(collection(ROLLOUT_POLICY, settings.namespace)),
            PolicyKind.CLUSTER_ROLLOUT_POLICY: kept(collection(CLUSTER_ROLLOUT_POLICY, "")),
        }
        slices = f"/apis/discovery.k8s.io/v1/namespaces/{settings.namespace}/endpointslices"
        self._slices = kept(slices) if settings.resolve_endpoints else None
        self.all = (self.rollouts, *self._policies.values(), *((self._slices,) if self._slices else ()))

    @property
    def complete(self) -> bool:
        """Whether all were listed."""
        return all(each.listed for each in self.all)

    @property
    def policies(self) -> Policies:
        """Policies by kind and name."""
        return {kind: kept.objects for kind, kept in self._policies.items()}

    def address(self, backend: str, turn: int) -> str:
        """Return where a backend is called."""
        if self._slices is None:
            return by_name(self._namespace, backend)
        return at_endpoint(self._namespace, backend, self._slices.objects.values(), turn)
