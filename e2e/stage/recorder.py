"""Every state that a rollout and its route ever had, in the order in which the API server stored them.

The watch brings each version of an object, and resourceVersions are one sequence over all objects, so that a history
of both is complete and ordered, and not a sample.
"""

import http.client
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final, Self, TypeVar

from e2e.lab import Lab, LabError
from e2e.lab.layout import API_PORT
from e2e.lab.waiting import stopwatch

Object = dict[str, Any]
T = TypeVar("T")
_PAUSE_SECONDS: Final = 0.1
_GONE: Final = 410


class Kind(StrEnum):
    """What was seen."""

    ROLLOUT = "modelrollouts"
    ROUTE = "httproutes"


_GROUPS: Final = {Kind.ROLLOUT: "davylamp.dev/v1alpha1", Kind.ROUTE: "gateway.networking.k8s.io/v1"}


@dataclass(frozen=True, slots=True)
class Sighting:
    """One state of one object.

    Parameters
    ----------
    revision
        When it was stored: larger is later, over all objects.
    at
        When it was seen, seconds since the recorder started.
    kind
        Which of the two.
    manifest
        The object; None if it was gone.
    """

    revision: int
    at: float
    kind: Kind
    manifest: Object | None


class Recorder:
    """Watches one rollout and one route; ``with Recorder(…) as recorder`` starts and stops it.

    Parameters
    ----------
    lab
        Where.
    namespace
        Of both.
    rollout, route
        Their names; they need not exist yet.
    """

    def __init__(self, lab: Lab, namespace: str, rollout: str, route: str) -> None:
        self._token = lab.token
        self._trust = ssl.create_default_context(cafile=str(lab.authority))
        self._namespace = namespace
        self._names = {Kind.ROLLOUT: rollout, Kind.ROUTE: route}
        self._sightings: list[Sighting] = []
        self._latest: dict[Kind, Object | None] = dict.fromkeys(Kind)
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._sockets: dict[Kind, socket.socket] = {}
        self._listeners: list[Callable[[Sighting], None]] = []
        self._threads = [
            threading.Thread(target=self._follow, args=(kind,), name=f"recorder-{kind.value}", daemon=True)
            for kind in Kind
        ]
        #: Seconds since the recorder was made.
        self.elapsed = stopwatch()

    @property
    def history(self) -> tuple[Sighting, ...]:
        """All states so far, in the order in which they were stored."""
        with self._changed:
            return tuple(sorted(self._sightings, key=lambda sighting: sighting.revision))

    def latest(self, kind: Kind) -> Object | None:
        """Return the newest state that was seen of one; None if it is not there."""
        with self._changed:
            return self._latest[kind]

    def listen(self, listener: Callable[[Sighting], None]) -> None:
        """Call a function, in the recorder's thread, with everything that is seen from now on."""
        self._listeners.append(listener)

    def until(self, condition: Callable[[Object, Object], T | None], what: str, *, within: timedelta) -> T:
        """Wait until a condition over rollout and route holds; an object that is not there is empty.

        Raises
        ------
        LabError
            If it did not come true in time; the message says where the rollout stood.
        """
        deadline = self.elapsed() + within.total_seconds()
        with self._changed:
            while True:
                answer = condition(self._latest[Kind.ROLLOUT] or {}, self._latest[Kind.ROUTE] or {})
                if answer:
                    return answer
                left = deadline - self.elapsed()
                if left <= 0:
                    raise LabError(f"waited {within.total_seconds():g} s in vain until {what}; {self._standing()}")
                self._changed.wait(min(left, _PAUSE_SECONDS))

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for found in list(self._sockets.values()):
            with suppress(OSError):
                found.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)

    def _standing(self) -> str:
        status = (self._latest[Kind.ROLLOUT] or {}).get("status") or {}
        shown = {name: status.get(name) for name in ("phase", "reason", "message", "verdict", "weight", "hold")}
        return f"the status says {json.dumps(shown)}"

    def _follow(self, kind: Kind) -> None:
        revision: int | None = None
        while not self._stop.is_set():
            try:
                if revision is None:
                    revision = self._list(kind)
                for event in self._watch(kind, revision):
                    if event["type"] == "ERROR":
                        revision = None
                        break
                    revision = self._take(kind, event)
            except (OSError, ValueError, http.client.HTTPException):
                self._stop.wait(_PAUSE_SECONDS)

    def _take(self, kind: Kind, event: Object) -> int:
        manifest = event["object"]
        revision = int(manifest["metadata"]["resourceVersion"])
        if event["type"] != "BOOKMARK":
            self._record(kind, revision, None if event["type"] == "DELETED" else manifest)
        return revision

    def _record(self, kind: Kind, revision: int, manifest: Object | None) -> None:
        sighting = Sighting(revision, self.elapsed(), kind, manifest)
        with self._changed:
            known = {(seen.kind, seen.revision, seen.manifest is None) for seen in self._sightings}
            if (kind, revision, manifest is None) in known:
                return
            self._sightings.append(sighting)
            self._latest[kind] = manifest
            self._changed.notify_all()
        for listener in self._listeners:
            listener(sighting)

    def _list(self, kind: Kind) -> int:
        connection = self._connection(kind)
        try:
            answer = json.loads(self._ask(connection, kind, "").read())
            revision = int(answer["metadata"]["resourceVersion"])
            for manifest in answer["items"]:
                found = {**manifest, "apiVersion": _GROUPS[kind]}
                self._record(kind, int(manifest["metadata"]["resourceVersion"]), found)
            if not answer["items"] and self.latest(kind) is not None:
                self._record(kind, revision, None)
        except KeyError as refused:
            raise ValueError("the answer is no list") from refused
        finally:
            connection.close()
        return revision

    def _watch(self, kind: Kind, revision: int) -> Iterator[Object]:
        connection = self._connection(kind)
        try:
            query = f"&watch=true&allowWatchBookmarks=true&timeoutSeconds=300&resourceVersion={revision}"
            answer = self._ask(connection, kind, query)
            if answer.status == _GONE:
                yield {"type": "ERROR"}
                return
            if answer.status != http.HTTPStatus.OK:
                raise ValueError(f"the API server answered {answer.status}")
            while line := answer.readline():
                yield json.loads(line)
        finally:
            connection.close()

    def _connection(self, kind: Kind) -> http.client.HTTPSConnection:
        connection = http.client.HTTPSConnection("127.0.0.1", API_PORT, context=self._trust, timeout=310)
        connection.connect()
        self._sockets[kind] = connection.sock
        if self._stop.is_set():
            connection.close()
        return connection

    def _ask(self, connection: http.client.HTTPSConnection, kind: Kind, query: str) -> http.client.HTTPResponse:
        path = f"/apis/{_GROUPS[kind]}/namespaces/{self._namespace}/{kind.value}"
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/json"}
        connection.request("GET", f"{path}?fieldSelector=metadata.name%3D{self._names[kind]}{query}", headers=headers)
        return connection.getresponse()
