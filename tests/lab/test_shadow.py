"""Shadow steps on a real control plane: who passes them, who does not, and who never answers a live request.

The comparator runs as a process with the rights of its own service account, behind a gateway that really mirrors.
"""

import json
from collections.abc import Iterator, Mapping
from datetime import timedelta
from http import HTTPStatus
from itertools import count
from typing import Any
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from e2e.faults.receivers import Receivers
from e2e.lab import Component, Lab
from e2e.lab.waiting import until
from e2e.stage.comparator import Comparator
from e2e.stage.invariants import mirrors_of, states, weight_of
from e2e.stage.manifests import slack_channel
from e2e.stage.premises import BASELINE, CANDIDATE, Fleet, Site, SteadyTraffic
from e2e.stage.recorder import Object
from e2e.stage.rollout_stage import PATIENCE, QUICK, RolloutStage

NAMESPACE = "shadow-steps"
NUMBERS = count(1)
RATE = 60
LIVE = QUICK["steps"]
SHADOW = {"shadow": {"minPairs": 100}, "bake": "1s"}
#: Lasts as long as a test wants it to.
ENDLESS = {"shadow": {"minPairs": 1_000_000}, "bake": "1s"}
SPEC: dict[str, Any] = {
    "steps": [SHADOW, *LIVE],
    "gates": QUICK["gates"] | {"disagreement": {"limit": "2%"}, "statusMismatch": {"limit": "2%"}},
}
#: At each of which the candidate is worse than at anything that the gates allow.
FAULTS: Mapping[str, tuple[dict[str, Any], set[str]]] = {
    "fails": ({"errors": 0.5}, {"statusMismatch", "disagreement"}),
    "hangs": ({"delay": timedelta(hours=1)}, {"statusMismatch", "disagreement"}),
    "is a web page": ({"page": True}, {"disagreement"}),
}


@pytest.fixture(scope="module")
def shared_comparator(installed_lab: Lab) -> Iterator[Comparator]:
    made = Comparator(installed_lab, NAMESPACE)
    yield made
    made.kill()


@pytest.fixture
def shadow_site(lab: Lab, fleet: Fleet) -> Site:
    """One namespace for most tests here: its metrics, and the comparator, are there when the next rollout begins."""
    fleet.heal()
    if lab.api.find(f"/api/v1/namespaces/{NAMESPACE}") is None:
        lab.api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    return Site(lab, fleet, NAMESPACE).open()


@pytest.fixture
def comparator(shadow_site: Site, shared_comparator: Comparator) -> Comparator:
    """The comparator, ready and scraped."""
    shared_comparator.start()
    return shared_comparator


@pytest.fixture
def stage(davylamp: Component, shadow_site: Site, comparator: Comparator) -> Iterator[RolloutStage]:
    """A rollout that was not applied yet, its route, and traffic, beside a comparator."""
    with staged(shadow_site, f"credit-{next(NUMBERS)}") as made:
        davylamp.wait_ready()
        yield made
    made.site.lab.api.delete(made.route_path)


@pytest.fixture
def lonely(davylamp: Component, site: Site) -> Iterator[RolloutStage]:
    """The same in a namespace without a comparator."""
    with staged(site, "credit") as made:
        davylamp.wait_ready()
        yield made


def staged(site: Site, name: str) -> RolloutStage:
    made = RolloutStage(site, name, rate=RATE)
    made.manifest["spec"] |= SPEC
    return made


def regressed(status: Object) -> set[str]:
    return {signal["name"] for signal in status["signals"] if signal["verdict"] == "Regressed"}


def proven(status: Object) -> dict[str, int]:
    """Return how many of the candidate's answers each gate has seen that has shown it to be no worse."""
    return {
        signal["name"]: signal["candidate"]["total"]
        for signal in status["signals"]
        if signal["verdict"] == "NonInferior"
    }


