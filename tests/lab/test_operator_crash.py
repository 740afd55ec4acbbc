"""The operator dies, or stands still while another takes over."""

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from e2e.faults.calls import Call
from e2e.faults.faults import Holding, Killing, Moment
from e2e.faults.proxy import Proxy
from e2e.lab import Component, Lab
from e2e.stage.controller import operator
from e2e.stage.invariants import states, weight_of
from e2e.stage.premises import CANDIDATE, Fleet
from e2e.stage.rollout_stage import PATIENCE, RolloutStage


def kill(component: Component) -> None:
    """End a process from another thread, which must not wait for it."""
    if process := component.process:
        process.signal(signal.SIGKILL)


def test_killed_in_mid_step_it_goes_on_at_the_same_step_and_bakes_in_full(
    stage: RolloutStage, davylamp: Component, source: Proxy
) -> None:
    stage.apply(steps=[{"weight": 20, "bake": "6s", "minSamples": 5}, {"weight": 50, "bake": "1s", "minSamples": 5}])
    stage.recorder.until(
        lambda rollout, _: (rollout.get("status") or {}).get("reason") in {"Baking", "Sampling"},
        "it bakes",
        within=PATIENCE,
    )
    davylamp.kill()
    reads = len(source.answered)
    davylamp.start()
    stage.until_weight(50)
    assert len(source.answered) > reads, "it raised the weight before it had read anything"
    stage.until_phase("Promoted")
    assert stage.violations() == ()
    weights = [weight_of(state.route, CANDIDATE) for state in states(stage.recorder.history) if state.route]
    assert [new for old, new in pairwise(weights) if new != old] == [20, 50, 100], "it left the step to begin it anew"


@pytest.mark.parametrize("moment", Moment)
def test_killed_between_the_decision_to_roll_back_and_its_write_the_weight_is_0_after_the_restart(
    moment: Moment, stage: RolloutStage, davylamp: Component, proxy: Proxy, fleet: Fleet
) -> None:
    killing = Killing(
        1,
        moment,
        lambda: kill(davylamp),
        wanted=lambda call: call.path == stage.route_path and b"Rollback" in call.body,
    )
    proxy.fault = killing
    stage.apply(steps=[{"weight": 20, "bake": "60s", "minSamples": 5}])
    stage.until_weight(20)
    fleet.break_candidate(errors=0.6)
    stage.recorder.until(lambda _, __: killing.done.is_set(), "it was killed", within=PATIENCE)
    davylamp.kill()
    assert stage.status["phase"] != "RollingBack"
    proxy.forget()
    davylamp.start()
    stage.until_weight(0)
    stage.until_phase("RolledBack")
    assert stage.violations() == ()


@pytest.fixture
def successor(lab: Lab, rights: Path, environment: dict[str, str], davylamp: Component) -> Iterator[Component]:
    """A second operator; it gives the lease back at its end, so that the first can have it at once."""
    component = operator(lab, rights, name="davylamp-2", port=8082, environment=environment)
    yield component
    component.stop()


def test_a_leader_that_stood_still_raises_nothing_after_another_took_over(
    stage: RolloutStage, davylamp: Component, successor: Component, proxy: Proxy
) -> None:
    def raises(call: Call) -> bool:
        return call.method == "PATCH" and call.path == stage.route_path and b'"50"' in call.body

    with ExitStack() as frozen:
        holding = Holding(raises, lambda: frozen.enter_context(davylamp.frozen()))
        proxy.fault = holding
        stage.apply()
        stage.recorder.until(lambda _, __: holding.held.is_set(), "the raise to 50 % is under way", within=PATIENCE)
        successor.start()
        before = stage.status["epoch"]
        stage.recorder.until(
            lambda rollout, _: rollout["status"]["epoch"] > before, "another leads", within=timedelta(seconds=120)
        )
        stage.recorder.until(
            lambda _, route: int(route["metadata"].get("annotations", {}).get("davylamp.dev/epoch", 0)) > before,
            "the other has written the route",
            within=PATIENCE,
        )
        holding.released.set()
    stage.until_phase("Promoted")
    assert holding.status is None or holding.status >= 400, "the late write of the former leader was taken"
    assert stage.violations() == ()
