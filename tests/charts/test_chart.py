"""The Helm chart: the same objects as the kustomization, and values that do what they say."""

import json
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from e2e.lab.build import build, executable
from e2e.lab.recipes import program
from tests.support.installation import NAMESPACE, ROOT, kustomized

CHART: Final = ROOT / "charts/davylamp"
Manifest = dict[str, Any]


@cache
def helm() -> str:
    build([program("helm")])
    return str(executable(program("helm")))


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([helm(), *words], capture_output=True, text=True, check=False)


def rendered(*sets: str, namespace: str = NAMESPACE) -> dict[str, Manifest]:
    """Return the chart's objects by kind, namespace and name."""
    values = [word for value in sets for word in ("--set", value)]
    done = run("template", "davylamp", str(CHART), "--namespace", namespace, "--kube-version", "1.37.2", *values)
    assert done.returncode == 0, done.stderr
    return by_key([manifest for manifest in yaml.safe_load_all(done.stdout) if manifest])


def by_key(manifests: list[Manifest]) -> dict[str, Manifest]:
    keyed = {f"{m['kind']}/{m['metadata'].get('namespace', '')}/{m['metadata']['name']}": m for m in manifests}
    assert len(keyed) == len(manifests)
    return keyed


def refusal(*sets: str) -> str:
    values = [word for value in sets for word in ("--set", value)]
    done = run("template", "davylamp", str(CHART), "--kube-version", "1.37.2", *values)
    assert done.returncode != 0
    return done.stderr


def without_marks_of_the_installer(manifest: Manifest) -> Manifest:
    fresh: Manifest = json.loads(json.dumps(manifest))
    fresh["metadata"].get("labels", {}).pop("app.kubernetes.io/part-of", None)
    fresh["metadata"].get("annotations", {}).pop("helm.sh/resource-policy", None)
    for name in ("labels", "annotations"):
        if not fresh["metadata"].get(name):
            fresh["metadata"].pop(name, None)
    if fresh["kind"] == "Deployment":
        fresh["spec"]["template"]["spec"]["containers"][0].pop("imagePullPolicy", None)
    return fresh


def pod(manifests: dict[str, Manifest]) -> Manifest:
    spec: Manifest = manifests[f"Deployment/{NAMESPACE}/davylamp"]["spec"]["template"]["spec"]
    return spec


