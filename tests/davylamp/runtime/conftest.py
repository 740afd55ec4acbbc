from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from kubernetes.aio import config

from davylamp.runtime.kube import Allowance, Kube
from e2e.lab import Lab
from tests.davylamp.runtime.clocks import HandClock
from tests.davylamp.runtime.gateway import Gateway
from tests.davylamp.runtime.premises import Premises
from tests.davylamp.runtime.prometheus import Prometheus
from tests.support.installation import ACCOUNT, NAMESPACE

LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/davylamp"


@pytest.fixture(scope="session")
def account_file(installed_lab: Lab) -> Path:
    """A kubeconfig with the rights of the operator's service account."""
    return installed_lab.kubeconfig_for(NAMESPACE, ACCOUNT)


@pytest.fixture
def account(account_file: Path, control_plane: Lab, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, named by the environment as for the operator; nobody leads."""
    monkeypatch.setenv("KUBECONFIG", str(account_file))
    control_plane.api.delete(LEASE)
    return account_file


@pytest_asyncio.fixture
async def own_kube(account: Path) -> AsyncIterator[Kube]:
    """The API server with the operator's rights and its own client."""
    kube = Kube(await config.new_client_from_config(str(account)), Allowance(200, 400), lambda _: None)
    yield kube
    await kube.close()


@pytest_asyncio.fixture
async def admin_kube(control_plane: Lab) -> AsyncIterator[Kube]:
    """The API server with all rights, and the failures that were told."""
    kube = Kube(await config.new_client_from_config(str(control_plane.kubeconfig)), Allowance(200, 400), lambda _: None)
    yield kube
    await kube.close()


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture(scope="package")
def prometheus(installed_lab: Lab) -> Iterator[Prometheus]:
    with Prometheus() as started:
        yield started


@pytest.fixture(scope="package")
def gateway(installed_lab: Lab) -> Iterator[Gateway]:
    with Gateway(installed_lab.api) as started:
        yield started


@pytest.fixture
def premises(
    control_plane: Lab, lab_namespace: str, prometheus: Prometheus, gateway: Gateway, account: Path
) -> Iterator[Premises]:
    """A namespace with both variants behind Services, ready for rollouts."""
    prometheus.status = 200
    opened = Premises(control_plane, prometheus, lab_namespace)
    opened.open()
    yield opened
    opened.close()
