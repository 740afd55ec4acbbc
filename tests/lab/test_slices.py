"""Groups that a candidate serves worse, on a real control plane: found by labels that come late and out of order.

Who serves requests are stand-ins; what both variants said of 22,611 people, and the truth, are the demo's models' and
the census', posted to the service of labels as a comparator and its user would. A thousand people at a time, about
half of whose labels come with the next thousand, so that all have come after 23 thousands.
"""

import random
import re
from collections.abc import Iterator
from typing import Any
from urllib.request import urlopen

import numpy as np
import pytest
from numpy.typing import NDArray
from prometheus_client.parser import text_string_to_metric_families

from e2e.demo.models.artifacts import HeldOut, Models, ensure_models
from e2e.demo.models.fairness import ensure_unfair, groups, recalls
from e2e.demo.models.quality import THRESHOLD
from e2e.lab import Component, Lab
from e2e.lab.waiting import until
from e2e.stage.comparator import Comparator
from e2e.stage.invariants import states, weight_of
from e2e.stage.labels import Labels
from e2e.stage.premises import CANDIDATE, Fleet, Site
from e2e.stage.recorder import Object
from e2e.stage.rollout_stage import PATIENCE, QUICK, RolloutStage

AT_ONCE = 1_000
#: Lasts as long as a test wants it to.
ENDLESS = {"shadow": {"minPairs": 1_000_000}, "bake": "1s"}
SLICES = {
    "attributes": [
        {"name": "sex", "header": "x-sex", "values": ["Female", "Male"], "protected": False},
        {"name": "race", "header": "x-race", "values": ["White", "Black"], "protected": False},
    ],
    "intersections": [["race", "sex"]],
    "positive": "1",
    "gates": [{"metric": "truePositiveRate", "maxDrop": {"absolute": "2%"}}],
}
NAMED = {f"{race}{sex}" for race in ("", "race=White,", "race=Black,") for sex in ("sex=Female", "sex=Male")} | {
    "race=White",
    "race=Black",
}

#: How a message says that a group is served worse.
SENTENCE = r"true positive rate of {} fell by [0-9.]+ points, 95 % sequence [-0-9.]+ to [0-9.]+, [0-9,]+ pairs"

Flags = NDArray[np.bool_]


@pytest.fixture(scope="module")
def models() -> Models:
    return ensure_models(lambda _: None)


@pytest.fixture(scope="module")
def people(models: Models) -> HeldOut:
    return models.held_out()


@pytest.fixture
def service(lab: Lab, lab_namespace: str) -> Iterator[Labels]:
    with Labels(lab, lab_namespace) as made:
        yield made


@pytest.fixture
def sliced(davylamp: Component, site: Site, service: Labels) -> Iterator[RolloutStage]:
    """A rollout with gates on slices that was not applied yet, beside a comparator and the service of labels."""
    joined = {"DAVYLAMP_LABELS_URL": service.url, "DAVYLAMP_LABELS_TOKEN_FILE": str(service.token_file)}
    with Comparator(site.lab, site.namespace, joined), RolloutStage(site, "income") as made:
        # Far more than any variant decides otherwise, so that slices decide.
        gates = QUICK["gates"] | {"disagreement": {"limit": "50%"}}
        made.manifest["spec"] |= {"steps": [ENDLESS, *QUICK["steps"]], "gates": gates, "slices": SLICES}
        davylamp.wait_ready()
        made.site.fleet.heal()
        yield made


