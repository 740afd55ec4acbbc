"""Kill the operator at each write of a rollout, before and after it is carried out, and start it again.

The writes are those that a rollout consists of: finalizer, status, route. Renewals of the lease and Events are not
counted. How many there are differs by a few from run to run, since looks fall differently between scrapes; a run that
is over before its turn is killed at rest.

`make test` kills at twenty points spread over both rollouts, `make test-crash` (CRASH_POINTS=all) at every one.
"""

import os
import signal
from dataclasses import dataclass
from enum import StrEnum

import pytest

from e2e.faults.calls import Kind
from e2e.faults.faults import Killing, Moment
from e2e.faults.proxy import Proxy
from e2e.lab import Component, Lab
from e2e.lab.waiting import until
from e2e.stage.premises import Fleet, Site
from e2e.stage.rollout_stage import PATIENCE, RolloutStage

NAMESPACE = "crash-points"
SPREAD = 20


class Scenario(StrEnum):
    HAPPY = "happy"
    BREACHING = "breaching"


#: How many writes a run without a crash has.
USUAL = {Scenario.HAPPY: 19, Scenario.BREACHING: 18}
#: More were not seen, however the looks fell; `test_no_write_is_left_out` holds it.
MOST = {Scenario.HAPPY: 26, Scenario.BREACHING: 24}
END = {Scenario.HAPPY: "Promoted", Scenario.BREACHING: "RolledBack"}


@dataclass(frozen=True)
class CrashPoint:
    scenario: Scenario
    write: int
    moment: Moment

    def __str__(self) -> str:
        return f"{self.scenario}-{self.write:02}-{self.moment}"


def points(writes: dict[Scenario, int]) -> list[CrashPoint]:
    return [
        CrashPoint(scenario, write, moment)
        for scenario in Scenario
        for write in range(1, writes[scenario] + 1)
        for moment in Moment
    ]


def chosen() -> list[CrashPoint]:
    if os.environ.get("CRASH_POINTS") == "all":
        return points(MOST)
    usual = points(USUAL)
    # Every fourth or so, and both moments in turn.
    return [usual[index * len(usual) // SPREAD + index % 2] for index in range(SPREAD)]


@pytest.fixture
def crash_site(lab: Lab, fleet: Fleet) -> Site:
    """One namespace for all crashes of this worker: its metrics are known when the next rollout begins."""
    fleet.heal()
    if lab.api.find(f"/api/v1/namespaces/{NAMESPACE}") is None:
        lab.api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    return Site(lab, fleet, NAMESPACE).open()


def run(stage: RolloutStage, scenario: Scenario) -> None:
    """Begin a rollout; the breaching candidate fails from its second step on."""
    if scenario is Scenario.BREACHING:
        stage.recorder.listen(lambda _: stage.site.fleet.break_candidate(errors=0.6) if stage.weight == 50 else None)
        # Long enough that the fault, which begins a moment after the weight is seen, is there when promotion is asked.
        steps = [{"weight": 20, "bake": "1s", "minSamples": 5}, {"weight": 50, "bake": "5s", "minSamples": 40}]
        stage.apply(steps=steps)
    else:
        stage.apply()


@pytest.mark.crash
@pytest.mark.parametrize("point", chosen(), ids=str)
def test_a_crash_at_any_write_changes_nothing_of_how_a_rollout_ends(
    point: CrashPoint, davylamp: Component, proxy: Proxy, crash_site: Site
) -> None:
    with RolloutStage(crash_site, str(point)) as stage:
        davylamp.wait_ready()
        killing = Killing(
            point.write,
            point.moment,
            lambda: davylamp.process.signal(signal.SIGKILL) if davylamp.process else None,
            wanted=lambda call: call.kind is Kind.DECISIVE and call.about(NAMESPACE, stage.name),
        )
        proxy.fault = killing
        run(stage, point.scenario)
        stage.recorder.until(
            lambda rollout, _: killing.done.is_set() or (rollout.get("status") or {}).get("phase") in END.values(),
            f"write {point.write}, or the end",
            within=PATIENCE,
        )
        davylamp.kill()
        proxy.forget()
        davylamp.start()
        stage.until_phase(END[point.scenario])
        until(lambda: any(call.about(NAMESPACE, stage.name) for call in proxy.calls), "it looks again", within=PATIENCE)
        assert stage.violations() == ()
        assert stage.status["phase"] == END[point.scenario]


@pytest.mark.crash
@pytest.mark.parametrize("scenario", Scenario)
def test_no_write_is_left_out(scenario: Scenario, davylamp: Component, proxy: Proxy, crash_site: Site) -> None:
    with RolloutStage(crash_site, f"whole-{scenario}") as stage:
        davylamp.wait_ready()
        proxy.forget()
        run(stage, scenario)
        stage.until_phase(END[scenario])
        writes = [call for call in proxy.calls if call.kind is Kind.DECISIVE and call.about(NAMESPACE, stage.name)]
        assert len(writes) <= MOST[scenario], "\n".join(str(call) for call in writes)
        assert stage.violations() == ()
