"""What a real API server refuses and takes."""

from __future__ import annotations

import json
import subprocess
import uuid
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kubernetes.client import ApiException

from davylamp.api.v1alpha1.convert import read_spec, to_plan
from davylamp.api.v1alpha1.findings import checkpoint_of, signals_of
from davylamp.api.v1alpha1.kinds import GROUP, MODEL_ROLLOUT, VERSION
from davylamp.api.v1alpha1.progress import to_progress, to_status
from davylamp.api.v1alpha1.rollout import ModelRolloutSpec
from davylamp.api.v1alpha1.schema import structural
from davylamp.api.v1alpha1.status import MAX_STATE, ModelRolloutStatus
from davylamp.api.v1alpha1.stored import read_status
from davylamp.core.checkpoint import resume
from davylamp.core.judge import judge
from davylamp.core.model import ALL, NONE, Phase, Progress, Reason, Ruling
from tests.davylamp.api.conftest import Cluster
from tests.davylamp.api.largest import largest_evidence, largest_rollout
from tests.davylamp.api.manifests import Manifest, changed, drop, examples, paths, put, rollout, smallest
from tests.davylamp.api.test_progress import RUNNING, SHOWN, progresses
from tests.davylamp.api.wrong import WRONG, Wrong

pytestmark = pytest.mark.lab

T0 = "2026-03-01T12:00:00Z"
PAIR = {"route": "credit", "baseline": "credit-fp32:8080", "candidate": "credit-int8:8080"}


def words(refusal: pytest.ExceptionInfo[ApiException]) -> str:
    message: str = json.loads(refusal.value.body or "{}")["message"]
    return message


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.name)
def test_a_wrong_manifest_is_refused_with_its_field_and_the_remedy(cluster: Cluster, wrong: Wrong) -> None:
    with pytest.raises(ApiException) as refusal:
        cluster.create(wrong.manifest)
    assert refusal.value.status in {400, 422}
    assert wrong.field in words(refusal)
    assert wrong.remedy in words(refusal)


@pytest.mark.parametrize("manifest", examples().values(), ids=examples().keys())
def test_the_examples_are_taken(cluster: Cluster, manifest: Manifest) -> None:
    assert cluster.create(manifest)["kind"] == manifest["kind"]


@pytest.mark.parametrize(
    "manifest",
    [
        changed(smallest(), put("spec.steps", [{"weight": weight} for weight in range(1, 51)])),
        changed(smallest(), put("spec.steps", [{"weight": 100, "bake": "7d"}])),
        changed(smallest(), put("spec.candidate.backend", {"name": "credit-fp32", "port": 8081})),
        changed(smallest(), put("spec.interval", "1s")),
        changed(smallest(), put("metadata.name", "a" * 63)),
        changed(rollout(), put("spec.rollback.onNoData", {"hold": "1d", "policy": "Hold"})),
        changed(rollout(), put("spec.gates.falseRollbackRate", "0.0001%"), put("spec.gates.falsePromotionRate", "50%")),
        changed(rollout(), drop("spec.baseline.metrics"), drop("spec.candidate.metrics")),
    ],
    ids=["50 steps", "one step of 100", "ports differ", "tick of a second", "long name", "never", "rates", "labels"],
)
def test_what_is_just_within_the_limits_is_taken(cluster: Cluster, manifest: Manifest) -> None:
    assert cluster.create(manifest)["spec"]


def test_defaults_are_filled_in(cluster: Cluster) -> None:
    bare = changed(rollout(), put("spec.rollback.onNoData", {}), drop("spec.paused"), drop("spec.interval"))
    bare = changed(bare, put("spec.notify", [{"channel": "team"}]))
    spec = cluster.create(bare)["spec"]
    assert (spec["paused"], spec["interval"]) == (False, "10s")
    assert spec["candidate"]["backend"] == {"group": "", "kind": "Service", "name": "credit-int8", "port": 8080}
    assert spec["rollback"]["onNoData"] == {"hold": "5m", "thenRollBackAfter": "15m", "policy": "RollBack"}
    assert spec["notify"] == [{"channel": "team", "from": "Info"}]


def test_what_a_policy_may_say_has_no_default_in_the_object(cluster: Cluster) -> None:
    """A default of the schema would look like the ModelRollout's own word, and win over its policy."""
    spec = cluster.create(smallest())["spec"]
    assert not {"gates", "rollback", "promotion", "notify"} & spec.keys()
    assert spec["signals"] == {"preset": "mlserver"}


@pytest.fixture
def stored(cluster: Cluster) -> Manifest:
    """A ModelRollout that exists."""
    return cluster.create(changed(smallest(), put("metadata.name", f"r-{uuid.uuid4().hex[:8]}")), dry_run=False)


