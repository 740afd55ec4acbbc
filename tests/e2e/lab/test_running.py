import asyncio
import threading
from collections import Counter
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self
from urllib.request import Request, urlopen

import pytest
from kubernetes.aio import client

from e2e.lab import ApiError, Lab
from e2e.lab.api import condition
from e2e.lab.waiting import until

SOON = timedelta(seconds=30)


class Server:
    """A little HTTP server at an address of the lab: it says its name, and how often it was asked as a metric."""

    def __init__(self, address: str, port: int, name: str) -> None:
        answered = Counter[str]()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                answered[self.path] += 1
                body = f"asked_total {answered['/']}\n" if self.path == "/metrics" else name
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *_: object) -> None:
                """Say nothing on stderr."""

        self._server = ThreadingHTTPServer((address, port), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def fetch(url: str, host: str = "") -> str:
    request = Request(url, headers={"Host": host} if host else {})  # noqa: S310 - an address of the lab
    with urlopen(request, timeout=5) as answer:  # noqa: S310 - as above
        return str(answer.read().decode())


async def test_the_official_client_reads_through_the_admin_kubeconfig(
    kube: client.ApiClient, lab_namespace: str
) -> None:
    read = await client.CoreV1Api(kube).read_namespace(lab_namespace)
    assert read.metadata is not None
    assert read.metadata.name == lab_namespace


def test_a_service_account_may_do_only_what_rbac_says(control_plane: Lab, lab_namespace: str) -> None:
    control_plane.api.create(f"/api/v1/namespaces/{lab_namespace}/serviceaccounts", {"metadata": {"name": "reader"}})
    review = control_plane.kubeconfig_for(lab_namespace, "reader").read_text(encoding="utf-8")
    token = review.partition("token: ")[2].split()[0]
    with pytest.raises(ApiError, match='cannot list resource "pods"') as refusal:
        type(control_plane.api)(6443, control_plane.authority, token).get(f"/api/v1/namespaces/{lab_namespace}/pods")
    assert refusal.value.status == 403


def test_a_killed_api_server_comes_back_with_all_it_had_stored(control_plane: Lab, lab_namespace: str) -> None:
    path = f"/api/v1/namespaces/{lab_namespace}/configmaps"
    control_plane.api.create(path, {"metadata": {"name": "kept"}, "data": {"a": "b"}})
    api_server = control_plane.component("kube-apiserver")
    api_server.kill()
    with pytest.raises(OSError):
        control_plane.api.get(path)
    api_server.start()
    api_server.wait_ready()
    assert control_plane.api.get(f"{path}/kept")["data"] == {"a": "b"}


def test_prometheus_scrapes_a_local_exporter_with_the_labels_asked_for(lab: Lab) -> None:
    address = lab.address()
    with Server(address, 9000, "exporter"):
        fetch(f"http://{address}:9000/")
        lab.scrape("exporter", {f"{address}:9000": {"pod": "one"}})
        series = until(lambda: lab.query('asked_total{job="exporter"} == 1'), "the metric is there", within=SOON)
    assert series[0]["metric"]["pod"] == "one"
    lab.scrape("exporter", [])


def test_a_frozen_prometheus_answers_again_once_thawed(lab: Lab) -> None:
    prometheus = lab.component("prometheus")
    with prometheus.frozen():
        assert prometheus.running
        assert not prometheus.part.ready()
    prometheus.wait_ready()


async def test_an_http_route_of_weights_90_and_10_splits_requests_so(lab: Lab, lab_namespace: str) -> None:
    addresses = {name: lab.address() for name in ("baseline", "candidate")}
    for name, address in addresses.items():
        lab.publish_service(lab_namespace, name, 9000, [address])
    route = {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": "split", "namespace": lab_namespace},
        "spec": {
            "parentRefs": [lab.gateway],
            "hostnames": [f"{lab_namespace}.test"],
            "rules": [
                {
                    "backendRefs": [
                        {"name": "baseline", "port": 9000, "weight": 90},
                        {"name": "candidate", "port": 9000, "weight": 10},
                    ]
                }
            ],
        },
    }
    lab.api.apply(route)
    with Server(addresses["baseline"], 9000, "baseline"), Server(addresses["candidate"], 9000, "candidate"):
        until(lambda: _served(lab, lab_namespace), "the gateway serves the route", within=SOON)
        seen = Counter(
            await asyncio.gather(
                *(asyncio.to_thread(fetch, lab.gateway_url, f"{lab_namespace}.test") for _ in range(400))
            )
        )
    # Binomial(400, 0.1): outside 13..73 once in a million runs.
    assert seen.total() == 400
    assert 13 <= seen["candidate"] <= 73


def _served(lab: Lab, host: str) -> bool:
    try:
        return fetch(lab.gateway_url, f"{host}.test") in {"baseline", "candidate"}
    except OSError:
        return False


def test_readiness_is_set_for_just_the_endpoints_that_are_named(lab: Lab, lab_namespace: str) -> None:
    addresses = [lab.address(), lab.address()]
    lab.publish_service(lab_namespace, "model", 9000, addresses)
    lab.set_ready(lab_namespace, "model", ready=False, addresses=addresses[:1])
    endpoints = lab.api.get(f"/apis/discovery.k8s.io/v1/namespaces/{lab_namespace}/endpointslices/model-lab")[
        "endpoints"
    ]
    assert [endpoint["conditions"]["ready"] for endpoint in endpoints] == [False, True]


def test_the_gateway_is_programmed(lab: Lab) -> None:
    gateway = lab.api.get("/apis/gateway.networking.k8s.io/v1/namespaces/gateway/gateways/lab")
    assert condition(gateway, "Programmed") == "True"


def test_the_controller_manager_makes_replica_sets_and_deletes_namespaces(
    control_plane: Lab, lab_namespace: str
) -> None:
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
    control_plane.api.create(
        f"/apis/apps/v1/namespaces/{lab_namespace}/deployments",
        {"metadata": {"name": "a"}, "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template}},
    )
    sets = f"/apis/apps/v1/namespaces/{lab_namespace}/replicasets"
    until(lambda: control_plane.api.get(sets)["items"], "a ReplicaSet is made", within=SOON)
    control_plane.api.delete(f"/api/v1/namespaces/{lab_namespace}")
    gone = f"/api/v1/namespaces/{lab_namespace}"
    until(lambda: control_plane.api.find(gone) is None, "the namespace is gone", within=SOON)
