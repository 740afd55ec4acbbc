"""What the demo plays on: model servers behind Services and routes, scraped by Prometheus; traffic; the operator."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Final

import aiohttp

from e2e.demo import installing, scenario
from e2e.demo.models.artifacts import Models
from e2e.demo.receivers import Receivers
from e2e.demo.scenario import CASES, NAMESPACE, PORT, Case
from e2e.demo.serving.process import ModelServer, ServerSpec
from e2e.demo.traffic.bodies import request_bodies
from e2e.demo.traffic.generator import Pace, Target, Traffic
from e2e.demo.watching import ROUTES
from e2e.lab import Lab, LabError
from e2e.lab.component import Component
from e2e.stage import comparator, controller

Say = Callable[[str], None]

_PER_VARIANT: Final = 2
_METRICS_PORT: Final = 8082
_WARM_UP_REQUESTS: Final = 30
_ROUTE_PATIENCE: Final = timedelta(seconds=60)
_BASELINE_REQUESTS: Final = 250


@dataclass(slots=True)
class Stage:
    """The demo's things on a lab.

    Parameters
    ----------
    lab
        Where they are.
    models
        What is served.
    receivers
        Where messages go.
    traffic
        By rollout.
    """

    lab: Lab
    models: Models
    receivers: Receivers
    traffic: dict[str, Traffic] = field(default_factory=dict)

    @property
    def fault_file(self) -> Path:
        """The file by which the flaky servers are told how many requests to fail."""
        return self.lab.files.file("fault-share")

    @asynccontextmanager
    async def set(self, say: Say) -> AsyncIterator[None]:
        """Set everything up but the rollouts, and stop at the end what the lab would not stop by itself."""
        servers = self._servers()
        everyone = [server for group in servers.values() for server in group]
        processes: list[Component] = []
        try:
            # A group: where one fails the others are given up, and stopped below.
            async with asyncio.TaskGroup() as group:
                group.create_task(_start(everyone, say))
                group.create_task(asyncio.to_thread(self._install, say))
            bodies = request_bodies(self.models.held_out().features)
            await _warm_up(everyone, bodies[:_WARM_UP_REQUESTS])
            await asyncio.to_thread(self._publish, servers, say)
            processes += [await asyncio.to_thread(operate, say) for operate in (self._compare, self._operate)]
            async with self._flowing(bodies, say):
                yield
        finally:
            for process in reversed(processes):
                await asyncio.to_thread(process.stop)
            await asyncio.gather(*(server.stop() for server in everyone))

    def begin(self) -> None:
        """Apply the three ModelRollouts."""
        for case in CASES:
            self.lab.api.apply(scenario.rollout(case, self.models))

    def _servers(self) -> Mapping[str, list[ModelServer]]:
        """Return the model servers by Service: two of the baseline and two of the candidate for each rollout."""
        made: dict[str, list[ModelServer]] = {}
        for case in CASES:
            for service, version, onnx in (
                (case.baseline, "fp32", "fp32"),
                (case.candidate, case.variant, case.model),
            ):
                made[service] = [self._server(service, version, onnx, number) for number in range(_PER_VARIANT)]
        return made

    def _server(self, service: str, version: str, onnx: str, number: int) -> ModelServer:
        flaky = any(case.faulty and service == case.candidate for case in CASES)
        spec = ServerSpec(
            self.models.onnx(onnx),
            version,
            self.lab.address(),
            PORT,
            _METRICS_PORT,
            fault_file=self.fault_file if flaky else None,
            seed=number,
        )
        return ModelServer(spec, self.models.python, self.lab.files.log(f"{service}-{number}"))

    def _install(self, say: Say) -> None:
        installing.install(self.lab)
        self.lab.api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        values = {
            "team-slack": ("url", self.receivers.webhook),
            "oncall-pagerduty": ("routing-key", self.receivers.routing_key),
        }
        for manifest in (*scenario.secrets(values), *scenario.platform()):
            self.lab.api.apply(manifest)
        say("installed manifests/default: kinds, roles, admission policy")

    def _publish(self, servers: Mapping[str, list[ModelServer]], say: Say) -> None:
        targets: dict[str, Mapping[str, str]] = {}
        for service, group in servers.items():
            self.lab.publish_service(NAMESPACE, service, PORT, [server.spec.host for server in group])
            for number, server in enumerate(group):
                labels = {"namespace": NAMESPACE, "service": service, "pod": f"{service}-{number}"}
                targets[f"{server.spec.host}:{_METRICS_PORT}"] = labels
        for case in CASES:
            self.lab.api.apply(scenario.route(case))
        self.lab.scrape("models", targets, within=timedelta(seconds=60))
        say("Prometheus scrapes the model servers, every second")

    def _compare(self, say: Say) -> Component:
        address = self.lab.address()
        comparator.install(self.lab, NAMESPACE, address)
        process = comparator.comparator(self.lab, NAMESPACE, address)
        process.start()
        process.wait_ready()
        self.lab.scrape("comparator", comparator.scraped(NAMESPACE, address), within=timedelta(seconds=60))
        say("the comparator runs, off the live path: it lets both variants answer mirrored requests")
        return process

    def _operate(self, say: Say) -> Component:
        installing.guard(self.lab, f"{ROUTES}/{CASES[0].name}")
        kubeconfig = self.lab.kubeconfig_for(controller.NAMESPACE, controller.SERVICE_ACCOUNT)
        operator = controller.operator(self.lab, kubeconfig, environment=self.receivers.environment)
        operator.start()
        operator.wait_ready()
        say("the operator runs, with the rights of its service account")
        return operator

    @asynccontextmanager
    async def _flowing(self, bodies: tuple[bytes, ...], say: Say) -> AsyncIterator[None]:
        """Send traffic to all routes, once the gateway leads to them, and return when the baselines have served."""
        await _served(self.lab.gateway_url, bodies[0])
        async with asyncio.TaskGroup() as group:
            for number, case in enumerate(CASES):
                part = bodies[number :: len(CASES)]
                traffic = Traffic(Target(self.lab.gateway_url, case.host), part, Pace(case.rate))
                self.traffic[case.name] = traffic
                traffic.start()
                group.create_task(_until_served(traffic))
        total = sum(case.rate for case in CASES)
        say(f"Envoy gets questions about people whom training never saw, {total:.0f} requests a second on three routes")
        try:
            yield
        finally:
            await asyncio.gather(*(traffic.stop() for traffic in self.traffic.values()))


async def _start(servers: list[ModelServer], say: Say) -> None:
    async with asyncio.TaskGroup() as group:
        for server in servers:
            group.create_task(server.start())
    say(f"{len(servers)} MLServer processes serve: two for each baseline and each candidate")


async def _warm_up(servers: list[ModelServer], bodies: tuple[bytes, ...]) -> None:
    """Ask each server some questions before it gets traffic, as a readiness probe would: the first answers are slow."""
    async with aiohttp.ClientSession() as session:
        for body in bodies:
            await asyncio.gather(*(_ask(session, f"http://{s.spec.host}:{PORT}", "", body) for s in servers))


async def _ask(session: aiohttp.ClientSession, address: str, host: str, body: bytes) -> int:
    headers = {"content-type": "application/json", **({"host": host} if host else {})}
    async with session.post(f"{address}/v2/models/income/infer", data=body, headers=headers) as answer:
        await answer.read()
        return answer.status


async def _served(gateway: str, body: bytes) -> None:
    """Wait until the gateway leads to all three routes: it is closed before the first of them."""
    waiting = list(CASES)
    try:
        async with asyncio.timeout(_ROUTE_PATIENCE.total_seconds()), aiohttp.ClientSession() as session:
            while waiting:
                waiting = [case for case in waiting if not await _reaches(session, gateway, case, body)]
                await asyncio.sleep(0.05)
    except TimeoutError as late:
        names = ", ".join(case.host for case in waiting)
        seconds = _ROUTE_PATIENCE.total_seconds()
        raise LabError(f"the gateway did not lead to {names} within {seconds:.0f} s") from late


async def _reaches(session: aiohttp.ClientSession, gateway: str, case: Case, body: bytes) -> bool:
    try:
        return await _ask(session, gateway, case.host, body) == HTTPStatus.OK
    except aiohttp.ClientError:
        return False


async def _until_served(traffic: Traffic) -> None:
    """Wait until the baseline has served enough for its histogram, so that the rollout can begin at once."""
    while traffic.snapshot().answered < _BASELINE_REQUESTS:  # noqa: ASYNC110  # the traffic tells nobody how far it is
        await asyncio.sleep(0.1)
