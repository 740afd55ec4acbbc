"""What the operator's service account may do: this list and no more."""

import secrets
from typing import Any, Final

import pytest

from e2e.lab import Api, ApiError, Lab
from tests.support.installation import NAMESPACE, connection

Right = tuple[str, str, str, str]

#: Group, resource, verb, name; everywhere.
EVERYWHERE: Final[frozenset[Right]] = frozenset(
    (group, resource, verb, "")
    for group, resource, verbs in (
        ("davylamp.dev", "modelrollouts", "get list watch patch"),
        ("davylamp.dev", "modelrollouts/status", "patch"),
        ("davylamp.dev", "rolloutpolicies", "get list watch"),
        ("davylamp.dev", "clusterrolloutpolicies", "get list watch"),
        ("davylamp.dev", "metricsources", "get list watch"),
        ("davylamp.dev", "notificationchannels", "get list watch"),
        ("gateway.networking.k8s.io", "httproutes", "get list watch patch"),
        ("gateway.networking.k8s.io", "gateways", "get"),
        ("gateway.networking.k8s.io", "gatewayclasses", "get"),
        ("", "services", "get list watch"),
        ("discovery.k8s.io", "endpointslices", "get list watch"),
        ("", "events", "create"),
    )
    for verb in verbs.split()
)
#: In the operator's own namespace, beside these.
AT_HOME: Final[frozenset[Right]] = frozenset(
    {
        ("coordination.k8s.io", "leases", "create", ""),
        ("coordination.k8s.io", "leases", "get", "davylamp"),
        ("coordination.k8s.io", "leases", "update", "davylamp"),
        ("", "secrets", "get", ""),
    }
)


def rights(api: Api, namespace: str) -> frozenset[Right]:
    """Return what an account may do in a namespace."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    }
    status = api.create("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", review)["status"]
    assert not status["incomplete"]
    return frozenset(
        (group, resource, verb, name)
        for rule in status["resourceRules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames") or [""]
    )


def everybodys(lab: Lab, namespace: str) -> frozenset[Right]:
    """Return what every account may do: ask about itself."""
    name = f"nobody-{secrets.token_hex(4)}"
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    lab.api.create(path, {"metadata": {"name": name}})
    found = rights(connection(lab, name), namespace)
    lab.api.delete(f"{path}/{name}")
    return found


def test_the_operator_has_exactly_the_rights_that_it_uses(
    operator_api: Api, control_plane: Lab, lab_namespace: str
) -> None:
    common = everybodys(control_plane, lab_namespace)
    assert rights(operator_api, lab_namespace) - common == EVERYWHERE
    assert rights(operator_api, NAMESPACE) - common == EVERYWHERE | AT_HOME


def test_no_right_is_a_wildcard_or_reaches_beyond_itself() -> None:
    for group, resource, verb, _ in EVERYWHERE | AT_HOME:
        assert "*" not in {group, resource, verb}
        assert verb not in {"delete", "deletecollection", "escalate", "bind", "impersonate"}
        assert resource not in {"pods/exec", "serviceaccounts/token", "nodes"}


def test_secrets_of_channels_are_read_only_where_a_namespace_allows_it(
    operator_api: Api, control_plane: Lab, lab_namespace: str
) -> None:
    admin, path = control_plane.api, f"/api/v1/namespaces/{lab_namespace}/secrets"
    admin.create(path, {"metadata": {"name": "slack"}, "stringData": {"url": "https://hooks.example"}})
    with pytest.raises(ApiError, match="403"):
        operator_api.get(f"{path}/slack")
    binding: dict[str, Any] = {
        "metadata": {"name": "davylamp-secrets"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "davylamp-secrets"},
        "subjects": [{"kind": "ServiceAccount", "name": "davylamp", "namespace": NAMESPACE}],
    }
    admin.create(f"/apis/rbac.authorization.k8s.io/v1/namespaces/{lab_namespace}/rolebindings", binding)
    assert operator_api.get(f"{path}/slack")["data"]
    with pytest.raises(ApiError, match="403"):
        operator_api.get(path)


def test_editors_of_a_namespace_write_rollouts_and_no_sources(installed_lab: Lab, control_plane: Lab) -> None:
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    edit = control_plane.api.get(f"{roles}/edit")["rules"]
    written = {
        resource
        for rule in edit
        if "davylamp.dev" in rule["apiGroups"] and "create" in rule["verbs"]
        for resource in rule["resources"]
    }
    assert written == {"modelrollouts", "rolloutpolicies", "notificationchannels"}
