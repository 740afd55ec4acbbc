"""What a running lab offers to tests and to the demo: addresses, servers made known, metrics, rights."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from e2e.lab import layout as at
from e2e.lab import measuring, rendering, starting
from e2e.lab.api import Api
from e2e.lab.layout import Layout


class Workbench(ABC):
    """The things of one lab, used from inside its network.

    Parameters
    ----------
    files
        Where the lab keeps its things.
    """

    def __init__(self, files: Layout) -> None:
        self.files = files

    @property
    @abstractmethod
    def token(self) -> str:
        """The administrator's bearer token."""

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.files.kubeconfig

    @property
    def api_url(self) -> str:
        """The API server's URL."""
        return f"https://127.0.0.1:{at.API_PORT}"

    @property
    def gateway_url(self) -> str:
        """Where Envoy takes requests, by the Host of an HTTPRoute; closed as long as there is no HTTPRoute."""
        return f"http://127.0.0.1:{at.GATEWAY_PORT}"

    @property
    def prometheus_url(self) -> str:
        """Prometheus' URL."""
        return f"http://127.0.0.1:{at.PROMETHEUS_PORT}"

    @property
    def envoy_metrics_url(self) -> str:
        """Where Envoy shows its metrics; Prometheus scrapes it as job `envoy`."""
        return f"http://127.0.0.1:{at.ENVOY_STATS_PORT}/stats/prometheus"

    @property
    def gateway(self) -> dict[str, str]:
        """The `parentRefs` entry of an HTTPRoute that is to be served."""
        return {"name": rendering.GATEWAY_NAME, "namespace": rendering.GATEWAY_NAMESPACE}

    @property
    def authority(self) -> Path:
        """The file of certificates that vouch for the API server."""
        return self.files.authority

    @property
    def api(self) -> Api:
        """A client of the API server with the administrator's rights."""
        return Api(at.API_PORT, self.authority, self.token)

    def address(self) -> str:
        """Return an address of the lab's network that is nobody else's, to bind a server to."""
        return self.files.next_address()

    def publish_service(self, namespace: str, name: str, port: int, addresses: Sequence[str]) -> None:
        """Make servers known: a Service without a selector, and an EndpointSlice with `addresses`, all ready."""
        self.api.apply(rendering.service(namespace, name, port))
        self.api.apply(rendering.endpoint_slice(namespace, name, port, addresses))

    def set_ready(self, namespace: str, name: str, *, ready: bool, addresses: Sequence[str] | None = None) -> None:
        """Set the readiness of some (by default all) endpoints of a published Service."""
        slice_path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices/{name}-lab"
        endpoints = self.api.get(slice_path)["endpoints"] or []
        for endpoint in endpoints:
            if addresses is None or endpoint["addresses"][0] in addresses:
                endpoint["conditions"] = rendering.readiness(ready=ready)
        self.api.merge(slice_path, {"endpoints": endpoints})

    def kubeconfig_for(self, namespace: str, service_account: str) -> Path:
        """Write a kubeconfig with the rights of a service account, valid for a day."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{service_account}/token"
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 86400},
        }
        token = self.api.create(path, request)["status"]["token"]
        file = self.files.file(f"kubeconfig-{namespace}-{service_account}")
        starting.write_secret(file, rendering.kubeconfig(self.api_url, str(self.authority), token, namespace))
        return file

    def scrape(self, job: str, targets: measuring.Targets, *, within: timedelta = timedelta(seconds=20)) -> None:
        """Make `targets` (addresses with port, or these with labels) all of `job`, and wait until they are scraped."""
        measuring.scrape(self.files, job, targets, within=within)

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the result of an instant query of Prometheus."""
        return measuring.query(expression)