def status(attempt: int = 1, weight: int = 25, verdict: str | None = "Continue", epoch: int = 7) -> Manifest:
    made: Manifest = {
        "observedGeneration": 1,
        "phase": "Progressing",
        "epoch": epoch,
        "attempt": {
            "id": f"a{attempt}",
            "number": attempt,
            "candidateDigest": "sha256:1",
            "specHash": "h",
            "startedAt": T0,
            "pair": PAIR,
        },
        "weight": {"requested": weight},
    }
    if verdict:
        made["decision"] = {"id": f"a{attempt}", "verdict": verdict, "reason": "Regressed", "at": T0}
    return made


REFUSED: dict[str, tuple[Manifest, Manifest | None, str]] = {
    "epoch falls": (status(epoch=7), status(epoch=6), "the epoch never falls"),
    "epoch is dropped": (status(), changed(status(), drop("epoch")), "the epoch never falls"),
    "status is dropped": (status(), None, "the status holds whether a candidate was rolled back"),
    "status is emptied": (status(), {}, "the epoch never falls"),
    "rollback becomes continue": (status(verdict="Rollback"), status(weight=0), "a rollback is final"),
    "rollback becomes promote": (status(verdict="Rollback"), status(weight=0, verdict="Promote"), "rollback is final"),
    "rollback is forgotten": (status(verdict="Rollback"), status(weight=0, verdict=None), "a rollback is final"),
    "attempt is forgotten": (
        status(verdict="Rollback"),
        changed(status(verdict=None, weight=0), drop("attempt")),
        "attempts are counted upwards",
    ),
    "weight rises after a rollback": (
        status(weight=25, verdict="Rollback"),
        status(weight=26, verdict="Rollback"),
        "the weight does not rise after a rollback",
    ),
    "weight appears after a rollback": (
        changed(status(verdict="Rollback"), drop("weight")),
        status(weight=1, verdict="Rollback"),
        "the weight does not rise after a rollback",
    ),
    "a new attempt with the old number": (
        status(attempt=1, verdict="Rollback"),
        changed(status(attempt=1, verdict=None, weight=0), put("attempt.id", "other")),
        "a new id needs a higher number",
    ),
    "an attempt changes its number": (
        status(attempt=2),
        changed(status(attempt=2), put("attempt.number", 3)),
        "an attempt keeps its number",
    ),
    "a new attempt begins with a raise": (
        status(attempt=1, weight=0, verdict="Rollback"),
        status(attempt=2, weight=5),
        "a new attempt does not begin with a raise",
    ),
    "a decision about another attempt": (
        status(),
        changed(status(), put("decision.id", "a0")),
        "decision.id must be attempt.id",
    ),
    "a weight above 100": (status(), status(weight=101), "less than or equal to 100"),
    "an unknown phase": (status(), changed(status(), put("phase", "Fine")), "supported values"),
    "too many messages": (
        status(),
        status() | {"outbox": [{"key": str(i), "fact": "x", "severity": "Info", "createdAt": T0} for i in range(17)]},
        "must have at most 16 items",
    ),
}


