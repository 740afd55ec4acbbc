"""All of Davylamp's objects, as the last full listing showed them.

Rule 1: the truth is a consistent list of every kind; deletions are derived from it and from nothing else.
Rule 2: an object never goes back in time: an older resourceVersion does not replace a newer one.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from davylamp.api.v1alpha1.kinds import (
    API_VERSION,
    CLUSTER_ROLLOUT_POLICY,
    METRIC_SOURCE,
    MODEL_ROLLOUT,
    NOTIFICATION_CHANNEL,
    ROLLOUT_POLICY,
    Kind,
    Scope,
)
from davylamp.errors import NotFound

if TYPE_CHECKING:
    # The command line reads manifests by this module, and has no need of the whole client.
    from davylamp.runtime.kube import Kube

Object = Mapping[str, Any]
_OVER = frozenset({"Promoted", "RolledBack"})
_LISTED = (ROLLOUT_POLICY, CLUSTER_ROLLOUT_POLICY, METRIC_SOURCE, NOTIFICATION_CHANNEL)


@dataclass(frozen=True, slots=True)
class Name:
    """Where an object is: ``namespace`` is empty for those of the cluster."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def name_of(manifest: Object) -> Name:
    """Return where an object is."""
    return Name(manifest["metadata"].get("namespace", ""), manifest["metadata"]["name"])


def path_of(kind: Kind, name: Name) -> str:
    """Return the path of one object at the API server."""
    return f"{collection(kind, name.namespace)}/{name.name}"


def collection(kind: Kind, namespace: str) -> str:
    """Return the path of all objects of a kind; an empty namespace means all of them."""
    scope = f"/namespaces/{namespace}" if namespace and kind.scope is Scope.NAMESPACED else ""
    return f"/apis/{API_VERSION}{scope}/{kind.plural}"


class Catalogue:
    """The objects of all kinds.

    Parameters
    ----------
    kube
        API server.
    namespaces
        Whose objects are served; none for all.
    """

    def __init__(self, kube: Kube, namespaces: tuple[str, ...]) -> None:
        self._kube = kube
        self._namespaces = namespaces or ("",)
        self.rollouts: dict[str, Object] = {}
        self._others: dict[str, dict[Name, Object]] = {kind.name: {} for kind in _LISTED}
        self._by_route: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        self._listing = asyncio.Lock()

    async def relist(self) -> None:
        """List everything anew. What is not in the list any more is gone.

        One listing at a time, so that an older one never undoes what a newer one has shown.
        """
        async with self._listing:
            await self._relist()

    async def _relist(self) -> None:
        listed = [manifest async for manifest in self._list(MODEL_ROLLOUT)]
        others = {kind.name: {name_of(found): found async for found in self._list(kind)} for kind in _LISTED}
        self._others = others
        uids = {manifest["metadata"]["uid"] for manifest in listed}
        for uid in self.rollouts.keys() - uids:
            self.drop(uid)
        for manifest in listed:
            self.keep(manifest)

    async def refresh(self, uid: str) -> Object | None:
        """Read one ModelRollout anew; None if it is gone, or another object has its name by now."""
        known = self.rollouts.get(uid)
        if known is None:
            return None
        try:
            manifest = await self._kube.get(path_of(MODEL_ROLLOUT, name_of(known)))
        except NotFound:
            self.drop(uid)
            return None
        if manifest["metadata"]["uid"] != uid:
            self.drop(uid)
        self.keep(manifest)
        return self.rollouts.get(uid)

    def keep(self, manifest: Object) -> None:
        """Take over what was read or written, unless something newer is known."""
        uid = manifest["metadata"]["uid"]
        known = self.rollouts.get(uid)
        if known is None or _version(known) <= _version(manifest):
            self.drop(uid)
            self.rollouts[uid] = manifest
            self._by_route[_route(manifest)].add(uid)

    def drop(self, uid: str) -> None:
        """Forget a ModelRollout that is gone."""
        known = self.rollouts.pop(uid, None)
        if known is None:
            return
        here = self._by_route[_route(known)]
        here.discard(uid)
        if not here:
            del self._by_route[_route(known)]

    def knows(self, uid: str, version: str) -> bool:
        """Whether a ModelRollout is known as it was at a resourceVersion, or later."""
        known = self.rollouts.get(uid)
        return known is not None and version.isascii() and version.isdigit() and _version(known) >= int(version)

    def find(self, kind: Kind, name: Name) -> Object | None:
        """Return an object of another kind; None if there is none."""
        return self._others[kind.name].get(name)

    def rival(self, uid: str) -> Name | None:
        """Return the older ModelRollout that works on the same route; None if this one has it.

        Older is by creation, then by uid. One that is over does not count, and neither does one that is being deleted.
        """
        mine = self.rollouts[uid]
        older = [other for other in self._on_route(mine) if age(other) < age(mine) and _phase(other) not in _OVER]
        return name_of(min(older, key=age)) if older else None

    def owner(self, attempt: str, uid: str) -> Name | None:
        """Return the ModelRollout on the route of ``uid``, other than that, whose attempt it is and not over yet."""
        start = attempt.rpartition("-")[0]
        for other in self._others_on(self.rollouts[uid]):
            if other["metadata"]["uid"][:8] == start and _phase(other) not in _OVER:
                return name_of(other)
        return None

    def _on_route(self, mine: Object) -> Iterable[Object]:
        return (other for other in self._others_on(mine) if "deletionTimestamp" not in other["metadata"])

    def _others_on(self, mine: Object) -> Iterable[Object]:
        if not route_name(mine):
            return []
        others = self._by_route.get(_route(mine), set()) - {mine["metadata"]["uid"]}
        return [self.rollouts[uid] for uid in others]

    async def _list(self, kind: Kind) -> Any:
        spaces = self._namespaces if kind.scope is Scope.NAMESPACED else ("",)
        for namespace in spaces:
            for manifest in (await self._kube.list(collection(kind, namespace)))["items"]:
                yield manifest


def _version(manifest: Object) -> int:
    return int(manifest["metadata"]["resourceVersion"])


def age(manifest: Object) -> tuple[str, str]:
    """Return what objects are sorted by, the oldest first."""
    return manifest["metadata"].get("creationTimestamp", ""), manifest["metadata"]["uid"]


def _phase(manifest: Object) -> str:
    return str((manifest.get("status") or {}).get("phase", ""))


def route_name(manifest: Object) -> str:
    """Return the name of the HTTPRoute that a ModelRollout names; empty if it names none."""
    route = (manifest.get("spec") or {}).get("route") or {}
    return str((route.get("gatewayAPI") or {}).get("httpRoute", ""))


def _route(manifest: Object) -> tuple[str, str]:
    return name_of(manifest).namespace, route_name(manifest)
