"""A route behind a real gateway, written by Davylamp's own service account."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress

import aiohttp
import pytest_asyncio
from kubernetes.aio import config

from davylamp.ports import BackendRef, RouteRef
from davylamp.routers.gateway_api import GatewayApiRouter
from davylamp.runtime.kube import Allowance, Kube
from e2e.lab import Lab
from tests.davylamp.routers.sites import COMPARATOR, PROBE, Server, Site, manifest, serving, until
from tests.support.installation import ACCOUNT, NAMESPACE


@pytest_asyncio.fixture
async def site(lab: Lab, installed_lab: Lab, lab_namespace: str) -> AsyncIterator[Site]:
    servers = [Server(name) for name in ("credit-fp32", "credit-int8", COMPARATOR, "admin")]
    async with AsyncExitStack() as stack:
        for server in servers:
            address, port = lab.address(), 8090 if server.name == COMPARATOR else 8080
            await stack.enter_async_context(serving(server, address, port))
            lab.publish_service(lab_namespace, server.name, port, [address])
        lab.api.apply(manifest(lab_namespace, lab.gateway))
        ref = RouteRef(lab_namespace, "credit", BackendRef("credit-fp32", 8080), BackendRef("credit-int8", 8080))
        kubeconfig = str(lab.kubeconfig_for(NAMESPACE, ACCOUNT))
        client = await stack.enter_async_context(await config.new_client_from_config(kubeconfig))
        session = await stack.enter_async_context(aiohttp.ClientSession())
        made = Site(
            lab, GatewayApiRouter(Kube(client, Allowance(1000.0, 1000), lambda _: None)), ref, session, *servers
        )

        async def served() -> bool:
            # Envoy listens from the first route on.
            with suppress(aiohttp.ClientError):
                return await made.send(PROBE) == "credit-fp32"
            return False

        await until(served, "the route is served")
        yield made
