"""Decide the next move of one rollout.

Rule 1: every change of phase, weight and ruling is made here and nowhere else.
Rule 2: nothing here reads a clock, a cluster or a log; all facts are arguments.
Rule 3: the rules are asked in order and the first answer counts. What lowers stands before what holds, and what holds
before what raises, so that nothing can come between a bad candidate and its rollback.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from davylamp.core import attempts, interference, ladder, safety, shadowing, slicing
from davylamp.core.case import Case
from davylamp.core.model import NONE, Progress
from davylamp.core.moves import Decision
from davylamp.core.plan import Plan
from davylamp.core.world import World

Rule = Callable[[Case], Decision | None]

RULES: Final[tuple[Rule, ...]] = (
    # A deleted object gives the baseline its route back, whatever else is the matter.
    safety.let_go,
    # An attempt that is over stays so until the spec or the candidate changes.
    attempts.rest,
    # A decided rollback is carried out, before the route's own troubles, in every phase.
    safety.finish_rollback,
    # The route points to the candidate alone: the promotion is done, and stays.
    ladder.finish_promotion,
    # Another spec or candidate: the weight goes to 0 first, then a new attempt begins.
    attempts.supersede,
    attempts.start,
    # The candidate is worse for some: they get the baseline back. Worse for all, gone or broken: everybody does.
    slicing.divert,
    safety.roll_back,
    # Without a usable route nothing below makes sense.
    interference.troubled,
    # Somebody else works on the route.
    interference.marks_lost,
    interference.edited,
    slicing.keep,
    interference.refused,
    # No data is not good data.
    safety.unobserved,
    # The ladder, from the bottom.
    ladder.prepare,
    shadowing.mirror,
    ladder.accept,
    ladder.climb,
)


def decide(plan: Plan, progress: Progress, world: World, now: datetime) -> Decision:
    """Return the next move.

    Parameters
    ----------
    plan
        What the rollout runs by now.
    progress
        Where it stands; may come from a damaged status, as long as its values are well-formed.
    world
        All facts of this look.
    now
        Time of the look, UTC; before that of the last only where the clock was set back.

    Returns
    -------
    Decision
        Total: there is always an answer, and at most one action.
    """
    case = Case(plan, _not_ahead(progress, now), world, now)
    case = replace(case, progress=_clocked(case), world=interference.usable(case))
    case = interference.as_asked(case)
    for rule in RULES:
        decision = rule(case)
        if decision is not None:
            return decision
    return Decision(case.progress)


def _not_ahead(progress: Progress, now: datetime) -> Progress:
    """Return the progress without a moment that is still to come, so that a clock that was set back stops no wait.

    Foreign raises keep their distances from each other.
    """
    ahead = max((now, *progress.fights)) - now
    return replace(
        progress,
        entered_at=progress.entered_at and min(progress.entered_at, now),
        accepted_at=progress.accepted_at and min(progress.accepted_at, now),
        hold_since=progress.hold_since and min(progress.hold_since, now),
        fights=tuple(fight - ahead for fight in progress.fights),
    )


def _clocked(case: Case) -> Progress:
    """Return the progress with its clocks advanced by this look; no clock runs on beyond what is asked of it."""
    progress, plan = case.progress, case.plan
    passed = min(case.since(progress.ticked_at), 3 * plan.interval)
    counts = progress.accepted_at is not None and (case.observed or progress.requested == NONE)
    longest = max(plan.promotion_bake, *(step.bake for step in plan.steps))
    return replace(
        progress,
        ticked_at=case.now,
        baked=min(progress.baked + (passed if counts else timedelta(0)), longest),
        error_ticks=_error_ticks(case),
    )


def _error_ticks(case: Case) -> int:
    """Return the looks in a row with an error share over the hard limit; too few requests say nothing."""
    judgement, wires, over = case.world.judgement, case.plan.trip_wires, case.progress.error_ticks
    errors, requests = judgement.candidate_errors, judgement.candidate_requests
    if errors is not None and requests is not None and requests >= wires.min_requests:
        over = over + 1 if errors > wires.error_share * requests else 0
    return min(over, wires.ticks)
