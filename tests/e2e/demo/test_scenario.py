import subprocess
import sys
from pathlib import Path

import pytest

from davylamp.api.v1alpha1.convert import read_policy, read_spec, to_plan
from e2e.demo import scenario
from e2e.demo.models.artifacts import Models
from e2e.demo.scenario import CASES, FAULT_STEP, PROMOTED, ROLLED_BACK, Case

MANIFESTS = Path(scenario.__file__).parent / "manifests"


def test_nothing_in_the_manifests_would_be_refused() -> None:
    linted = subprocess.run(
        [sys.executable, "-c", "from davylamp.cli import main; main()", "lint", str(MANIFESTS)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert linted.returncode == 0, linted.stdout


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_route_points_to_the_baseline_alone_until_the_rollout_begins(case: Case) -> None:
    (rule,) = scenario.route(case)["spec"]["rules"]
    assert [ref["name"] for ref in rule["backendRefs"]] == [case.baseline]
    assert scenario.route(case)["spec"]["hostnames"] == [case.host]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_rollout_names_the_services_route_and_digests_that_the_stage_makes(case: Case, models: Models) -> None:
    manifest = scenario.rollout(case, models)
    plan = to_plan(read_spec(manifest["spec"]), read_policy(scenario.policy()["spec"]))
    assert (plan.pair.route, plan.pair.baseline, plan.pair.candidate) == (
        case.name,
        f"{case.baseline}:8080",
        f"{case.candidate}:8080",
    )
    assert case.gate is None or case.gate in {gate.name for gate in plan.gates}
    assert len(plan.steps) > FAULT_STEP
    assert manifest["spec"]["candidate"]["model"]["digest"] != manifest["spec"]["baseline"]["model"]["digest"]


def test_one_is_to_be_promoted_and_two_are_to_be_rolled_back_by_different_gates() -> None:
    assert [case.outcome for case in CASES] == [PROMOTED, ROLLED_BACK, ROLLED_BACK]
    assert {case.gate for case in CASES} == {None, "disagreement", "errors"}


def test_the_channels_read_the_secrets_that_the_demo_makes_and_that_davylamp_may_read() -> None:
    manifests = scenario.platform()
    named = set()
    for manifest in manifests:
        for receiver in manifest.get("spec", {}).values() if manifest["kind"] == "NotificationChannel" else ():
            named |= {reference["name"] for reference in receiver.values()}
    role = next(manifest for manifest in manifests if manifest["kind"] == "Role")
    assert named == set(role["rules"][0]["resourceNames"]) == {"team-slack", "oncall-pagerduty"}
