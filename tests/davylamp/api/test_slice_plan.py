"""Slices as people write them, and as the core judges them."""

import re
from typing import Any

import pytest

from davylamp.api.v1alpha1.convert import read_spec, to_plan
from davylamp.core.moves import Diversion
from davylamp.core.plan import AbsoluteMargin, Direction, Gate, Plan, RelativeMargin, SliceMeasure, SliceRules
from davylamp.errors import SpecError
from tests.davylamp.api.manifests import Change, changed, drop, example, put, smallest

KEY = "5c1f6d0e-uid"


def planned(*changes: Change, key: str = KEY) -> Plan:
    return to_plan(read_spec(changed(example("fairness-0"), *changes)["spec"]), key=key)


def readable(*attributes: int) -> list[Change]:
    return [put(f"spec.slices.attributes.{index}.protected", False) for index in attributes]


def sliced(plan: Plan, name: str) -> Gate:
    return next(gate for gate in plan.slice_gates if gate.name == name)


def test_every_metric_is_judged_for_everybody_and_each_slice_and_gaps_for_each_slice() -> None:
    plan = planned(*readable(0, 1))
    # 2 by sex, 4 by race, 3 by age, 8 by both.
    assert len(plan.slice_gates) == 18 + 18 + 17
    recall = sliced(plan, "truePositiveRate")
    assert (recall.margin, recall.worse, recall.required) == (AbsoluteMargin(0.015), Direction.LOWER, True)
    assert recall.sliced is not None
    assert (recall.sliced.measure, recall.sliced.relative, recall.sliced.beyond_both) == (
        SliceMeasure.TRUE_POSITIVE_RATE,
        0.05,
        False,
    )
    assert sliced(plan, "falsePositiveRate[race=Black,sex=Female]").worse is Direction.HIGHER
    assert sliced(plan, "truePositiveRate[age=25-45]").sliced is not None
    assert not sliced(plan, "equalizedOddsDifference[sex=Female]").required
    assert not [gate for gate in plan.live.gates if gate.sliced]
    assert plan.live.slices is None


def test_protected_values_are_hashed_by_the_rollouts_own_key_wherever_they_are_named() -> None:
    names = [gate.name for gate in planned().slice_gates]
    assert not [name for name in names if "Female" in name or "Black" in name]
    assert [name for name in names if re.search(r"\[sex=~[0-9a-f]{8}\]", name)]
    assert set(names).isdisjoint(
        name for gate in planned(key="another").slice_gates if "sex" in (name := gate.name) or "race" in name
    )


def test_what_a_route_can_see_can_go_back_alone() -> None:
    plan = planned(*readable(0, 1))
    assert plan.slices is not None
    assert (plan.slices.min_support, plan.slices.min_labels, plan.slices.hold_when_small) == (50, 2000, False)
    assert plan.slices.diversions["sex=Female"] == Diversion("x-sex", "Female")
    assert len(plan.slices.diversions) == 6
    whole = planned(put("spec.slices.onRegression", "RollBack"), put("spec.slices.whenTooSmall", "Hold"))
    assert whole.slices == SliceRules(50, 2000, hold_when_small=True)


@pytest.mark.parametrize(
    ("drop_", "margin", "relative", "both"),
    [
        ({"absolute": "2%"}, AbsoluteMargin(0.02), None, False),
        ({"relative": "5%"}, RelativeMargin(0.05), None, False),
        ({"absolute": "2%", "relative": "5%", "when": "Both"}, AbsoluteMargin(0.02), 0.05, True),
        ({"absolute": "2%", "when": "Both"}, AbsoluteMargin(0.02), None, False),
    ],
)
def test_margins_are_absolute_relative_either_or_both(
    drop_: dict[str, str], margin: object, relative: float | None, both: bool
) -> None:
    gate = sliced(planned(put("spec.slices.gates.0.maxDrop", drop_)), "truePositiveRate")
    assert gate.sliced is not None
    assert (gate.margin, gate.sliced.relative, gate.sliced.beyond_both) == (margin, relative, both)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (put("spec.slices.intersections", [["race", "job"]]), "names job, which is no attribute"),
        (put("spec.slices.intersections", [["sex", "sex"]]), "names an attribute twice"),
        (put("spec.slices.gates", []), "would be counted and never judged"),
        (put("spec.slices.attributes", []), "nothing to slice by|no attribute"),
        (
            put("spec.slices.attributes", [{"name": "sex", "jsonPath": "$.sex", "values": ["F"]}]),
            "names race, which is no attribute",
        ),
        (put("spec.steps", [{"weight": 5}]), "no step mirrors any"),
        (
            put(
                "spec.slices.attributes",
                [{"name": name, "header": "x-a", "bins": list(range(15))} for name in ("race", "sex", "age")],
            ),
            "304 slices and .* at most 32 and 128 can be judged",
        ),
    ],
)
def test_what_cannot_be_judged_is_refused_with_what_to_do(change: Change, says: str) -> None:
    with pytest.raises(SpecError, match=says):
        planned(change)


def test_a_slice_that_no_route_can_see_is_not_promised_to_go_back_alone() -> None:
    attribute = {"name": "age", "jsonPath": "$.age", "bins": [40]}
    changes = (put("spec.slices.attributes", [attribute]), drop("spec.slices.intersections"))
    with pytest.raises(SpecError, match=r"no route can see age, which is not a header: let callers send it as one"):
        planned(*changes)
    assert planned(*changes, put("spec.slices.onRegression", "RollBack")).slices is not None


def test_a_path_that_is_none_is_refused_at_its_place() -> None:
    attribute: dict[str, Any] = {"name": "sex", "jsonPath": "$.sex[", "values": ["F"]}
    with pytest.raises(SpecError, match=r"slices\.attributes\[sex\]\.jsonPath: .* is no JSONPath"):
        planned(put("spec.slices.attributes", [attribute]), drop("spec.slices.intersections"))


def test_without_slices_nothing_is_sliced() -> None:
    plan = to_plan(read_spec(smallest()["spec"]))
    assert (plan.slice_gates, plan.slices) == ((), None)
