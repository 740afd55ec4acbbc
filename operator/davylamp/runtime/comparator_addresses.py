"""Where variants are called: by the names of their Services, or at endpoints of these. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from davylamp.runtime.catalogue import Object

_SERVICE: Final = "kubernetes.io/service-name"


def by_name(namespace: str, backend: str) -> str:
    """Return where the cluster's DNS finds a backend, ``name:port``."""
    name, _, port = backend.rpartition(":")
    return f"{name}.{namespace}.svc:{port}"


def at_endpoint(namespace: str, backend: str, slices: Iterable[Object], turn: int) -> str:
    """Return the ready endpoint of a backend whose turn it is; the Service's name if none is ready.

    Parameters
    ----------
    namespace
        Of the Service.
    backend
        ``name:port`` of the Service.
    slices
        EndpointSlices of the namespace.
    turn
        Counts up, so that each endpoint has its turn, >= 0.
    """
    name, _, port = backend.rpartition(":")
    mine = [each for each in slices if (each["metadata"].get("labels") or {}).get(_SERVICE) == name]
    ready = sorted({address for each in mine for address in _addresses(each, int(port))})
    return ready[turn % len(ready)] if ready else by_name(namespace, backend)


def _addresses(found: Object, port: int) -> Iterator[str]:
    ports = [each.get("port") for each in found.get("ports") or () if each.get("protocol", "TCP") == "TCP"]
    # A slice does not tell which port of the Service leads to which of its own: one alone is meant, or the same number.
    target = ports[0] if len(ports) == 1 else port if port in ports else None
    if target is None:
        return
    for endpoint in _ready(found):
        for address in endpoint.get("addresses") or ():
            yield f"[{address}]:{target}" if ":" in address else f"{address}:{target}"


def _ready(found: Object) -> Iterator[dict[str, Any]]:
    """Yield the ready endpoints; one that says nothing counts as ready, as the API says."""
    for endpoint in found.get("endpoints") or ():
        if (endpoint.get("conditions") or {}).get("ready") is not False:
            yield endpoint