def counted(stage: RolloutStage) -> int:
    """Return how many pairs the operator's evidence of disagreement has, as it shows itself."""
    with urlopen("http://127.0.0.1:8081/metrics", timeout=5) as answer:
        text = answer.read().decode()
    labels = {"namespace": stage.site.namespace, "name": stage.name, "gate": "disagreement"}
    samples = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
    found = (each.value for each in samples if each.name == "davylamp_gate_samples" and each.labels == labels)
    return int(next(found, 0))


def mirrored_weights(stage: RolloutStage) -> set[int]:
    """Return the candidate's weights at which the route has mirrored requests."""
    routes = [state.route for state in states(stage.recorder.history) if state.route]
    return {weight_of(route, CANDIDATE) for route in routes if mirrors_of(route)}


def without_mirrors(rules: list[Object]) -> list[Object]:
    return [
        {**rule, "filters": [each for each in rule["filters"] if each["type"] != "RequestMirror"]} for rule in rules
    ]


def as_it_was(stage: RolloutStage) -> bool:
    """Whether the route in the API server is what its owner wrote."""
    route = stage.site.lab.api.get(stage.route_path)
    before = stage.original
    same = (route["metadata"].get(name) == before["metadata"].get(name) for name in ("annotations", "labels"))
    return route["spec"] == before["spec"] and all(same)


def test_a_candidate_that_decides_alike_gets_live_traffic_after_its_shadow_step_and_not_before(
    stage: RolloutStage, fleet: Fleet
) -> None:
    # More than the bake brings, and than the proof needs.
    stage.apply(steps=[{"shadow": {"minPairs": 300}, "bake": "1s"}, *LIVE])
    stage.until_mirrored()
    # All that is left to do is done, but for what gives it live traffic.
    stage.apply(paused=True)
    status = stage.until_reason("PausedBySpec")
    assert status["step"]["index"] == 0
    assert proven(status)["disagreement"] >= 300
    assert fleet.live(CANDIDATE) == 0 < fleet.shadowed(CANDIDATE)
    stage.apply(paused=False)
    stage.until_weight(20)
    until(lambda: fleet.live(CANDIDATE), "the candidate answers somebody", within=PATIENCE)
    stage.until_phase("Promoted")
    assert mirrored_weights(stage) == {0}
    assert stage.violations() == ()


def test_requests_are_mirrored_beside_live_ones_at_the_step_that_asks_for_it_and_at_no_other(
    stage: RolloutStage,
) -> None:
    stage.apply(steps=[SHADOW, LIVE[0], LIVE[1] | {"shadow": {"minPairs": 20}}])
    stage.until_phase("Promoted")
    assert mirrored_weights(stage) == {0, 50}
    assert stage.violations() == ()


def test_pairs_enough_do_not_end_a_shadow_step_before_they_prove_something(stage: RolloutStage) -> None:
    strict = {"disagreement": {"limit": "0.5%"}, "statusMismatch": {"limit": "0.5%"}}
    stage.apply(steps=[{"shadow": {"minPairs": 20}, "bake": "1s"}, *LIVE], gates=SPEC["gates"] | strict)
    stage.until_weight(20)
    statuses = (state.status for state in states(stage.recorder.history))
    raised = next(status for status in statuses if (status.get("step") or {}).get("index") == 1)
    assert proven(raised).keys() >= strict.keys()
    assert stage.violations() == ()


def test_a_candidate_that_decides_otherwise_in_a_tenth_never_answers_anybody_and_people_are_told_once(
    stage: RolloutStage, fleet: Fleet, receivers: Receivers, lab: Lab
) -> None:
    for manifest in slack_channel(stage.site.namespace, "team", f"{receivers.address}/services/team"):
        lab.api.apply(manifest)
    fleet.change_candidate(differing=0.1)
    stage.apply(notify=[{"channel": "team", "from": "Info"}])
    status = stage.until_phase("RolledBack")
    assert status["reason"] == "Regressed"
    assert regressed(status) == {"disagreement"}
    assert as_it_was(stage)
    assert fleet.live(CANDIDATE) == 0 < fleet.shadowed(CANDIDATE)
    assert fleet.live(BASELINE) > 0
    assert mirrored_weights(stage) == {0}
    stage.recorder.until(lambda rollout, _: not rollout["status"].get("outbox"), "the outbox is empty", within=PATIENCE)
    (told,) = (post for post in map(json.dumps, receivers.slack) if "Incident" in post)
    assert "disagreement" in told
    assert stage.violations() == ()


