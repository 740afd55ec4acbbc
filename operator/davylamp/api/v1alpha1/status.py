"""What Davylamp has seen and decided: all it needs to go on after a restart, bounded in size."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import AwareDatetime, ConfigDict, Field

from davylamp.api.v1alpha1.policy import MAX_CHANNELS
from davylamp.api.v1alpha1.rules import ATOMIC_LIST, keyed_by, validations
from davylamp.api.v1alpha1.signals import MAX_METRICS
from davylamp.api.v1alpha1.slices import MAX_SLICE_GATES, MAX_SLICE_LABEL, MAX_SLICES
from davylamp.api.v1alpha1.status_rules import STATUS_RULES
from davylamp.api.v1alpha1.strict import Observed
from davylamp.core.case import MAX_HISTORY, MAX_QUARANTINE
from davylamp.core.model import Outcome, Phase, Ruling, Severity, Verdict
from davylamp.core.outbox import MAX_PENDING, MAX_TOLD, MAX_UNDELIVERED

#: Errors, latency, those on shadow traffic, the own metrics, and those on slices.
MAX_SIGNALS = MAX_METRICS + 2 + 6 + MAX_SLICE_GATES
MAX_STATE = 196_608
MAX_FIGHTS = 16
MAX_MESSAGE = 1024

Id = Annotated[str, Field(max_length=128)]
Word = Annotated[str, Field(max_length=64)]
Sentence = Annotated[str, Field(max_length=MAX_MESSAGE)]
Count = Annotated[int, Field(ge=0)]
Percent = Annotated[int, Field(ge=0, le=100)]
#: A backend as ``name:port``.
BackendText = Annotated[str, Field(max_length=69, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?:[1-9][0-9]{0,4}$")]


class ConditionStatus(StrEnum):
    """Whether a condition holds."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(Observed):
    """One aspect of the state, for tools."""

    type: Annotated[str, Field(max_length=63)] = Field(description="Which aspect.")
    status: ConditionStatus = Field(description="Whether it holds.")
    reason: Word = Field(min_length=1, description="One word for the situation, for machines.")
    message: Sentence = Field("", description="One sentence with the numbers, for people.")
    observed_generation: Count = Field(description="Generation of the spec that this condition is about.")
    last_transition_time: AwareDatetime = Field(description="When the status of this condition last changed.")


class Pair(Observed):
    """What traffic is shared between."""

    route: Annotated[str, Field(min_length=1, max_length=253)] = Field(description="Name of the HTTPRoute.")
    baseline: BackendText = Field(description="Service and port of the baseline.")
    candidate: BackendText = Field(description="Service and port of the candidate.")


class Attempt(Observed):
    """One try to move traffic to one candidate by one spec."""

    id: Id = Field(description="Identifies the attempt, on the route too.")
    number: int = Field(ge=1, description="Counts the attempts of this object.")
    candidate_digest: Id = Field(description="What the candidate is recognised by.")
    spec_hash: Id = Field(description="Hash of the settings that the attempt runs by.")
    started_at: AwareDatetime = Field(description="When the attempt began.")
    pair: Pair = Field(
        description="The route and the backends that the attempt works on, whatever the spec says since: they are what "
        "is given back."
    )


class StepStatus(Observed):
    """The rung of the ladder."""

    index: int = Field(
        ge=-1,
        description="Index of the step in the ladder, from 0; the number of steps while promoting; -1 if the weight "
        "fell below the first.",
    )
    summary: Word = Field(description='The step as people count, such as "2/4".')
    entered_at: AwareDatetime = Field(description="When the step was entered.")
    accepted_at: AwareDatetime | None = Field(
        None, description="When the gateway had accepted the step's weight; evidence counts from here."
    )
    baked_seconds: float = Field(
        0, ge=0, description="Time under observation in this step: counted only while data were complete."
    )


class WeightStatus(Observed):
    """The candidate's share of traffic, in whole percent, as three parties see it."""

    requested: Percent = Field(description="What Davylamp decided.")
    programmed: Percent | None = Field(None, description="What the route says and the gateway has accepted.")
    observed: float | None = Field(
        None, ge=0, le=100, description="Share of the requests since the last look, in percent."
    )


