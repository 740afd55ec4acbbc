"""Install Davylamp from `manifests/`, as `kubectl apply -k manifests/default` does."""

from __future__ import annotations

import subprocess
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import yaml

from e2e.lab import Api, ApiError, Lab, LabError
from e2e.lab import layout as at
from e2e.lab.toolchain import beside_python
from e2e.lab.waiting import until
from e2e.stage.controller import NAMESPACE, SERVICE_ACCOUNT

Manifest = dict[str, Any]

_DEFAULT: Final = Path(__file__).parents[2] / "manifests" / "default"
_CRD: Final = "CustomResourceDefinition"
#: The lab has no kubelet: the operator runs as a process with the rights that its pod would have.
_LEFT_OUT: Final = frozenset({_CRD, "Deployment"})
_POLICY_PATIENCE: Final = timedelta(seconds=60)


def install(lab: Lab) -> None:
    """Install kinds, roles and admission policy, and wait until the API server goes by the policy."""
    objects = _kustomized()
    lab.api.install_crds([manifest for manifest in objects if manifest["kind"] == _CRD])
    for manifest in objects:
        if manifest["kind"] not in _LEFT_OUT:
            lab.api.apply(manifest)


def guard(lab: Lab, route: str) -> None:
    """Wait until the API server refuses what the service account may not do to a route, which takes a moment.

    Parameters
    ----------
    lab
        Where Davylamp is installed.
    route
        Path of a route at the API server.
    """
    account = _connection(lab)
    until(partial(_refused, account, route), "the admission policy holds", within=_POLICY_PATIENCE)


def _kustomized() -> list[Manifest]:
    command = [str(beside_python() / "kubectl"), "kustomize", str(_DEFAULT)]
    built = subprocess.run(command, check=False, capture_output=True, text=True)
    if built.returncode:
        raise LabError(f"{' '.join(command)} failed: {built.stderr.strip()}")
    return list(yaml.safe_load_all(built.stdout))


def _connection(lab: Lab) -> Api:
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{SERVICE_ACCOUNT}/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}}
    return Api(at.API_PORT, lab.authority, lab.api.create(path, request)["status"]["token"])


def _refused(account: Api, route: str) -> bool:
    try:
        account.merge(f"{route}?dryRun=All", {"metadata": {"labels": {"probe": "1"}}})
    except ApiError as refusal:
        return "davylamp-routes" in str(refusal)
    return False
