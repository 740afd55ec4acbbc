"""A namespace on a real API server that knows the kinds of routes."""

import pytest

from e2e.lab import Lab
from e2e.lab.build import collected
from e2e.lab.recipes import MANIFESTS


@pytest.fixture
def route_kinds(control_plane: Lab) -> Lab:
    """The control plane with the Gateway API installed."""
    for manifests in MANIFESTS:
        control_plane.api.install_crds(collected(manifests))
    return control_plane
