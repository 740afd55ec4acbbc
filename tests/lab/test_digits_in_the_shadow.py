"""Ten classes, decided by the likeliest: int8 comes through the shadow step, and the pruned network does not.

Everything but the pods is real: networks that read handwritten digits in MLServer, images that training never saw, the
gateway that mirrors them, the comparator and the operator with the rights of their own service accounts.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, suppress
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus

import aiohttp
import pytest
import pytest_asyncio

from e2e.demo.models.artifacts import Models, ensure_models
from e2e.demo.serving.process import ModelServer, ServerSpec
from e2e.demo.traffic.bodies import request_bodies
from e2e.demo.traffic.generator import Pace, Target, Traffic
from e2e.demo.traffic.history import NOBODY
from e2e.lab import ApiError, Component, Lab
from e2e.stage import comparator
from e2e.stage.invariants import marks_of, weight_of
from e2e.stage.manifests import PORT, http_route, metric_source, model_rollout
from e2e.stage.recorder import Kind, Object, Recorder
from e2e.stage.rollout_stage import PATIENCE, QUICK

PATH = "/v2/models/digits/infer"
METRICS_PORT = 8082
#: Of each route. The mirror doubles what the one server of its baseline gets, which a busy machine must bear as well.
RATE = Pace(30)
#: By variant on trial: the comparator's port for its rollout.
PORTS = {"int8": 8090, "pruned": 8091}
STEPS = [
    {"shadow": {"sample": "100%", "minPairs": 200}, "bake": "1s"},
    {"weight": 20, "bake": "1s", "minSamples": 5},
    {"weight": 50, "bake": "1s", "minSamples": 10},
]
GATES = QUICK["gates"] | {"disagreement": {"limit": "2%"}, "statusMismatch": {"limit": "2%"}}


@dataclass(frozen=True, slots=True)
class Trial:
    """One variant on trial: its rollout, which was not applied yet, everything that happens to it, and its traffic."""

    variant: str
    manifest: Object
    recorder: Recorder
    traffic: Traffic

    @property
    def status(self) -> Object:
        return (self.recorder.latest(Kind.ROLLOUT) or {}).get("status") or {}

    @property
    def routes(self) -> list[Object]:
        """Every state that the route ever had."""
        return [seen.manifest for seen in self.recorder.history if seen.kind is Kind.ROUTE and seen.manifest]

    async def until_live(self) -> None:
        """Wait until the candidate has a weight and has answered somebody."""
        await asyncio.to_thread(
            self.recorder.until,
            lambda _, route: weight_of(route, candidate(self.variant)) > 0,
            f"{self.variant} gets live traffic",
            within=PATIENCE,
        )
        async with asyncio.timeout(PATIENCE.total_seconds()):
            while self.variant not in self.traffic.snapshot().served:  # noqa: ASYNC110  # the traffic tells nobody
                await asyncio.sleep(0.05)

    async def until_rolled_back(self) -> None:
        """Wait until it is rolled back, and its route carries no mark."""
        await asyncio.to_thread(
            self.recorder.until,
            lambda rollout, route: rollout.get("status", {}).get("phase") == "RolledBack" and not marks_of(route),
            f"{self.variant} is rolled back",
            within=PATIENCE,
        )


def baseline(variant: str) -> str:
    return f"{variant}-baseline"


def candidate(variant: str) -> str:
    return f"{variant}-candidate"


def mirrors(route: Object) -> bool:
    return any(
        found["type"] == "RequestMirror" for rule in route["spec"]["rules"] for found in rule.get("filters") or ()
    )


@pytest.fixture(scope="module")
def models() -> Models:
    return ensure_models(lambda _: None)


@pytest_asyncio.fixture
async def served(lab: Lab, lab_namespace: str, models: Models) -> AsyncIterator[str]:
    """A server for the baseline and the candidate of each rollout, scraped; yields their namespace."""
    servers = {}
    for variant in PORTS:
        for service, version in ((baseline(variant), "fp32"), (candidate(variant), variant)):
            spec = ServerSpec(models.digits_onnx(version), version, lab.address(), PORT, METRICS_PORT, name="digits")
            servers[service] = ModelServer(spec, models.python, lab.files.log(f"{lab_namespace}-{service}"))
    async with AsyncExitStack() as stack:
        await asyncio.gather(*(stack.enter_async_context(server) for server in servers.values()))
        targets = {}
        for service, server in servers.items():
            lab.publish_service(lab_namespace, service, PORT, [server.spec.host])
            labels = {"namespace": lab_namespace, "service": service, "pod": f"{service}-0"}
            targets[f"{server.spec.host}:{METRICS_PORT}"] = labels
        await asyncio.to_thread(lab.scrape, "models", targets, within=timedelta(seconds=60))
        yield lab_namespace


@pytest.fixture
def compared(lab: Lab, lab_namespace: str) -> Iterator[Component]:
    """The comparator, started and scraped; `wait_ready` tells when it works."""
    address = lab.address()
    comparator.install(lab, lab_namespace, address)
    process = comparator.comparator(lab, lab_namespace, address)
    process.start()
    try:
        lab.scrape("comparator", comparator.scraped(lab_namespace, address), within=timedelta(seconds=60))
        yield process
    finally:
        process.stop()


@pytest_asyncio.fixture
async def trials(
    lab: Lab, davylamp: Component, compared: Component, served: str, models: Models
) -> AsyncIterator[dict[str, Trial]]:
    """Both variants with a route, which is served, and traffic."""
    lab.api.apply(metric_source(lab.prometheus_url))
    bodies = request_bodies(models.held_out_digits().pixels)
    made = {variant: trial(lab, served, variant, bodies) for variant in PORTS}
    with ExitStack() as recorders:
        for found in made.values():
            recorders.enter_context(found.recorder)
        for variant in PORTS:
            await until_answered(lab, host(served, variant), bodies[0])
        async with AsyncExitStack() as sending:
            for found in made.values():
                await sending.enter_async_context(found.traffic)
            for process in (compared, davylamp):
                await asyncio.to_thread(process.wait_ready)
            yield made
        for variant in PORTS:
            take_away(lab, served, variant)


def trial(lab: Lab, namespace: str, variant: str, bodies: tuple[bytes, ...]) -> Trial:
    lab.api.apply(http_route(namespace, variant, baseline(variant), host=host(namespace, variant)))
    manifest = model_rollout(
        namespace,
        variant,
        baseline=baseline(variant),
        candidate=candidate(variant),
        **QUICK | {"steps": STEPS, "gates": GATES, "shadow": {"comparator": {"port": PORTS[variant]}}},
    )
    traffic = Traffic(Target(lab.gateway_url, host(namespace, variant), PATH), bodies, RATE)
    return Trial(variant, manifest, Recorder(lab, namespace, variant, variant), traffic)


def host(namespace: str, variant: str) -> str:
    return f"{variant}.{namespace}.test"


async def until_answered(lab: Lab, name: str, body: bytes) -> None:
    headers = {"host": name, "content-type": "application/json"}
    async with asyncio.timeout(PATIENCE.total_seconds()), aiohttp.ClientSession(headers=headers) as session:
        while True:
            with suppress(aiohttp.ClientError):  # the gateway listens once it has a route
                async with session.post(f"{lab.gateway_url}{PATH}", data=body) as answer:
                    if answer.status == HTTPStatus.OK:
                        return
            await asyncio.sleep(0.05)


def take_away(lab: Lab, namespace: str, variant: str) -> None:
    path = f"/apis/davylamp.dev/v1alpha1/namespaces/{namespace}/modelrollouts/{variant}"
    lab.api.delete(path)
    # The next test's namespace does not wait for this one's operator.
    with suppress(ApiError):
        lab.api.merge(path, {"metadata": {"finalizers": None}})


def digits_read(lab: Lab, namespace: str, service: str) -> float:
    (found,) = lab.query(f'sum(digits_read_total{{namespace="{namespace}",service="{service}"}})')
    return float(found["value"][1])


async def test_int8_comes_through_the_shadow_and_pruned_is_rolled_back_in_it_without_a_live_request(
    lab: Lab, trials: dict[str, Trial]
) -> None:
    int8, pruned = trials["int8"], trials["pruned"]
    for found in (int8, pruned):
        lab.api.apply(found.manifest)
    async with asyncio.TaskGroup() as both:
        both.create_task(int8.until_live())
        both.create_task(pruned.until_rolled_back())
    for found in (int8, pruned):
        await found.traffic.stop()

    assert "Regressed" not in {signal["verdict"] for signal in int8.status["signals"]}
    weights = [weight_of(route, candidate("int8")) for route in int8.routes]
    first = next(at for at, weight in enumerate(weights) if weight)
    assert weights[first] == 20
    assert any(mirrors(route) for route in int8.routes[:first]), "it got live traffic without a shadow step"

    regressed = {signal["name"] for signal in pruned.status["signals"] if signal["verdict"] == "Regressed"}
    assert regressed == {"disagreement"}
    assert any(mirrors(route) for route in pruned.routes)
    assert not mirrors(pruned.routes[-1])
    assert {weight_of(route, candidate("pruned")) for route in pruned.routes} == {0}
    assert set(pruned.traffic.snapshot().served) <= {"fp32", NOBODY}
    # Its server did answer, which can only have been the comparator.
    assert digits_read(lab, pruned.manifest["metadata"]["namespace"], candidate("pruned")) > 0
