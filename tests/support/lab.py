"""Fixtures for tests on a real control plane. A test that asks for one of them is marked `lab` by itself.

Each worker process has a lab of its own, so a test may kill what it likes; the next test finds all of it running again.
Inside `python -m e2e.lab exec` a single test process uses the lab it was started in, and leaves it up.
"""

import os
import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from kubernetes.aio import client, config

from e2e.lab import Lab, Profile
from e2e.lab.build import build, executable
from e2e.lab.places import INSIDE_VARIABLE
from e2e.lab.recipes import program

_FIXTURES = frozenset({"control_plane", "lab", "lab_namespace", "kube"})


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.lab)


@pytest.fixture(scope="session")
def session_lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    """One lab for the tests of this process, control plane only; fixtures below start more of it."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is None and (outer := os.environ.get(INSIDE_VARIABLE)):
        yield Lab.attach(outer)
        return
    lab = Lab(f"test-{os.getpid()}-{worker or 'alone'}", profile=Profile.CONTROL_PLANE)
    try:
        yield lab.start()
    finally:
        lab.stop(keep_logs=request.session.testsfailed > 0)


@pytest.fixture
def control_plane(session_lab: Lab) -> Lab:
    """The lab with etcd, the API server and the controller manager running."""
    session_lab.ensure_ready()
    return session_lab


@pytest.fixture
def lab(session_lab: Lab) -> Lab:
    """The whole lab: the control plane, Prometheus, Contour and Envoy running."""
    return session_lab.start(Profile.FULL)


@pytest.fixture
def lab_namespace(control_plane: Lab) -> Iterator[str]:
    """A fresh Kubernetes namespace, deleted afterwards."""
    name = f"test-{secrets.token_hex(4)}"
    control_plane.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    yield name
    control_plane.ensure_ready()
    control_plane.api.delete(f"/api/v1/namespaces/{name}")


@pytest_asyncio.fixture
async def kube(control_plane: Lab) -> AsyncIterator[client.ApiClient]:
    """The official client, asyncio half, with the administrator's rights."""
    connected = await config.new_client_from_config(str(control_plane.kubeconfig))
    async with connected as api:
        yield api


@pytest.fixture(scope="session")
def helm() -> Path:
    """Helm, built on the first demand."""
    recipe = program("helm")
    build([recipe])
    return executable(recipe)
