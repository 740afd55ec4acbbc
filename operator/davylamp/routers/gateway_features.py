"""What the gateways of a route say that they can do."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from davylamp.core.shadowing import ALTERNATIVE
from davylamp.errors import SpecError
from davylamp.routers.api import Api
from davylamp.routers.httproute_rules import namespace_of
from davylamp.routers.marks import Manifest

#: As GatewayClass.status.supportedFeatures writes it; the prefix is of older versions.
_MIRROR: Final = frozenset({"HTTPRouteRequestMirror", "SupportHTTPRouteRequestMirror"})
_GROUP: Final = "/apis/gateway.networking.k8s.io/v1"


async def cannot_mirror(api: Api, route: Manifest) -> str:
    """Return why a gateway of the route cannot mirror requests; empty if all can, or do not say.

    Raises
    ------
    Unavailable
        The API server did not answer.
    """
    for parent in route.get("spec", {}).get("parentRefs") or ():
        if (parent.get("kind") or "Gateway") != "Gateway":
            continue
        features = await _features(api, parent, namespace_of(route))
        if features and not features & _MIRROR:
            return (
                f"Gateway {parent.get('name')} cannot mirror requests: its GatewayClass lists its features in "
                f"status.supportedFeatures, and HTTPRouteRequestMirror is none of them; {ALTERNATIVE}"
            )
    return ""


async def _features(api: Api, parent: Mapping[str, Any], namespace: str) -> frozenset[str]:
    """Return the features that a gateway's class publishes; none where it does not, or may not be read."""
    home, name = parent.get("namespace") or namespace, parent.get("name") or ""
    try:
        gateway = await api.get(f"{_GROUP}/namespaces/{quote(str(home), safe='')}/gateways/{quote(str(name), safe='')}")
        kind = (gateway.get("spec") or {}).get("gatewayClassName") or ""
        found = await api.get(f"{_GROUP}/gatewayclasses/{quote(str(kind), safe='')}")
    except SpecError:
        return frozenset()
    published = (found.get("status") or {}).get("supportedFeatures") or ()
    return frozenset(str(each.get("name") if isinstance(each, Mapping) else each) for each in published)
