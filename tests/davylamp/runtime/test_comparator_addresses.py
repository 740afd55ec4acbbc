"""Where variants are called."""

from typing import Any

import pytest

from davylamp.runtime.comparator_addresses import at_endpoint, by_name

Object = dict[str, Any]


def endpoint_slice(
    *endpoints: Object, service: str = "credit", ports: tuple[Object, ...] = ({"port": 9000},)
) -> Object:
    labels = {"kubernetes.io/service-name": service}
    return {"metadata": {"labels": labels}, "endpoints": list(endpoints), "ports": list(ports)}


def endpoint(*addresses: str, ready: bool | None = True) -> Object:
    return {"addresses": list(addresses), "conditions": {} if ready is None else {"ready": ready}}


def found(*slices: Object, turns: int = 1) -> list[str]:
    return [at_endpoint("ml", "credit:8080", slices, turn) for turn in range(turns)]


def test_clusters_dns_is_asked_for_the_service_in_its_namespace() -> None:
    assert by_name("ml", "credit:8080") == "credit.ml.svc:8080"


def test_each_ready_endpoint_has_its_turn() -> None:
    slices = [endpoint_slice(endpoint("10.0.0.2", ready=None)), endpoint_slice(endpoint("10.0.0.1"))]
    assert found(*slices, turns=3) == ["10.0.0.1:9000", "10.0.0.2:9000", "10.0.0.1:9000"]


def test_endpoints_that_are_not_ready_or_of_another_service_are_not_called() -> None:
    slices = [
        endpoint_slice(endpoint("10.0.0.1", ready=False), endpoint("10.0.0.2")),
        endpoint_slice(endpoint("10.0.0.3"), service="other"),
    ]
    assert found(*slices, turns=2) == ["10.0.0.2:9000"] * 2


def test_an_address_with_colons_stands_in_brackets() -> None:
    assert found(endpoint_slice(endpoint("fd00::1"))) == ["[fd00::1]:9000"]


def test_of_several_ports_the_services_own_number_is_meant() -> None:
    ports = ({"port": 9000}, {"port": 8080, "protocol": "TCP"}, {"port": 8080, "protocol": "UDP"})
    assert found(endpoint_slice(endpoint("10.0.0.1"), ports=ports)) == ["10.0.0.1:8080"]


@pytest.mark.parametrize(
    "slices",
    [
        [],
        [endpoint_slice(endpoint("10.0.0.1", ready=False))],
        [endpoint_slice(endpoint("10.0.0.1"), ports=({"port": 1}, {"port": 2}))],
        [{"metadata": {"labels": None}, "endpoints": None, "ports": None}],
        [{"metadata": {"labels": {"kubernetes.io/service-name": "credit"}}, "endpoints": None, "ports": None}],
    ],
)
def test_without_a_ready_endpoint_the_name_is_called_which_counts_as_unreachable(slices: list[Object]) -> None:
    assert found(*slices) == ["credit.ml.svc:8080"]