@pytest.mark.parametrize("fault", FAULTS)
def test_a_candidate_that_is_broken_is_taken_back_before_it_answers_anybody(
    fault: str, stage: RolloutStage, fleet: Fleet
) -> None:
    behaviour, culprits = FAULTS[fault]
    fleet.change_candidate(**behaviour)
    stage.apply(shadow={"timeout": "1s"})
    status = stage.until_phase("RolledBack")
    assert regressed(status) == culprits
    assert as_it_was(stage)
    assert fleet.live(CANDIDATE) == 0
    assert stage.violations() == ()


def test_a_rollout_that_is_deleted_in_the_shadow_leaves_no_mirror(stage: RolloutStage, fleet: Fleet, lab: Lab) -> None:
    stage.apply(steps=[ENDLESS, *LIVE])
    stage.until_mirrored()
    until(lambda: fleet.shadowed(CANDIDATE), "the candidate is in the shadow", within=PATIENCE)
    lab.api.delete(stage.rollout_path)
    stage.recorder.until(lambda rollout, _: not rollout, "the rollout is gone", within=PATIENCE)
    assert as_it_was(stage)
    assert fleet.live(CANDIDATE) == 0
    assert stage.violations() == ()


@pytest.mark.parametrize("differing", [0.0, 0.3])
def test_an_operator_that_is_killed_in_the_shadow_goes_on_there(
    differing: float, stage: RolloutStage, comparator: Comparator, davylamp: Component, fleet: Fleet
) -> None:
    stage.apply(steps=[{"shadow": {"minPairs": 400}, "bake": "1s"}, *LIVE])
    until(lambda: comparator.pairs(stage.name) >= 20, "some pairs were compared", within=PATIENCE)
    davylamp.kill()
    assert mirrors_of(stage.site.lab.api.get(stage.route_path)), "it was over before the operator was killed"
    fleet.change_candidate(differing=differing)
    davylamp.start()
    if differing:
        assert regressed(stage.until_phase("RolledBack")) == {"disagreement"}
        assert as_it_was(stage)
        assert fleet.live(CANDIDATE) == 0
    else:
        stage.until_weight(20)
        assert stage.status["attempt"]["number"] == 1
    assert stage.violations() == ()


def test_evidence_goes_on_when_the_comparator_was_killed_and_counts_from_0_again(
    stage: RolloutStage, comparator: Comparator, fleet: Fleet, lab: Lab
) -> None:
    stage.apply(steps=[ENDLESS, *LIVE])
    until(lambda: counted(stage) >= 200, "many pairs were counted", within=PATIENCE)
    comparator.kill()
    before = counted(stage)
    comparator.start()
    until(lambda: counted(stage) > before, "the evidence goes on", within=PATIENCE)
    # So that what is compared and what is counted of it come to rest: were those of before forgotten, or had the fall
    # of the counters taken any away, there would never be more.
    stage.traffic.stop()
    until(
        lambda: counted(stage) > comparator.pairs(stage.name),
        "more pairs count than were compared since",
        within=PATIENCE,
    )
    fleet.change_candidate(differing=0.3)
    with SteadyTraffic(lab.gateway_url, stage.host, RATE):
        stage.until_phase("RolledBack")
    assert as_it_was(stage)
    assert fleet.live(CANDIDATE) == 0
    assert stage.violations() == ()


def test_without_a_comparator_the_step_waits_and_begins_by_itself_once_there_is_one(
    lonely: RolloutStage, lab: Lab
) -> None:
    lonely.apply()
    status = lonely.until_reason("ComparatorNotReady")
    assert status["phase"] == "Held"
    assert "davylamp-shadow:8090" in status["message"]
    assert not mirrors_of(lonely.route)
    with Comparator(lab, lonely.site.namespace):
        lonely.until_weight(20)
    assert lonely.violations() == ()


