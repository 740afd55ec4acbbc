from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.faults.proxy import Proxy
from e2e.lab import Component, Lab
from e2e.stage.controller import operator
from e2e.stage.premises import Site
from e2e.stage.rollout_stage import RolloutStage


@pytest.fixture
def unhinted(
    lab: Lab, rights: Path, environment: dict[str, str], shared_davylamp: Component, proxy: Proxy
) -> Iterator[Component]:
    """An operator whose Kopf thread is dead from the start."""
    shared_davylamp.stop()
    component = operator(
        lab, rights, name="davylamp-unhinted", port=8083, environment={**environment, "DAVYLAMP_KOPF_HINTS": "false"}
    )
    component.start()
    component.wait_ready()
    yield component
    component.stop()


def test_a_rollout_ends_well_without_any_hint(unhinted: Component, site: Site, proxy: Proxy) -> None:
    with RolloutStage(site) as stage:
        stage.apply()
        stage.until_phase("Promoted")
        assert not [call for call in proxy.calls if call.watches]
        assert stage.violations() == ()


def test_a_rollout_ends_well_although_every_watch_is_cut_again_and_again(stage: RolloutStage, proxy: Proxy) -> None:
    stage.recorder.listen(lambda _: proxy.cut_watches())
    stage.apply()
    stage.until_phase("Promoted")
    assert stage.violations() == ()
