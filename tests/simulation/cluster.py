"""The simulated API server, the gateway and the services behind it.

Rule 1: nothing stored is changed in place; every write makes a new version with a higher resourceVersion.
Rule 2: the server knows only what a real one knows: versions, and the fence of epochs.
"""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, Final

from davylamp.core.model import Pair, Progress
from davylamp.core.plan import Plan
from davylamp.core.world import RouteTrouble, RouteView
from davylamp.errors import Conflict
from davylamp.ports import BackendRef, RouteRef
from davylamp.routers.httproute_view import view
from davylamp.routers.marks import Manifest
from tests.simulation.settings import FIRST, Metrics

_VERSIONS: Final = 4


@dataclass(frozen=True, slots=True)
class Stored:
    """A status: the progress, the epoch of its writer, and what of it cannot be read."""

    progress: Progress
    epoch: int
    damaged: bool = False


@dataclass(frozen=True, slots=True)
class Rollout:
    """One version of a ModelRollout."""

    uid: str
    version: int
    plan: Plan
    deleting: bool = False
    status: Stored | None = None


def original_route(uid: str) -> dict[str, Any]:
    """Return the route as its user wrote it, not yet seen by a gateway."""
    return {
        "metadata": {
            "name": "credit",
            "namespace": "ml",
            "uid": uid,
            "generation": 1,
            "annotations": {"team": "risk"},
        },
        "spec": {
            "parentRefs": [{"name": "public"}],
            "hostnames": ["credit.example"],
            "rules": [
                {
                    "matches": [{"path": {"type": "PathPrefix", "value": "/v2"}}],
                    "filters": [{"type": "RequestHeaderModifier"}],
                    "backendRefs": [{"name": "credit-fp32", "port": 8080}],
                },
                {"backendRefs": [{"name": "docs", "port": 80, "weight": 3}]},
            ],
        },
        "status": {"parents": []},
    }


def ref_of(pair: Pair, comparator: str = "davylamp-shadow:8090") -> RouteRef:
    """Return what a router is asked for."""

    def backend(text: str) -> BackendRef:
        name, _, port = text.rpartition(":")
        return BackendRef(name, int(port))

    return RouteRef("ml", pair.route, backend(pair.baseline), backend(pair.candidate), comparator=backend(comparator))


MISSING: Final = RouteTrouble("the route does not exist", missing=True)
TAKEN: Final = RouteTrouble("an older rollout works on the route", taken=True)


