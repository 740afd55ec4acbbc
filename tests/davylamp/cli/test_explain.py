from __future__ import annotations

from typing import Any

import pytest

from davylamp.api.v1alpha1.policy import PolicySpec
from davylamp.api.v1alpha1.rollout import ModelRolloutSpec
from davylamp.cli import origin
from davylamp.cli.advice import ADVICE, advice_for
from davylamp.cli.explain import explain
from davylamp.core.model import Reason
from tests.davylamp.api.manifests import rollout as full_example
from tests.davylamp.cli.drawing import assert_golden, drawn
from tests.davylamp.cli.rollouts import NOON, SITUATIONS, baking, rolled_back, running


@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_rollout_is_explained_as_it_was_written(situation: str) -> None:
    assert_golden(f"explain-{situation}", drawn(explain(SITUATIONS[situation](), NOON), 100))


def test_there_is_advice_for_every_reason() -> None:
    assert set(ADVICE) == set(Reason)
    assert all(advice.next for advice in ADVICE.values())


def test_a_reason_of_another_version_is_said_to_be_unknown() -> None:
    assert "not known" in advice_for("Unheard").next
    explained = explain(running("Held", "Unheard", "x"), NOON)
    assert explained.next == (advice_for("Unheard").next,)


def test_a_rolled_back_rollout_is_explained_by_what_was_decided_and_not_by_what_came_later() -> None:
    manifest = rolled_back()
    manifest["status"]["reason"] = "Quarantined"
    assert ADVICE[Reason.REGRESSED].person in explain(manifest, NOON).person


def shared_ladder() -> tuple[dict[str, Any], PolicySpec]:
    manifest = full_example()["spec"]
    del manifest["steps"]
    manifest["policyRef"] = {"kind": "ClusterRolloutPolicy", "name": "classifier"}
    manifest["gates"]["errors"] = {"allowance": "0.2%"}
    policy = {
        "steps": [{"weight": 10, "bake": "2m"}],
        "gates": {"errors": {"allowance": "1%", "margin": {"oddsRatio": 2}}},
    }
    return manifest, PolicySpec.parse(policy)


def test_each_setting_says_who_set_it() -> None:
    manifest, policy = shared_ladder()
    found = origin.settings(ModelRolloutSpec.parse(manifest), policy)
    by_path = {setting.path: (setting.value, setting.origin) for setting in found}

    assert by_path["steps[0].weight"] == ("10", "ClusterRolloutPolicy classifier")
    assert by_path["steps[0].minSamples"] == ("100", origin.DAVYLAMP)
    assert by_path["gates.errors.allowance"] == ("0.2%", origin.OWN)
    assert by_path["gates.errors.margin.oddsRatio"] == ("2.0", "ClusterRolloutPolicy classifier")
    assert by_path["gates.errors.requiredForPromotion"] == ("true", origin.DAVYLAMP)
    assert by_path["gates.metrics[approvals].margin.absolute"] == ("1%", origin.OWN)


def test_a_policy_that_cannot_be_read_is_said_to_be_so() -> None:
    manifest = baking()
    manifest["spec"] = shared_ladder()[0]

    explained = explain(manifest, NOON, policy_trouble="The policy cannot be read: you may not.")

    assert explained.settings == ()
    assert "you may not" in drawn(explained, 80)


def test_layers_that_do_not_fit_are_said_to_be_so() -> None:
    manifest = baking()
    manifest["spec"], _ = shared_ladder()
    explained = explain(manifest, NOON, policy=PolicySpec.parse({}))
    assert "has steps" in explained.settings_trouble


def test_a_spec_that_cannot_be_read_leaves_the_rest() -> None:
    manifest = baking()
    manifest["spec"] = {"steps": "all"}
    explained = explain(manifest, NOON)
    assert "davylamp lint says why" in explained.settings_trouble
    assert explained.gates
