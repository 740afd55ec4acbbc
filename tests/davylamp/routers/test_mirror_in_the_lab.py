"""The mirror in front of a real gateway: every request arrives at the comparator too while it is on, and none after."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web
from kubernetes.aio import config

from davylamp.core.model import Ruling, Weight
from davylamp.core.moves import Lower, Mirror, Prepare, Raise, Restore
from davylamp.core.world import Extent, RouteView
from davylamp.errors import Conflict
from davylamp.ports import BackendRef, RouteChange, RouteRef
from davylamp.routers.gateway_api import GatewayApiRouter
from davylamp.runtime.kube import Allowance, Kube
from e2e.lab import Lab
from tests.support.installation import ACCOUNT, NAMESPACE

ATTEMPT = "5f0c12ab-1"
COMPARATOR = "davylamp-shadow"
ON, OFF = Mirror(ATTEMPT, f"{COMPARATOR}:8090"), Mirror(ATTEMPT, "")
BACK = Lower(ATTEMPT, Weight(0), Ruling.ROLLBACK)
PATIENCE = 30
PROBE = b"probe"


@dataclass(frozen=True)
class Seen:
    """One request as a server got it."""

    method: str
    path: str
    id: str
    body: bytes


@dataclass
class Server:
    """Answers everything with its name, and keeps what it got."""

    name: str
    requests: list[Seen] = field(default_factory=list)

    @property
    def real(self) -> list[Seen]:
        """All that is no probe, in an order that does not depend on the way."""
        return sorted((seen for seen in self.requests if seen.body != PROBE), key=str)

    async def answer(self, request: web.Request) -> web.Response:
        name = request.headers.get("x-request-id", "")
        self.requests.append(Seen(request.method, request.path_qs, name, await request.read()))
        return web.Response(text=self.name)


@asynccontextmanager
async def serving(server: Server, address: str, port: int) -> AsyncIterator[Server]:
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", server.answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, address, port).start()
        yield server
    finally:
        await runner.cleanup()


@dataclass
class Site:
    """A route with two variants and a comparator behind a gateway."""

    lab: Lab
    router: GatewayApiRouter
    ref: RouteRef
    web: aiohttp.ClientSession
    baseline: Server
    candidate: Server
    comparator: Server
    admin: Server

    @property
    def spec(self) -> Any:
        name = self.ref.namespace
        return self.lab.api.get(f"/apis/gateway.networking.k8s.io/v1/namespaces/{name}/httproutes/credit")["spec"]

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

    async def send(self, body: bytes, path: str = "/v2/models/credit/infer?full=1") -> str:
        """Send a request through the gateway, and return who answered."""
        headers = {"host": f"{self.ref.namespace}.example.org"}
        async with self.web.post(f"{self.lab.gateway_url}{path}", data=body, headers=headers) as answer:
            return await answer.text() if answer.status == 200 else f"{answer.status}"

    async def mirrors(self) -> None:
        """Send requests until one arrives at the comparator: then the gateway has taken the mirror over."""

        async def arrives() -> bool:
            await self.send(PROBE)
            return any(seen.body == PROBE for seen in self.comparator.requests)

        await until(arrives, "a probe arrives at the comparator")

    async def known(self) -> bool:
        """Whether Envoy has a cluster for the comparator: without it there is nowhere to mirror to."""
        async with self.web.get(self.lab.envoy_metrics_url) as answer:
            lines = (await answer.text()).splitlines()
        return any(COMPARATOR in line and self.ref.namespace in line for line in lines)

    async def unknown(self) -> bool:
        return not await self.known()

    async def arrived(self, number: int) -> list[Seen]:
        """Wait until the comparator has got so many requests beside the probes, and return them."""

        async def enough() -> bool:
            return len(self.comparator.real) >= number

        await until(enough, f"{number} requests at the comparator")
        return self.comparator.real


async def until(holds: Callable[[], Awaitable[bool]], what: str) -> None:
    try:
        async with asyncio.timeout(PATIENCE):
            while not await holds():  # noqa: ASYNC110 - neither a gateway nor a server that it calls tells anybody
                await asyncio.sleep(0.05)
    except TimeoutError:
        pytest.fail(f"after {PATIENCE} s this does not hold yet: {what}")


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


def manifest(namespace: str, parent: dict[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": "credit", "namespace": namespace},
        "spec": {
            "parentRefs": [parent],
            "hostnames": [f"{namespace}.example.org"],
            "rules": [
                {
                    "matches": [{"path": {"type": "PathPrefix", "value": "/admin"}}],
                    "backendRefs": [{"name": "admin", "port": 8080}],
                },
                {
                    "matches": [{"path": {"type": "PathPrefix", "value": "/"}}],
                    "filters": [
                        {
                            "type": "RequestHeaderModifier",
                            "requestHeaderModifier": {"set": [{"name": "x-team", "value": "credit"}]},
                        }
                    ],
                    "backendRefs": [{"name": "credit-fp32", "port": 8080}],
                },
            ],
        },
    }


async def test_every_request_arrives_at_the_comparator_too_and_no_variant_gets_more_or_less(site: Site) -> None:
    await site.write(Prepare(ATTEMPT))
    before = site.spec["rules"][1]["backendRefs"]
    assert (await site.write(ON)).mirroring is Extent.ALL
    await site.mirrors()
    assert site.spec["rules"][1]["backendRefs"] == before

    bodies = [b"", b'{"inputs": [1.5]}', bytes(range(256)) * 40, *(str(number).encode() for number in range(37))]
    assert {await site.send(body) for body in bodies} == {"credit-fp32"}
    # Each of them once, whole, and by the name that the live one has.
    assert await site.arrived(len(bodies)) == site.baseline.real
    assert sorted(seen.body for seen in site.baseline.real) == sorted(bodies)
    assert len({seen.id for seen in site.baseline.real} - {""}) == len(bodies)
    assert site.candidate.requests == []


async def test_a_rule_that_does_not_point_to_the_baseline_is_not_mirrored(site: Site) -> None:
    await site.write(Prepare(ATTEMPT))
    await site.write(ON)
    await site.mirrors()
    assert await site.send(b"secret", "/admin") == "admin"
    assert await site.send(b"after it") == "credit-fp32"
    assert [seen.body for seen in await site.arrived(1)] == [b"after it"]


async def test_the_comparator_gets_what_either_variant_gets(site: Site) -> None:
    for change in (Prepare(ATTEMPT), ON, Raise(ATTEMPT, Weight(50))):
        await site.write(change)
    await site.mirrors()

    async def serves() -> bool:
        return await site.send(PROBE) == "credit-int8"

    await until(serves, "the candidate serves")
    assert {await site.send(str(number).encode()) for number in range(60)} == {"credit-fp32", "credit-int8"}
    live = sorted([*site.baseline.real, *site.candidate.real], key=str)
    assert await site.arrived(60) == live


@pytest.mark.parametrize(
    "ending",
    [[OFF], [Restore()], [BACK, Restore()], [Prepare("5f0c12ab-2")], [Raise(ATTEMPT, Weight(0), unmirror=True)]],
    ids=["off", "restored", "rolled back", "another attempt", "raised"],
)
async def test_once_the_mirror_is_off_nothing_arrives_any_more(site: Site, ending: list[RouteChange]) -> None:
    original = site.spec
    await site.write(Prepare(ATTEMPT))
    await site.write(ON)
    await site.mirrors()
    assert await site.known()
    for change in ending:
        await site.write(change)
    await until(site.unknown, "Envoy has forgotten the comparator")
    assert {await site.send(str(number).encode()) for number in range(40)} == {"credit-fp32"}
    assert len(site.baseline.real) == 40
    assert site.comparator.real == []
    if isinstance(ending[-1], Restore):
        assert site.spec == original
