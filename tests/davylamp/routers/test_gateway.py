"""HTTPRoutes in front of a real gateway: whether it has taken over what was written, and what stands in its way."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from kubernetes.aio import config

from davylamp.core.model import Ruling, Weight
from davylamp.core.moves import Lower, Prepare, Raise, Restore
from davylamp.core.world import RouteView
from davylamp.errors import Conflict
from davylamp.ports import BackendRef, RouteChange, RouteRef
from davylamp.routers.gateway_api import GatewayApiRouter
from davylamp.runtime.kube import Allowance, Kube
from e2e.lab import Lab
from tests.support.installation import ACCOUNT, NAMESPACE

PREPARE = Prepare("5f0c12ab-1")
HALF = Raise("5f0c12ab-1", Weight(50))
BACK = Lower("5f0c12ab-1", Weight(0), Ruling.ROLLBACK)
PATIENCE = 30


class Site:
    """A route with a baseline behind it."""

    def __init__(self, router: GatewayApiRouter, ref: RouteRef) -> None:
        self.router, self.ref = router, ref

    async def write(self, change: RouteChange) -> RouteView:
        """Write; again if the gateway wrote its status between reading and writing."""
        for _ in range(10):
            try:
                written = await self.router.write(self.ref, await self.router.read(self.ref), change, 1)
            except Conflict:
                continue
            assert isinstance(written.view, RouteView)
            return written.view
        pytest.fail("ten conflicts in a row")

    async def until(self, *, accepted: bool, words: str) -> None:
        """Read until the gateway has said this of the route's present generation."""
        view = None
        try:
            async with asyncio.timeout(PATIENCE):
                while not (isinstance(view, RouteView) and view.accepted is accepted and words in view.acceptance):
                    view = (await self.router.read(self.ref)).view
                    await asyncio.sleep(0.05)
        except TimeoutError:
            pytest.fail(f"after {PATIENCE} s the route still says {view}")


def publish(lab: Lab, namespace: str, *names: str) -> None:
    for name in names:
        lab.publish_service(namespace, name, 8080, [lab.address()])


@pytest_asyncio.fixture
async def site(lab: Lab, installed_lab: Lab, lab_namespace: str) -> AsyncIterator[Site]:
    publish(lab, lab_namespace, "credit-fp32")
    lab.api.apply(manifest(lab_namespace, [lab.gateway]))
    ref = RouteRef(lab_namespace, "credit", BackendRef("credit-fp32", 8080), BackendRef("credit-int8", 8080))
    async with await config.new_client_from_config(str(lab.kubeconfig_for(NAMESPACE, ACCOUNT))) as client:
        yield Site(GatewayApiRouter(Kube(client, Allowance(1000.0, 1000), lambda _: None)), ref)


def manifest(namespace: str, parents: list[dict[str, str]]) -> dict[str, Any]:
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": "credit", "namespace": namespace},
        "spec": {
            "parentRefs": parents,
            "hostnames": [f"{namespace}.example.org"],
            "rules": [{"backendRefs": [{"name": "credit-fp32", "port": 8080}]}],
        },
    }


async def test_every_write_is_accepted_by_the_gateway_in_the_end(site: Site, lab: Lab) -> None:
    publish(lab, site.ref.namespace, "credit-int8")
    for change in (PREPARE, HALF, BACK, Restore()):
        await site.write(change)
        await site.until(accepted=True, words="accepted by Gateway lab")


async def test_right_after_a_write_the_gateway_is_said_to_be_behind(site: Site, lab: Lab) -> None:
    publish(lab, site.ref.namespace, "credit-int8")
    await site.until(accepted=True, words="accepted by Gateway lab")
    with lab.component("contour").frozen():
        written = await site.write(PREPARE)
    assert not written.accepted
    assert "has seen generation" in written.acceptance
    await site.until(accepted=True, words="accepted by Gateway lab")


async def test_a_candidate_without_a_service_is_not_accepted_and_the_gateways_words_say_why(site: Site) -> None:
    await site.write(PREPARE)
    await site.until(accepted=False, words="ResolvedRefs=False")
    assert "credit-int8" in str((await site.router.read(site.ref)).view)


async def test_a_route_that_no_gateway_serves_is_not_accepted(site: Site, lab: Lab) -> None:
    lab.api.delete(lab.api.path_of(manifest(site.ref.namespace, [])))
    lab.api.apply(manifest(site.ref.namespace, [{"name": "nobody"}]))
    view = await site.write(PREPARE)
    assert (view.accepted, view.acceptance.split(":")[0]) == (False, "no gateway has reported about the route")
