"""The same environment in kind, for machines with Docker: `up --kind`, `exec --kind`, `down --kind`.

Contour and Envoy run as their own manifests say, from the module that the local lab builds Contour from; Prometheus
runs in the version that the local lab builds. The addresses on the machine are those that the local lab has inside.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

import yaml

from e2e.lab import layout as at
from e2e.lab import rendering
from e2e.lab.build import collected
from e2e.lab.failure import LabError
from e2e.lab.layout import Layout
from e2e.lab.places import lab_folder
from e2e.lab.recipes import KIND_MANIFESTS, program
from e2e.lab.toolchain import wheel_program

Object = dict[str, Any]

_NODE_PORT: Final = 30090
_MONITORING: Final = "monitoring"
_PATIENCE: Final = "300s"


def up(name: str, scrape_interval: timedelta) -> str:
    """Make the cluster if it is absent, install what is missing, wait until it serves; return how to use it.

    Raises
    ------
    LabError
        Docker or kind is missing or does not work, or a part did not become ready.
    """
    files = _files(name)
    _check_tools()
    if _cluster(name) not in _run(["kind", "get", "clusters"]).split():
        files.folder.mkdir(parents=True, exist_ok=True)
        _run(
            ["kind", "create", "cluster", "--name", _cluster(name), "--config", "-", "--wait", _PATIENCE],
            given=yaml.safe_dump(cluster_configuration()),
            kubeconfig=files,
        )
    _run(["kind", "export", "kubeconfig", "--name", _cluster(name)], kubeconfig=files)
    objects = [*contour_objects(collected(KIND_MANIFESTS)), *prometheus_objects(scrape_interval)]
    _apply(files, [thing for thing in objects if thing["kind"] in {"CustomResourceDefinition", "Namespace"}])
    _kubectl(files, "wait", "--for=condition=Established", "crd", "--all", f"--timeout={_PATIENCE}")
    _apply(files, [thing for thing in objects if thing["kind"] not in {"CustomResourceDefinition", "Namespace"}])
    _apply(files, rendering.gateway_objects())
    for namespace, workload in (
        ("projectcontour", "deployment/contour"),
        ("projectcontour", "daemonset/envoy"),
        (_MONITORING, "deployment/prometheus"),
    ):
        _kubectl(files, "rollout", "status", workload, f"--namespace={namespace}", f"--timeout={_PATIENCE}")
    gateway = ("gateway/" + rendering.GATEWAY_NAME, f"--namespace={rendering.GATEWAY_NAMESPACE}")
    _kubectl(files, "wait", "--for=condition=Programmed", *gateway, f"--timeout={_PATIENCE}")
    return (
        f"The lab {name!r} is up in kind.\n\n  KUBECONFIG   {files.kubeconfig}\n"
        f"  Gateway      http://127.0.0.1:{at.GATEWAY_PORT}\n  Prometheus   http://127.0.0.1:{at.PROMETHEUS_PORT}"
    )


def down(name: str) -> None:
    """Delete the cluster and what is kept of it."""
    _check_tools()
    _run(["kind", "delete", "cluster", "--name", _cluster(name)], kubeconfig=_files(name))
    shutil.rmtree(_files(name).folder, ignore_errors=True)


def environment(name: str) -> dict[str, str]:
    """Return the environment of a command that is to use the cluster.

    Raises
    ------
    LabError
        It is down.
    """
    files = _files(name)
    if not files.kubeconfig.exists():
        raise LabError(f"the lab {name!r} is down in kind: `python -m e2e.lab up --kind` starts it")
    path = os.pathsep.join([str(wheel_program("kubectl").parent), os.environ.get("PATH", os.defpath)])
    return {**os.environ, "KUBECONFIG": str(files.kubeconfig), "PATH": path}


def cluster_configuration() -> Object:
    """Return kind's configuration: one node, whose gateway and Prometheus appear at the machine's loopback address."""
    ports = ((80, at.GATEWAY_PORT), (_NODE_PORT, at.PROMETHEUS_PORT))
    mappings = [
        {"containerPort": inside, "hostPort": outside, "listenAddress": "127.0.0.1"} for inside, outside in ports
    ]
    return {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "nodes": [{"role": "control-plane", "extraPortMappings": mappings}],
    }


def contour_objects(manifests: Sequence[Object]) -> list[Object]:
    """Return Contour's own manifests, but serving the lab's Gateway instead of theirs."""
    kept = [dict(thing) for thing in manifests if thing["kind"] not in {"Gateway", "GatewayClass"}]
    for thing in kept:
        if thing["kind"] == "ConfigMap" and thing["metadata"]["name"] == "contour":
            thing["data"] = {"contour.yaml": rendering.contour()}
    return kept


def prometheus_objects(scrape_interval: timedelta) -> list[Object]:
    """Return Prometheus: it scrapes Envoy, and each pod that says `prometheus.io/scrape: "true"`."""
    labels = {"app": "prometheus"}
    metadata = {"name": "prometheus", "namespace": _MONITORING, "labels": labels}
    account = {"kind": "ServiceAccount", "name": "prometheus", "namespace": _MONITORING}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "lab-prometheus"}
    watched = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _MONITORING}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": role["name"]},
            "rules": [watched],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": role["name"]},
            "roleRef": role,
            "subjects": [account],
        },
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata,
            "data": {"prometheus.yml": yaml.safe_dump(_prometheus_configuration(scrape_interval), sort_keys=False)},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": metadata,
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": _prometheus_pod()},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {
                "type": "NodePort",
                "selector": labels,
                "ports": [{"name": "http", "port": at.PROMETHEUS_PORT, "nodePort": _NODE_PORT}],
            },
        },
    ]


def _prometheus_pod() -> Object:
    return {
        "serviceAccountName": "prometheus",
        "securityContext": {"runAsNonRoot": True, "runAsUser": 65534, "fsGroup": 65534},
        "containers": [
            {
                "name": "prometheus",
                "image": f"prom/prometheus:{release(program('prometheus').version)}",
                "args": [
                    "--config.file=/etc/prometheus/prometheus.yml",
                    "--storage.tsdb.path=/prometheus",
                    "--web.enable-lifecycle",
                ],
                "ports": [{"name": "http", "containerPort": at.PROMETHEUS_PORT}],
                "readinessProbe": {"httpGet": {"path": "/-/ready", "port": "http"}, "periodSeconds": 1},
                "volumeMounts": [
                    {"name": "configuration", "mountPath": "/etc/prometheus"},
                    {"name": "data", "mountPath": "/prometheus"},
                ],
            }
        ],
        "volumes": [{"name": "configuration", "configMap": {"name": "prometheus"}}, {"name": "data", "emptyDir": {}}],
    }


def _prometheus_configuration(scrape_interval: timedelta) -> Object:
    pods = [{"role": "pod"}]
    identity = [
        {"source_labels": ["__meta_kubernetes_namespace"], "target_label": "namespace"},
        {"source_labels": ["__meta_kubernetes_pod_name"], "target_label": "pod"},
    ]
    annotation = "__meta_kubernetes_pod_annotation_prometheus_io"
    marked = [
        {"source_labels": [f"{annotation}_scrape"], "action": "keep", "regex": "true"},
        {"source_labels": [f"{annotation}_path"], "regex": "(.+)", "target_label": "__metrics_path__"},
        {
            "source_labels": ["__meta_kubernetes_pod_ip", f"{annotation}_port"],
            "separator": ":",
            "regex": "(.+:.+)",
            "target_label": "__address__",
        },
    ]
    envoy = [
        {"source_labels": ["__meta_kubernetes_namespace"], "action": "keep", "regex": "projectcontour"},
        {"source_labels": ["__meta_kubernetes_pod_container_port_number"], "action": "keep", "regex": str(8002)},
    ]
    configuration = rendering.prometheus_globals(scrape_interval)
    configuration["scrape_configs"] = [
        {"job_name": "lab", "kubernetes_sd_configs": pods, "relabel_configs": [*marked, *identity]},
        {
            "job_name": "envoy",
            "metrics_path": "/stats/prometheus",
            "kubernetes_sd_configs": pods,
            "relabel_configs": [*envoy, *identity],
        },
    ]
    return configuration


def release(module_version: str) -> str:
    """Return the release of Prometheus 3 that a version of its module is, such as v3.16.0 for v0.316.0."""
    _, minor, patch = module_version.removeprefix("v").split(".")
    if len(minor) != 3:
        raise LabError(f"a module of Prometheus 3 has a version such as v0.316.0, got {module_version}")
    return f"v{minor[0]}.{int(minor[1:])}.{patch}"


def _files(name: str) -> Layout:
    return Layout(lab_folder(f"kind-{name}"))


def _cluster(name: str) -> str:
    return f"davylamp-{name}"


def _check_tools() -> None:
    for tool, test in (("docker", ["docker", "info"]), ("kind", ["kind", "version"])):
        if shutil.which(tool) is None:
            raise LabError(f"there is no {tool} on PATH: install it, or use the lab without Docker: `make lab-up`")
        _run(test)


def _apply(files: Layout, objects: Sequence[Object]) -> None:
    command = ["apply", "--server-side", "--force-conflicts", "-f", "-"]
    _kubectl(files, *command, given="\n".join(f"---\n{json.dumps(thing)}" for thing in objects))


def _kubectl(files: Layout, *arguments: str, given: str | None = None) -> None:
    _run([str(wheel_program("kubectl")), *arguments], given=given, kubeconfig=files)


def _run(command: list[str], *, given: str | None = None, kubeconfig: Layout | None = None) -> str:
    environment = dict(os.environ)
    if kubeconfig:
        environment["KUBECONFIG"] = str(kubeconfig.kubeconfig)
    outcome = subprocess.run(command, input=given, env=environment, capture_output=True, text=True, check=False)
    if outcome.returncode != 0:
        raise LabError(f"`{' '.join(command)}` failed: {outcome.stderr.strip() or outcome.stdout.strip()}")
    return outcome.stdout
