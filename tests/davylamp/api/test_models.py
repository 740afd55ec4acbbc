from __future__ import annotations

import pytest

from davylamp.api.v1alpha1.kinds import KINDS
from davylamp.api.v1alpha1.rollout import ModelRolloutSpec
from tests.davylamp.api.manifests import Manifest, changed, example, examples, put, rollout, smallest
from tests.davylamp.api.wrong import WRONG, Wrong

SPECS = {kind.name: kind.spec for kind in KINDS}


@pytest.mark.parametrize("wrong", [wrong for wrong in WRONG if wrong.by_models], ids=lambda wrong: wrong.name)
def test_the_models_refuse_what_the_api_server_refuses(wrong: Wrong) -> None:
    with pytest.raises(ValueError):
        SPECS[wrong.manifest["kind"]].parse(wrong.manifest["spec"])


@pytest.mark.parametrize("manifest", examples().values(), ids=examples().keys())
def test_examples_are_read_and_written_back_as_they_are(manifest: Manifest) -> None:
    spec = SPECS[manifest["kind"]].parse(manifest["spec"])
    again = SPECS[manifest["kind"]].parse(spec.manifest())
    assert again == spec


def test_the_full_example_uses_every_field_but_the_policy_and_the_slices_which_have_an_example_of_their_own() -> None:
    """So that the page which shows it shows everything, and the test against the API server tries everything."""
    spec = ModelRolloutSpec.parse(rollout()["spec"])
    left_out = {name for name, value in spec if value is None}
    assert left_out == {"policy_ref", "slices"}
    slices = ModelRolloutSpec.parse(example("fairness-0")["spec"]).slices
    assert slices is not None
    assert {name for name, value in slices if value is None} == {"labelled_by_decision"}


def test_the_message_names_the_field_and_the_remedy() -> None:
    wrong = changed(smallest(), put("spec.steps.0.bake", "0s"))
    with pytest.raises(ValueError, match=r"^steps\[0\]\.bake: write a duration from 1s to 7d"):
        ModelRolloutSpec.parse(wrong["spec"])


def test_many_faults_are_told_in_one_line_of_bearable_length() -> None:
    steps = [{"weight": 0}] * 20
    with pytest.raises(ValueError, match=r"and \d+ more$") as caught:
        ModelRolloutSpec.parse(changed(smallest(), put("spec.steps", steps))["spec"])
    assert "\n" not in str(caught.value)


def test_a_whole_number_may_be_written_as_a_fraction_as_kubernetes_allows() -> None:
    spec = ModelRolloutSpec.parse(changed(smallest(), put("spec.steps.0.weight", 5.0))["spec"])
    assert spec.steps is not None
    assert spec.steps[0].weight == 5


def test_at_least_forty_manifests_are_wrong_each_in_its_own_way() -> None:
    assert len({wrong.name for wrong in WRONG}) == len(WRONG) >= 40
