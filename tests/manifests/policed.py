"""A user's route as Davylamp and others change it, for the tests of what the API server lets Davylamp do."""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from davylamp.core.model import Ruling, Weight
from davylamp.core.moves import Lower, Mirror, Prepare, Raise
from davylamp.ports import BackendRef, RouteChange, RouteRef
from davylamp.routers.httproute_changes import changed
from davylamp.routers.httproute_patch import patch
from e2e.lab import Api

Manifest = dict[str, Any]
Edit = Callable[[Manifest], object]

PREPARE = Prepare("a-1")
HALF = Raise("a-1", Weight(50))
MIRRORED = Mirror("a-1", "davylamp-shadow:8090")
FULL = Raise("a-1", Weight(100))
BACK = Lower("a-1", Weight(0), Ruling.ROLLBACK)
MARK = "davylamp.dev/"


@dataclass(frozen=True)
class Violation:
    """A route after `changes`, an edit of it that must be refused, and what the refusal says."""

    name: str
    words: str
    edit: Edit
    changes: Sequence[RouteChange] = field(default=(PREPARE, HALF))


def refs(manifest: Manifest, number: int = 1) -> list[Manifest]:
    return manifest["spec"]["rules"][number]["backendRefs"]  # type: ignore[no-any-return]  # JSON


def annotate(**marks: str | None) -> Edit:
    def edit(manifest: Manifest) -> None:
        annotations = manifest["metadata"].setdefault("annotations", {})
        for name, value in marks.items():
            annotations[MARK + name] = value
            if value is None:
                del annotations[MARK + name]

    return edit


def weigh(baseline: int, candidate: int, number: int = 1) -> Edit:
    def edit(manifest: Manifest) -> None:
        refs(manifest, number)[0]["weight"], refs(manifest, number)[1]["weight"] = baseline, candidate

    return edit


def both(*edits: Edit) -> Edit:
    def edit(manifest: Manifest) -> None:
        for one in edits:
            one(manifest)

    return edit


def unmark(manifest: Manifest) -> None:
    annotations = manifest["metadata"]["annotations"]
    for name in [name for name in annotations if name.startswith(MARK)]:
        del annotations[name]


def backend(name: str, weight: int = 1) -> Manifest:
    return {"group": "", "kind": "Service", "name": name, "port": 8080, "weight": weight}


def mirror(name: str, port: int, **more: Any) -> Manifest:
    reference = {"group": "", "kind": "Service", "name": name, "port": port}
    return {"type": "RequestMirror", "requestMirror": {"backendRef": reference, **more}}


def filtered(added: Manifest, number: int = 1) -> Edit:
    def edit(manifest: Manifest) -> None:
        manifest["spec"]["rules"][number].setdefault("filters", []).append(added)

    return edit


MODIFIER: Manifest = {
    "type": "RequestHeaderModifier",
    "requestHeaderModifier": {"set": [{"name": "x-variant", "value": "int8"}]},
}


class Route:
    """A user's route, changed as Davylamp changes it."""

    def __init__(self, admin: Api) -> None:
        self._admin = admin
        name = f"credit-{secrets.token_hex(4)}"
        self.ref = RouteRef("default", name, BackendRef("credit-fp32", 8080), BackendRef("credit-int8", 8080))
        collection = "/apis/gateway.networking.k8s.io/v1/namespaces/default/httproutes"
        self.path = f"{collection}/{name}"
        self.manifest: Manifest = admin.create(collection, self._manifest())

    def _manifest(self) -> Manifest:
        return {
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "HTTPRoute",
            "metadata": {"name": self.ref.name, "annotations": {"team.org/owner": "credit"}},
            "spec": {
                "hostnames": ["credit.example.org"],
                "rules": [
                    {
                        "matches": [{"path": {"value": "/admin"}}],
                        "backendRefs": [{"name": "admin", "port": 80}],
                        "filters": [MODIFIER, mirror("recorder", 9000)],
                    },
                    {
                        "backendRefs": [backend("credit-fp32", 100), backend("third", 100)],
                        "timeouts": {"request": "5s"},
                    },
                ],
            },
        }

    def become(self, account: Api, changes: Sequence[RouteChange]) -> None:
        for change in changes:
            operations = patch(self.manifest, changed(self.manifest, self.ref, change, 5))
            self.manifest = self.send(account, operations)

    def send(self, account: Api, operations: Any) -> Manifest:
        stored: Manifest = account.request("PATCH", self.path, operations, content_type="application/json-patch+json")
        return stored

    def edited(self, edit: Edit) -> list[Manifest]:
        """Return a patch that replaces the whole route by the edited one."""
        fresh: Manifest = self._admin.get(self.path)
        edit(fresh)
        return [{"op": "replace", "path": f"/{part}", "value": fresh[part]} for part in ("metadata", "spec")]
