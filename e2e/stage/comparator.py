"""The comparator as a process on the lab, with its own service account's rights and nothing more."""

from __future__ import annotations

import http.client
import sys
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Self

import yaml
from prometheus_client.parser import text_string_to_metric_families

from davylamp.shadow.captures_key import HEADER
from e2e.lab import Lab, Part, rendering
from e2e.lab.component import Component

NAME: Final = "davylamp-shadow"
#: What captured pairs are shown for.
KEY: Final = "the-key-of-the-stage"
ADMIN_PORT: Final = 8080

_MANIFESTS: Final = Path(__file__).parents[2] / "manifests" / "comparator"
#: The namespace that the manifests are written for.
_EXAMPLE: Final = "ml"

Manifest = dict[str, Any]


def install(lab: Lab, namespace: str, address: str) -> None:
    """Install the comparator's rights and its Service in a namespace; the Service leads to `address` alone."""
    for manifest in _in_namespace("rights.yaml", namespace):
        lab.api.apply(manifest)
    (service,) = _in_namespace("service.yaml", namespace)
    # The lab has no pods that a selector could find.
    del service["spec"]["selector"]
    ports = [{**port, "targetPort": _number(port)} for port in service["spec"]["ports"]]
    lab.api.apply({**service, "spec": {**service["spec"], "ports": ports}})
    endpoints = rendering.endpoint_slice(namespace, NAME, ADMIN_PORT, [address])
    endpoints["ports"] = [{"name": port["name"], "port": port["targetPort"], "protocol": "TCP"} for port in ports]
    lab.api.apply(endpoints)


def comparator(lab: Lab, namespace: str, address: str, environment: Mapping[str, str] | None = None) -> Component:
    """Return the comparator of a namespace, installed there, not started yet.

    Parameters
    ----------
    lab
        Where it runs.
    namespace
        Whose rollouts it serves.
    address
        Where it listens.
    environment
        Settings beside the lab's; see `davylamp.runtime.comparator_settings`.
    """
    settings = {
        "KUBECONFIG": str(lab.kubeconfig_for(namespace, NAME)),
        "DAVYLAMP_NAMESPACE": namespace,
        "DAVYLAMP_LISTEN": f"{address}:{ADMIN_PORT}",
        "DAVYLAMP_RESOLVE_ENDPOINTS": "true",
        "DAVYLAMP_LOG_FORMAT": "console",
        **(environment or {}),
    }
    command = (sys.executable, "-m", "davylamp.cli", "shadow")
    return Component(Part(f"{NAME}-{namespace}", command, lambda: _ready(address), settings), lab.files, lab.namespace)


def scraped(namespace: str, address: str) -> Mapping[str, Mapping[str, str]]:
    """Return the comparator as a target of Prometheus, with the labels that its pod would give it."""
    return {f"{address}:{ADMIN_PORT}": {"namespace": namespace, "pod": f"{NAME}-0"}}


class Comparator:
    """A namespace's comparator, installed, started and scraped by ``start`` or ``with Comparator(…)``.

    Parameters
    ----------
    lab
        Where it runs.
    namespace
        Whose rollouts it serves; it may be made later.
    environment
        Settings beside the lab's.
    """

    def __init__(self, lab: Lab, namespace: str, environment: Mapping[str, str] | None = None) -> None:
        self._environment = environment or {}
        self._lab = lab
        self._namespace = namespace
        self._address = lab.address()
        self._process: Component | None = None

    def start(self) -> None:
        """Install what is not installed, start what does not run, and return when it serves and is scraped."""
        if self._process is None:
            install(self._lab, self._namespace, self._address)
            file = self._lab.files.file(f"captures-key-{self._namespace}")
            file.write_text(KEY, encoding="utf-8")
            environment = {"DAVYLAMP_CAPTURES_KEY_FILE": str(file), **self._environment}
            self._process = comparator(self._lab, self._namespace, self._address, environment)
        self._process.start()
        # Prometheus takes seconds to know of a target: as long as the process takes to start.
        self._lab.scrape("comparator", scraped(self._namespace, self._address), within=timedelta(seconds=60))
        self._process.wait_ready()

    def kill(self) -> None:
        """End it as a crash would, if it runs."""
        if self._process is not None:
            self._process.kill()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def read(self, path: str) -> tuple[int, str]:
        """Return status and body of what its port for probes, metrics and captured pairs answers.

        Raises
        ------
        OSError, http.client.HTTPException
            If it does not answer.
        """
        return _read(self._address, path)

    def pairs(self, rollout: str) -> int:
        """Return how many pairs of baseline and candidate it has compared since its start.

        Raises
        ------
        OSError, http.client.HTTPException
            If it does not answer.
        """
        _, text = self.read("/metrics")
        wanted = {"rollout": rollout, "pair": "candidate"}
        samples = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
        counts = (
            sample.value
            for sample in samples
            if sample.name == "davylamp_shadow_pairs_total" and wanted.items() <= sample.labels.items()
        )
        return int(sum(counts))


def _ready(address: str) -> bool:
    try:
        status, _ = _read(address, "/readyz")
    except (OSError, http.client.HTTPException):
        return False
    return status == http.HTTPStatus.OK


def _read(address: str, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(address, ADMIN_PORT, timeout=10)
    try:
        connection.request("GET", path, headers={HEADER: KEY})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def _number(port: Mapping[str, Any]) -> int:
    target = port.get("targetPort", port["port"])
    return ADMIN_PORT if target == "admin" else int(target)


def _in_namespace(file: str, namespace: str) -> Iterator[Manifest]:
    """Yield the manifests of a file, written for another namespace, as an overlay would."""
    text = (_MANIFESTS / file).read_text(encoding="utf-8")
    for manifest in yaml.safe_load_all(text):
        cluster_wide = manifest["kind"].startswith("Cluster")
        if not cluster_wide:
            manifest["metadata"]["namespace"] = namespace
        if manifest["metadata"]["name"].endswith(f"-{_EXAMPLE}"):
            manifest["metadata"]["name"] = f"{NAME}-{namespace}"
        for subject in manifest.get("subjects", ()):
            subject["namespace"] = namespace
        yield manifest
