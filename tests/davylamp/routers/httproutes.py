"""HTTPRoutes as stories: `route(rule(backend("credit-fp32")))`."""

import copy
from collections.abc import Callable
from typing import Any

from davylamp.ports import BackendRef, RouteRef

Manifest = dict[str, Any]

BASELINE = BackendRef("credit-fp32", 8080)
CANDIDATE = BackendRef("credit-int8", 8080)
CREDIT = RouteRef("ml", "credit", BASELINE, CANDIDATE)
FILTER = {"type": "RequestHeaderModifier", "requestHeaderModifier": {"set": [{"name": "x-team", "value": "credit"}]}}


def backend(name: str, weight: int | None = 1, **more: Any) -> Manifest:
    """Return a backendRef as the API server stores it; no weight if that is None."""
    weighted = {} if weight is None else {"weight": weight}
    return {"group": "", "kind": "Service", "name": name, "port": 8080} | weighted | more


def baseline(weight: int | None = 1, **more: Any) -> Manifest:
    return backend(BASELINE.name, weight, **more)


def candidate(weight: int | None = 0, **more: Any) -> Manifest:
    return backend(CANDIDATE.name, weight, **more)


def rule(*refs: Manifest, path: str = "/", **more: Any) -> Manifest:
    return {"matches": [{"path": {"type": "PathPrefix", "value": path}}], "backendRefs": list(refs)} | more


def route(*rules: Manifest, **metadata: Any) -> Manifest:
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {
            "name": CREDIT.name,
            "namespace": CREDIT.namespace,
            "uid": "5f0c",
            "generation": 1,
            "resourceVersion": "7",
        }
        | metadata,
        "spec": {"hostnames": ["credit.example.org"], "rules": list(rules)},
    }


def weights(manifest: Any, number: int = 0) -> dict[str, int]:
    """Return the weights of one rule by backend."""
    return {ref["name"]: ref["weight"] for ref in manifest["spec"]["rules"][number]["backendRefs"]}


def edited(manifest: Any, *edits: Callable[[Manifest], object]) -> Manifest:
    """Return the route after others have edited it in place."""
    fresh = copy.deepcopy(manifest)
    for edit in edits:
        edit(fresh)
    return fresh  # type: ignore[no-any-return]  # deepcopy of Any


def spoken(manifest: Any) -> tuple[Any, Any]:
    """Return what the user says by the route: its spec and its annotations."""
    return manifest["spec"], manifest["metadata"].get("annotations") or {}