@dataclass
class Cluster:
    """All that exists outside the operators."""

    rollout: Rollout | None = None
    route: Manifest | None = None
    version: int = 0
    #: Seconds since the beginning, and what the wall clock shows beyond them.
    time: float = 0.0
    wall_offset: float = 0.0
    baseline_ready: int = 2
    candidate_ready: int = 2
    comparator_ready: int = 2
    metrics: Metrics = Metrics.PROVEN
    taken: bool = False
    leader_epoch: int = 0
    past_rollouts: list[Rollout] = field(default_factory=list)
    past_routes: list[Manifest] = field(default_factory=list)
    writes: int = 0
    _views: dict[Pair, tuple[Manifest, RouteView | RouteTrouble]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.place_route(original_route("route-1"))
        self.apply("rollout1-0000", FIRST)

    def next_version(self) -> int:
        """Return a resourceVersion that no object has had."""
        self.version += 1
        return self.version

    # The ModelRollout.

    def apply(self, uid: str, plan: Plan) -> None:
        """Let a person create the object."""
        self._keep(Rollout(uid, self.next_version(), plan))

    def change(self, **fields: Any) -> None:
        """Let somebody else than the operator change the object."""
        if self.rollout is not None:
            self._keep(replace(self.rollout, version=self.next_version(), **fields))

    def put_status(self, seen: Rollout, status: Stored) -> Rollout:
        """Write the status by compare-and-swap; an epoch below the stored one is refused."""
        rollout = self.rollout
        if rollout is None or (rollout.uid, rollout.version) != (seen.uid, seen.version):
            raise Conflict("the ModelRollout changed since it was read")
        if rollout.status is not None and status.epoch < rollout.status.epoch:
            raise Conflict("the epoch never falls")
        return self._keep(replace(rollout, version=self.next_version(), status=status))

    def release(self, seen: Rollout) -> None:
        """Remove the finalizer, and with it the object."""
        rollout = self.rollout
        if rollout is None or (rollout.uid, rollout.version) != (seen.uid, seen.version):
            raise Conflict("the ModelRollout changed since it was read")
        self.rollout = None
        self.past_rollouts.clear()
        self.writes += 1

    def _keep(self, rollout: Rollout) -> Rollout:
        self.rollout = rollout
        self.past_rollouts = [*self.past_rollouts, rollout][-_VERSIONS:]
        self.writes += 1
        return rollout

    # The route.

    def place_route(self, manifest: Manifest) -> None:
        """Let somebody else than the operator write the route."""
        self._store(manifest)

    def patch_route(self, seen: Manifest, wanted: Manifest, *, versioned: bool = True) -> Manifest:
        """Write the route by compare-and-swap; a write that changes nothing is none."""
        route = self.route
        if route is None:
            raise Conflict("the route is gone")
        if versioned and route["metadata"]["resourceVersion"] != seen["metadata"]["resourceVersion"]:
            raise Conflict("the route changed since it was read")
        if _content(route) == _content(wanted):
            return route
        self.writes += 1
        return self._store({**route, "spec": wanted["spec"], "metadata": {**route["metadata"], **_marks(wanted)}})

    def _store(self, manifest: Manifest) -> Manifest:
        before = self.route
        stored = {**manifest, "metadata": {**manifest["metadata"], "resourceVersion": str(self.next_version())}}
        if before is not None and before["metadata"]["uid"] == manifest["metadata"]["uid"]:
            changed = before["spec"] != manifest["spec"]
            stored["metadata"]["generation"] = before["metadata"]["generation"] + changed
        self.route = stored
        self.past_routes = [*self.past_routes, stored][-8:]
        return stored

    def drop_route(self) -> None:
        """Let somebody delete the route."""
        self.route = None

    def accept_route(self) -> None:
        """Let the gateway take the present generation of the route."""
        if self.route is None:
            return
        generation = self.route["metadata"]["generation"]
        conditions = [
            {"type": kind, "status": "True", "observedGeneration": generation} for kind in ("Accepted", "ResolvedRefs")
        ]
        parents = [{"parentRef": {"name": "public"}, "controllerName": "gateway", "conditions": conditions}]
        if self.route["status"]["parents"] != parents:
            self.route = {**self.route, "status": {"parents": parents}}

    def look(self, pair: Pair) -> RouteView | RouteTrouble:
        """Return what the route says about a pair."""
        if self.route is None:
            return MISSING
        known = self._views.get(pair)
        if known is None or known[0] is not self.route:
            known = self._views[pair] = self.route, view(self.route, ref_of(pair))
        return known[1]


def edited(route: Manifest, refs: list[dict[str, Any]]) -> Manifest:
    """Return the route with other backends in the rule that is shared."""
    changed = deepcopy(dict(route))
    changed["spec"]["rules"][0]["backendRefs"] = refs
    return changed


def unmarked(route: Manifest) -> Manifest:
    """Return the route without its annotations of Davylamp."""
    kept = {k: v for k, v in route["metadata"].get("annotations", {}).items() if not k.startswith("davylamp.dev/")}
    return {**route, "metadata": {**route["metadata"], "annotations": kept}}


def _content(manifest: Manifest) -> tuple[Any, Any]:
    return manifest["spec"], manifest["metadata"].get("annotations") or {}


def _marks(manifest: Manifest) -> Mapping[str, Any]:
    return {"annotations": manifest["metadata"].get("annotations") or {}}
