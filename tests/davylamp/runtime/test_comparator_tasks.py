"""Which rollouts the comparator serves, and how."""

from typing import Any

import pytest

from davylamp.api.v1alpha1.policy import PolicyKind
from davylamp.core.model import Phase, Ruling
from davylamp.errors import SpecError
from davylamp.runtime.catalogue import Name
from davylamp.runtime.comparator_tasks import Choice, Chosen, Policies, Refusal, shadow_task
from davylamp.shadow.task import Capture, Format, Notion, Replay, Rules, Task
from tests.davylamp.runtime.mirroring import STEPS, Object, at_step, rollout

SERVICE = "davylamp-shadow"


def task_of(manifest: Object, policy: Object | None = None) -> Task | None:
    return shadow_task(manifest, policy, SERVICE)


def chosen(*manifests: Object, policies: Policies | None = None, choice: Choice | None = None) -> Chosen:
    found = {Name("ml", manifest["metadata"]["name"]): manifest for manifest in manifests}
    none: Policies = {kind: {} for kind in PolicyKind}
    return (choice or Choice(SERVICE)).tasks(found, policies or none, lambda backend: f"at-{backend}")


def policy(kind: str, version: str = "1", **spec: Any) -> Object:
    metadata = {"name": "strict", "resourceVersion": version}
    return {"kind": kind, "metadata": metadata, "spec": spec}


def test_a_rollout_at_a_shadow_step_is_served_with_davylamps_defaults() -> None:
    assert task_of(at_step(rollout())) == Task(
        namespace="ml",
        rollout="credit",
        port=8090,
        baseline="credit-fp32:8080",
        candidate="credit-int8:8080",
        sample=0.2,
    )


def test_slices_are_counted_under_the_name_of_the_attempt_without_those_that_went_back() -> None:
    tensor = {"name": "age", "tensor": {"name": "x", "column": 2}, "bins": [40], "protected": False}
    slices = {
        "attributes": [
            {"name": "sex", "header": "X-Sex", "values": ["Female", "Male"], "protected": False},
            {"name": "job", "jsonPath": "$.job", "values": ["cook"]},
            tensor,
        ],
        "positive": ">50K",
        "gates": [{"metric": "selectionRate", "maxDrop": {"absolute": "2%"}}],
    }
    manifest = rollout(slices=slices, shadow={"capture": {"pairs": 5, "redact": ["$.id"]}})
    found = task_of(at_step(manifest, diverted=("sex=Female",)))
    assert found is not None
    assert found.slicing is not None
    assert [(by.attribute.name, by.attribute.header, by.path, by.tensor, by.column) for by in found.slicing.by] == [
        ("sex", "x-sex", "", "", 0),
        ("job", "", "$.job", "", 0),
        ("age", "", "", "x", 2),
    ]
    assert (found.slicing.attempt, found.slicing.cohort, found.slicing.positive) == ("0123abcd-1+", "0", ">50K")
    assert (found.slicing.key, found.slicing.diverted) == (manifest["metadata"]["uid"], ("sex=Female",))
    assert not found.slicing.awaits_labels
    # What is protected is kept in no captured pair.
    assert found.capture == Capture(5, ("$.id", "$.job"))
    slices["gates"].append({"metric": "accuracy", "maxDrop": {"absolute": "2%"}})  # type: ignore[attr-defined]  # a list
    labelled = task_of(at_step(rollout(slices=slices)))
    assert labelled is not None
    assert labelled.slicing is not None
    assert labelled.slicing.awaits_labels


@pytest.mark.parametrize("step", [-1, 1, 2, 3])
def test_a_step_that_does_not_mirror_is_not_served(step: int) -> None:
    assert task_of(at_step(rollout(), step)) is None


