"""A gateway's control plane as far as Davylamp sees it: it accepts every route, unless it is told not to."""

import threading
from http.client import HTTPException
from typing import Any, Final, Self

from e2e.lab import Api, ApiError

_ROUTES: Final = "/apis/gateway.networking.k8s.io/v1"
_PARENT: Final = {"name": "lab", "namespace": "gateway"}


class Gateway:
    """One thread that reports on the HTTPRoutes of the whole cluster; ``with Gateway(api)`` starts and stops it."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gateway", daemon=True)
        #: Namespaces whose routes it does not look at.
        self.asleep: set[str] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(20)

    def _run(self) -> None:
        while not self._stop.wait(0.1):
            try:
                for route in self._api.get(f"{_ROUTES}/httproutes")["items"]:
                    if route["metadata"]["namespace"] not in self.asleep:
                        self._report(route)
            except (ApiError, OSError, HTTPException):
                continue

    def _report(self, route: dict[str, Any]) -> None:
        generation = route["metadata"]["generation"]
        parents = (route.get("status") or {}).get("parents") or []
        if parents and parents[0]["conditions"][0]["observedGeneration"] == generation:
            return
        conditions = [
            {
                "type": kind,
                "status": "True",
                "reason": kind,
                "message": "",
                "observedGeneration": generation,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
            for kind in ("Accepted", "ResolvedRefs")
        ]
        report = {"parentRef": _PARENT, "controllerName": "example.org/gateway", "conditions": conditions}
        metadata = route["metadata"]
        path = f"{_ROUTES}/namespaces/{metadata['namespace']}/httproutes/{metadata['name']}/status"
        self._api.merge(path, {"status": {"parents": [report]}})
