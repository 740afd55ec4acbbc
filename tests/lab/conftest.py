"""The operator with its own rights on a real cluster, a fresh site for each test, and one rollout on it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.lab import Component, Lab
from e2e.stage.controller import NAMESPACE, SERVICE_ACCOUNT, operator
from e2e.stage.premises import Fleet, Site
from e2e.stage.rollout_stage import RolloutStage


@pytest.fixture(scope="session")
def fleet(installed_lab: Lab) -> Iterator[Fleet]:
    made = Fleet(installed_lab)
    yield made
    made.stop()


@pytest.fixture(scope="session")
def rights(installed_lab: Lab) -> Path:
    """The kubeconfig of the operator's service account."""
    return installed_lab.kubeconfig_for(NAMESPACE, SERVICE_ACCOUNT)


@pytest.fixture
def site(lab: Lab, fleet: Fleet, lab_namespace: str) -> Site:
    fleet.heal()
    return Site(lab, fleet, lab_namespace).open()


@pytest.fixture
def davylamp(lab: Lab, rights: Path, lab_namespace: str) -> Iterator[Component]:
    """The operator, serving the test's namespace; a test may kill it and start it again."""
    component = operator(lab, rights, environment={"DAVYLAMP_WATCH_NAMESPACES": lab_namespace})
    component.start()
    yield component
    component.kill()


@pytest.fixture
def stage(davylamp: Component, site: Site) -> Iterator[RolloutStage]:
    with RolloutStage(site) as made:
        davylamp.wait_ready()
        yield made
