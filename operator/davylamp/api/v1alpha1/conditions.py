"""The conditions of a ModelRollout, one function for each situation.

kstatus, by which Flux, Argo CD and ``kubectl wait`` judge any object, reads them in this order: Reconciling=True is "in
progress", Stalled=True is "failed", then Ready decides. So at most one of Reconciling and Stalled is ever True, every
situation sets all five conditions, and the first status that is written has them: an object without conditions would
count as done.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, assert_never

from davylamp.api.v1alpha1.status import MAX_MESSAGE, Condition, ConditionStatus
from davylamp.core.model import Phase

READY: Final = "Ready"
RECONCILING: Final = "Reconciling"
STALLED: Final = "Stalled"
PROMOTED: Final = "Promoted"
ROLLED_BACK: Final = "RolledBack"
TYPES: Final = (READY, RECONCILING, STALLED, PROMOTED, ROLLED_BACK)

_TRUE, _FALSE, _UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN


@dataclass(frozen=True, slots=True)
class Situation:
    """What the conditions are about.

    Attributes
    ----------
    reason
        One CamelCase word.
    message
        One sentence with the numbers.
    generation
        Generation of the spec that was looked at.
    now
        Time of the look, aware.
    previous
        Conditions as they were, for the times of their last transition.
    """

    reason: str
    message: str
    generation: int
    now: datetime
    previous: tuple[Condition, ...] = ()


def first_seen(situation: Situation) -> tuple[Condition, ...]:
    """Say that nothing was looked at yet."""
    return _set(situation, ready=_UNKNOWN, true=(RECONCILING,))


def progressing(situation: Situation) -> tuple[Condition, ...]:
    """Say that the rollout goes on by itself: it waits for time, samples, data, the gateway."""
    return _set(situation, ready=_FALSE, true=(RECONCILING,))


def waiting_for_person(situation: Situation) -> tuple[Condition, ...]:
    """Say that nothing rises until a person acts."""
    return _set(situation, ready=_FALSE, true=())


def promoted(situation: Situation) -> tuple[Condition, ...]:
    """Say that the candidate has all traffic."""
    return _set(situation, ready=_TRUE, true=(PROMOTED,))


def rolled_back(situation: Situation) -> tuple[Condition, ...]:
    """Say that the baseline has all traffic again; Stalled too, so that a pipeline that waits for it goes red."""
    return _set(situation, ready=_FALSE, true=(STALLED, ROLLED_BACK))


def stalled(situation: Situation) -> tuple[Condition, ...]:
    """Say that the rollout cannot go on until something is changed: its spec, a reference, a rival on the route."""
    return _set(situation, ready=_FALSE, true=(STALLED,))


def for_phase(phase: Phase, situation: Situation) -> tuple[Condition, ...]:
    """Return the conditions of a phase in which nobody needs to do anything."""
    match phase:
        case Phase.PENDING | Phase.PROGRESSING | Phase.PAUSED | Phase.HELD | Phase.PROMOTING | Phase.ROLLING_BACK:
            return progressing(situation)
        case Phase.PROMOTED:
            return promoted(situation)
        case Phase.ROLLED_BACK:
            return rolled_back(situation)
        case never:
            assert_never(never)


def _set(situation: Situation, *, ready: ConditionStatus, true: Iterable[str]) -> tuple[Condition, ...]:
    holding = frozenset(true)
    before = {condition.type: condition for condition in situation.previous}
    return tuple(
        _condition(kind, ready if kind == READY else _TRUE if kind in holding else _FALSE, situation, before.get(kind))
        for kind in TYPES
    )


def _condition(kind: str, status: ConditionStatus, situation: Situation, before: Condition | None) -> Condition:
    changed = before is None or before.status is not status
    said = kind == READY or status is _TRUE
    return Condition(
        type=kind,
        status=status,
        reason=situation.reason,
        message=situation.message[:MAX_MESSAGE] if said else "",
        observed_generation=situation.generation,
        last_transition_time=situation.now if before is None or changed else before.last_transition_time,
    )
