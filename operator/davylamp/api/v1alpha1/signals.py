"""What is read, and what it must show."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Self

from pydantic import ConfigDict, Field, model_validator

from davylamp.api.v1alpha1.matching import parse_selector
from davylamp.api.v1alpha1.names import CounterSelector, ResourceName, SignalName
from davylamp.api.v1alpha1.quantities import PercentBetween
from davylamp.api.v1alpha1.rules import ATOMIC_MAP, Rule, keyed_by, validations
from davylamp.api.v1alpha1.shadow import (
    ConfidenceGate,
    DisagreementGate,
    PairedLatencyGate,
    ScoreShiftGate,
    StatusMismatchGate,
)
from davylamp.api.v1alpha1.strict import Strict
from davylamp.core.plan import Direction

MAX_METRICS = 20
RESERVED_SIGNALS = ("errors", "latency", "disagreement", "confidence", "mirrored")

_NOT_RESERVED = Rule(
    f"!(self.name in {list(RESERVED_SIGNALS)})",
    "errors and latency are signals of the preset, and disagreement, confidence and mirrored are of shadow traffic: "
    "give your own metric another name",
    ".name",
)
_TWO_COUNTERS = Rule(
    "self.events != self.total",
    "events and total are the same counter, whose share is always 100%: name the counter of the events in events",
)
_REQUIRED = "Whether promotion waits until this gate has shown that the candidate is no worse. Default: true."


def _one_of(*names: str) -> Rule:
    count = " + ".join(f"(has(self.{name}) ? 1 : 0)" for name in names)
    listed = " or ".join((", ".join(names[:-1]), names[-1]))
    return Rule(f"{count} == 1", f"a margin is of one kind: write one of {listed}, and remove the rest")


class Preset(StrEnum):
    """Whose metrics carry the errors and the latency of the variants."""

    MLSERVER = "mlserver"
    ENVOY = "envoy"


class Counter(Strict):
    """A share, as two counters of Prometheus."""

    model_config = ConfigDict(json_schema_extra=validations(_TWO_COUNTERS, **ATOMIC_MAP))

    events: CounterSelector = Field(description="Counter of the events, such as credit_approved_total.")
    total: CounterSelector = Field(
        description="Counter of all that could have been such an event, such as credit_scored_total."
    )

    @model_validator(mode="after")
    def _two_counters(self) -> Self:
        if self.events == self.total:
            raise ValueError(_TWO_COUNTERS.message)
        for selector in (self.events, self.total):
            parse_selector(selector)
        return self


class Metric(Strict):
    """A signal of one's own."""

    model_config = ConfigDict(json_schema_extra=validations(_NOT_RESERVED))

    name: SignalName = Field(description="Name of the signal, as gates, status and messages use it.")
    counter: Counter = Field(description="The share that is compared between the variants.")

    @model_validator(mode="after")
    def _not_reserved(self) -> Self:
        if self.name in RESERVED_SIGNALS:
            raise ValueError(_NOT_RESERVED.message)
        return self


class Signals(Strict):
    """What is read."""

    preset: Preset | None = Field(
        None, description="Whose metrics carry errors and latency: the model server's, or the gateway's."
    )
    source: ResourceName | None = Field(None, description="Name of the MetricSource that is asked. Default: default.")
    metrics: tuple[Metric, ...] | None = Field(
        None,
        max_length=MAX_METRICS,
        description="Signals of one's own, beside errors and latency.",
        json_schema_extra=keyed_by("name"),
    )


_ERROR_MARGIN = _one_of("oddsRatio", "absolute")
_METRIC_MARGIN = _one_of("absolute", "relative", "oddsRatio")


class ErrorMargin(Strict):
    """The largest loss in errors that is accepted."""

    model_config = ConfigDict(json_schema_extra=validations(_ERROR_MARGIN, **ATOMIC_MAP))

    odds_ratio: float | None = Field(
        None, gt=1, le=10, description="Odds of an error, candidate over baseline: above 1 and up to 10."
    )
    absolute: Annotated[str, PercentBetween("0%", "50%", open_low=True)] | None = Field(
        None, description="Difference of the error shares in percentage points, candidate less baseline."
    )

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if (self.odds_ratio is None) == (self.absolute is None):
            raise ValueError(_ERROR_MARGIN.message)
        return self


class LatencyMargin(Strict):
    """The largest loss in latency that is accepted."""

    slowdown: Annotated[str, PercentBetween("0%", "100%", open_low=True, example="10%")] = Field(
        description="How much slower the candidate's whole distribution of latencies may be."
    )


