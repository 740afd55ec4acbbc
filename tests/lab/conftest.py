"""The operator with its own rights on a real cluster, a fresh site for each test, and one rollout on it.

One operator serves all tests of this folder in a worker process, behind a proxy through which tests make faults. A test
may kill it and start it again; the next test finds it running.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from e2e.faults.proxy import Proxy
from e2e.faults.receivers import Receivers
from e2e.lab import Component, Lab
from e2e.stage.controller import NAMESPACE, SERVICE_ACCOUNT, operator
from e2e.stage.premises import Fleet, Site
from e2e.stage.rollout_stage import RolloutStage

PROXY_PORT = 6500
SOURCE_PORT = 6501
RECEIVERS_PORT = 6502


@pytest.fixture(scope="package")
def fleet(installed_lab: Lab) -> Iterator[Fleet]:
    made = Fleet(installed_lab)
    yield made
    made.stop()


@pytest.fixture(scope="package")
def api_proxy(installed_lab: Lab) -> Iterator[Proxy]:
    with Proxy(installed_lab.api_url, PROXY_PORT, authority=installed_lab.authority) as made:
        yield made


@pytest.fixture(scope="package")
def source_proxy(installed_lab: Lab) -> Iterator[Proxy]:
    with Proxy(installed_lab.prometheus_url, SOURCE_PORT) as made:
        yield made


@pytest.fixture(scope="package")
def message_receivers() -> Iterator[Receivers]:
    with Receivers(RECEIVERS_PORT) as made:
        yield made


@pytest.fixture(scope="package")
def rights(installed_lab: Lab, api_proxy: Proxy) -> Path:
    """A kubeconfig with the rights of the operator's service account, through the proxy."""
    direct = installed_lab.kubeconfig_for(NAMESPACE, SERVICE_ACCOUNT)
    document = yaml.safe_load(direct.read_text("utf-8"))
    document["clusters"][0]["cluster"]["server"] = api_proxy.address
    proxied = direct.with_name("kubeconfig-proxied")
    proxied.touch(0o600)
    proxied.write_text(yaml.safe_dump(document), encoding="utf-8")
    return proxied


@pytest.fixture(scope="package")
def environment(message_receivers: Receivers) -> dict[str, str]:
    """Settings of every operator here: status is written for what is new, so that writes are the same in every run."""
    return {
        "DAVYLAMP_STATUS_EVERY_SECONDS": "3599",
        "DAVYLAMP_SLACK_ENDPOINT": message_receivers.address,
        "DAVYLAMP_PAGERDUTY_ENDPOINT": message_receivers.address,
    }


@pytest.fixture(scope="package")
def shared_davylamp(installed_lab: Lab, rights: Path, environment: dict[str, str]) -> Iterator[Component]:
    component = operator(installed_lab, rights, environment=environment)
    yield component
    component.kill()


@pytest.fixture
def proxy(api_proxy: Proxy) -> Iterator[Proxy]:
    """What the operator speaks to the API server through."""
    api_proxy.forget()
    yield api_proxy
    api_proxy.forget()


@pytest.fixture
def receivers(message_receivers: Receivers) -> Receivers:
    """Slack and PagerDuty."""
    message_receivers.forget()
    return message_receivers


@pytest.fixture
def davylamp(lab: Lab, shared_davylamp: Component, proxy: Proxy) -> Component:
    """The operator, started; `wait_ready` tells when it works."""
    shared_davylamp.start()
    return shared_davylamp


@pytest.fixture
def source(source_proxy: Proxy) -> Iterator[Proxy]:
    """What the operator speaks to Prometheus through."""
    source_proxy.forget()
    yield source_proxy
    source_proxy.forget()


@pytest.fixture
def site(lab: Lab, fleet: Fleet, source: Proxy, lab_namespace: str) -> Site:
    fleet.heal()
    return Site(lab, fleet, lab_namespace).open(source=source.address)


@pytest.fixture
def stage(davylamp: Component, site: Site) -> Iterator[RolloutStage]:
    """A rollout that was not applied yet, its route, and traffic."""
    with RolloutStage(site) as made:
        davylamp.wait_ready()
        yield made
