"""Gateways that say that they cannot mirror are refused with the reason; those that say nothing are tried."""

import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio
from kubernetes.aio import config

from davylamp.core.model import Weight
from davylamp.core.moves import Mirror, Prepare, Raise, Restore
from davylamp.core.shadowing import ALTERNATIVE
from davylamp.core.world import Extent, RouteView
from davylamp.errors import NotFound, SpecError, Unavailable
from davylamp.ports import BackendRef, RouteRef
from davylamp.routers.gateway_api import GatewayApiRouter
from davylamp.routers.gateway_features import cannot_mirror
from davylamp.runtime.kube import Allowance, Kube
from e2e.lab import Lab
from tests.support.installation import ACCOUNT, NAMESPACE

Manifest = dict[str, Any]

GROUP = "/apis/gateway.networking.k8s.io/v1"
ATTEMPT = "5f0c12ab-1"
ON, OFF = Mirror(ATTEMPT, "davylamp-shadow:8090"), Mirror(ATTEMPT, "")
DEAF = ("HTTPRouteMethodMatching", "HTTPRouteRequestMultipleMirrors")
HEARING = (*DEAF, "HTTPRouteRequestMirror")


# On a real API server, with the rights of the operator.


class Site:
    """A namespace in which gateways of classes that nobody serves, and a route to them, are made."""

    def __init__(self, lab: Lab, namespace: str, router: GatewayApiRouter) -> None:
        self.lab, self.namespace, self.router = lab, namespace, router
        self.ref = RouteRef(namespace, "credit", BackendRef("credit-fp32", 8080), BackendRef("credit-int8", 8080))
        self.classes: list[str] = []

    def gateway(self, name: str, features: Sequence[str] | None = None) -> Manifest:
        """Make a gateway whose class publishes these features, and return the entry of a route for it."""
        kind = f"{self.namespace}-{name}"
        self.classes.append(kind)
        self._apply("GatewayClass", kind, {"controllerName": "example.org/nobody"})
        if features is not None:
            published = [{"name": each} for each in sorted(features)]
            self.lab.api.merge(f"{GROUP}/gatewayclasses/{kind}/status", {"status": {"supportedFeatures": published}})
        listeners = [{"name": "http", "port": 80, "protocol": "HTTP"}]
        self._apply("Gateway", name, {"gatewayClassName": kind, "listeners": listeners})
        return {"name": name}

    def route(self, *parents: Manifest) -> None:
        rules = [{"backendRefs": [{"name": "credit-fp32", "port": 8080}]}]
        self._apply("HTTPRoute", "credit", {"parentRefs": list(parents), "rules": rules})

    def _apply(self, kind: str, name: str, spec: Manifest) -> None:
        metadata = {"name": name} | ({} if kind == "GatewayClass" else {"namespace": self.namespace})
        version = "gateway.networking.k8s.io/v1"
        self.lab.api.apply({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec})

    async def write(self, *changes: Prepare | Raise | Mirror | Restore) -> RouteView:
        state = await self.router.read(self.ref)
        for change in changes:
            state = await self.router.write(self.ref, state, change, 1)
        assert isinstance(state.view, RouteView)
        return state.view


@contextlib.contextmanager
def cleared(site: Site) -> Iterator[Site]:
    try:
        yield site
    finally:
        for kind in site.classes:
            site.lab.api.delete(f"{GROUP}/gatewayclasses/{kind}")


@pytest_asyncio.fixture
async def site(installed_lab: Lab, control_plane: Lab, lab_namespace: str) -> AsyncIterator[Site]:
    kubeconfig = control_plane.kubeconfig_for(NAMESPACE, ACCOUNT)
    async with await config.new_client_from_config(str(kubeconfig)) as client:
        router = GatewayApiRouter(Kube(client, Allowance(1000.0, 1000), lambda _: None))
        with cleared(Site(control_plane, lab_namespace, router)) as made:
            yield made


async def test_a_gateway_that_does_not_list_mirrors_is_refused_with_the_reason_and_the_alternative(site: Site) -> None:
    site.route(site.gateway("deaf", DEAF))
    prepared = await site.write(Prepare(ATTEMPT))
    with pytest.raises(SpecError) as refused:
        await site.write(ON)
    assert str(refused.value) == (
        "Gateway deaf cannot mirror requests: its GatewayClass lists its features in status.supportedFeatures, and "
        f"HTTPRouteRequestMirror is none of them; {ALTERNATIVE}"
    )
    assert "davylamp diff" in ALTERNATIVE
    assert (await site.router.read(site.ref)).view == prepared


async def test_a_gateway_that_cannot_mirror_keeps_no_mirror_from_being_taken_off(site: Site) -> None:
    site.route(site.gateway("deaf", DEAF))
    raised = await site.write(Prepare(ATTEMPT), OFF, Raise(ATTEMPT, Weight(5), unmirror=True))
    assert raised.weight == Weight(5)
    assert not (await site.write(Restore())).marked


@pytest.mark.parametrize("features", [HEARING, (), None], ids=["listed", "an empty list", "no list"])
async def test_a_gateway_that_lists_mirrors_or_nothing_is_mirrored(site: Site, features: Sequence[str] | None) -> None:
    site.route(site.gateway("hearing", features))
    assert (await site.write(Prepare(ATTEMPT), ON)).mirroring is Extent.ALL


