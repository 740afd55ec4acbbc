"""What a model team asks for."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import ConfigDict, Field, model_validator

from davylamp.api.v1alpha1.policy import (
    GATES_KNOW_METRICS,
    METRICS_HAVE_GATES,
    PolicyRef,
    PolicySpec,
    metrics_and_gates_match,
)
from davylamp.api.v1alpha1.quantities import DurationBetween
from davylamp.api.v1alpha1.rules import Rule, validations
from davylamp.api.v1alpha1.variants import Candidate, Route, Variant

_TWO_BACKENDS = Rule(
    "self.baseline.backend.name != self.candidate.backend.name || "
    "self.baseline.backend.port != self.candidate.backend.port",
    "baseline and candidate are the same backend: give the candidate a Service of its own",
    ".candidate",
)
_STEPS_SOMEWHERE = Rule(
    "has(self.steps) || has(self.policyRef)",
    "there are no steps: write spec.steps, such as [{weight: 5, bake: 5m}, {weight: 50, bake: 10m}], or a policyRef",
    ".steps",
)
_PRESET_SOMEWHERE = Rule(
    "has(self.policyRef) || (has(self.signals) && has(self.signals.preset))",
    "nothing says where errors and latency come from: write spec.signals.preset (mlserver or envoy), or a policyRef",
    ".signals",
)
_LABELS_TELL_APART = Rule(
    "!has(self.baseline.metrics) || !has(self.candidate.metrics) || "
    "self.baseline.metrics.labels != self.candidate.metrics.labels",
    "baseline and candidate have the same labels, so their series cannot be told apart: "
    "give one label another value in candidate.metrics.labels",
    ".candidate",
)
_LABELS_BOTH = Rule(
    "has(self.baseline.metrics) == has(self.candidate.metrics)",
    "only one variant says how its series are recognised: "
    "write baseline.metrics.labels and candidate.metrics.labels, or neither",
    ".candidate",
)
SPEC_RULES = (
    _TWO_BACKENDS,
    _STEPS_SOMEWHERE,
    _PRESET_SOMEWHERE,
    _LABELS_BOTH,
    _LABELS_TELL_APART,
    GATES_KNOW_METRICS,
    METRICS_HAVE_GATES,
)


class ModelRolloutSpec(PolicySpec):
    """Move live traffic from the baseline to the candidate, and back if the candidate is worse."""

    model_config = ConfigDict(json_schema_extra=validations(*SPEC_RULES))

    baseline: Variant = Field(description="The variant that serves now.")
    candidate: Candidate = Field(description="The variant on trial.")
    route: Route = Field(description="The object that shares traffic between the variants.")
    policy_ref: PolicyRef | None = Field(
        None, description="A policy whose settings hold wherever this object has none of its own."
    )
    interval: Annotated[str, DurationBetween("1s", "5m")] = Field(
        "10s", description="Time between two looks at the signals, a tick; not shorter than the scrape interval."
    )
    paused: bool = Field(
        False,
        description="Whether raising the weight is suspended. Lowering, and rolling back, go on: a pause never keeps "
        "a bad candidate in traffic.",
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        backends = [(variant.backend.name, variant.backend.port) for variant in (self.baseline, self.candidate)]
        if backends[0] == backends[1]:
            raise ValueError(_TWO_BACKENDS.message)
        if (self.baseline.metrics is None) != (self.candidate.metrics is None):
            raise ValueError(_LABELS_BOTH.message)
        if self.baseline.metrics is not None and self.baseline.metrics == self.candidate.metrics:
            raise ValueError(_LABELS_TELL_APART.message)
        if self.policy_ref is None:
            self._complete()
        return self

    def _complete(self) -> None:
        if self.steps is None:
            raise ValueError(_STEPS_SOMEWHERE.message)
        if self.signals is None or self.signals.preset is None:
            raise ValueError(_PRESET_SOMEWHERE.message)
        metrics_and_gates_match(self)
