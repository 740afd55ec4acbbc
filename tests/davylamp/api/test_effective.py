from __future__ import annotations

from typing import Any

import pytest

from davylamp.api.v1alpha1.effective import effective
from davylamp.api.v1alpha1.policy import PolicySpec
from davylamp.api.v1alpha1.rollout import ModelRolloutSpec
from tests.davylamp.api.manifests import example, rollout, smallest

POLICY_REF = {"kind": "RolloutPolicy", "name": "p"}


def own(**fields: Any) -> ModelRolloutSpec:
    spec = smallest()["spec"] | {"policyRef": POLICY_REF} | fields
    return ModelRolloutSpec.parse({name: value for name, value in spec.items() if value is not None})


def policy(**fields: Any) -> PolicySpec:
    return PolicySpec.parse(fields)


def settings(spec: ModelRolloutSpec, layer: PolicySpec | None = None) -> dict[str, Any]:
    return effective(spec, layer).manifest()


def test_defaults_hold_where_nobody_says_anything() -> None:
    assert settings(ModelRolloutSpec.parse(smallest()["spec"])) == {
        "steps": [
            {"weight": 5, "bake": "5m", "minSamples": 100},
            {"weight": 50, "bake": "10m", "minSamples": 100},
        ],
        "signals": {"preset": "mlserver", "source": "default"},
        "gates": {
            "falseRollbackRate": "1%",
            "falsePromotionRate": "5%",
            "errors": {"margin": {"oddsRatio": 1.25}, "allowance": "0.5%", "requiredForPromotion": True},
            "latency": {"margin": {"slowdown": "10%"}, "requiredForPromotion": True},
            "disagreement": {"limit": "2%", "requiredForPromotion": True},
            "statusMismatch": {"limit": "0.5%", "requiredForPromotion": True},
            "metrics": [],
        },
        "shadow": {},
        "slices": {},
        "promotion": {"bake": "1m", "deadline": "24h"},
        "rollback": {
            "cooldown": "1h",
            "onNoData": {"hold": "5m", "thenRollBackAfter": "15m", "policy": "RollBack"},
            "tripWires": {"errorShare": "50%", "ticks": 2, "minRequests": 10},
        },
        "notify": [],
    }


def test_own_fields_stand_as_they_are() -> None:
    full = rollout()["spec"]
    merged = settings(ModelRolloutSpec.parse(full))
    for name in ("promotion", "signals", "notify"):
        assert merged[name] == full[name]
    assert merged["rollback"]["tripWires"] == full["rollback"]["tripWires"]


def test_a_field_of_the_policy_holds_unless_the_rollout_has_its_own() -> None:
    layer = policy(gates={"falseRollbackRate": "2%", "falsePromotionRate": "10%"}, rollback={"cooldown": "6h"})
    merged = settings(own(gates={"falseRollbackRate": "3%"}), layer)
    assert (merged["gates"]["falseRollbackRate"], merged["gates"]["falsePromotionRate"]) == ("3%", "10%")
    assert merged["rollback"]["cooldown"] == "6h"


def test_own_steps_replace_the_ladder_of_the_policy_as_a_whole() -> None:
    layer = policy(steps=[{"weight": 1}, {"weight": 2}, {"weight": 3}])
    assert [step["weight"] for step in settings(own(), layer)["steps"]] == [5, 50]
    assert [step["weight"] for step in settings(own(steps=None), layer)["steps"]] == [1, 2, 3]


def test_a_margin_comes_from_one_layer_and_is_never_mixed() -> None:
    merged = settings(own(gates={"errors": {"margin": {"absolute": "1%"}}}))
    assert merged["gates"]["errors"]["margin"] == {"absolute": "1%"}


def test_what_happens_without_data_comes_from_one_layer() -> None:
    layer = policy(rollback={"onNoData": {"hold": "1h", "thenRollBackAfter": "2h"}})
    merged = settings(own(rollback={"onNoData": {"policy": "Hold"}}), layer)
    assert merged["rollback"]["onNoData"] == {"hold": "5m", "thenRollBackAfter": "15m", "policy": "Hold"}


def test_metrics_and_gates_are_merged_by_name() -> None:
    counter = {"events": "a_total", "total": "b_total"}
    layer = policy(
        signals={"metrics": [{"name": "approvals", "counter": counter}, {"name": "fallbacks", "counter": counter}]},
        gates={"metrics": [{"name": "approvals", "worse": "Lower", "requiredForPromotion": False},
                           {"name": "fallbacks", "worse": "Higher"}]},
    )  # fmt: skip
    merged = settings(
        own(gates={"metrics": [{"name": "approvals", "worse": "Either", "margin": {"absolute": "1%"}}]}), layer
    )
    assert merged["gates"]["metrics"] == [
        {"name": "approvals", "worse": "Either", "margin": {"absolute": "1%"}, "requiredForPromotion": False},
        {"name": "fallbacks", "worse": "Higher", "margin": {"oddsRatio": 1.25}, "requiredForPromotion": True},
    ]


def test_channels_are_merged_by_name() -> None:
    layer = policy(notify=[{"channel": "oncall", "from": "Warning"}, {"channel": "team"}])
    merged = settings(own(notify=[{"channel": "oncall", "from": "Incident"}]), layer)
    assert merged["notify"] == [{"channel": "oncall", "from": "Incident"}, {"channel": "team", "from": "Info"}]


@pytest.mark.parametrize(
    ("spec", "layer", "message"),
    [
        (own(steps=None), policy(), "has steps"),
        (own(signals=None), policy(), "has signals.preset"),
        (
            own(gates={"metrics": [{"name": "x", "worse": "Lower"}]}),
            policy(),
            "no metric of signals.metrics is named x",
        ),
        (own(), policy(signals={"metrics": [{"name": "x", "counter": {"events": "a", "total": "b"}}]}), "add x"),
    ],
)
def test_layers_that_do_not_fit_are_refused_with_the_remedy(
    spec: ModelRolloutSpec, layer: PolicySpec, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        effective(spec, layer)


def test_the_example_with_a_policy_works() -> None:
    spec = ModelRolloutSpec.parse(example("policy-2")["spec"])
    merged = settings(spec, policy(**example("policy-0")["spec"]))
    assert merged["gates"]["latency"]["margin"] == {"slowdown": "5%"}
    assert merged["signals"]["preset"] == "envoy"
    assert merged["rollback"]["onNoData"]["policy"] == "Hold"
