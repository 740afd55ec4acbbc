"""A route under Davylamp's admission policy."""

from collections.abc import Iterator

import pytest

from e2e.lab import Api, Lab
from tests.manifests.policed import Route


@pytest.fixture
def route(operator_api: Api, control_plane: Lab) -> Iterator[Route]:
    made = Route(control_plane.api)
    yield made
    control_plane.api.delete(made.path)
