"""The words of the decision: values without behaviour, shared by everything that decides, spells or acts.

Rule 1: every value is frozen; a decision makes new values and changes none.
Rule 2: closed sets are enums or unions, matched exhaustively; no default branch means success.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final


class Variant(StrEnum):
    """Either of the two models."""

    BASELINE = "Baseline"
    CANDIDATE = "Candidate"


class Phase(StrEnum):
    """Where a rollout stands; a summary for people, never the input of a safety rule."""

    #: The candidate has no traffic yet: references, endpoints, the route or the baseline's metrics are awaited.
    PENDING = "Pending"
    #: The candidate serves the weight of its step and is judged.
    PROGRESSING = "Progressing"
    #: A person asked for a stop, or the ladder has a pause here.
    PAUSED = "Paused"
    #: The weight does not rise until something outside the candidate is put right.
    HELD = "Held"
    #: Every gate has shown that the candidate is no worse; it gets all traffic.
    PROMOTING = "Promoting"
    #: The route points to the candidate alone. Terminal for the attempt.
    PROMOTED = "Promoted"
    #: The rollback is decided; the route does not show it yet.
    ROLLING_BACK = "RollingBack"
    #: The route is the user's again. Terminal for the attempt.
    ROLLED_BACK = "RolledBack"


TERMINAL: Final = frozenset({Phase.PROMOTED, Phase.ROLLED_BACK})


class Verdict(StrEnum):
    """What a gate says."""

    REGRESSED = "Regressed"
    SOURCE_DOWN = "SourceDown"
    NO_DATA = "NoData"
    INCONCLUSIVE = "Inconclusive"
    NON_INFERIOR = "NonInferior"


_WORST_FIRST: Final = (
    Verdict.REGRESSED,
    Verdict.SOURCE_DOWN,
    Verdict.NO_DATA,
    Verdict.INCONCLUSIVE,
    Verdict.NON_INFERIOR,
)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the verdict that must be acted on; no verdicts at all means NO_DATA."""
    return min(verdicts, key=_WORST_FIRST.index, default=Verdict.NO_DATA)


class Ruling(StrEnum):
    """What was decided for an attempt; kept on the route and in status. ROLLBACK is final; PROMOTE may become it."""

    CONTINUE = "Continue"
    ROLLBACK = "Rollback"
    PROMOTE = "Promote"


class Severity(StrEnum):
    """How much a fact matters to people, the least first."""

    INFO = "Info"
    WARNING = "Warning"
    INCIDENT = "Incident"


class Reason(StrEnum):
    """One word for each situation; only ever added to, and nobody branches on it."""

    #: The object was seen for the first time.
    ACCEPTED = "Accepted"
    #: The settings do not fit together or name something that does not exist; a person must change them.
    INVALID_SPEC = "InvalidSpec"
    #: The route does not exist.
    ROUTE_MISSING = "RouteMissing"
    #: The route has no rule that Davylamp can share between the two variants.
    ROUTE_UNFIT = "RouteUnfit"
    #: Another, older ModelRollout works on the same route.
    ROUTE_TAKEN = "RouteTaken"
    #: The gateway has not accepted the route's present generation.
    ROUTE_NOT_ACCEPTED = "RouteNotAccepted"
    #: Somebody else lowered the candidate's weight on the route; that is respected.
    ROUTE_LOWERED = "RouteLowered"
    #: Somebody else raised the candidate's weight on the route; it was put right.
    ROUTE_RAISED = "RouteRaised"
    #: Somebody else keeps changing the weights; Davylamp has stopped fighting.
    ROUTE_CONTESTED = "RouteContested"
    #: The route was deleted and made anew, or carries the marks of another attempt.
    ROUTE_REPLACED = "RouteReplaced"
    #: The candidate has no ready endpoint and no traffic.
    CANDIDATE_NOT_READY = "CandidateNotReady"
    #: The baseline has no ready endpoint, so that taking traffic back would be an outage.
    BASELINE_NOT_READY = "BaselineNotReady"
    #: No metrics of the baseline are found; the rollout would be blind.
    BASELINE_SILENT = "BaselineSilent"
    #: A candidate that was rolled back is tried again before its cooldown is over.
    QUARANTINED = "Quarantined"
    #: The weight of the step is on its way to the gateway.
    STEP_STARTED = "StepStarted"
    #: The step's bake time is not over.
    BAKING = "Baking"
    #: The step has not served enough requests.
    SAMPLING = "Sampling"
    #: The last step waits for evidence that the candidate is no worse.
    PROVING = "Proving"
    #: The evidence for promotion, or for leaving a shadow step, did not come by the deadline.
    DEADLINE = "Deadline"
    #: Evidence of a regression is over the lower threshold: the weight does not rise.
    SUSPICION = "Suspicion"
    #: Requests are mirrored to the comparator, so that both variants answer them.
    SHADOWING = "Shadowing"
    #: The comparator has no ready endpoint, so requests would be mirrored to nobody.
    COMPARATOR_NOT_READY = "ComparatorNotReady"
    #: Another rollout of the namespace mirrors to the same port of the comparator.
    COMPARATOR_TAKEN = "ComparatorTaken"
    #: No mirrored request reaches the comparator.
    MIRROR_SILENT = "MirrorSilent"
    #: A slice has regressed, and goes to the baseline alone while the rest goes on.
    SLICE_ROLLED_BACK = "SliceRolledBack"
    #: A slice has too few labelled pairs to be judged, and promotion is to wait for it.
    SLICE_TOO_SMALL = "SliceTooSmall"
    #: Somebody else took the mirror off the route.
    MIRROR_REMOVED = "MirrorRemoved"
    #: spec.paused is set.
    PAUSED_BY_SPEC = "PausedBySpec"
    #: The ladder has a pause here.
    PAUSED_BY_STEP = "PausedByStep"
    #: The source answers, and a series is missing, stale or not a number.
    NO_DATA = "NoData"
    #: The source does not answer, or only in part.
    SOURCE_DOWN = "SourceDown"
    #: The candidate gets all traffic and is watched for the promotion's bake time.
    PROMOTION_STARTED = "PromotionStarted"
    #: Every required gate has shown that the candidate is no worse.
    ALL_GATES_PASSED = "AllGatesPassed"
    #: Evidence of a regression crossed the threshold.
    REGRESSED = "Regressed"
    #: The candidate lost its last ready endpoint while it had traffic.
    CANDIDATE_LOST = "CandidateLost"
    #: The candidate's error share was over the hard limit for several ticks.
    ERROR_SHARE = "ErrorShare"
    #: Data stayed away for too long; the candidate is not blamed.
    EVIDENCE_TIMEOUT = "EvidenceTimeout"
    #: The settings or the candidate changed in mid-rollout: a new attempt begins from weight 0.
    SUPERSEDED = "Superseded"
    #: The object is being deleted: the baseline gets its route back.
    DELETED = "Deleted"
    #: An unexpected error in Davylamp itself; the weight is held.
    INTERNAL_ERROR = "InternalError"


