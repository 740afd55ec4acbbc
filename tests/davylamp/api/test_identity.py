from __future__ import annotations

import pytest

from davylamp.api.v1alpha1.identity import candidate_digest, spec_hash
from davylamp.api.v1alpha1.policy import PolicySpec
from davylamp.api.v1alpha1.rollout import ModelRolloutSpec
from tests.davylamp.api.manifests import Change, changed, drop, put, rollout


def spec(*changes: Change) -> ModelRolloutSpec:
    return ModelRolloutSpec.parse(changed(rollout(), *changes)["spec"])


@pytest.mark.parametrize(
    "change",
    [
        put("spec.paused", True),
        put("spec.interval", "30s"),
        put("spec.notify", []),
        put("metadata.labels", {"team": "ml"}),
        put("metadata.annotations", {"note": "x"}),
    ],
    ids=["paused", "interval", "notify", "labels", "annotations"],
)
def test_an_attempt_goes_on_when_nothing_changes_that_it_depends_on(change: Change) -> None:
    assert spec_hash(spec(change), None) == spec_hash(spec(), None)


@pytest.mark.parametrize(
    "change",
    [
        put("spec.candidate.model.digest", "sha256:" + "1" * 64),
        put("spec.candidate.backend.name", "credit-int4"),
        put("spec.baseline.backend.port", 9000),
        put("spec.route.gatewayAPI.httpRoute", "other"),
        put("spec.steps.1.weight", 6),
        put("spec.gates.falseRollbackRate", "2%"),
        put("spec.signals.metrics.0.counter.events", "other_total"),
        put("spec.rollback.cooldown", "2h"),
    ],
    ids=["digest", "candidate", "baseline", "route", "steps", "gates", "signals", "rollback"],
)
def test_a_change_of_what_is_compared_or_how_is_a_new_attempt(change: Change) -> None:
    assert spec_hash(spec(change), None) != spec_hash(spec(), None)


def test_a_change_of_the_policy_is_a_new_attempt_unless_it_is_about_messages() -> None:
    policy = PolicySpec.parse({"gates": {"falseRollbackRate": "1%"}})
    stricter = PolicySpec.parse({"gates": {"falseRollbackRate": "2%"}})
    louder = PolicySpec.parse({"gates": {"falseRollbackRate": "1%"}, "notify": [{"channel": "oncall"}]})
    assert spec_hash(spec(), policy) != spec_hash(spec(), stricter)
    assert spec_hash(spec(), policy) == spec_hash(spec(), louder)


def test_a_candidate_is_recognised_by_its_digest_whatever_else_changes() -> None:
    renamed = spec(put("spec.candidate.backend.name", "credit-int8-again"))
    assert candidate_digest(renamed.candidate) == candidate_digest(spec().candidate)
    assert candidate_digest(spec().candidate).startswith("sha256:6b86")


def test_without_a_digest_a_candidate_is_recognised_by_its_description() -> None:
    bare = drop("spec.candidate.model.digest")
    assert candidate_digest(spec(bare).candidate) == candidate_digest(spec(bare).candidate)
    other = spec(bare, put("spec.candidate.model.version", "14"))
    assert candidate_digest(other.candidate) != candidate_digest(spec(bare).candidate)
    relabelled = spec(bare, put("spec.candidate.metrics.labels", {"service": "x"}))
    assert candidate_digest(relabelled.candidate) == candidate_digest(spec(bare).candidate)
