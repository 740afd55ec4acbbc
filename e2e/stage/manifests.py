"""Manifests of a rollout on the lab, as plain dictionaries that a test may change."""

import base64
from typing import Any, Final

from e2e.stage.controller import NAMESPACE, SERVICE_ACCOUNT

Manifest = dict[str, Any]
PORT: Final = 8080


def http_route(namespace: str, name: str, backend: str, *, host: str | None = None) -> Manifest:
    """Return a route whose only rule points to one Service."""
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "parentRefs": [{"name": "lab", "namespace": "gateway"}],
            "hostnames": [host or f"{name}.{namespace}.test"],
            "rules": [{"backendRefs": [{"name": backend, "port": PORT}]}],
        },
    }


def metric_source(address: str, *, name: str = "default", max_sample_age: str = "10s") -> Manifest:
    """Return the MetricSource that names the lab's Prometheus."""
    return {
        "apiVersion": "davylamp.dev/v1alpha1",
        "kind": "MetricSource",
        "metadata": {"name": name},
        "spec": {"prometheus": {"address": address, "timeout": "3s", "maxSampleAge": max_sample_age}},
    }


def model_rollout(namespace: str, name: str, *, baseline: str, candidate: str, **spec: Any) -> Manifest:
    """Return a quick rollout by the mlserver preset; ``spec`` overrides fields."""
    wanted: Manifest = {
        "baseline": {"backend": {"name": baseline, "port": PORT}},
        "candidate": {"backend": {"name": candidate, "port": PORT}},
        "route": {"gatewayAPI": {"httpRoute": name}},
        "interval": "1s",
        "steps": [{"weight": 20, "bake": "3s", "minSamples": 20}, {"weight": 50, "bake": "3s", "minSamples": 20}],
        "promotion": {"bake": "2s"},
        "signals": {"preset": "mlserver"},
        "gates": {
            "errors": {"margin": {"oddsRatio": 1.5}, "allowance": "3%"},
            "latency": {"margin": {"slowdown": "100%"}, "requiredForPromotion": False},
        },
    }
    return {
        "apiVersion": "davylamp.dev/v1alpha1",
        "kind": "ModelRollout",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {**wanted, **spec},
    }


def slack_channel(namespace: str, name: str, webhook: str) -> tuple[Manifest, ...]:
    """Return a channel to Slack, its Secret, and the operator's right to read Secrets of the namespace."""
    group = "rbac.authorization.k8s.io"
    return (
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": namespace},
            "data": {"url": base64.b64encode(webhook.encode()).decode()},
        },
        {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "davylamp-secrets", "namespace": namespace},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "davylamp-secrets"},
            "subjects": [{"kind": "ServiceAccount", "name": SERVICE_ACCOUNT, "namespace": NAMESPACE}],
        },
        {
            "apiVersion": "davylamp.dev/v1alpha1",
            "kind": "NotificationChannel",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"slack": {"webhook": {"name": name, "key": "url"}}},
        },
    )
