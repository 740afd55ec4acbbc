"""Ready endpoints, counted on a real API server."""

from typing import Any

import pytest

from davylamp.errors import Unavailable
from davylamp.runtime.endpoints import Endpoints
from davylamp.runtime.kube import Kube
from e2e.lab import Lab
from tests.davylamp.runtime.clocks import HandClock

ADDRESSES = [f"10.244.9.{number}" for number in range(1, 5)]


@pytest.fixture
def endpoints(own_kube: Kube, clock: HandClock) -> Endpoints:
    return Endpoints(own_kube, clock)


def service(lab: Lab, namespace: str, name: str, **spec: Any) -> None:
    manifest = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": namespace}}
    lab.api.apply(manifest | {"spec": {"ports": [{"port": 8080}]} | spec})


def endpoint_slice(lab: Lab, namespace: str, service: str, *ready: bool | None, name: str = "a") -> None:
    endpoints = [
        {"addresses": [address], "conditions": {} if state is None else {"ready": state}}
        for address, state in zip(ADDRESSES, ready, strict=False)
    ]
    lab.api.apply(
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": f"{service}-{name}",
                "namespace": namespace,
                "labels": {"kubernetes.io/service-name": service},
            },
            "addressType": "IPv4",
            "endpoints": endpoints,
            "ports": [{"port": 8080}],
        }
    )


@pytest.mark.parametrize(
    ("states", "count"), [((True, True), 2), ((True, False), 1), ((False, False), 0), ((None, False), 1), ((), 0)]
)
async def test_the_ready_ones_count_and_one_that_does_not_say_counts_too(
    endpoints: Endpoints, control_plane: Lab, lab_namespace: str, states: tuple[bool | None, ...], count: int
) -> None:
    service(control_plane, lab_namespace, "credit")
    endpoint_slice(control_plane, lab_namespace, "credit", *states)
    assert await endpoints.ready(lab_namespace) == {"credit": count}


async def test_all_slices_of_a_service_count(endpoints: Endpoints, control_plane: Lab, lab_namespace: str) -> None:
    service(control_plane, lab_namespace, "credit")
    endpoint_slice(control_plane, lab_namespace, "credit", True, name="a")
    endpoint_slice(control_plane, lab_namespace, "credit", False, True, True, name="b")
    assert await endpoints.ready(lab_namespace) == {"credit": 3}


async def test_a_service_that_is_gone_has_none_whatever_slices_it_left(
    endpoints: Endpoints, control_plane: Lab, lab_namespace: str
) -> None:
    endpoint_slice(control_plane, lab_namespace, "credit", True)
    assert await endpoints.ready(lab_namespace) == {}


async def test_a_name_outside_the_cluster_is_no_service(
    endpoints: Endpoints, control_plane: Lab, lab_namespace: str
) -> None:
    service(control_plane, lab_namespace, "credit", type="ExternalName", externalName="credit.example.org")
    endpoint_slice(control_plane, lab_namespace, "credit", True)
    assert await endpoints.ready(lab_namespace) == {}


async def test_looks_of_one_moment_share_a_listing(
    endpoints: Endpoints, control_plane: Lab, lab_namespace: str, clock: HandClock
) -> None:
    service(control_plane, lab_namespace, "credit")
    endpoint_slice(control_plane, lab_namespace, "credit", True)
    assert await endpoints.ready(lab_namespace) == {"credit": 1}
    endpoint_slice(control_plane, lab_namespace, "credit", False)
    clock.advance(0.4)
    assert await endpoints.ready(lab_namespace) == {"credit": 1}
    clock.advance(0.1)
    assert await endpoints.ready(lab_namespace) == {"credit": 0}


async def test_a_failed_listing_is_never_taken_for_no_endpoints(
    endpoints: Endpoints, own_kube: Kube, lab_namespace: str
) -> None:
    own_kube._api.configuration.host = "https://127.0.0.1:1"
    with pytest.raises(Unavailable):
        await endpoints.ready(lab_namespace)


async def test_namespaces_that_nobody_asks_about_are_forgotten(
    endpoints: Endpoints, lab_namespace: str, clock: HandClock
) -> None:
    await endpoints.ready("default")
    clock.advance(601)
    await endpoints.ready(lab_namespace)
    assert set(endpoints._known) == set(endpoints._locks) == {lab_namespace}