@pytest.mark.parametrize(("before", "after", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_the_api_server_refuses_a_status_that_would_undo_safety(
    cluster: Cluster, stored: Manifest, before: Manifest, after: Manifest | None, message: str
) -> None:
    cluster.write_status(stored, before)
    with pytest.raises(ApiException) as refusal:
        cluster.write_status(stored, after)
    assert refusal.value.status == 422
    assert message in words(refusal)


TAKEN: dict[str, tuple[Manifest, Manifest]] = {
    "weight rises step by step": (status(weight=5), status(weight=25)),
    "weight falls": (status(weight=25), status(weight=5)),
    "a new leader": (status(epoch=7), status(epoch=8)),
    "rollback is decided": (status(weight=25), status(weight=25, verdict="Rollback")),
    "rollback is carried out": (status(weight=25, verdict="Rollback"), status(weight=0, verdict="Rollback")),
    "rollback after the decision to promote": (status(verdict="Promote"), status(weight=0, verdict="Rollback")),
    "a new attempt": (status(attempt=1, weight=0, verdict="Rollback"), status(attempt=2, weight=0, verdict=None)),
    "a new attempt in mid-rollout": (status(attempt=1, weight=25), status(attempt=2, weight=0)),
    "the same again": (status(), status()),
}


@pytest.mark.parametrize(("before", "after"), TAKEN.values(), ids=TAKEN.keys())
def test_the_api_server_takes_every_step_of_the_protocol(
    cluster: Cluster, stored: Manifest, before: Manifest, after: Manifest
) -> None:
    cluster.write_status(stored, before)
    assert cluster.write_status(stored, after)["status"] == after


def test_a_change_of_the_spec_keeps_the_status(cluster: Cluster, stored: Manifest) -> None:
    written = cluster.write_status(stored, status(verdict="Rollback", weight=0))
    body: Manifest = changed(written, put("spec.paused", True), drop("status"))
    name = stored["metadata"]["name"]
    replaced: Any = cluster.objects.replace_namespaced_custom_object(
        GROUP, VERSION, cluster.namespace, MODEL_ROLLOUT.plural, name, body
    )
    assert replaced["status"] == written["status"]
    assert replaced["metadata"]["generation"] == 2


def fullest(schema: Manifest, salt: int = 0) -> Any:
    """Return the longest value that a schema of the status allows."""
    if schema["type"] == "object":
        return {name: fullest(field, salt) for name, field in schema["properties"].items()}
    if schema["type"] == "array":
        return [fullest(schema["items"], index) for index in range(schema["maxItems"])]
    if schema["type"] == "string":
        return longest_text(schema, salt)
    longest: dict[str, Any] = {"boolean": False, "integer": 2**53, "number": 1.2345678901234567e-100}
    return schema.get("maximum", longest[schema["type"]])


def longest_text(schema: Manifest, salt: int) -> str:
    if "enum" in schema:
        return str(max(schema["enum"], key=len))
    if schema.get("format") == "date-time":
        return "2026-03-01T12:00:00.123456Z"
    if "pattern" in schema:
        return ":65535".rjust(int(schema["maxLength"]), "x")
    if schema["maxLength"] == MAX_STATE:
        return '"' * MAX_STATE
    return f"{salt:04}".ljust(schema["maxLength"], "x")


def test_the_fullest_object_can_be_stored_and_judged(cluster: Cluster) -> None:
    """Every limit at once: etcd takes 1.5 MiB, and the rules have a budget at run time, too."""
    full = largest_rollout()
    assert len(json.dumps(full["spec"])) < 64 * 1024
    created = cluster.create(full, dry_run=False)
    state = fullest(structural(ModelRolloutStatus, defaults=False))
    state["decision"]["id"] = state["attempt"]["id"]
    assert len(json.dumps(state)) < 1024 * 1024
    cluster.write_status(created, state)
    assert cluster.write_status(created, state)["status"] == state


def test_the_most_that_can_be_seen_survives_a_restart_to_its_last_bit(cluster: Cluster) -> None:
    manifest = changed(largest_rollout(), put("metadata.name", f"r-{uuid.uuid4().hex[:8]}"))
    created = cluster.create(manifest, dry_run=False)
    plan = to_plan(read_spec(created["spec"]))
    evidence = largest_evidence(plan, datetime(2026, 3, 1, 12, tzinfo=UTC))
    shown = replace(SHOWN, evidence=checkpoint_of(plan, evidence), signals=signals_of(judge(plan, evidence)[1]))
    written = cluster.write_status(created, to_status(RUNNING, shown).manifest())["status"]
    kept = read_status(written).status.evidence
    assert kept is not None
    assert resume(plan, kept.state, kept.as_of).streams == evidence.streams
    assert [signal["name"] for signal in written["signals"]] == [gate.name for gate in plan.gates]


def judged_by_models(manifest: Manifest) -> bool:
    try:
        ModelRolloutSpec.parse(manifest["spec"])
    except ValueError:
        return False
    return True


def judged_by_server(cluster: Cluster, manifest: Manifest) -> bool:
    try:
        cluster.create(manifest)
    except ApiException as refusal:
        if refusal.status in {400, 422}:
            return False
        raise
    return True


VALUES = st.one_of(
    st.sampled_from(
        ["1%", "50%", "100%", "0%", "5m", "30s", "7d", "1h", "Hold", "Either", "Lower", "envoy", "approvals"]
    ),
    st.sampled_from(["credit-fp32", "credit_total", "a b", "", "ä", "errors", "Service", "x" * 64, "1.5%", "5 m", "A"]),
    st.sampled_from([0, 1, 5, 25, 50, 99, 100, 101, -1, 1.25, 10.5, True, False, [], {}, [{}], {"a": "b"}]),
)
PLACES = [".".join(map(str, path)) for path in paths(rollout()["spec"], ("spec",)) if len(path) > 1]


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.sampled_from(PLACES), VALUES)
def test_the_models_and_the_api_server_judge_alike(cluster: Cluster, where: str, value: Any) -> None:
    """The engine and the command line check again what the API server checked, since stored objects may be older.

    Left out is 5.0 for a whole number, of which the API server itself thinks differently from field to field.
    """
    manifest = changed(rollout(), put(where, value))
    assert judged_by_models(manifest) == judged_by_server(cluster, manifest)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(progresses)
def test_every_status_that_davylamp_writes_is_taken_and_kept_whole(cluster: Cluster, progress: Progress) -> None:
    created = cluster.create(changed(smallest(), put("metadata.name", f"r-{uuid.uuid4().hex[:8]}")), dry_run=False)
    written = cluster.write_status(created, to_status(progress, SHOWN).manifest())["status"]
    read = read_status(written)
    assert read.damages == ()
    assert to_progress(read) == progress


PROMOTED = replace(
    RUNNING,
    phase=Phase.PROMOTED,
    reason=Reason.ALL_GATES_PASSED,
    ruling=Ruling.PROMOTE,
    ruling_reason=Reason.ALL_GATES_PASSED,
    step=4,
    requested=ALL,
)
ROLLED_BACK = replace(
    RUNNING,
    phase=Phase.ROLLED_BACK,
    reason=Reason.REGRESSED,
    ruling=Ruling.ROLLBACK,
    ruling_reason=Reason.REGRESSED,
    requested=NONE,
)


@pytest.mark.parametrize(
    ("end", "conditions"),
    [
        (PROMOTED, ["Promoted", "Ready", "Stalled=False", "RolledBack=False"]),
        (ROLLED_BACK, ["RolledBack", "Stalled", "Ready=False", "Promoted=False"]),
    ],
    ids=["promoted", "rolled back"],
)
def test_the_end_of_a_rollout_can_be_waited_for(
    cluster: Cluster, stored: Manifest, end: Progress, conditions: list[str]
) -> None:
    """Someone who waits from before the end hears of it, and someone who comes later, too."""
    shown = replace(SHOWN, generation=1)
    cluster.write_status(stored, to_status(RUNNING, shown).manifest())
    name = f"modelrollout/{stored['metadata']['name']}"
    command = kubectl_command(cluster, "wait", f"--for=condition={conditions[0]}", name, "--timeout=60s")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as early:
        cluster.write_status(stored, to_status(end, shown).manifest())
        said, _ = early.communicate(timeout=90)
        assert "condition met" in said
    for condition in conditions:
        assert "condition met" in kubectl(cluster, "wait", f"--for=condition={condition}", name, "--timeout=10s")


def kubectl_command(cluster: Cluster, *arguments: str) -> list[str]:
    return ["kubectl", "--kubeconfig", str(cluster.kubeconfig), "--namespace", cluster.namespace, *arguments]


def kubectl(cluster: Cluster, *arguments: str) -> str:
    command = kubectl_command(cluster, *arguments)
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


def test_kubectl_shows_what_a_person_asks_first(cluster: Cluster, stored: Manifest) -> None:
    shown = status() | {
        "step": {"index": 1, "summary": "2/4", "enteredAt": T0},
        "verdict": "Inconclusive",
        "reason": "Baking",
    }
    cluster.write_status(stored, shown)
    header, row = kubectl(cluster, "get", "mro", stored["metadata"]["name"]).splitlines()
    assert header.split() == ["NAME", "PHASE", "STEP", "WEIGHT", "VERDICT", "AGE"]
    assert row.split()[1:5] == ["Progressing", "2/4", "25", "Inconclusive"]
    header, row = kubectl(cluster, "get", "mro", stored["metadata"]["name"], "--output", "wide").splitlines()
    assert header.split()[5:] == ["BASELINE", "CANDIDATE", "REASON", "AGE"]
    assert row.split()[5:8] == ["credit-fp32", "credit-int8", "Baking"]


def test_the_category_lists_every_kind(cluster: Cluster, stored: Manifest) -> None:
    assert f"modelrollout.davylamp.dev/{stored['metadata']['name']}" in kubectl(
        cluster, "get", "davylamp", "--output", "name"
    )


@pytest.mark.parametrize(
    ("field", "sentence"),
    [
        ("modelrollout.spec.steps.weight", "Whole percent of the live traffic"),
        ("modelrollout.spec.gates.falseRollbackRate", "Greatest probability of taking back"),
        ("modelrollout.status.decision", "What was decided for the attempt"),
        ("metricsource.spec.prometheus.auth.bearerToken", "Where the bearer token stands"),
        ("notificationchannel.spec.pagerDuty.routingKey.key", "Key of the value in the Secret"),
        ("clusterrolloutpolicy.spec.rollback.onNoData.thenRollBackAfter", "How long data may be missing"),
    ],
)
def test_kubectl_explains_the_fields(cluster: Cluster, field: str, sentence: str) -> None:
    assert sentence in " ".join(kubectl(cluster, "explain", field).split())