@dataclass(frozen=True, slots=True, order=True)
class Weight:
    """Share of live traffic that goes to the candidate.

    Parameters
    ----------
    percent
        Whole percent, 0..100.
    """

    percent: int

    def __post_init__(self) -> None:
        if type(self.percent) is not int or not 0 <= self.percent <= 100:
            raise ValueError(f"weight must be a whole percent in 0..100, got {self.percent!r}")

    def __str__(self) -> str:
        return f"{self.percent} %"


NONE: Final = Weight(0)
ALL: Final = Weight(100)


@dataclass(frozen=True, slots=True)
class Pair:
    """What traffic is shared between: the ``route``, and the backends as ``name:port``, all in one namespace."""

    route: str
    baseline: str
    candidate: str


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try to move traffic to one candidate by one spec.

    Parameters
    ----------
    id
        Identifies it, on the route too.
    number
        Counts the attempts of the object, from 1.
    candidate_digest
        What the candidate is recognised by.
    spec_hash
        Hash of the settings that it runs by.
    started_at
        When it began, UTC.
    pair
        The route and the backends that it works on, whatever the spec says since.
    """

    id: str
    number: int
    candidate_digest: str
    spec_hash: str
    started_at: datetime
    pair: Pair


@dataclass(frozen=True, slots=True)
class Quarantine:
    """A candidate that was rolled back, and until when it is not tried again."""

    digest: str
    until: datetime
    attempts: int
    reason: str


class Outcome(StrEnum):
    """How an attempt ended."""

    PROMOTED = "Promoted"
    ROLLED_BACK = "RolledBack"
    SUPERSEDED = "Superseded"


@dataclass(frozen=True, slots=True)
class PastAttempt:
    """An attempt that is over."""

    attempt: str
    outcome: Outcome
    reason: str
    started_at: datetime
    ended_at: datetime


@dataclass(frozen=True, slots=True)
class Progress:
    """Where an attempt stands: all that the next decision needs, and all that survives a restart.

    Parameters
    ----------
    attempt
        The attempt that runs or ran last; None before the first.
    phase, reason, message
        The situation, for people.
    ruling
        What was decided for the attempt, and why and when if it is final.
    step
        Index into the plan's steps, >= 0; -1 before the first.
    requested
        The candidate's weight that was decided last.
    entered_at
        When the step was entered, UTC.
    accepted_at
        When the gateway had accepted the step's weight, UTC; None until then.
    baked
        Time under observation in this step: grows only in ticks with complete data, so that neither an outage nor a
        step of the clock nor a restart shortens a bake.
    ticked_at
        When the last decision was made by this process; None after a restart.
    hold_since, hold_reason
        Since when data are missing, or the weight is held for another reason; None while all is well.
    fights
        When somebody else's raise was put right, the latest last, bounded.
    error_ticks
        Ticks in a row with an error share over the hard limit.
    diverted
        Labels of the slices that have regressed in this attempt and go to the baseline alone, sorted.
    quarantine, history
        Candidates that were rolled back and attempts that are over, the latest last, bounded.
    """

    attempt: Attempt | None = None
    phase: Phase = Phase.PENDING
    reason: Reason = Reason.ACCEPTED
    message: str = ""
    ruling: Ruling = Ruling.CONTINUE
    ruling_reason: Reason | None = None
    ruled_at: datetime | None = None
    step: int = -1
    requested: Weight = NONE
    entered_at: datetime | None = None
    accepted_at: datetime | None = None
    baked: timedelta = timedelta(0)
    ticked_at: datetime | None = None
    hold_since: datetime | None = None
    hold_reason: Reason | None = None
    fights: tuple[datetime, ...] = ()
    error_ticks: int = 0
    diverted: tuple[str, ...] = ()
    quarantine: tuple[Quarantine, ...] = ()
    history: tuple[PastAttempt, ...] = ()

    @property
    def ended(self) -> bool:
        """Whether the attempt is over: its end stands in the history."""
        return self.attempt is not None and any(past.attempt == self.attempt.id for past in self.history)