def test_the_templates_are_the_generated_ones() -> None:
    done = subprocess.run(
        [sys.executable, "manifests/chart.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_chart_has_the_version_of_the_distribution() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert (chart["version"], str(chart["appVersion"])) == (version, version)


def test_helm_finds_nothing_to_object_to() -> None:
    done = run("lint", str(CHART), "--strict", "--kube-version", "1.37.2")
    assert done.returncode == 0, done.stdout


def test_the_chart_installs_what_the_kustomization_installs() -> None:
    chart = {key: without_marks_of_the_installer(manifest) for key, manifest in rendered().items()}
    plain = {key: without_marks_of_the_installer(m) for key, m in by_key(kustomized("manifests/default")).items()}
    namespace = plain.pop(f"Namespace//{NAMESPACE}")
    assert namespace, "Helm makes the namespace by --create-namespace"
    assert chart == plain


def test_a_comparator_is_what_its_kustomization_installs_in_each_namespace() -> None:
    default = rendered()
    added = {
        key: without_marks_of_the_installer(manifest)
        for key, manifest in rendered("comparator.enabled=true", "comparator.namespaces={ml}").items()
        if key not in default
    }
    plain = by_key(kustomized("manifests/comparator"))
    assert added == {key: without_marks_of_the_installer(manifest) for key, manifest in plain.items()}
    two = rendered("comparator.enabled=true", "comparator.namespaces={ml,vision}")
    again = {key.replace("/vision/", "/ml/").removesuffix("-vision") for key in two if "vision" in key}
    assert again == {key.removesuffix("-ml") for key in added if "ml" in key.split("/")[1] or key.endswith("-ml")}
    assert len(two) == len(default) + 2 * len(added) - 1, "they share the ClusterRole"


def test_a_comparator_takes_what_clusters_need() -> None:
    sets = ("priorityClassName=low", "podLabels.team=platform", "image.tag=1.2.3", "comparator.maxReplicas=20")
    more = ("comparator.extraEnv[0].name=DAVYLAMP_RESOLVE_ENDPOINTS", "comparator.extraEnv[0].value=x")
    found = rendered("comparator.enabled=true", "comparator.namespaces={vision}", *sets, *more)
    template = found["Deployment/vision/davylamp-shadow"]["spec"]["template"]
    assert template["metadata"]["labels"]["team"] == "platform"
    assert template["spec"]["priorityClassName"] == "low"
    assert template["spec"]["containers"][0]["image"] == "davylamp:1.2.3"
    assert template["spec"]["containers"][0]["env"][-1] == {"name": "DAVYLAMP_RESOLVE_ENDPOINTS", "value": "x"}
    assert found["HorizontalPodAutoscaler/vision/davylamp-shadow"]["spec"]["maxReplicas"] == 20
    off = rendered("comparator.enabled=true", "comparator.namespaces={vision}", "networkPolicy.enabled=false")
    assert not [key for key in off if key.startswith("NetworkPolicy")]


def test_another_namespace_is_named_wherever_it_matters() -> None:
    elsewhere = rendered(namespace="platform")
    assert NAMESPACE not in yaml.safe_dump_all(elsewhere.values())
    (condition,) = elsewhere["ValidatingAdmissionPolicy//davylamp-routes"]["spec"]["matchConditions"]
    assert "'system:serviceaccount:platform:davylamp'" in condition["expression"]


def test_a_digest_wins_over_the_tag_and_the_tag_over_the_apps_version() -> None:
    digest = "sha256:" + "5e884898" * 8
    images = [
        pod(rendered(*sets))["containers"][0]["image"]
        for sets in ((), ("image.tag=1.2.3",), ("image.repository=registry.local/d", f"image.digest={digest}"))
    ]
    assert images == ["davylamp:0.1.0", "davylamp:1.2.3", f"registry.local/d@{digest}"]


def test_crds_are_kept_and_can_be_left_out() -> None:
    crd = "CustomResourceDefinition//modelrollouts.davylamp.dev"
    assert rendered()[crd]["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert "annotations" not in rendered("crds.keep=false")[crd]["metadata"]
    assert crd not in rendered("crds.enabled=false")


def test_with_namespaces_to_watch_the_operator_has_rights_in_these_alone() -> None:
    some = rendered("watchNamespaces={ml,vision}", "secretsNamespaces={ml}")
    assert "ClusterRoleBinding//davylamp" not in some
    bindings = {key for key in some if key.startswith("RoleBinding/")}
    assert bindings == {
        f"RoleBinding/{NAMESPACE}/davylamp",
        "RoleBinding/ml/davylamp",
        "RoleBinding/vision/davylamp",
        "RoleBinding/ml/davylamp-secrets",
    }
    for key in bindings:
        (subject,) = some[key]["subjects"]
        assert subject == {"kind": "ServiceAccount", "name": "davylamp", "namespace": NAMESPACE}
    environment = {v["name"]: v.get("value") for v in pod(some)["containers"][0]["env"]}
    assert environment["DAVYLAMP_WATCH_NAMESPACES"] == "ml,vision"


def test_what_can_be_turned_off_is_not_there() -> None:
    off = rendered("podDisruptionBudget.enabled=false", "networkPolicy.enabled=false")
    kinds = {manifest["kind"] for manifest in off.values()}
    assert not kinds & {"PodDisruptionBudget", "NetworkPolicy", "ServiceMonitor"}
    on = rendered("serviceMonitor.enabled=true", "serviceMonitor.labels.team=platform")
    monitor = on[f"ServiceMonitor/{NAMESPACE}/davylamp"]
    assert monitor["metadata"]["labels"] == {"team": "platform"}
    labels = on[f"Service/{NAMESPACE}/davylamp-metrics"]["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()


def test_the_pod_takes_what_clusters_need(tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    wanted = {
        "imagePullSecrets": [{"name": "registry"}],
        "nodeSelector": {"pool": "system"},
        "tolerations": [{"key": "system", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "priorityClassName": "system-cluster-critical",
    }
    more = {"podLabels": {"team": "platform"}, "podAnnotations": {"note": "x"}, "replicas": 3}
    more["extraEnv"] = [{"name": "DAVYLAMP_KOPF_HINTS", "value": "false"}]
    values.write_text(yaml.safe_dump(wanted | more))
    done = run("template", "davylamp", str(CHART), "-n", NAMESPACE, "--kube-version", "1.37.2", "-f", str(values))
    assert done.returncode == 0, done.stderr
    manifests = by_key([manifest for manifest in yaml.safe_load_all(done.stdout) if manifest])
    assert {name: pod(manifests)[name] for name in wanted} == wanted
    deployment = manifests[f"Deployment/{NAMESPACE}/davylamp"]["spec"]
    assert deployment["replicas"] == 3
    assert deployment["template"]["metadata"]["annotations"] == {"note": "x"}
    assert deployment["template"]["metadata"]["labels"]["team"] == "platform"
    assert pod(manifests)["containers"][0]["env"][-1] == {"name": "DAVYLAMP_KOPF_HINTS", "value": "false"}


@pytest.mark.parametrize(
    ("value", "word"),
    [
        ("replicas=0", "replicas"),
        ("replicas=two", "replicas"),
        ("image.pullPolicy=Sometimes", "image"),
        ("image.digest=5e88", "image"),
        ("log.format=xml", "log"),
        ("log.level=debug", "log"),
        ("watchNamespaces={ml,ml}", "watchNamespaces"),
        ("watchNamespaces={My_Space}", "watchNamespaces"),
        ("serviceMonitor.interval=soon", "serviceMonitor"),
        ("crds.enabled=maybe", "crds"),
        ("extraEnv[0].value=x", "extraEnv"),
        ("replica=3", "replica"),
        ("comparator.enabled=true", "comparator"),
        ("comparator.minReplicas=0", "comparator"),
    ],
)
def test_a_wrong_value_is_refused_before_anything_is_installed(value: str, word: str) -> None:
    assert word in refusal(value)


def test_an_older_kubernetes_is_refused() -> None:
    done = run("template", "davylamp", str(CHART), "--kube-version", "1.29.0")
    assert "chart requires kubeVersion: >=1.30.0-0" in done.stderr


def test_every_value_is_in_the_schema() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    assert values.keys() | {"global"} == schema["properties"].keys()
