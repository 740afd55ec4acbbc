"""`kubectl apply -k manifests/default` on a real API server."""

import subprocess
from datetime import timedelta
from typing import Any

import pytest

from davylamp.api.v1alpha1.crdgen import crd
from davylamp.api.v1alpha1.kinds import KINDS
from davylamp.runtime.settings import VARIABLES
from e2e.lab import Lab
from e2e.lab.waiting import until
from tests.support.installation import NAMESPACE, ROOT, kustomized

DEFAULT = kustomized("manifests/default")


def one(kind: str) -> dict[str, Any]:
    (found,) = (manifest for manifest in DEFAULT if manifest["kind"] == kind)
    return found


def container() -> dict[str, Any]:
    (found,) = one("Deployment")["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def kubectl(lab: Lab, *words: str) -> str:
    done = subprocess.run(
        ["kubectl", *words], env=lab.environment(), cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_the_crds_are_the_generated_ones() -> None:
    applied = {manifest["metadata"]["name"]: manifest["spec"] for manifest in DEFAULT if "Custom" in manifest["kind"]}
    assert applied == {kind.crd_name: crd(kind)["spec"] for kind in KINDS}


@pytest.mark.parametrize("how", [(), ("--server-side", "--force-conflicts")], ids=["client-side", "server-side"])
def test_one_command_installs_everything_and_again_changes_nothing(
    installed_lab: Lab, control_plane: Lab, how: tuple[str, ...]
) -> None:
    kubectl(control_plane, "apply", *how, "-k", "manifests/default")
    again = kubectl(control_plane, "apply", *how, "-k", "manifests/default")
    assert len(again.splitlines()) == len(DEFAULT)
    assert "Warning" not in again
    kubectl(control_plane, "apply", *how, "-k", "manifests/samples")


def test_the_pods_meet_the_restricted_standard_that_their_namespace_enforces(
    installed_lab: Lab, control_plane: Lab
) -> None:
    assert one("Namespace")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    kubectl(control_plane, "apply", "--server-side", "--force-conflicts", "-k", "manifests/default")
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/davylamp"
    until(
        lambda: control_plane.api.get(path)["status"].get("replicas") == 2,
        "both pods are admitted",
        within=timedelta(seconds=60),
    )


def test_the_pod_sets_only_what_the_operator_reads() -> None:
    assert {variable["name"] for variable in container()["env"]} <= VARIABLES.keys()


def test_the_probes_ask_what_the_operator_serves_where_it_listens() -> None:
    (port,) = container()["ports"]
    listen = next(variable["value"] for variable in container()["env"] if variable["name"] == "DAVYLAMP_LISTEN")
    assert listen == f"0.0.0.0:{port['containerPort']}"
    paths = {container()[f"{kind}Probe"]["httpGet"]["path"] for kind in ("liveness", "readiness", "startup")}
    assert paths == {"/livez", "/readyz"}
    source = (ROOT / "operator/davylamp/runtime/web.py").read_text(encoding="utf-8")
    assert all(f'"{path}"' in source for path in paths)


def test_selectors_find_the_pods() -> None:
    labels = one("Deployment")["spec"]["template"]["metadata"]["labels"]
    selectors = [
        one("Deployment")["spec"]["selector"]["matchLabels"],
        one("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        one("NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
        one("Service")["spec"]["selector"],
    ]
    assert all(selector.items() <= labels.items() for selector in selectors)


def test_the_policy_is_about_the_service_account_that_the_pod_runs_with() -> None:
    account = one("Deployment")["spec"]["template"]["spec"]["serviceAccountName"]
    (condition,) = one("ValidatingAdmissionPolicy")["spec"]["matchConditions"]
    assert f"'system:serviceaccount:{NAMESPACE}:{account}'" in condition["expression"]
