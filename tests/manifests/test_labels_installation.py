"""`kubectl apply -k manifests/labels`: what is installed, on a real API server."""

from typing import Any, Final

import pytest

from davylamp.runtime.labels_settings import LABELS_VARIABLES, labels_settings
from e2e.lab import ApiError, Lab
from tests.support.installation import kustomized

NAMESPACE: Final = "ml"
OBJECTS: Final = kustomized("manifests/labels")


def one(kind: str) -> dict[str, Any]:
    (found,) = (manifest for manifest in OBJECTS if manifest["kind"] == kind)
    return found


def pod() -> dict[str, Any]:
    found: dict[str, Any] = one("StatefulSet")["spec"]["template"]["spec"]
    return found


def container() -> dict[str, Any]:
    (found,) = pod()["containers"]
    assert isinstance(found, dict)
    return found


@pytest.fixture(scope="module")
def labels_lab(installed_lab: Lab) -> Lab:
    """The lab with the service installed, in a namespace that enforces the restricted standard."""
    enforced = {"pod-security.kubernetes.io/enforce": "restricted"}
    installed_lab.api.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": enforced}}
    )
    for manifest in OBJECTS:
        installed_lab.api.apply(manifest)
    return installed_lab


def admit(lab: Lab, spec: dict[str, Any]) -> None:
    """Ask the API server whether it would admit the pod that the StatefulSet makes; the lab has nobody who makes it."""
    claims = [claim["metadata"]["name"] for claim in one("StatefulSet")["spec"]["volumeClaimTemplates"]]
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": f"{name}-davylamp-labels-0"}} for name in claims]
    made = {**spec, "volumes": [*spec["volumes"], *volumes]}
    path = f"/api/v1/namespaces/{NAMESPACE}/pods?dryRun=All"
    lab.api.create(path, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "davylamp-labels-0"}, "spec": made})


def test_its_pod_meets_the_restricted_standard_that_its_namespace_enforces(labels_lab: Lab) -> None:
    admit(labels_lab, pod())
    with pytest.raises(ApiError, match="violates PodSecurity"):
        admit(labels_lab, {**pod(), "hostNetwork": True})


def test_it_has_no_way_to_the_api_server() -> None:
    kinds = {manifest["kind"] for manifest in OBJECTS}
    assert not kinds & {"Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"}
    assert pod()["automountServiceAccountToken"] is False
    assert one("ServiceAccount")["automountServiceAccountToken"] is False


def test_its_pod_sets_what_the_service_reads_and_mounts_what_that_names() -> None:
    values = {variable["name"]: variable["value"] for variable in container()["env"]}
    assert values.keys() <= LABELS_VARIABLES.keys()
    settings = labels_settings(values)
    mounts = {mount["mountPath"]: mount.get("readOnly", False) for mount in container()["volumeMounts"]}
    assert mounts == {"/data": False, "/tmp": False, "/etc/davylamp-labels": True}  # noqa: S108 - in the pod
    assert settings.database == "sqlite:////data/labels.db"
    assert {str(file.parent) for file in (settings.tokens, settings.signing_keys) if file} == {"/etc/davylamp-labels"}
    (claim,) = one("StatefulSet")["spec"]["volumeClaimTemplates"]
    assert {claim["metadata"]["name"], *(volume["name"] for volume in pod()["volumes"])} == {
        mount["name"] for mount in container()["volumeMounts"]
    }


def test_a_database_in_a_file_has_one_replica() -> None:
    assert one("StatefulSet")["spec"]["replicas"] == 1


def test_its_probes_its_service_and_its_network_policy_lead_to_where_it_listens() -> None:
    (port,) = container()["ports"]
    values = {variable["name"]: variable["value"] for variable in container()["env"]}
    assert values["DAVYLAMP_LISTEN"] == f"0.0.0.0:{port['containerPort']}"
    probes = [container()[f"{kind}Probe"]["httpGet"] for kind in ("liveness", "readiness", "startup")]
    assert [probe["path"] for probe in probes] == ["/healthz", "/readyz", "/healthz"]
    assert {probe["port"] for probe in probes} == {port["name"]}
    (served,) = one("Service")["spec"]["ports"]
    assert served["targetPort"] == port["name"]
    (rule,) = one("NetworkPolicy")["spec"]["ingress"]
    assert rule["ports"] == [{"protocol": "TCP", "port": port["containerPort"]}]


def test_selectors_find_its_pod_and_no_other_of_davylamps() -> None:
    labels = one("StatefulSet")["spec"]["template"]["metadata"]["labels"]
    selectors = [
        one("StatefulSet")["spec"]["selector"]["matchLabels"],
        one("NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
        one("Service")["spec"]["selector"],
    ]
    assert all(selector.items() <= labels.items() for selector in selectors)
    for folder in ("operator", "comparator"):
        (other,) = (each for each in kustomized(f"manifests/{folder}") if each["kind"] == "Deployment")
        assert other["spec"]["selector"]["matchLabels"] != selectors[0]


def test_its_end_is_given_the_time_that_it_takes() -> None:
    """Ten seconds for answers under way, thirty for the longest statement."""
    assert pod()["terminationGracePeriodSeconds"] >= 40
