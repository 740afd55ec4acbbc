"""For each router of the registry: a route of its kind on a real API server, as its user makes and edits it."""

from collections.abc import Mapping
from typing import Any, Final, Protocol

from davylamp.ports import BackendRef, RouteRef
from e2e.lab import Api


class World(Protocol):
    """A user's route between the Services `credit-fp32` and `credit-int8`, both on port 8080."""

    def __init__(self, api: Api, namespace: str) -> None: ...

    @property
    def ref(self) -> RouteRef:
        """What the route is called."""
        ...

    def create(self) -> None:
        """Create the route, all traffic to the baseline."""
        ...

    def text(self) -> Any:
        """Return all of the route that its user wrote."""
        ...

    def split(self) -> tuple[int, int]:
        """Return the weights of baseline and candidate, 0 for one that is not there."""
        ...

    def edit_weights(self, baseline: int, candidate: int) -> None:
        """Change both weights as somebody else, called `somebody`."""
        ...

    def touch(self) -> None:
        """Change something else about the route."""
        ...

    def delete(self) -> None:
        """Delete the route."""
        ...


class HttpRouteWorld:
    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self._collection = f"/apis/gateway.networking.k8s.io/v1/namespaces/{namespace}/httproutes"
        self._path = f"{self._collection}/credit"
        self._touches = 0
        self.ref = RouteRef(namespace, "credit", BackendRef("credit-fp32", 8080), BackendRef("credit-int8", 8080))

    def create(self) -> None:
        manifest = {
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "HTTPRoute",
            "metadata": {"name": "credit", "annotations": {"team.example.org/owner": "credit"}},
            "spec": {
                "hostnames": ["credit.example.org"],
                "rules": [
                    {
                        "matches": [{"path": {"value": "/admin"}}],
                        "backendRefs": [{"name": "admin", "port": 80, "weight": 3}],
                    },
                    {"backendRefs": [{"name": "credit-fp32", "port": 8080}], "timeouts": {"request": "5s"}},
                ],
            },
        }
        self._api.create(f"{self._collection}?fieldManager=user", manifest)

    def manifest(self) -> Any:
        return self._api.get(self._path)

    def text(self) -> Any:
        manifest = self.manifest()
        return manifest["spec"], manifest["metadata"].get("annotations"), manifest["metadata"].get("labels")

    def split(self) -> tuple[int, int]:
        weights = {ref["name"]: ref["weight"] for ref in self.manifest()["spec"]["rules"][-1]["backendRefs"]}
        return weights.get("credit-fp32", 0), weights.get("credit-int8", 0)

    def edit_weights(self, baseline: int, candidate: int) -> None:
        refs = self.manifest()["spec"]["rules"][-1]["backendRefs"]
        for ref, weight in zip(refs, (baseline, candidate), strict=True):
            ref["weight"] = weight
        patch = [{"op": "replace", "path": "/spec/rules/1/backendRefs", "value": refs}]
        self._api.request(
            "PATCH", f"{self._path}?fieldManager=somebody", patch, content_type="application/json-patch+json"
        )

    def touch(self) -> None:
        self._touches += 1
        self._api.merge(self._path, {"metadata": {"labels": {"touched": str(self._touches)}}})

    def delete(self) -> None:
        self._api.delete(self._path)


WORLDS: Final[Mapping[str, type[World]]] = {"gateway-api": HttpRouteWorld}
