"""`kubectl apply -k manifests/comparator`: what is installed, on a real API server, and with which rights."""

from datetime import timedelta
from typing import Any, Final

import pytest

from davylamp.api.v1alpha1.shadow import FIRST_PORT, LAST_PORT, Comparator
from davylamp.runtime.comparator_settings import COMPARATOR_VARIABLES
from davylamp.shadow.comparator import Ports
from e2e.lab import Api, ApiError, Lab
from e2e.lab import layout as at
from e2e.lab.waiting import until
from tests.manifests.test_rights import everybodys, rights
from tests.support.installation import kustomized

NAMESPACE: Final = "ml"
OBJECTS: Final = kustomized("manifests/comparator")


def one(kind: str) -> dict[str, Any]:
    (found,) = (manifest for manifest in OBJECTS if manifest["kind"] == kind)
    return found


def container() -> dict[str, Any]:
    (found,) = one("Deployment")["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


@pytest.fixture(scope="module")
def comparator_lab(installed_lab: Lab) -> Lab:
    """The lab with the comparator installed, in a namespace that enforces the restricted standard."""
    enforced = {"pod-security.kubernetes.io/enforce": "restricted"}
    installed_lab.api.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": enforced}}
    )
    for manifest in OBJECTS:
        installed_lab.api.apply(manifest)
    return installed_lab


def test_its_pods_meet_the_restricted_standard_that_their_namespace_enforces(comparator_lab: Lab) -> None:
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/davylamp-shadow"
    until(
        lambda: comparator_lab.api.get(path).get("status", {}).get("replicas", 0) >= 1,
        "a pod is admitted",
        within=timedelta(seconds=60),
    )


def test_the_number_of_pods_is_the_autoscalers_alone() -> None:
    target = one("HorizontalPodAutoscaler")["spec"]["scaleTargetRef"]
    assert target == {"apiVersion": "apps/v1", "kind": "Deployment", "name": one("Deployment")["metadata"]["name"]}
    assert "replicas" not in one("Deployment")["spec"]


def test_it_may_read_rollouts_policies_and_endpoints_and_nothing_else(comparator_lab: Lab) -> None:
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/davylamp-shadow/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    token = comparator_lab.api.create(path, request)["status"]["token"]
    api = Api(at.API_PORT, comparator_lab.authority, token)
    reads = {
        (group, resource, verb, "")
        for group, resource in (
            ("davylamp.dev", "modelrollouts"),
            ("davylamp.dev", "rolloutpolicies"),
            ("discovery.k8s.io", "endpointslices"),
        )
        for verb in ("get", "list", "watch")
    }
    of_the_cluster = {("davylamp.dev", "clusterrolloutpolicies", verb, "") for verb in ("get", "list", "watch")}
    common = everybodys(comparator_lab, NAMESPACE)
    assert rights(api, NAMESPACE) - common == reads | of_the_cluster
    assert rights(api, "default") - common == of_the_cluster
    with pytest.raises(ApiError, match="403"):
        api.get("/apis/davylamp.dev/v1alpha1/namespaces/default/modelrollouts")


def test_its_service_has_a_port_for_each_rollout_over_http_and_over_grpc() -> None:
    ports = {port["name"]: port for port in one("Service")["spec"]["ports"]}
    rollouts = range(FIRST_PORT, LAST_PORT + 1)
    assert [ports.pop(f"http-{n}")["port"] for n in range(len(rollouts))] == list(rollouts)
    grpc = [ports.pop(f"grpc-{n}") for n in range(len(rollouts))]
    assert [port["port"] - Ports().grpc_offset for port in grpc] == list(rollouts)
    assert {port["appProtocol"] for port in grpc} == {"kubernetes.io/h2c"}
    assert ports.keys() == {"admin"}
    assert all(port["targetPort"] in {port["port"], "admin"} for port in one("Service")["spec"]["ports"])
    assert one("Service")["metadata"]["name"] == Comparator().name


def test_its_network_policy_lets_in_what_its_service_has() -> None:
    (rule,) = one("NetworkPolicy")["spec"]["ingress"]
    open_to = {n for port in rule["ports"] for n in range(port["port"], port.get("endPort", port["port"]) + 1)}
    assert open_to == {port["port"] for port in one("Service")["spec"]["ports"]}


def test_its_pod_sets_only_what_it_reads_and_its_probes_ask_where_it_listens() -> None:
    values = {variable["name"]: variable.get("value") for variable in container()["env"]}
    assert values.keys() <= COMPARATOR_VARIABLES.keys()
    (join,) = (each for each in kustomized("manifests/labels") if each["kind"] == "Service")
    (open_at,) = join["spec"]["ports"]
    assert values["DAVYLAMP_LABELS_URL"] == f"http://{join['metadata']['name']}:{open_at['port']}"
    (port,) = container()["ports"]
    assert values["DAVYLAMP_LISTEN"] == f"0.0.0.0:{port['containerPort']}"
    assert values["DAVYLAMP_SHADOW_SERVICE"] == one("Service")["metadata"]["name"]
    probes = [container()[f"{kind}Probe"]["httpGet"] for kind in ("liveness", "readiness", "startup")]
    assert [probe["path"] for probe in probes] == ["/healthz", "/readyz", "/healthz"]
    assert {probe["port"] for probe in probes} == {port["name"]}


def test_selectors_find_its_pods_and_not_the_operators() -> None:
    labels = one("Deployment")["spec"]["template"]["metadata"]["labels"]
    selectors = [
        one("Deployment")["spec"]["selector"]["matchLabels"],
        one("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        one("NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
        one("Service")["spec"]["selector"],
    ]
    assert all(selector.items() <= labels.items() for selector in selectors)
    (operator,) = (manifest for manifest in kustomized("manifests/operator") if manifest["kind"] == "Deployment")
    assert operator["spec"]["selector"]["matchLabels"] != selectors[0]
