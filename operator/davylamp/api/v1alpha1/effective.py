"""The settings that a rollout runs by: its own, over those of its policy, over Davylamp's.

Layers are merged field by field as the schema says, exactly as server-side apply does: a map is merged by its fields, a
list with keys by its entries, and what is marked atomic (steps, margins, counters, onNoData) comes from one layer as a
whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

from davylamp.api.v1alpha1.policy import PolicySpec, metrics_and_gates_match
from davylamp.api.v1alpha1.rollout import ModelRolloutSpec
from davylamp.api.v1alpha1.schema import structural
from davylamp.api.v1alpha1.shadow import DisagreementGate, Shadow, StatusMismatchGate
from davylamp.api.v1alpha1.signals import (
    ErrorGate,
    ErrorMargin,
    Gates,
    LatencyGate,
    LatencyMargin,
    MetricGate,
    MetricMargin,
    Signals,
)
from davylamp.api.v1alpha1.slices import Slices
from davylamp.api.v1alpha1.steps import OnNoData, Promotion, Rollback, Step, TripWires

#: What holds where neither a ModelRollout nor its policy says anything. Descriptions in the models quote these.
BUILT_IN: Final = PolicySpec(
    signals=Signals(source="default"),
    gates=Gates(
        false_rollback_rate="1%",
        false_promotion_rate="5%",
        errors=ErrorGate(margin=ErrorMargin(odds_ratio=1.25), allowance="0.5%", required_for_promotion=True),
        latency=LatencyGate(margin=LatencyMargin(slowdown="10%"), required_for_promotion=True),
        disagreement=DisagreementGate(limit="2%", required_for_promotion=True),
        status_mismatch=StatusMismatchGate(limit="0.5%", required_for_promotion=True),
    ),
    shadow=Shadow(),
    slices=Slices(),
    promotion=Promotion(bake="1m", deadline="24h"),
    rollback=Rollback(
        cooldown="1h",
        on_no_data=OnNoData(),
        trip_wires=TripWires(error_share="50%", ticks=2, min_requests=10),
    ),
    notify=(),
)
_DEFAULT_BAKE: Final = "1m"
_DEFAULT_SAMPLES: Final = 100
_DEFAULT_METRIC_MARGIN: Final = MetricMargin(odds_ratio=1.25)


def effective(spec: ModelRolloutSpec, policy: PolicySpec | None = None) -> PolicySpec:
    """Return the settings that a rollout runs by, with every default filled in.

    Parameters
    ----------
    spec
        What the ModelRollout says.
    policy
        What the policy says that ``spec.policyRef`` names; None without one.

    Raises
    ------
    ValueError
        If the layers do not fit together; the message says what to add where.
    """
    own = {name: value for name, value in spec.manifest().items() if name in _schema()["properties"]}
    layers = [BUILT_IN.manifest(), policy.manifest() if policy else {}, own]
    merged: Mapping[str, Any] = {}
    for layer in layers:
        merged = _over(_schema(), merged, layer)
    settings = PolicySpec.parse(merged)
    if settings.steps is None:
        raise ValueError("neither the ModelRollout nor its policy has steps: write spec.steps in one of them")
    if settings.signals is None or settings.signals.preset is None:
        raise ValueError("neither the ModelRollout nor its policy has signals.preset: write mlserver or envoy in one")
    metrics_and_gates_match(settings)
    return _filled(settings)


@cache
def _schema() -> dict[str, Any]:
    return structural(PolicySpec)


def _over(schema: Mapping[str, Any], under: Any, over: Any) -> Any:
    """Return one layer laid over another, by the schema they share."""
    if "properties" in schema and schema.get("x-kubernetes-map-type") != "atomic":
        names = [*under, *(name for name in over if name not in under)]
        return {name: _field(schema["properties"][name], name, under, over) for name in names}
    if schema.get("x-kubernetes-list-type") == "map":
        return _entries_over(schema, under, over)
    return over


def _field(schema: Mapping[str, Any], name: str, under: Mapping[str, Any], over: Mapping[str, Any]) -> Any:
    if name not in over:
        return under[name]
    return _over(schema, under[name], over[name]) if name in under else over[name]


def _entries_over(schema: Mapping[str, Any], under: Sequence[Any], over: Sequence[Any]) -> list[Any]:
    (key,) = schema["x-kubernetes-list-map-keys"]
    merged = {entry[key]: entry for entry in under}
    for entry in over:
        known = merged.get(entry[key])
        merged[entry[key]] = entry if known is None else _over(schema["items"], known, entry)
    return list(merged.values())


def _filled(settings: PolicySpec) -> PolicySpec:
    steps = tuple(_filled_step(step) for step in settings.steps or ())
    gates = settings.gates or Gates()
    metrics = tuple(_filled_gate(gate) for gate in gates.metrics or ())
    return settings.model_copy(update={"steps": steps, "gates": gates.model_copy(update={"metrics": metrics})})


def _filled_step(step: Step) -> Step:
    if step.weight is None:
        return step if step.pause else step.model_copy(update={"bake": step.bake or _DEFAULT_BAKE})
    return step.model_copy(
        update={"bake": step.bake or _DEFAULT_BAKE, "min_samples": step.min_samples or _DEFAULT_SAMPLES}
    )


def _filled_gate(gate: MetricGate) -> MetricGate:
    required = True if gate.required_for_promotion is None else gate.required_for_promotion
    return gate.model_copy(update={"margin": gate.margin or _DEFAULT_METRIC_MARGIN, "required_for_promotion": required})
