"""HTTPRoutes of the Gateway API, changed in place.

The user owns the route. Davylamp adds the candidate behind the baseline in every rule that points to the baseline,
moves the weights of the two, puts rules for slices in front, and gives the route back. What each change makes of a
route is decided in `httproute_changes`; here it is read and written.
"""

from typing import Final, assert_never

from davylamp.core.moves import Divert, Lower, Mirror, Prepare, Raise, Repoint, Restore
from davylamp.core.world import RouteTrouble
from davylamp.errors import Conflict, NotFound, SpecError
from davylamp.ports import RouteChange, RouteRef, RouteState
from davylamp.routers.api import FIELD_MANAGER, Api, PatchType
from davylamp.routers.gateway_features import cannot_mirror
from davylamp.routers.httproute_changes import changed, leftover
from davylamp.routers.httproute_patch import Patch, patch, weights_patch
from davylamp.routers.httproute_view import view
from davylamp.routers.marks import Manifest, read_marks

#: How often a lowering reads the route again after somebody else changed it, before it stops asking for the version.
LOWER_TRIES: Final = 3


class GatewayApiRouter:
    """A `Router` for HTTPRoutes, version v1.

    Parameters
    ----------
    api
        The API server.
    """

    def __init__(self, api: Api) -> None:
        self._api = api

    async def read(self, route: RouteRef) -> RouteState:
        """Return what the route says now."""
        try:
            return _state(await self._api.get(_path(route)), route)
        except NotFound:
            return _missing(route)

    async def write(self, route: RouteRef, seen: RouteState, change: RouteChange, epoch: int) -> RouteState:
        """Make one change to the route as it was seen; a `Lower` also if it has changed meanwhile.

        Raises
        ------
        SpecError
            The route does not fit, or the API server refuses the change for good; the message says what to do.
        Conflict
            The route is not as it was seen: read it again and decide again.
        Unavailable
            The API server did not answer; whether the change was made is unknown.
        """
        if not seen.manifest:
            return await self._without_route(route, seen, change)
        match change:
            case Lower():
                return await self._lower(route, seen.manifest, change, epoch)
            case Prepare():
                return await self._prepare(route, seen.manifest, change, epoch)
            case Mirror():
                await self._refuse_deaf(seen.manifest, change)
                return await self._send(route, seen.manifest, change, epoch)
            case Raise() | Divert() | Restore() | Repoint():
                return await self._send(route, seen.manifest, change, epoch)
            case never:
                assert_never(never)

    async def _without_route(self, route: RouteRef, seen: RouteState, change: RouteChange) -> RouteState:
        """Without a route nothing is left to take back; everything else needs one."""
        match change:
            case Lower() | Restore():
                return seen
            case Prepare() | Raise() | Mirror() | Divert() | Repoint():
                raise Conflict(f"HTTPRoute {route.namespace}/{route.name} was not there when it was read")
            case never:
                assert_never(never)

    async def _refuse_deaf(self, manifest: Manifest, change: Mirror) -> None:
        """Raise SpecError if a gateway of the route says that it cannot mirror; one that says nothing is tried."""
        if change.comparator and (deaf := await cannot_mirror(self._api, manifest)):
            raise SpecError(deaf)

    async def _prepare(self, route: RouteRef, manifest: Manifest, change: Prepare, epoch: int) -> RouteState:
        if leftover(manifest, route):
            manifest = (await self._send(route, manifest, Restore(), epoch)).manifest
        return await self._send(route, manifest, change, epoch)

    async def _lower(self, route: RouteRef, manifest: Manifest, change: Lower, epoch: int) -> RouteState:
        """Lower against all odds: the newest version, again if that changes, in the end any version."""
        attempt = read_marks(manifest).attempt
        for _ in range(LOWER_TRIES):
            try:
                return await self._send(route, manifest, change, epoch)
            except Conflict:
                fresh = await self.read(route)
            if not fresh.manifest:
                return fresh
            manifest = fresh.manifest
            now = read_marks(manifest).attempt
            if now not in {attempt, change.attempt}:
                raise Conflict(f"the route belongs to {f'attempt {now}' if now else 'no attempt'} by now")
        return await self._sent(route, manifest, weights_patch(manifest, changed(manifest, route, change, epoch)))

    async def _send(self, route: RouteRef, manifest: Manifest, change: RouteChange, epoch: int) -> RouteState:
        return await self._sent(route, manifest, patch(manifest, changed(manifest, route, change, epoch)))

    async def _sent(self, route: RouteRef, manifest: Manifest, operations: Patch) -> RouteState:
        if not operations:
            return _state(manifest, route)
        try:
            return _state(await self._api.patch(_path(route), operations, PatchType.JSON, FIELD_MANAGER), route)
        except NotFound:
            return _missing(route)


def _path(route: RouteRef) -> str:
    return f"/apis/gateway.networking.k8s.io/v1/namespaces/{route.namespace}/httproutes/{route.name}"


def _state(manifest: Manifest, route: RouteRef) -> RouteState:
    return RouteState(view(manifest, route), str(manifest.get("metadata", {}).get("resourceVersion", "")), manifest)


def _missing(route: RouteRef) -> RouteState:
    message = (
        f"HTTPRoute {route.namespace}/{route.name} does not exist: create it with a rule that points to "
        f"{route.baseline}, or correct spec.route; the Gateway API (v1) must be installed"
    )
    return RouteState(RouteTrouble(message, missing=True))