class Decision(Observed):
    """What was decided for an attempt. A Rollback is final: the API server refuses to take it back."""

    id: Id = Field(description="Id of the attempt that this is about.")
    verdict: Ruling = Field(description="What was decided.")
    reason: Word = Field(description="One word for the situation.")
    at: AwareDatetime = Field(description="When it was decided.")


class Side(Observed):
    """What one variant has shown."""

    total: float = Field(ge=0, description="Number of requests, or of all that could have been an event.")
    events: float | None = Field(None, ge=0, description="Number of events among them.")
    value: float | None = Field(None, description="Share of events, or latency in seconds.")


class Interval(Observed):
    """Limits that hold at all times together."""

    low: float | None = Field(None, description="Lower limit; none if unbounded.")
    high: float | None = Field(None, description="Upper limit; none if unbounded.")


class Signal(Observed):
    """What one gate sees."""

    name: Annotated[str, Field(max_length=MAX_SLICE_LABEL + 32)] = Field(description="Name of the gate.")
    verdict: Verdict = Field(description="What the gate says.")
    baseline: Side | None = Field(None, description="What the baseline has shown.")
    candidate: Side | None = Field(None, description="What the candidate has shown.")
    difference: float | None = Field(None, description="Candidate less baseline, in the unit of the value.")
    interval: Interval | None = Field(None, description="Limits of the difference.")
    evidence: float | None = Field(None, description="Evidence of a regression: log10 of the e-value.")
    threshold: float | None = Field(None, description="Evidence at which traffic is taken back, log10.")
    non_inferiority: float | None = Field(
        None, description="Evidence that the candidate is no worse: log10 of the e-value."
    )
    non_inferiority_threshold: float | None = Field(None, description="Evidence that promotion asks for, log10.")
    required: bool | None = Field(None, description="Whether promotion waits for this gate.")
    samples: Count | None = Field(None, description="Number of requests of both variants that were counted.")
    message: Sentence | None = Field(None, description="The gate's verdict in one sentence.")
    method: Sentence | None = Field(None, description="How the gate is tested, and why so.")


class Checkpoint(Observed):
    """Evidence so far. It can be made again from the raw samples, and counts for nothing if the design has changed."""

    as_of: AwareDatetime = Field(description="Time up to which samples are counted.")
    design: Id = Field(description="Hash of the gates that the state belongs to.")
    state: Annotated[str, Field(max_length=MAX_STATE)] = Field(
        description="What the statistics have stored, as one line, so that every number keeps its last bit."
    )


class Hold(Observed):
    """Why the weight does not rise."""

    since: AwareDatetime = Field(description="When the hold began.")
    reason: Word = Field(description="One word for the situation.")


class Quarantined(Observed):
    """A candidate that was rolled back."""

    digest: Id = Field(description="What the candidate is recognised by.")
    until: AwareDatetime = Field(description="Until when it is not tried again.")
    attempts: int = Field(ge=1, description="How often it was tried.")
    reason: Word = Field(description="Why it was rolled back the last time.")


class Message(Observed):
    """Something that a person is to be told."""

    key: Annotated[str, Field(max_length=253)] = Field(
        description="Identifies the fact: attempt, step and reason. A fact is told once."
    )
    fact: Sentence = Field(description="The fact in one sentence.")
    severity: Severity = Field(description="How much it matters.")
    created_at: AwareDatetime = Field(description="When the fact became known.")
    attempts: Count = Field(0, description="How often it was tried to deliver the message.")
    next_try_at: AwareDatetime | None = Field(None, description="When it is tried again.")
    delivered: tuple[Annotated[str, Field(max_length=253)], ...] = Field(
        (), max_length=MAX_CHANNELS, description="Channels that have taken the message.", json_schema_extra=ATOMIC_LIST
    )
    given_up: tuple[Annotated[str, Field(max_length=253)], ...] = Field(
        (), max_length=MAX_CHANNELS, description="Channels that will not take it.", json_schema_extra=ATOMIC_LIST
    )