class Feeder:
    """Posts what both variants said of all people, and then the truth, late and out of order."""

    def __init__(self, stage: RolloutStage, service: Labels, people: HeldOut) -> None:
        self._stage = stage
        self._service = service
        self._people = people
        self._members = {name: members for name, members in groups(people) if name in NAMED}
        self._draws = random.Random(5)  # noqa: S311 - test data

    def feed(self, candidate: Flags, *phases: str) -> None:
        """Post until all labels are posted, or a phase is reached."""
        attempt = self._stage.status["attempt"]["id"]
        order = list(range(len(candidate)))
        self._draws.shuffle(order)
        waiting: list[int] = []
        for first in range(0, len(order), AT_ONCE):
            now = order[first : first + AT_ONCE]
            self._service.predict([self._prediction(attempt, row, candidate) for row in now])
            # Some twice, and each of the last thousand's after some of this one's.
            waiting = [*waiting, *now]
            self._draws.shuffle(waiting)
            half = len(waiting) // 2
            self._label([*waiting[:half], *waiting[: half // 10]])
            waiting = waiting[half:]
            if self._stage.status.get("phase") in phases:
                return
        self._label(waiting)

    def _label(self, rows: list[int]) -> None:
        truth = self._people.over_50k
        self._service.label([{"id": f"person-{row}", "label": bool(truth[row])} for row in rows])

    def _prediction(self, attempt: str, row: int, candidate: Flags) -> dict[str, Any]:
        return {
            "id": f"person-{row}",
            "namespace": self._stage.site.namespace,
            "rollout": self._stage.name,
            "attempt": attempt,
            "cohort": "0",
            "slices": [name for name, members in self._members.items() if members[row]],
            "positive": "1",
            "baseline": {"decision": bool(self._people.probability["fp32"][row] >= THRESHOLD)},
            "candidate": {"decision": bool(candidate[row])},
        }


def as_it_was(stage: RolloutStage) -> bool:
    """Whether the route in the API server is what its owner wrote."""
    route = stage.site.lab.api.get(stage.route_path)
    return bool(route["spec"] == stage.original["spec"])


def weights(stage: RolloutStage) -> set[int]:
    """Return all weights that the candidate ever had."""
    return {weight_of(state.route, CANDIDATE) for state in states(stage.recorder.history) if state.route}


def regressed(status: Object) -> set[str]:
    return {signal["name"] for signal in status["signals"] if signal["verdict"] == "Regressed"}


def counted(service: Labels, name: str, labels: dict[str, str]) -> float:
    with urlopen(f"{service.url}/metrics", timeout=5) as answer:  # noqa: S310 - the lab's own
        families = list(text_string_to_metric_families(answer.read().decode()))
    samples = (sample for family in families for sample in family.samples)
    return sum(each.value for each in samples if each.name == name and labels.items() <= each.labels.items())


def test_what_both_variants_decided_on_mirrored_requests_reaches_the_service_of_labels_by_slice(
    sliced: RolloutStage, service: Labels
) -> None:
    sliced.apply()
    sliced.until_mirrored()
    came = {"rollout": sliced.name, "attempt": sliced.status["attempt"]["id"], "slice": ""}
    name = "davylamp_label_predictions_total"
    until(lambda: counted(service, name, came) >= 100, "100 decisions came", within=PATIENCE)
    assert counted(service, name, came | {"slice": "race=other,sex=other"}) > 0


def test_the_pruned_variant_is_taken_back_for_its_recall_before_it_answers_anybody(
    sliced: RolloutStage, service: Labels, people: HeldOut, fleet: Fleet
) -> None:
    sliced.apply()
    sliced.until_mirrored()
    Feeder(sliced, service, people).feed(people.probability["pruned"] >= THRESHOLD, "RolledBack")
    status = sliced.until_phase("RolledBack", within=PATIENCE)
    assert status["reason"] == "Regressed"
    assert re.search(SENTENCE.format("(all|[a-zA-Z=,]+)"), status["message"])
    assert all("truePositiveRate" in name for name in regressed(status))
    assert weights(sliced) == {0}
    assert fleet.live(CANDIDATE) == 0
    assert as_it_was(sliced)
    assert sliced.violations() == ()


def test_a_variant_that_is_pruned_for_women_alone_is_taken_back_for_the_recall_of_women(
    sliced: RolloutStage, service: Labels, people: HeldOut
) -> None:
    said = np.where(people.men, people.probability["fp32"], people.probability["pruned"])
    sliced.apply()
    sliced.until_mirrored()
    Feeder(sliced, service, people).feed(said >= THRESHOLD, "RolledBack")
    status = sliced.until_phase("RolledBack", within=PATIENCE)
    assert re.search(SENTENCE.format("[a-zA-Z=,]*sex=Female"), status["message"])
    assert not {name for name in regressed(status) if "sex=Male" in name}
    assert weights(sliced) == {0}
    assert as_it_was(sliced)


def test_a_variant_that_is_damaged_for_one_intersection_alone_is_found(
    sliced: RolloutStage, service: Labels, people: HeldOut, models: Models
) -> None:
    said = ensure_unfair(models, lambda _: None).probability
    assert recalls(people, said)[""].loss < 0.5
    sliced.apply()
    sliced.until_mirrored()
    Feeder(sliced, service, people).feed(said >= THRESHOLD, "RolledBack")
    status = sliced.until_phase("RolledBack", within=PATIENCE)
    assert re.search(SENTENCE.format("race=Black,sex=Female"), status["message"])
    assert not {name for name in regressed(status) if "White" in name or "Male" in name}
    assert weights(sliced) == {0}
    assert as_it_was(sliced)
    assert sliced.violations() == ()
