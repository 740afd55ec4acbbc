"""A route with two variants and a comparator behind a real gateway."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from davylamp.core.world import RouteView
from davylamp.errors import Conflict
from davylamp.ports import RouteChange, RouteRef
from davylamp.routers.gateway_api import GatewayApiRouter
from e2e.lab import Lab

COMPARATOR = "davylamp-shadow"
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

    async def send(self, body: bytes, path: str = "/v2/models/credit/infer?full=1", **headers: str) -> str:
        """Send a request through the gateway, and return who answered."""
        headers = {"host": f"{self.ref.namespace}.example.org"} | headers
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
