"""How many endpoints of a Service are ready, from one listing per namespace and moment."""

import asyncio
from datetime import datetime, timedelta
from typing import Any, Final

from davylamp.ports import Clock
from davylamp.runtime.kube import Kube

#: Rollouts that are looked at together share a listing of this age.
_FRESH: Final = timedelta(milliseconds=400)
#: A namespace that nobody asked about for so long is forgotten.
_FORGOTTEN: Final = timedelta(minutes=10)


class Endpoints:
    """Ready endpoints, read when asked.

    Parameters
    ----------
    kube, clock
        API server and time.
    """

    def __init__(self, kube: Kube, clock: Clock) -> None:
        self._kube = kube
        self._clock = clock
        self._known: dict[str, tuple[datetime, dict[str, int]]] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def ready(self, namespace: str) -> dict[str, int]:
        """Return the number of ready endpoints by name of Service; a Service that does not exist is not in it.

        Raises
        ------
        Unavailable
            If the API server does not answer.
        """
        async with self._locks.setdefault(namespace, asyncio.Lock()):
            known = self._known.get(namespace)
            if known is None or self._clock.now() - known[0] > _FRESH:
                known = self._clock.now(), await self._count(namespace)
                self._known[namespace] = known
                self._forget()
            return known[1]

    def _forget(self) -> None:
        """Drop namespaces that nobody asks about any more."""
        now = self._clock.now()
        for namespace in [name for name, (at, _) in self._known.items() if now - at > _FORGOTTEN]:
            del self._known[namespace]
            if not self._locks[namespace].locked():
                del self._locks[namespace]

    async def _count(self, namespace: str) -> dict[str, int]:
        services, slices = await asyncio.gather(
            self._kube.list(f"/api/v1/namespaces/{namespace}/services"),
            self._kube.list(f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"),
        )
        # An ExternalName leads out of the cluster, where nothing can be said about readiness.
        counts = {
            service["metadata"]["name"]: 0
            for service in services["items"]
            if (service.get("spec") or {}).get("type") != "ExternalName"
        }
        for found in slices["items"]:
            name = (found["metadata"].get("labels") or {}).get("kubernetes.io/service-name", "")
            if name in counts:
                counts[name] += sum(len(endpoint["addresses"]) for endpoint in _ready(found))
        return counts


def _ready(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the ready endpoints of a slice; an endpoint that says nothing counts as ready, as the API says."""
    return [
        endpoint
        for endpoint in found.get("endpoints") or []
        if (endpoint.get("conditions") or {}).get("ready") is not False
    ]
