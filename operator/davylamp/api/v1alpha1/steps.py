"""The ladder, and what happens at its end or when it breaks."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from itertools import pairwise
from typing import Annotated, Self

from pydantic import ConfigDict, Field, model_validator

from davylamp.api.v1alpha1.quantities import DurationBetween, PercentBetween, cel_seconds, parse_duration
from davylamp.api.v1alpha1.rules import ATOMIC_MAP, Rule, validations
from davylamp.api.v1alpha1.shadow import ShadowStep
from davylamp.api.v1alpha1.strict import Strict

MAX_STEPS = 50

_ONE_ACTION = Rule(
    "has(self.pause) ? !has(self.weight) && !has(self.shadow) : has(self.weight) || has(self.shadow)",
    "a step does one thing: give it a weight, or shadow, or both at once, or a pause alone; put what is left into a "
    "step of its own",
)
_BAKE_NEEDS_WEIGHT = Rule(
    "!has(self.pause) || (!has(self.bake) && !has(self.minSamples))",
    "bake and minSamples belong to a step with a weight: remove them from the pause, whose length is pause.duration",
)
_SAMPLES_NEED_WEIGHT = Rule(
    "!has(self.minSamples) || has(self.weight) || has(self.pause)",
    "minSamples counts live requests, and a step of shadow traffic alone has none: write shadow.minPairs",
)
RISING = Rule(
    "self.filter(step, has(step.weight)).map(step, step.weight)"
    ".all(w, self.exists_one(other, has(other.weight) && other.weight == w)) && "
    "self.filter(step, has(step.weight)).map(step, step.weight).isSorted()",
    "weights must rise from step to step: put the steps in order and remove repeated weights",
)
WEIGHS = Rule(
    "self.exists(step, has(step.weight))",
    "no step has a weight, so the candidate would never get traffic: add a step such as {weight: 5, bake: 5m}",
)


class Pause(Strict):
    """A stop on the ladder."""

    duration: Annotated[str, DurationBetween("1s", "7d")] = Field(
        description="How long to stay at the weight of the step before."
    )


class Step(Strict):
    """One rung: a weight to reach and what to wait for there, shadow traffic, or a pause."""

    model_config = ConfigDict(json_schema_extra=validations(_ONE_ACTION, _BAKE_NEEDS_WEIGHT, _SAMPLES_NEED_WEIGHT))

    weight: int | None = Field(None, ge=1, le=100, description="Whole percent of the live traffic for the candidate.")
    bake: Annotated[str, DurationBetween("1s", "7d")] | None = Field(
        None, description="Least time at this step before the next. Default for a step that is no pause: 1m."
    )
    min_samples: int | None = Field(
        None,
        ge=1,
        le=1_000_000_000,
        description="Least number of requests that each variant must have served at this weight. "
        "Default for a step with a weight: 100.",
    )
    pause: Pause | None = Field(None, description="Wait here, at the weight of the step before.")
    shadow: ShadowStep | None = Field(
        None,
        description="Mirror requests to the comparator, which lets both variants answer them. Without a weight, the "
        "candidate gets no more live traffic than before, and the step passes once every required gate on shadow "
        "traffic has shown that it is no worse.",
    )

    @model_validator(mode="after")
    def _one_action(self) -> Self:
        acts = self.weight is not None or self.shadow is not None
        if acts == (self.pause is not None):
            raise ValueError(_ONE_ACTION.message)
        if self.min_samples is not None and self.weight is None and self.pause is None:
            raise ValueError(_SAMPLES_NEED_WEIGHT.message)
        if self.pause is not None and (self.bake is not None or self.min_samples is not None):
            raise ValueError(_BAKE_NEEDS_WEIGHT.message)
        return self


def rising(steps: Sequence[Step]) -> None:
    """Raise ValueError unless the weights of a ladder rise and there is one."""
    weights = [step.weight for step in steps if step.weight is not None]
    if not weights:
        raise ValueError(WEIGHS.message)
    if any(low >= high for low, high in pairwise(weights)):
        raise ValueError(f"{RISING.message} (weights: {weights})")


class Promotion(Strict):
    """How a rollout ends well."""

    bake: Annotated[str, DurationBetween("1s", "7d")] | None = Field(
        None, description="Least time at 100 % before the rollout counts as promoted. Default: 1m."
    )
    deadline: Annotated[str, DurationBetween("1m", "90d")] | None = Field(
        None,
        description="How long to wait at the last step for every required gate to show that the candidate is no worse. "
        "After that the weight is held and a person is told. Default: 24h.",
    )


class OnNoDataPolicy(StrEnum):
    """What to do when data stay away."""

    ROLL_BACK = "RollBack"
    HOLD = "Hold"


_NO_DATA_ORDER = Rule(
    f"self.policy == 'Hold' || {cel_seconds('self.hold')} <= {cel_seconds('self.thenRollBackAfter')}",
    "thenRollBackAfter (default 15m) counts from the last good data, as hold does: make it at least as long as hold",
    ".thenRollBackAfter",
)


class OnNoData(Strict):
    """What to do when signals have no data, or their source does not answer; never merged with a policy's."""

    model_config = ConfigDict(json_schema_extra=validations(_NO_DATA_ORDER, **ATOMIC_MAP))

    hold: Annotated[str, DurationBetween("10s", "7d")] = Field(
        "5m",
        description="How long data may be missing before a person is told; the weight is held from the first moment. "
        "Counts from the last good data.",
    )
    then_roll_back_after: Annotated[str, DurationBetween("30s", "7d")] = Field(
        "15m",
        description="How long data may be missing before traffic goes back to the baseline, by policy: RollBack. "
        "Counts from the last good data.",
    )
    policy: OnNoDataPolicy = Field(
        OnNoDataPolicy.ROLL_BACK,
        description="RollBack takes the traffic back after thenRollBackAfter; Hold keeps the weight until data come "
        "back or a person decides.",
    )

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        late = parse_duration(self.hold) > parse_duration(self.then_roll_back_after)
        if late and self.policy is not OnNoDataPolicy.HOLD:
            raise ValueError(_NO_DATA_ORDER.message)
        return self


class TripWires(Strict):
    """Gross faults that take the traffic back at once, beside the statistics."""

    error_share: Annotated[str, PercentBetween("1%", "100%", example="50%")] | None = Field(
        None, description="Share of the candidate's requests that may fail in one tick. Default: 50%."
    )
    ticks: int | None = Field(
        None, ge=1, le=60, description="Number of ticks in a row in which the share must be over its limit. Default: 2."
    )
    min_requests: int | None = Field(
        None,
        ge=1,
        le=1_000_000,
        description="Least number of the candidate's requests in a tick for the tick to count. Default: 10.",
    )


class Rollback(Strict):
    """How traffic is taken back, and what follows."""

    cooldown: Annotated[str, DurationBetween("1s", "90d")] | None = Field(
        None,
        description="How long a candidate that was rolled back stays in quarantine. Default: 1h.",
    )
    on_no_data: OnNoData | None = Field(None, description="What to do when signals have no data.")
    trip_wires: TripWires | None = Field(None, description="Gross faults that take the traffic back at once.")
