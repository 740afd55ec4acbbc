"""The route as others leave it: gone, unfit, taken, stripped of Davylamp's marks, or edited by hand.

Lowering by somebody else is respected; raising is put right, at most once a minute; a disagreement between route and
status is never repaired upwards.
"""

from dataclasses import replace
from datetime import timedelta
from typing import Final

from davylamp.core.case import Case, enter, hold, stay
from davylamp.core.model import (
    NONE,
    Decision,
    Lower,
    Phase,
    Prepare,
    Reason,
    RouteTrouble,
    Ruling,
    Weight,
)

#: A foreign raise is put right at most once in this time.
_TRUCE: Final = timedelta(minutes=1)
#: So many foreign raises within this time, and Davylamp stops fighting.
_WAR: Final = 3
_WAR_TIME: Final = timedelta(minutes=10)


def troubled(case: Case) -> Decision | None:
    """Hold while the route cannot be used."""
    route = case.world.route
    if not isinstance(route, RouteTrouble):
        return None
    reason = Reason.ROUTE_TAKEN if route.taken else Reason.ROUTE_MISSING if route.missing else Reason.ROUTE_UNFIT
    return hold(case, reason, route.message)


def marks_lost(case: Case) -> Decision | None:
    """Go back to weight 0 when the route does not carry this attempt's marks any more."""
    if case.progress.step < 0 or (case.view.prepared and case.view.attempt == case.attempt):
        return None
    message = (
        f"the route {case.plan.pair.route} was replaced or lost Davylamp's marks "
        f"(last editor: {case.view.editor or 'unknown'}): the attempt begins again at weight 0"
    )
    progress = replace(
        enter(case, -1, NONE),
        accepted_at=None,
        phase=Phase.PENDING,
        reason=Reason.ROUTE_REPLACED,
        ruling=Ruling.CONTINUE,
    )
    return stay(
        replace(case, progress=progress),
        Phase.PENDING,
        Reason.ROUTE_REPLACED,
        message,
        action=Prepare(case.attempt),
        tell=True,
    )


def edited(case: Case) -> Decision | None:
    """Respect a foreign lowering, put a foreign raise right, and settle a disagreement with status downwards."""
    view, asked = case.view, case.view.asked
    if case.progress.step < 0 or asked is None:
        return None
    who = view.editor or "somebody else"
    if view.weight > asked:
        return _put_right(case, asked, who)
    if view.weight < asked:
        return hold(
            case,
            Reason.ROUTE_LOWERED,
            f"{who} lowered the candidate on route {case.plan.pair.route} from {asked} to {view.weight}, which is "
            f"respected: set it back to {asked} to go on",
        )
    if asked > case.progress.requested:
        message = f"the route says {asked}, status says {case.progress.requested}: the lower counts"
        action = Lower(case.attempt, case.progress.requested, Ruling.CONTINUE)
        return stay(case, Phase.PROGRESSING, Reason.STEP_STARTED, message, action=action)
    if asked < case.progress.requested:
        return _fall_back(case, asked)
    return None


def _put_right(case: Case, asked: Weight, who: str) -> Decision:
    fights = tuple(fight for fight in case.progress.fights if case.since(fight) < _WAR_TIME)
    raised = f"{who} raised the candidate on route {case.plan.pair.route} from {asked} to {case.view.weight}"
    if len(fights) >= _WAR:
        return hold(
            case,
            Reason.ROUTE_CONTESTED,
            f"{raised} for the {_WAR + 1}th time in {_WAR_TIME.total_seconds() / 60:.0f} minutes: stop it from writing "
            "the weights (with Argo CD: ignoreDifferences on spec.rules), or delete this rollout",
        )
    if fights and case.since(fights[-1]) < _TRUCE:
        return hold(case, Reason.ROUTE_RAISED, f"{raised}: put right again in a minute")
    progress = replace(case.progress, fights=(*fights, case.now), accepted_at=None, baked=timedelta(0))
    action = Lower(case.attempt, asked, Ruling.CONTINUE)
    return hold(replace(case, progress=progress), Reason.ROUTE_RAISED, f"{raised}: put right", action=action)


def _fall_back(case: Case, asked: Weight) -> Decision:
    """Stay at the weight that the route has: a raise did not arrive. It is decided again, by new evidence."""
    message = f"the route stayed at {asked}, {case.progress.requested} did not arrive: new evidence is collected"
    progress = replace(enter(case, case.plan.rung_below(asked), asked), accepted_at=None, ruling=Ruling.CONTINUE)
    return stay(replace(case, progress=progress), Phase.PROGRESSING, Reason.STEP_STARTED, message)