def test_shadow_traffic_beside_live_traffic_is_served_too() -> None:
    steps = [{"weight": 20}, {"weight": 50, "shadow": {"sample": "5%"}}]
    found = task_of(at_step(rollout(steps=steps), 1))
    assert found is not None
    assert found.sample == 0.05
    assert task_of(at_step(rollout(steps=steps), 0)) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"phase": Phase.ROLLED_BACK},
        {"phase": Phase.PROMOTED},
        {"phase": Phase.ROLLING_BACK, "ruling": Ruling.ROLLBACK},
        {"phase": Phase.PROMOTING, "ruling": Ruling.PROMOTE},
        {"attempt": None},
    ],
)
def test_an_attempt_that_is_decided_or_has_not_begun_is_not_served(changes: dict[str, Any]) -> None:
    assert task_of(at_step(rollout(), **changes)) is None


@pytest.mark.parametrize("phase", [Phase.PROGRESSING, Phase.PAUSED, Phase.HELD])
def test_an_attempt_that_stands_still_is_served_on(phase: Phase) -> None:
    assert task_of(at_step(rollout(), phase=phase)) is not None


def test_a_rollout_without_a_status_or_in_deletion_is_not_served() -> None:
    assert task_of(rollout()) is None
    gone = at_step(rollout())
    gone["metadata"]["deletionTimestamp"] = "2026-12-01T00:00:00Z"
    assert task_of(gone) is None


@pytest.mark.parametrize("damage", [[], "x", {"step": {"index": "first"}}, {"phase": 7}])
def test_a_damaged_status_is_not_served(damage: object) -> None:
    assert task_of({**rollout(), "status": damage}) is None


def test_another_comparators_rollout_is_not_served() -> None:
    assert task_of(at_step(rollout(shadow={"comparator": {"name": "mine", "port": 8091}}))) is None


def test_the_pair_of_the_attempt_counts_whatever_the_spec_says_since() -> None:
    changed = at_step(rollout())
    changed["spec"]["candidate"]["backend"]["name"] = "credit-int4"
    found = task_of(changed)
    assert found is not None
    assert found.candidate == "credit-int8:8080"


def test_everything_that_a_rollout_says_about_shadow_traffic_reaches_the_task() -> None:
    shadow = {
        "comparator": {"name": "davylamp-shadow", "port": 8105},
        "methods": ["PUT"],
        "paths": ["/score/*"],
        "passHeaders": ["Authorization"],
        "passQuery": ["API_Key"],
        "noise": "10%",
        "timeout": "3s",
        "concurrency": 2,
        "maxBodyBytes": 2048,
        "compare": {
            "format": "JSON",
            "disagreement": "Exact",
            "absolute": 0.5,
            "relative": 0.25,
            "threshold": 0.75,
            "topK": 3,
            "similarity": 0.5,
            "cosine": 0.125,
            "select": ["$.a"],
            "ignore": ["$.b"],
        },
        "capture": {"pairs": 7, "redact": ["$.name"]},
    }
    assert task_of(at_step(rollout(shadow=shadow, gates={"pairedLatency": {"slowdown": "25%"}}))) == Task(
        namespace="ml",
        rollout="credit",
        port=8105,
        baseline="credit-fp32:8080",
        candidate="credit-int8:8080",
        sample=0.2,
        noise=0.1,
        slowdown=0.25,
        rules=Rules(Format.JSON, Notion.EXACT, 0.5, 0.25, 0.75, 3, 0.5, 0.125, ("$.a",), ("$.b",)),
        replay=Replay(
            frozenset({"PUT"}), ("/score/*",), frozenset({"authorization"}), frozenset({"api_key"}), 3.0, 2, 2048
        ),
        capture=Capture(7, ("$.name",)),
    )


@pytest.mark.parametrize("where", ["select", "ignore", "redact"])
def test_what_is_no_jsonpath_is_refused(where: str) -> None:
    compare: Object = {} if where == "redact" else {where: ["$.[["]}
    shadow = {"compare": compare, "capture": {"pairs": 1, "redact": ["$.[["] if where == "redact" else []}}
    with pytest.raises(SpecError, match="is no JSONPath"):
        task_of(at_step(rollout(shadow=shadow)))


def test_what_a_policy_says_counts_under_the_rollouts_own() -> None:
    said = policy("RolloutPolicy", shadow={"noise": "1%", "concurrency": 3}, steps=STEPS)
    mine = at_step(rollout(shadow={"noise": "2%"}, policyRef={"kind": "RolloutPolicy", "name": "strict"}))
    found = task_of(mine, said)
    assert found is not None
    assert (found.noise, found.replay.concurrency) == (0.02, 3)


