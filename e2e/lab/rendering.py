"""The configuration files of the lab's programs, as text."""

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import yaml

from e2e.lab.failure import LabError

GATEWAY_NAMESPACE = "gateway"
GATEWAY_NAME = "lab"


def kubeconfig(server: str, authority: str, token: str, namespace: str = "default") -> str:
    """Render a kubeconfig of one user."""
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "lab",
            "clusters": [{"name": "lab", "cluster": {"server": server, "certificate-authority": authority}}],
            "users": [{"name": "lab", "user": {"token": token}}],
            "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "lab", "namespace": namespace}}],
        },
        sort_keys=False,
    )


def tokens(admin: str) -> str:
    """Render the API server's token file: one user who may do everything."""
    return f'{admin},lab-admin,lab-admin,"system:masters"\n'


def contour() -> str:
    """Render Contour's configuration: it serves the lab's one Gateway."""
    return yaml.safe_dump({"gateway": {"gatewayRef": {"namespace": GATEWAY_NAMESPACE, "name": GATEWAY_NAME}}})


def gateway_objects() -> list[dict[str, Any]]:
    """Return the objects that make the lab's Gateway."""
    group = "gateway.networking.k8s.io/v1"
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": GATEWAY_NAMESPACE}},
        {
            "apiVersion": group,
            "kind": "GatewayClass",
            "metadata": {"name": "contour"},
            "spec": {"controllerName": "projectcontour.io/gateway-controller"},
        },
        {
            "apiVersion": group,
            "kind": "Gateway",
            "metadata": {"name": GATEWAY_NAME, "namespace": GATEWAY_NAMESPACE},
            "spec": {
                "gatewayClassName": "contour",
                "listeners": [
                    {"name": "http", "protocol": "HTTP", "port": 80, "allowedRoutes": {"namespaces": {"from": "All"}}}
                ],
            },
        },
    ]


def prometheus(targets: str, scrape_interval: timedelta, envoy: str) -> str:
    """Render Prometheus' configuration.

    Parameters
    ----------
    targets
        The folder whose JSON files name targets.
    scrape_interval
        Between two scrapes, at least 10 ms.
    envoy
        The address of Envoy's statistics.
    """
    own = {"job_name": "lab", "file_sd_configs": [{"files": [f"{targets}/*.json"], "refresh_interval": "5s"}]}
    gateway = {"job_name": "envoy", "metrics_path": "/stats/prometheus", "static_configs": [{"targets": [envoy]}]}
    configuration = prometheus_globals(scrape_interval)
    configuration["scrape_configs"] = [own, gateway]
    return yaml.safe_dump(configuration, sort_keys=False)


def prometheus_globals(scrape_interval: timedelta) -> dict[str, Any]:
    """Return what holds for every job of Prometheus.

    Raises
    ------
    LabError
        The interval is below 10 ms.
    """
    milliseconds = int(scrape_interval / timedelta(milliseconds=1))
    if milliseconds < 10:
        raise LabError(f"the scrape interval must be at least 10 ms, got {milliseconds} ms")
    interval = f"{milliseconds}ms"
    return {
        "global": {
            "scrape_interval": interval,
            "scrape_timeout": interval,
            "evaluation_interval": interval,
            # A target that offers native histograms is read so; its classic buckets stay beside them.
            "scrape_native_histograms": True,
            "always_scrape_classic_histograms": True,
        }
    }


def target_groups(job: str, targets: Mapping[str, Mapping[str, str]]) -> str:
    """Render the targets of one job, each with labels of its own, for Prometheus' file discovery."""
    return json.dumps([{"targets": [address], "labels": {"job": job, **labels}} for address, labels in targets.items()])


def service(namespace: str, name: str, port: int) -> dict[str, Any]:
    """Return a Service without a selector: its endpoints are what `endpoint_slice` says."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"ports": [{"name": "http", "port": port, "protocol": "TCP", "targetPort": port}]},
    }


def endpoint_slice(namespace: str, service_name: str, port: int, addresses: Sequence[str]) -> dict[str, Any]:
    """Return the EndpointSlice of a Service, every address ready."""
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": f"{service_name}-lab",
            "namespace": namespace,
            "labels": {
                "kubernetes.io/service-name": service_name,
                "endpointslice.kubernetes.io/managed-by": "davylamp-lab",
            },
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address], "conditions": readiness(ready=True)} for address in addresses],
        "ports": [{"name": "http", "port": port, "protocol": "TCP"}],
    }


def readiness(*, ready: bool) -> dict[str, bool]:
    """Return the conditions of an endpoint that is ready or is not."""
    return {"ready": ready, "serving": ready, "terminating": False}
