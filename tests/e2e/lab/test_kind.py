"""kind itself needs Docker; that a real API server takes what would be installed there does not."""

import os
import secrets
from datetime import timedelta

import pytest

from e2e.lab import Lab, Profile, kind, rendering
from e2e.lab.build import collected
from e2e.lab.recipes import KIND_MANIFESTS

pytestmark = pytest.mark.lab

_FIRST = {"CustomResourceDefinition", "Namespace"}


def test_what_kind_is_given_is_accepted_by_a_real_api_server_and_may_be_given_twice() -> None:
    objects = [*kind.contour_objects(collected(KIND_MANIFESTS)), *kind.prometheus_objects(timedelta(seconds=1))]
    with Lab(f"kind-{os.getpid()}-{secrets.token_hex(2)}", profile=Profile.CONTROL_PLANE) as lab:
        lab.api.install_crds([thing for thing in objects if thing["kind"] == "CustomResourceDefinition"])
        for _ in range(2):
            kind._apply(lab.files, [thing for thing in objects if thing["kind"] in _FIRST])
            kind._apply(lab.files, [thing for thing in objects if thing["kind"] not in _FIRST])
            kind._apply(lab.files, rendering.gateway_objects())
        workloads = [
            f"{workload['metadata']['namespace']}/{workload['metadata']['name']}"
            for resource in ("deployments", "daemonsets")
            for workload in lab.api.get(f"/apis/apps/v1/{resource}")["items"]
        ]
    assert sorted(workloads) == ["monitoring/prometheus", "projectcontour/contour", "projectcontour/envoy"]