@pytest.mark.parametrize("kind", ["RolloutPolicy", "ClusterRolloutPolicy"])
def test_a_policy_is_found_where_its_kind_lies(kind: str) -> None:
    mine = at_step(rollout(policyRef={"kind": kind, "name": "strict"}))
    place = Name("ml" if kind == "RolloutPolicy" else "", "strict")
    others: Policies = {each: {} for each in PolicyKind}
    found = {PolicyKind(kind): {place: policy(kind, shadow={"noise": "1%"})}}
    assert [task.noise for task in chosen(mine, policies={**others, **found}).tasks] == [0.01]
    (refused,) = chosen(mine).refused
    assert refused.refusal is Refusal.WRONG_SPEC
    assert f"{kind} strict, which does not exist" in refused.why


@pytest.mark.parametrize("spec", [{"policyRef": "strict"}, {"steps": "many"}, {"route": None}])
def test_a_spec_that_cannot_be_understood_is_refused_and_says_why(spec: Object) -> None:
    broken = at_step(rollout())
    broken["spec"] |= spec
    found = chosen(broken)
    assert found.tasks == ()
    (refused,) = found.refused
    assert (refused.rollout, refused.refusal) == (Name("ml", "credit"), Refusal.WRONG_SPEC)
    assert next(iter(spec)) in refused.why


def test_variants_are_called_where_they_are_found() -> None:
    (task,) = chosen(at_step(rollout())).tasks
    assert (task.baseline, task.candidate) == ("at-credit-fp32:8080", "at-credit-int8:8080")


def test_the_older_rollout_has_the_port_and_the_other_says_so() -> None:
    young, old = rollout("a-young"), rollout("old", created="2026-11-01T00:00:00Z")
    apart = rollout("apart", shadow={"comparator": {"port": 8091}})
    found = chosen(at_step(young), at_step(old), at_step(apart))
    assert {task.rollout for task in found.tasks} == {"old", "apart"}
    (refused,) = found.refused
    assert (refused.rollout.name, refused.refusal) == ("a-young", Refusal.PORT_TAKEN)
    assert "port 8090 belongs to the older ModelRollout old" in refused.why


def test_a_rollout_over_grpc_has_the_port_that_it_names() -> None:
    manifest = rollout(shadow={"comparator": {"port": 8092, "protocol": "GRPC"}})
    (task,) = chosen(at_step(manifest)).tasks
    assert task.port == 8092


def test_an_older_rollout_that_does_not_mirror_takes_no_port() -> None:
    old = rollout("old", created="2026-11-01T00:00:00Z")
    found = chosen(at_step(rollout("young")), at_step(old, 1))
    assert [task.rollout for task in found.tasks] == ["young"]
    assert found.refused == ()


def test_a_rollout_and_its_policy_are_read_again_when_they_have_another_version() -> None:
    choice = Choice(SERVICE)
    ref = {"kind": "ClusterRolloutPolicy", "name": "strict"}

    def noise(rollout_version: str, own: str, policy_version: str, theirs: str) -> list[float]:
        mine = at_step(rollout(policyRef=ref, shadow={"capture": {"pairs": int(own)}}))
        mine["metadata"]["resourceVersion"] = rollout_version
        said = {Name("", "strict"): policy(ref["kind"], policy_version, shadow={"noise": theirs})}
        policies: Policies = {PolicyKind.CLUSTER_ROLLOUT_POLICY: said, PolicyKind.ROLLOUT_POLICY: {}}
        (task,) = chosen(mine, policies=policies, choice=choice).tasks
        return [task.noise, task.capture.pairs]

    assert noise("1", "0", "1", "1%") == [0.01, 0]
    assert noise("1", "0", "1", "7%") == [0.01, 0], "the same version is the same object, and is not read again"
    assert noise("1", "0", "2", "7%") == [0.07, 0]
    assert noise("2", "5", "2", "7%") == [0.07, 5]
