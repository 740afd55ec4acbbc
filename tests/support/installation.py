"""Davylamp installed on a lab from `manifests/`, and its service account's own connection."""

import subprocess
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from e2e.lab import Api, ApiError, Lab
from e2e.lab import layout as at
from e2e.lab.build import collected
from e2e.lab.recipes import MANIFESTS
from e2e.lab.toolchain import beside_python
from e2e.lab.waiting import until

ROOT: Final = Path(__file__).parents[2]
NAMESPACE: Final = "davylamp-system"
ACCOUNT: Final = "davylamp"
_KIND: Final = {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute"}
_ROUTES: Final = "/apis/gateway.networking.k8s.io/v1/namespaces/default/httproutes"


def kustomized(folder: str) -> list[dict[str, Any]]:
    """Return what `kubectl apply -k` of a folder would apply."""
    kubectl = str(beside_python() / "kubectl")
    built = subprocess.run([kubectl, "kustomize", str(ROOT / folder)], check=True, capture_output=True, text=True)
    return list(yaml.safe_load_all(built.stdout))


def install(lab: Lab) -> Api:
    """Install all but the Deployment, wait until the admission policy holds, and return the operator's connection."""
    for manifests in MANIFESTS:
        lab.api.install_crds(collected(manifests))
    objects = kustomized("manifests/default")
    kinds = [manifest for manifest in objects if manifest["kind"] == "CustomResourceDefinition"]
    lab.api.install_crds(kinds)
    for manifest in objects:
        if manifest["kind"] not in {"CustomResourceDefinition", "Deployment"}:
            lab.api.apply(manifest)
    account = connection(lab)
    until(partial(_enforced, lab.api, account), "the admission policy holds", within=timedelta(seconds=60))
    return account


def connection(lab: Lab, account: str = ACCOUNT) -> Api:
    """Return a connection with the rights of a service account of the operator's namespace, by default its own."""
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    return Api(at.API_PORT, lab.authority, lab.api.create(path, request)["status"]["token"])


def _enforced(admin: Api, account: Api) -> bool:
    """Whether the API server has taken the policy up: it does so a moment after the policy was written."""
    probe = f"{_ROUTES}/probe"
    if admin.find(probe) is None:
        admin.create(_ROUTES, {"metadata": {"name": "probe"}, "spec": {"rules": [{}]}} | _KIND)
    try:
        account.merge(f"{probe}?dryRun=All", {"metadata": {"labels": {"probe": "1"}}})
    except ApiError as refusal:
        return "davylamp-routes" in str(refusal)
    return False


@pytest.fixture(scope="session")
def installed_lab(session_lab: Lab) -> Lab:
    """The lab with Davylamp's kinds, roles and admission policy."""
    session_lab.ensure_ready()
    install(session_lab)
    return session_lab


@pytest.fixture
def operator_api(installed_lab: Lab, control_plane: Lab) -> Api:
    """The API server, with the rights of the operator's service account and no more."""
    return connection(control_plane)
