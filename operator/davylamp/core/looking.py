"""Which samples a look counts, and where evidence is cut: the same live and in a replay of history.

Rule 1: windows join while the weight stays; a change of weight cuts them, and a new attempt forgets all of them.
Rule 2: a step that mirrors requests counts its own pairs, whatever the step before it has counted.
Rule 3: before the candidate has traffic, a look only learns what the baseline is like.
"""

from datetime import datetime, timedelta
from typing import Final

from davylamp.core.evidence import Evidence, learn_baseline, new_stratum, observe
from davylamp.core.model import NONE, Progress
from davylamp.core.plan import Plan
from davylamp.core.reading import Reading
from davylamp.core.shadow_evidence import new_shadow_step, observe_shadow, shadowing
from davylamp.core.slice_evidence import begin_without, observe_slices, slicing

#: How far a first look reaches back, to learn what the baseline is like.
FIRST_WINDOW: Final = timedelta(minutes=5)
#: How far a look reaches back after a gap.
_WINDOW_AFTER_GAP: Final = timedelta(seconds=60)
#: After a longer gap the window begins anew: old samples are dropped rather than read in one huge answer.
LONGEST_GAP: Final = timedelta(minutes=5)

Window = tuple[datetime, datetime]


def window_for(as_of: datetime | None, now: datetime) -> Window | None:
    """Return the window of the next look; None while the stratum has not begun.

    Parameters
    ----------
    as_of
        Time up to which samples are counted; None before the first look.
    now
        Time of the look.
    """
    if as_of is None:
        return now - FIRST_WINDOW, now
    if now - as_of > LONGEST_GAP:
        return now - _WINDOW_AFTER_GAP, now
    return (as_of, now) if as_of < now else None


def due_window(evidence: Evidence, read_at: datetime | None, now: datetime, interval: timedelta) -> Window | None:
    """Return what this look reads; None if it comes soon after the last reading, or before its stratum.

    Parameters
    ----------
    evidence
        What was seen so far.
    read_at
        When signals were read last; None if never.
    now
        Time of the look.
    interval
        Time between two looks of the plan.
    """
    early = read_at is not None and now - read_at < interval * 0.5
    return None if early else window_for(evidence.as_of, now)


def serving(progress: Progress) -> bool:
    """Whether the candidate has live traffic in this attempt, so that it is judged by it."""
    return progress.step >= 0 and progress.attempt is not None and progress.requested > NONE


def advance(plan: Plan, progress: Progress, evidence: Evidence, look: tuple[Reading, Window]) -> Evidence:
    """Return the evidence after a look: both variants while the candidate serves, the baseline alone before.

    Shadow traffic is looked at beside, as long as the step mirrors it.
    """
    step = observe if serving(progress) else learn_baseline
    seen = step(plan, evidence, *look)
    seen = observe_shadow(plan, seen, *look) if shadowing(plan, progress) else seen
    return observe_slices(plan, seen, *look) if slicing(plan, progress) else seen


def begins_anew(before: Progress, after: Progress) -> bool:
    """Whether a decision begins another attempt, or goes back to before the first step: evidence is forgotten."""
    another = (before.attempt and before.attempt.id) != (after.attempt and after.attempt.id)
    return another or after.step < 0 <= before.step


def cut(plan: Plan, before: Progress, after: Progress, evidence: Evidence) -> Evidence:
    """Return the evidence after a decision of the same attempt: cut where another weight or shadow step begins.

    A slice that goes to the baseline from now on is counted no more, and the others anew without it.
    """
    if after.diverted != before.diverted:
        evidence = begin_without(plan, evidence)
    if (start := stratum_start(plan, before, after)) is not None:
        return new_stratum(evidence, start)
    if after.step != before.step and shadowing(plan, after):
        return new_shadow_step(plan, evidence)
    return evidence


def stratum_start(plan: Plan, before: Progress, after: Progress) -> datetime | None:
    """Return where counting goes on if a decision has accepted another weight; None if it has not."""
    if after.accepted_at is None or after.accepted_at == before.accepted_at:
        return None
    return after.accepted_at + plan.interval