class Undelivered(Observed):
    """A message that a channel did not get."""

    key: Annotated[str, Field(max_length=253)] = Field(description="Identifies the fact.")
    channel: Annotated[str, Field(max_length=253)] = Field(description="Name of the NotificationChannel.")
    severity: Severity = Field(description="How much it mattered.")
    why: Sentence = Field(description="Why the channel did not get it.")
    at: AwareDatetime = Field(description="When it was given up.")


class PastAttempt(Observed):
    """An attempt that is over."""

    attempt: Id = Field(description="Id of the attempt.")
    outcome: Outcome = Field(description="How it ended.")
    reason: Word = Field(description="Why it ended so.")
    started_at: AwareDatetime = Field(description="When it began.")
    ended_at: AwareDatetime = Field(description="When it ended.")


class ModelRolloutStatus(Observed):
    """What Davylamp has seen and decided."""

    model_config = ConfigDict(json_schema_extra=validations(*STATUS_RULES))

    observed_generation: Count | None = Field(None, description="Generation of the spec that this status is about.")
    conditions: tuple[Condition, ...] = Field(
        (),
        max_length=8,
        description="Ready, Reconciling, Stalled (kstatus), Promoted and RolledBack.",
        json_schema_extra=keyed_by("type"),
    )
    phase: Phase | None = Field(None, description="Where the rollout stands.")
    verdict: Verdict | None = Field(None, description="The worst verdict of all gates.")
    reason: Word | None = Field(None, description="One word for the situation.")
    message: Sentence | None = Field(None, description="The situation in one sentence, with the numbers.")
    epoch: Count | None = Field(None, description="Counts the leaders; a write of a former leader is refused.")
    attempt: Attempt | None = Field(None, description="The attempt that runs or ran last.")
    step: StepStatus | None = Field(None, description="The rung of the ladder.")
    weight: WeightStatus | None = Field(None, description="The candidate's share of traffic.")
    decision: Decision | None = Field(None, description="What was decided for the attempt.")
    hold: Hold | None = Field(None, description="Why the weight does not rise.")
    fights: tuple[AwareDatetime, ...] = Field(
        (),
        max_length=MAX_FIGHTS,
        description="When a weight that somebody else had raised was put right, the latest last.",
        json_schema_extra=ATOMIC_LIST,
    )
    error_ticks: Count | None = Field(
        None, description="Ticks in a row with an error share over the limit of rollback.tripWires."
    )
    diverted: tuple[Annotated[str, Field(max_length=MAX_SLICE_LABEL)], ...] = Field(
        (),
        max_length=MAX_SLICES,
        description="Slices that have regressed in this attempt and go to the baseline alone.",
        json_schema_extra=ATOMIC_LIST,
    )
    signals: tuple[Signal, ...] = Field(
        (), max_length=MAX_SIGNALS, description="What each gate sees.", json_schema_extra=keyed_by("name")
    )
    evidence: Checkpoint | None = Field(None, description="Evidence so far.")
    quarantine: tuple[Quarantined, ...] = Field(
        (),
        max_length=MAX_QUARANTINE,
        description="Candidates that were rolled back, the latest last.",
        json_schema_extra=keyed_by("digest"),
    )
    outbox: tuple[Message, ...] = Field(
        (),
        max_length=MAX_PENDING,
        description="Messages that are on their way.",
        json_schema_extra=keyed_by("key"),
    )
    told: tuple[Annotated[str, Field(max_length=253)], ...] = Field(
        (),
        max_length=MAX_TOLD,
        description="Keys of the latest facts that were told, the latest last.",
        json_schema_extra=ATOMIC_LIST,
    )
    undelivered: tuple[Undelivered, ...] = Field(
        (),
        max_length=MAX_UNDELIVERED,
        description="The latest messages that were given up, the latest last.",
        json_schema_extra=ATOMIC_LIST,
    )
    undelivered_total: Count | None = Field(None, description="How many messages were given up, one for each channel.")
    history: tuple[PastAttempt, ...] = Field(
        (),
        max_length=MAX_HISTORY,
        description="Attempts that are over, the latest last.",
        json_schema_extra=ATOMIC_LIST,
    )