async def test_a_gateway_or_a_class_that_does_not_exist_says_nothing(site: Site) -> None:
    orphan = site.gateway("orphan", DEAF)
    site.lab.api.delete(f"{GROUP}/gatewayclasses/{site.classes.pop()}")
    site.route(orphan, {"name": "nobody"})
    assert (await site.write(Prepare(ATTEMPT), ON)).mirroring is Extent.ALL


async def test_of_several_gateways_one_that_cannot_mirror_is_enough_and_is_named(site: Site) -> None:
    site.route(site.gateway("hearing", HEARING), site.gateway("silent"), site.gateway("deaf", DEAF))
    await site.write(Prepare(ATTEMPT))
    with pytest.raises(SpecError, match="Gateway deaf cannot mirror requests"):
        await site.write(ON)


async def test_a_gateway_of_another_namespace_is_asked_as_well(site: Site) -> None:
    away = site.gateway("deaf", DEAF)
    other = f"{site.namespace}-other"
    site.lab.api.create("/api/v1/namespaces", {"metadata": {"name": other}})
    try:
        there = Site(site.lab, other, site.router)
        there.route({**away, "namespace": site.namespace})
        await there.write(Prepare(ATTEMPT))
        with pytest.raises(SpecError, match="Gateway deaf cannot mirror requests"):
            await there.write(ON)
    finally:
        site.lab.api.delete(f"/api/v1/namespaces/{other}")


async def test_who_may_not_read_gateways_tries(site: Site) -> None:
    site.route(site.gateway("deaf", DEAF))
    route = (await site.router.read(site.ref)).manifest
    site.lab.api.create(
        f"/api/v1/namespaces/{site.namespace}/serviceaccounts", {"metadata": {"name": "without-rights"}}
    )
    kubeconfig = site.lab.kubeconfig_for(site.namespace, "without-rights")
    async with await config.new_client_from_config(str(kubeconfig)) as client:
        api = Kube(client, Allowance(1000.0, 1000), lambda _: None)
        with pytest.raises(SpecError, match="forbidden"):
            await api.get(f"{GROUP}/namespaces/{site.namespace}/gateways/deaf")
        assert await cannot_mirror(api, route) == ""


# What no API server of today stores.


@dataclass
class Stored:
    """Objects by path, as an API server of another version holds them; errors are raised."""

    objects: Mapping[str, Manifest | Exception]

    async def get(self, path: str) -> Manifest:
        found = self.objects.get(path.removeprefix(GROUP), NotFound(path))
        if isinstance(found, Exception):
            raise found
        return found

    async def patch(self, path: str, body: Any, content_type: str, field_manager: str) -> Manifest:
        raise NotImplementedError


def stored(features: object, **more: Manifest | Exception) -> Stored:
    parts: dict[str, Manifest | Exception] = {
        "gateway": {"spec": {"gatewayClassName": "lab"}},
        "kind": {"status": {"supportedFeatures": features}},
    }
    parts |= more
    return Stored({"/namespaces/ml/gateways/public": parts["gateway"], "/gatewayclasses/lab": parts["kind"]})


def to(*parents: Manifest) -> Manifest:
    return {"metadata": {"namespace": "ml"}, "spec": {"parentRefs": list(parents)}}


@pytest.mark.parametrize(
    ("features", "deaf"),
    [
        (["HTTPRouteRequestMirror"], False),
        (["SupportHTTPRouteRequestMirror"], False),
        (["SupportHTTPRouteRequestMultipleMirrors"], True),
        (["SupportHTTPRouteMethodMatching"], True),
        ([{"name": "SupportHTTPRouteRequestMirror"}], False),
        ([{"name": "HTTPRouteMethodMatching"}], True),
        (None, False),
    ],
)
async def test_features_are_read_in_the_older_forms_too(features: object, deaf: bool) -> None:
    assert bool(await cannot_mirror(stored(features), to({"name": "public"}))) is deaf


async def test_parents_that_are_no_gateways_and_routes_without_parents_are_not_asked() -> None:
    deaf = stored(["HTTPRouteMethodMatching"])
    assert await cannot_mirror(deaf, to({"kind": "Service", "group": "", "name": "public"})) == ""
    assert await cannot_mirror(deaf, to()) == ""
    assert await cannot_mirror(deaf, {"metadata": {"namespace": "ml"}, "spec": {}}) == ""


@pytest.mark.parametrize("what", ["gateway", "kind"])
async def test_an_object_without_its_parts_says_nothing(what: str) -> None:
    assert await cannot_mirror(stored(["x"], **{what: {}}), to({"name": "public"})) == ""


@pytest.mark.parametrize("what", ["gateway", "kind"])
async def test_an_api_server_that_does_not_answer_is_no_permission_to_try(what: str) -> None:
    silent = stored(["HTTPRouteRequestMirror"], **{what: Unavailable("no answer")})
    with pytest.raises(Unavailable):
        await cannot_mirror(silent, to({"name": "public"}))


async def test_a_name_that_leads_elsewhere_is_asked_for_as_a_name() -> None:
    deaf = stored(["HTTPRouteMethodMatching"])
    assert await cannot_mirror(deaf, to({"name": "x/../public"})) == ""
    assert await cannot_mirror(deaf, to({"name": "public"})) != ""
