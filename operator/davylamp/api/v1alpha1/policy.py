"""What a platform team sets for many rollouts, and a ModelRollout may set for itself."""

from __future__ import annotations

from enum import StrEnum
from typing import Self

from pydantic import ConfigDict, Field, field_validator, model_validator

from davylamp.api.v1alpha1.names import ResourceName
from davylamp.api.v1alpha1.rules import ATOMIC_LIST, ATOMIC_MAP, Rule, keyed_by, validations
from davylamp.api.v1alpha1.shadow import Shadow
from davylamp.api.v1alpha1.signals import Gates, Signals
from davylamp.api.v1alpha1.slices import Slices
from davylamp.api.v1alpha1.steps import MAX_STEPS, RISING, WEIGHS, Promotion, Rollback, Step, rising
from davylamp.api.v1alpha1.strict import Strict
from davylamp.core.model import Severity

MAX_CHANNELS = 8


class Notify(Strict):
    """Who is told."""

    channel: ResourceName = Field(description="Name of a NotificationChannel in the namespace of the ModelRollout.")
    from_: Severity = Field(Severity.INFO, alias="from", description="The least severity that is sent to this channel.")


class PolicyKind(StrEnum):
    """Where a policy lives."""

    ROLLOUT_POLICY = "RolloutPolicy"
    CLUSTER_ROLLOUT_POLICY = "ClusterRolloutPolicy"


class PolicyRef(Strict):
    """A policy whose settings hold wherever the ModelRollout has none of its own."""

    model_config = ConfigDict(json_schema_extra=ATOMIC_MAP)

    kind: PolicyKind = Field(description="RolloutPolicy of this namespace, or ClusterRolloutPolicy.")
    name: ResourceName = Field(description="Name of the policy.")


class PolicySpec(Strict):
    """Settings that a ModelRollout takes over field by field, its own first."""

    steps: tuple[Step, ...] | None = Field(
        None,
        min_length=1,
        max_length=MAX_STEPS,
        description="The ladder of weights, lowest first. A ModelRollout's own steps replace the policy's as a whole.",
        json_schema_extra={**ATOMIC_LIST, **validations(RISING, WEIGHS)},
    )
    signals: Signals | None = Field(None, description="What is read. Metrics of the same name are the ModelRollout's.")
    gates: Gates | None = Field(None, description="What the signals must show. Gates are merged by name.")
    shadow: Shadow | None = Field(
        None, description="How requests are replayed to both variants, and their answers compared, at shadow steps."
    )
    slices: Slices | None = Field(
        None, description="Groups of requests that must not pay for the speed-up, and what must be shown for each."
    )
    promotion: Promotion | None = Field(None, description="How a rollout ends well.")
    rollback: Rollback | None = Field(None, description="How traffic is taken back, and what follows.")
    notify: tuple[Notify, ...] | None = Field(
        None,
        max_length=MAX_CHANNELS,
        description="Who is told. Entries are merged by channel.",
        json_schema_extra=keyed_by("channel"),
    )

    @field_validator("steps")
    @classmethod
    def _rising(cls, steps: tuple[Step, ...] | None) -> tuple[Step, ...] | None:
        if steps is not None:
            rising(steps)
        return steps

    @model_validator(mode="after")
    def _unique(self) -> Self:
        """Hold what list-map-keys hold at the API server."""
        lists = {
            "signals.metrics": [metric.name for metric in (self.signals and self.signals.metrics) or ()],
            "gates.metrics": [gate.name for gate in (self.gates and self.gates.metrics) or ()],
            "notify": [entry.channel for entry in self.notify or ()],
        }
        for path, names in lists.items():
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise ValueError(f"{path} names {', '.join(twice)} twice: keep one entry of each")
        return self


#: Every gate of an own metric has its metric, and the reverse.
GATES_KNOW_METRICS = Rule(
    "has(self.policyRef) || !has(self.gates) || !has(self.gates.metrics) || "
    "self.gates.metrics.all(gate, has(self.signals) && has(self.signals.metrics) && "
    "self.signals.metrics.exists(metric, metric.name == gate.name))",
    "gates.metrics names a metric that signals.metrics does not have: correct the name of the gate, or add the metric",
    ".gates.metrics",
)
METRICS_HAVE_GATES = Rule(
    "has(self.policyRef) || !has(self.signals) || !has(self.signals.metrics) || "
    "self.signals.metrics.all(metric, has(self.gates) && has(self.gates.metrics) && "
    "self.gates.metrics.exists(gate, gate.name == metric.name))",
    "a metric has no gate, so it would be read and never judged: add an entry of its name to gates.metrics",
    ".signals.metrics",
)


def metrics_and_gates_match(spec: PolicySpec) -> None:
    """Raise ValueError unless every own metric has a gate and every such gate its metric."""
    metrics = {metric.name for metric in (spec.signals and spec.signals.metrics) or ()}
    gates = {gate.name for gate in (spec.gates and spec.gates.metrics) or ()}
    if gates - metrics:
        raise ValueError(
            f"no metric of signals.metrics is named {', '.join(sorted(gates - metrics))}: "
            "correct the name of the gate in gates.metrics, or add the metric"
        )
    if metrics - gates:
        raise ValueError(
            f"metrics without a gate would be read and never judged: add {', '.join(sorted(metrics - gates))} "
            "to gates.metrics"
        )
