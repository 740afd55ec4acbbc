from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from davylamp.core.looking import FIRST_WINDOW
from davylamp.core.plan import OddsRatioMargin
from davylamp.errors import SpecError
from davylamp.offline.subject import rollout_of_service, subject_of
from davylamp.runtime.catalogue import Name
from tests.davylamp.offline.pasts import BEGINS, ROLLOUT, subject

POLICY = {
    "apiVersion": "davylamp.dev/v1alpha1",
    "kind": "ClusterRolloutPolicy",
    "metadata": {"name": "classifier"},
    "spec": {"gates": {"errors": {"margin": {"oddsRatio": 3}}}},
}
SOURCE = {
    "apiVersion": "davylamp.dev/v1alpha1",
    "kind": "MetricSource",
    "metadata": {"name": "default"},
    "spec": {"prometheus": {"address": "http://p:9090", "maxSampleAge": "2m"}},
}


def referring(**ref: str) -> dict[str, Any]:
    spec = {**ROLLOUT["spec"], "policyRef": ref}
    del spec["gates"]
    return ROLLOUT | {"spec": spec}


def test_policy_and_source_come_from_the_files() -> None:
    found = subject_of(
        [SOURCE, POLICY, referring(kind="ClusterRolloutPolicy", name="classifier"), {"kind": "Other"}, 7]
    )
    assert found.name == Name("ml", "credit")
    assert found.plan.gates[0].margin == OddsRatioMargin(3)
    assert found.settings.max_sample_age == timedelta(minutes=2)
    assert found.reach(BEGINS) == BEGINS - FIRST_WINDOW - timedelta(seconds=121)
    assert found.reach(BEGINS, timedelta(0)) == BEGINS - timedelta(seconds=121)


def test_a_local_policy_may_stand_in_a_file_without_a_namespace() -> None:
    local = POLICY | {"kind": "RolloutPolicy"}
    assert subject_of([local, referring(kind="RolloutPolicy", name="classifier")]).plan.gates


def test_a_policy_in_no_file_is_named() -> None:
    with pytest.raises(SpecError, match="ClusterRolloutPolicy classifier, which does not exist"):
        subject_of([referring(kind="ClusterRolloutPolicy", name="classifier")])


@pytest.mark.parametrize(
    ("objects", "name", "words"),
    [
        ([], None, r"hold 0 \(none\)"),
        ([ROLLOUT, ROLLOUT | {"metadata": {"name": "churn"}}], None, r"hold 2 \(churn, credit\)"),
        ([ROLLOUT], "churn", r"one ModelRollout named churn, and hold 0 \(none\)"),
        ([ROLLOUT | {"spec": {}}], None, "baseline"),
        ([ROLLOUT, SOURCE | {"spec": {}}], None, "MetricSource default: prometheus"),
    ],
)
def test_what_is_no_single_good_rollout_is_refused(objects: list[Any], name: str | None, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        subject_of(objects, name=name)


def test_the_namespace_is_that_of_the_manifest_then_the_given_one_then_the_default() -> None:
    homeless = ROLLOUT | {"metadata": {"name": "credit"}}
    assert subject_of([ROLLOUT], "other").name.namespace == "ml"
    assert subject_of([homeless], "other").name.namespace == "other"
    assert subject_of([homeless]).name.namespace == "default"


def test_a_service_alone_is_looked_at_by_the_defaults() -> None:
    found = subject_of([rollout_of_service("credit-fp32", 8080, "ml", "mlserver")])
    assert [gate.name for gate in found.plan.gates] == ["errors", "latency"]
    assert found.plan.pair.baseline == "credit-fp32:8080"
    with pytest.raises(SpecError, match="preset"):
        subject_of([rollout_of_service("credit-fp32", 8080, "ml", "nonsense")])


def test_each_query_is_asked_once() -> None:
    selectors = subject().selectors(BEGINS)
    assert len(selectors) == len(set(selectors)) == 2


def test_every_example_of_a_rollout_can_be_replayed() -> None:
    for path in Path("docs/examples").glob("*.yaml"):
        objects = list(yaml.safe_load_all(path.read_text("utf-8")))
        if any(found.get("kind") == "ModelRollout" for found in objects):
            assert subject_of(objects).selectors(BEGINS)