class MetricMargin(Strict):
    """The largest loss in a share that is accepted."""

    model_config = ConfigDict(json_schema_extra=validations(_METRIC_MARGIN, **ATOMIC_MAP))

    absolute: Annotated[str, PercentBetween("0%", "50%", open_low=True)] | None = Field(
        None, description="Difference of the shares in percentage points."
    )
    relative: Annotated[str, PercentBetween("0%", "100%", open_low=True, example="10%")] | None = Field(
        None, description="Difference of the shares as part of the baseline's."
    )
    odds_ratio: float | None = Field(
        None, gt=1, le=10, description="Odds of the event, the greater over the smaller: above 1 and up to 10."
    )

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if [self.absolute, self.relative, self.odds_ratio].count(None) != 2:
            raise ValueError(_METRIC_MARGIN.message)
        return self


class ErrorGate(Strict):
    """What the candidate's errors must show."""

    margin: ErrorMargin | None = Field(
        None, description="The largest loss that is accepted. Default: {oddsRatio: 1.25}."
    )
    allowance: Annotated[str, PercentBetween("0%", "50%", open_low=True)] | None = Field(
        None,
        description="Difference of the error shares, in percentage points, that promotion forgives whatever the odds "
        "ratio is: without it a service that never fails could never show that its candidate is no worse. Rolling back "
        "is not affected. Default: 0.5%.",
    )
    required_for_promotion: bool | None = Field(None, description=_REQUIRED)


class LatencyGate(Strict):
    """What the candidate's latency must show."""

    margin: LatencyMargin | None = Field(
        None, description="The largest loss that is accepted. Default: {slowdown: 10%}."
    )
    required_for_promotion: bool | None = Field(None, description=_REQUIRED)


_EITHER_NEEDS_MARGIN = Rule(
    "self.worse != 'Either' || has(self.margin)",
    "an optimised model always differs a little, so worse: Either needs a margin: add one, such as {absolute: 1%}",
)


class MetricGate(Strict):
    """What a signal of one's own must show."""

    model_config = ConfigDict(json_schema_extra=validations(_EITHER_NEEDS_MARGIN))

    name: SignalName = Field(description="Name of the signal in signals.metrics.")
    worse: Direction = Field(description="Which way the share moves when the candidate is worse.")
    margin: MetricMargin | None = Field(
        None,
        description="The largest loss that is accepted. Default: {oddsRatio: 1.25}; needed with worse: Either.",
    )
    required_for_promotion: bool | None = Field(None, description=_REQUIRED)

    @model_validator(mode="after")
    def _either_needs_margin(self) -> Self:
        if self.worse is Direction.EITHER and self.margin is None:
            raise ValueError(_EITHER_NEEDS_MARGIN.message)
        return self


class Gates(Strict):
    """What the signals must show."""

    false_rollback_rate: Annotated[str, PercentBetween("0%", "50%", open_low=True)] | None = Field(
        None,
        description="Greatest probability of taking back a candidate that is no worse: of the whole rollout, every "
        "signal and every look together. Default: 1%.",
    )
    false_promotion_rate: Annotated[str, PercentBetween("0%", "50%", open_low=True)] | None = Field(
        None, description="Greatest probability of promoting a candidate that is worse by a margin. Default: 5%."
    )
    errors: ErrorGate | None = Field(None, description="What the candidate's errors must show.")
    latency: LatencyGate | None = Field(None, description="What the candidate's latency must show.")
    disagreement: DisagreementGate | None = Field(
        None, description="How many shadow pairs may disagree; judged wherever a step mirrors requests."
    )
    status_mismatch: StatusMismatchGate | None = Field(
        None, description="How many shadow pairs may end with another status; judged wherever a step mirrors requests."
    )
    score_shift: ScoreShiftGate | None = Field(
        None, description="How far scores may move between the answers of a pair; judged where this is set."
    )
    confidence: ConfidenceGate | None = Field(
        None, description="How far confidence may fall between the answers of a pair; judged where this is set."
    )
    paired_latency: PairedLatencyGate | None = Field(
        None, description="How much slower the candidate may answer the same request; judged where this is set."
    )
    metrics: tuple[MetricGate, ...] | None = Field(
        None,
        max_length=MAX_METRICS,
        description="What the signals of signals.metrics must show, one gate for each.",
        json_schema_extra=keyed_by("name"),
    )
