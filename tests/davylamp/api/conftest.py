"""The resources on a real API server."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client, config, watch

from davylamp.api.v1alpha1.kinds import GROUP, KINDS, MODEL_ROLLOUT, VERSION, Scope
from e2e.lab import Lab
from tests.davylamp.api.manifests import CRDS, Manifest

_KINDS = {kind.name: kind for kind in KINDS}


@dataclass(frozen=True, slots=True)
class Cluster:
    """A namespace on a real API server that knows Davylamp's kinds."""

    kubeconfig: Path
    namespace: str
    objects: Any

    def create(self, manifest: Manifest, *, dry_run: bool = True) -> Manifest:
        """Create an object, refusing unknown fields as kubectl does; raises ApiException with the server's words."""
        kind = _KINDS[manifest["kind"]]
        options: dict[str, Any] = {"field_validation": "Strict"} | ({"dry_run": "All"} if dry_run else {})
        if kind.scope is Scope.CLUSTER:
            address: tuple[str, ...] = (GROUP, VERSION, kind.plural)
            body, send = manifest, self.objects.create_cluster_custom_object
        else:
            address = (GROUP, VERSION, self.namespace, kind.plural)
            body = manifest | {"metadata": manifest["metadata"] | {"namespace": self.namespace}}
            send = self.objects.create_namespaced_custom_object
        created: Manifest = send(*address, body, **options)
        return created

    def write_status(self, rollout: Manifest, status: Manifest | None) -> Manifest:
        """Replace the status of a ModelRollout as it is now; None leaves it out."""
        address = (GROUP, VERSION, self.namespace, MODEL_ROLLOUT.plural, rollout["metadata"]["name"])
        body: Manifest = self.objects.get_namespaced_custom_object(*address)
        body.pop("status", None)
        if status is not None:
            body["status"] = status
        written: Manifest = self.objects.replace_namespaced_custom_object_status(*address, body)
        return written


@pytest.fixture(scope="session")
def kubeconfig(session_lab: Lab) -> Path:
    session_lab.ensure_ready()
    return session_lab.kubeconfig


@pytest.fixture(scope="session")
def connection(kubeconfig: Path) -> Iterator[client.ApiClient]:
    """A connection to the API server, on which the CRDs are installed and served."""
    with config.new_client_from_config(str(kubeconfig)) as connection:
        definitions = client.ApiextensionsV1Api(connection)
        for path in sorted(CRDS.glob("*.yaml")):
            install(definitions, yaml.safe_load(path.read_text()))
        yield connection


def install(definitions: client.ApiextensionsV1Api, manifest: Manifest) -> None:
    """Apply a CustomResourceDefinition and return when the API server serves it."""
    name = manifest["metadata"]["name"]
    definitions.patch_custom_resource_definition(
        name, manifest, field_manager="tests", force=True, _content_type="application/apply-patch+yaml"
    )
    events = watch.Watch().stream(
        definitions.list_custom_resource_definition, field_selector=f"metadata.name={name}", timeout_seconds=60
    )
    for event in events:
        if any(c.type == "Established" and c.status == "True" for c in event["object"].status.conditions or ()):
            return
    raise TimeoutError(f"{name} was not served within 60 s")


@pytest.fixture(scope="module")
def cluster(kubeconfig: Path, connection: client.ApiClient) -> Iterator[Cluster]:
    """A namespace for the tests of a module; nothing is left of it for an operator that other tests run."""
    core, objects = client.CoreV1Api(connection), client.CustomObjectsApi(connection)
    namespace = f"api-{uuid.uuid4().hex[:8]}"
    core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=namespace)))
    yield Cluster(kubeconfig, namespace, objects)
    for kind in KINDS:
        if kind.scope is Scope.NAMESPACED:
            objects.delete_collection_namespaced_custom_object(GROUP, VERSION, namespace, kind.plural)
    core.delete_namespace(namespace)
