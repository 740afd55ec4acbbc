"""`davylamp diff NAME` against a real API server and a real comparator: who may see captured pairs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from davylamp.shadow.captures_key import SECRET
from e2e.lab import Lab
from e2e.stage.comparator import KEY, NAME, comparator, install
from tests.davylamp.cli.calling import Ended, call
from tests.davylamp.runtime.mirroring import rollout, status

Object = dict[str, Any]
#: All but the Secret.
RULES: Final = [
    {"apiGroups": ["davylamp.dev"], "resources": ["modelrollouts"], "verbs": ["get"]},
    {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list"]},
    {"apiGroups": [""], "resources": ["pods/proxy"], "verbs": ["get"]},
]
MAY_READ: Final = {"apiGroups": [""], "resources": ["secrets"], "resourceNames": [SECRET], "verbs": ["get"]}
RBAC: Final = "rbac.authorization.k8s.io"


class User:
    """Somebody with an account and a role in a namespace."""

    def __init__(self, lab: Lab, namespace: str) -> None:
        self._lab, self._namespace = lab, namespace
        self._where = {"name": "reader", "namespace": namespace}
        self._apply("v1", "ServiceAccount")
        self.may(*RULES)
        subject = {"kind": "ServiceAccount", **self._where}
        role = {"apiGroup": RBAC, "kind": "Role", "name": "reader"}
        self._apply(f"{RBAC}/v1", "RoleBinding", roleRef=role, subjects=[subject])

    def may(self, *rules: Object) -> None:
        self._apply(f"{RBAC}/v1", "Role", rules=list(rules))

    def _apply(self, version: str, kind: str, **more: Any) -> None:
        self._lab.api.apply({"apiVersion": version, "kind": kind, "metadata": self._where, **more})

    def set_key(self, key: str) -> None:
        """Make or change the Secret."""
        where = {"name": SECRET, "namespace": self._namespace}
        self._lab.api.apply({"apiVersion": "v1", "kind": "Secret", "metadata": where, "stringData": {"key": key}})

    def looks(self, capsys: pytest.CaptureFixture[str]) -> Ended:
        """Look at the pairs."""
        kubeconfig = str(self._lab.kubeconfig_for(self._namespace, "reader"))
        return call(capsys, "diff", "credit", "-n", self._namespace, "--kubeconfig", kubeconfig)


def stand_in(lab: Lab, namespace: str, address: str) -> None:
    """Make a pod at the comparator's address, which the lab has nobody to run, and let its Service lead to that."""
    spec = {"serviceAccountName": NAME, "containers": [{"name": "comparator", "image": "davylamp"}]}
    pods = f"/api/v1/namespaces/{namespace}/pods"
    lab.api.create(pods, {"metadata": {"name": f"{NAME}-0"}, "spec": spec})
    running = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}
    lab.api.merge(f"{pods}/{NAME}-0/status", {"status": running})
    slices = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
    (found,) = lab.api.get(slices)["items"]
    endpoint = {"addresses": [address], "targetRef": {"kind": "Pod", "name": f"{NAME}-0", "namespace": namespace}}
    lab.api.merge(f"{slices}/{found['metadata']['name']}", {"endpoints": [endpoint]})


@pytest.fixture
def user(installed_lab: Lab, control_plane: Lab, lab_namespace: str, tmp_path: Path) -> Iterator[User]:
    lab = control_plane
    manifest = rollout("credit", lab_namespace, shadow={"capture": {"pairs": 5}})
    for mark in ("uid", "creationTimestamp", "resourceVersion", "generation"):
        del manifest["metadata"][mark]
    path = f"/apis/davylamp.dev/v1alpha1/namespaces/{lab_namespace}/modelrollouts/credit"
    lab.api.apply(manifest)
    lab.api.merge(f"{path}/status", {"status": status(lab.api.get(path))})
    address = lab.address()
    install(lab, lab_namespace, address)
    (tmp_path / "key").write_text(KEY, encoding="utf-8")
    process = comparator(lab, lab_namespace, address, {"DAVYLAMP_CAPTURES_KEY_FILE": str(tmp_path / "key")})
    stand_in(lab, lab_namespace, address)
    process.start()
    try:
        process.wait_ready()
        yield User(lab, lab_namespace)
    finally:
        process.kill()
        lab.api.delete(path)
        lab.api.delete(f"/apis/{RBAC}/v1/clusterrolebindings/{NAME}-{lab_namespace}")


def test_who_may_read_the_secret_sees_the_pairs_and_nobody_else(user: User, capsys: pytest.CaptureFixture[str]) -> None:
    user.set_key(KEY)
    refused = user.looks(capsys)
    assert refused.code == 5
    assert f"pairs are shown to those who may get the Secret {SECRET}" in refused.err

    user.may(*RULES, MAY_READ)
    shown = user.looks(capsys)
    assert shown.code == 0, shown.err
    assert shown.err.startswith("0 disagreeing pairs kept by 1 replica\n")

    user.set_key("another-key-than-the-comparator's")
    wrong = user.looks(capsys)
    assert wrong.code == 5
    assert f"is not that of the Secret {SECRET}" in wrong.err


def test_who_finds_no_secret_is_told_how_to_make_one(user: User, capsys: pytest.CaptureFixture[str]) -> None:
    user.may(*RULES, MAY_READ)
    missing = user.looks(capsys)
    assert missing.code == 5
    assert f"kubectl create secret generic {SECRET} --namespace" in missing.err


def test_variants_with_tls_are_called_where_their_certificate_is_vouched_for(
    control_plane: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "requests.jsonl").write_text('{"method": "GET", "path": "/version"}\n' * 3, encoding="utf-8")
    url = control_plane.api_url
    options = ["--baseline", url, "--candidate", url, "--requests", str(tmp_path / "requests.jsonl")]
    trusted = call(capsys, "diff", *options, "--ca-file", str(control_plane.authority), "--max-disagreement", "50%")
    assert "0 of 3 pairs disagree" in trusted.out, trusted.err
    unknown = call(capsys, "diff", *options)
    assert (unknown.code, "BaselineFailed: 3" in unknown.out) == (2, True)
