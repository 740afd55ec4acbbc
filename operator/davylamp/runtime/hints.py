"""Kopf's part: watch, and say that something changed. It runs in a thread and an event loop of its own.

Nothing here is needed for a right decision. If Kopf stops, it is started again; until then relisting shows what
changed.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from typing import Any, Final

import kopf
import structlog

from davylamp.api.v1alpha1.kinds import GROUP, MODEL_ROLLOUT, VERSION

#: Kind, namespace, name and resourceVersion of what changed.
Hint = Callable[[str, str, str, str], None]
_log: Final = structlog.get_logger("davylamp.hints")
_FIRST_BACKOFF: Final = 1.0
_LONGEST_BACKOFF: Final = 30.0
#: Kopf warns that it takes no signals outside the main thread. It need not: Davylamp's main thread takes them.
_NO_SIGNALS: Final = "OS signals are ignored: running not in the main thread."
#: A run that lasted so long, in seconds, was a good one.
_GOOD_RUN: Final = 300.0


def registry(hint: Hint) -> kopf.OperatorRegistry:
    """Return Kopf handlers that pass on kind, namespace, name and resourceVersion of what changed.

    Parameters
    ----------
    hint
        Called in Kopf's thread.
    """
    handlers = kopf.OperatorRegistry()

    @kopf.on.startup(registry=handlers)
    def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
        settings.posting.enabled = False
        settings.scanning.disabled = True
        settings.peering.standalone = True
        settings.networking.request_timeout = 10
        settings.networking.connect_timeout = 3
        settings.watching.server_timeout = 300
        settings.watching.client_timeout = 360
        settings.persistence.finalizer = f"{GROUP}/kopf"
        settings.queueing.idle_timeout = 1

    @kopf.on.login(registry=handlers)
    def login(**kwargs: Any) -> kopf.ConnectionInfo | None:
        return kopf.login_with_service_account(**kwargs) or kopf.login_with_kubeconfig(**kwargs)

    @kopf.on.event(GROUP, VERSION, MODEL_ROLLOUT.plural, registry=handlers)
    def rollout_changed(namespace: str | None, name: str, meta: kopf.Meta, **_: Any) -> None:
        hint("rollout", namespace or "", name, meta.get("resourceVersion") or "")

    @kopf.on.event("gateway.networking.k8s.io", "v1", "httproutes", registry=handlers)
    def route_changed(namespace: str | None, name: str, meta: kopf.Meta, **_: Any) -> None:
        hint("route", namespace or "", name, meta.get("resourceVersion") or "")

    @kopf.on.event("discovery.k8s.io", "v1", "endpointslices", registry=handlers)
    def endpoints_changed(namespace: str | None, labels: kopf.Labels, meta: kopf.Meta, **_: Any) -> None:
        service = labels.get("kubernetes.io/service-name", "")
        hint("service", namespace or "", service, meta.get("resourceVersion") or "")

    return handlers


def _matters(record: logging.LogRecord) -> bool:
    return record.msg != _NO_SIGNALS


class Hints:
    """Kopf in a thread.

    Parameters
    ----------
    hint
        Called in the loop that was running when `start` was called.
    namespaces
        What is watched; none for the whole cluster.
    """

    def __init__(self, hint: Hint, namespaces: tuple[str, ...]) -> None:
        self._hint = hint
        self._namespaces = namespaces
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread."""
        loop = asyncio.get_running_loop()

        def passed_on(kind: str, namespace: str, name: str, version: str) -> None:
            if self._stop.is_set():
                return
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._hint, kind, namespace, name, version)

        logging.getLogger("kopf._core.reactor.running").addFilter(_matters)
        self._thread = threading.Thread(target=self._run, args=(passed_on,), name="kopf", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end; it is not waited for."""
        self._stop.set()

    @property
    def running(self) -> bool:
        """Whether the thread lives."""
        return self._thread is not None and self._thread.is_alive()

    def _run(self, hint: Hint) -> None:
        backoff = _FIRST_BACKOFF
        while not self._stop.is_set():
            lasted, why = asyncio.run(self._operate(hint))
            if self._stop.is_set():
                return
            _log.warning("kopf_ended", why=why, seconds=round(lasted))
            backoff = _FIRST_BACKOFF if lasted > _GOOD_RUN else backoff
            self._stop.wait(backoff)
            backoff = min(_LONGEST_BACKOFF, backoff * 2)

    async def _operate(self, hint: Hint) -> tuple[float, str]:
        """Run Kopf, and return how long it lasted in seconds, and why it ended."""
        begun, why = asyncio.get_running_loop().time(), "by itself"
        try:
            await kopf.operator(
                registry=registry(hint),
                clusterwide=not self._namespaces,
                namespaces=self._namespaces,
                stop_flag=self._stop,
                standalone=True,
            )
        except Exception as error:  # noqa: BLE001 - whatever ends Kopf, it is started again
            why = repr(error)[:300]
        return asyncio.get_running_loop().time() - begun, why