def test_a_mirror_that_somebody_takes_off_holds_the_step_until_it_is_back(stage: RolloutStage) -> None:
    stage.apply()
    stage.until_mirrored()
    rules = stage.site.lab.api.get(stage.route_path)["spec"]["rules"]
    stage.edit_rules(without_mirrors(rules), who="kubectl-edit")
    status = stage.until_reason("MirrorRemoved")
    assert status["phase"] == "Held"
    assert f"kubectl-edit took the mirror to davylamp-shadow:8090 off route {stage.name}" in status["message"]
    assert not mirrors_of(stage.site.lab.api.get(stage.route_path))
    stage.edit_rules(rules)
    stage.until_weight(20)
    assert stage.violations() == ()


def test_two_rollouts_on_one_port_of_the_comparator_mirror_one_after_the_other(
    stage: RolloutStage, shadow_site: Site, fleet: Fleet, lab: Lab
) -> None:
    stage.apply(steps=[ENDLESS, *LIVE])
    stage.until_mirrored()
    with staged(shadow_site, f"churn-{next(NUMBERS)}") as younger:
        younger.apply()
        status = younger.until_reason("ComparatorTaken")
        assert status["phase"] == "Held"
        assert f"is used by ModelRollout {NAMESPACE}/{stage.name}" in status["message"]
        assert not mirrors_of(lab.api.get(younger.route_path))
        assert stage.status["phase"] == "Progressing"
        assert fleet.live(CANDIDATE) == 0
        lab.api.delete(stage.rollout_path)
        younger.until_mirrored()
        assert as_it_was(stage)
        younger.until_weight(20)
        assert younger.violations() == ()
    lab.api.delete(younger.route_path)


@pytest.fixture
def deaf(lab: Lab) -> Iterator[None]:
    """A GatewayClass that says what it can do, and mirroring is not among it."""
    path = "/apis/gateway.networking.k8s.io/v1/gatewayclasses/contour/status"
    lab.api.merge(path, {"status": {"supportedFeatures": [{"name": "HTTPRoute"}]}})
    yield
    lab.api.merge(path, {"status": {"supportedFeatures": None}})


@pytest.mark.usefixtures("deaf")
def test_a_gateway_that_cannot_mirror_is_told_with_what_else_there_is(stage: RolloutStage, fleet: Fleet) -> None:
    stage.apply()
    stage.until_message("Gateway lab cannot mirror requests")
    status = stage.status
    assert status["phase"] == "Held"
    assert "davylamp diff" in status["message"]
    assert mirrored_weights(stage) == set()
    assert fleet.live(CANDIDATE) == fleet.shadowed(CANDIDATE) == 0
    assert stage.violations() == ()


def test_pairs_that_disagree_can_be_looked_at_without_what_is_to_stay_secret(
    stage: RolloutStage, comparator: Comparator, fleet: Fleet
) -> None:
    fleet.change_candidate(differing=0.2)
    stage.apply(
        steps=[ENDLESS, *LIVE],
        gates=SPEC["gates"] | {"disagreement": {"limit": "50%"}},
        shadow={"capture": {"pairs": 3, "redact": ["$.inputs[*].data"]}},
    )

    def captured() -> list[Any]:
        status, body = comparator.read(f"/captures/{stage.site.namespace}/{stage.name}")
        return json.loads(body)["pairs"] if status == HTTPStatus.OK else []

    until(lambda: len(captured()) == 3, "three pairs are kept", within=PATIENCE)
    for pair in captured():
        (asked,) = json.loads(pair["request"]["text"])["inputs"]
        assert asked == {"name": "row", "shape": [1], "datatype": "FP32", "data": "[redacted]"}
        labels = [json.loads(pair[side]["text"])["outputs"][0]["data"] for side in ("baseline", "candidate")]
        assert sorted(labels) == [[0], [1]]
        assert "Decision" in pair["differences"]
    assert stage.violations() == ()
