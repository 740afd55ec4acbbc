"""The route as others leave it: gone, unfit, taken, stripped of Davylamp's marks, or edited by hand.

Lowering by somebody else is respected; raising is put right, at most once a minute; a disagreement between route and
status is never repaired upwards.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from davylamp.core.case import Case, hold, stay, unaccepted, unruled
from davylamp.core.model import ALL, NONE, Phase, Reason, Ruling, Weight
from davylamp.core.moves import Decision, Lower, Mirror, Prepare
from davylamp.core.world import RouteTrouble, RouteView, World

#: A foreign raise is put right at most once in this time.
_TRUCE: Final = timedelta(minutes=1)
#: So many foreign raises within this time, and Davylamp stops fighting.
_WAR: Final = 3
_WAR_TIME: Final = timedelta(minutes=10)


def usable(case: Case) -> World:
    """Return the world with a route that points to the candidate alone, and not by this attempt, as a trouble."""
    route = case.world.route
    if not isinstance(route, RouteView) or not route.repointed or route.marked:
        return case.world
    if case.progress.ruling is Ruling.PROMOTE:
        return case.world
    message = (
        f"route {case.pair.route} points to the candidate {case.pair.candidate} alone: point it to the baseline "
        f"{case.pair.baseline}, or name what it points to as the baseline"
    )
    return replace(case.world, route=RouteTrouble(message))


def as_asked(case: Case) -> Case:
    """Return the case with the step's evidence to be collected anew if the route is not as asked and accepted."""
    route, progress = case.world.route, case.progress
    ours = progress.attempt is not None and progress.attempt.spec_hash == case.plan.spec_hash
    if not ours or progress.step < 0 or progress.ended:
        return case
    fits = isinstance(route, RouteView) and route.accepted and {route.weight, route.floor} == {progress.requested}
    return case if fits else unaccepted(case)


def troubled(case: Case) -> Decision | None:
    """Hold while the route cannot be used."""
    route = case.world.route
    if not isinstance(route, RouteTrouble):
        return None
    reason = Reason.ROUTE_TAKEN if route.taken else Reason.ROUTE_MISSING if route.missing else Reason.ROUTE_UNFIT
    return hold(case, reason, route.message)


def marks_lost(case: Case) -> Decision | None:
    """Go back to weight 0 when the route does not carry this attempt's marks any more."""
    view, fights = case.view, _fights(case)
    if (view.prepared or view.repointed) and view.attempt == case.attempt:
        return None
    fought = len(fights) >= _WAR and view.weight == NONE
    if case.progress.step < 0:
        contested = fought and case.progress.hold_reason is Reason.ROUTE_CONTESTED
        return hold(case, Reason.ROUTE_CONTESTED, case.progress.message) if contested else None
    lost = (
        f"the route {case.pair.route} was replaced or lost Davylamp's marks (last editor: {view.editor or 'unknown'})"
    )
    back = replace(case, progress=unruled(case, -1, NONE))
    if fought:
        return hold(back, Reason.ROUTE_CONTESTED, _contested(lost))
    if not fights or case.since(fights[-1]) >= _TRUCE:  # what is undone within the minute is the same fight
        fights = (*fights, case.now)[-_WAR:]
    back = replace(back, progress=replace(back.progress, fights=fights))
    message = f"{lost}: the attempt begins again at weight 0"
    return stay(back, Phase.PENDING, Reason.ROUTE_REPLACED, message, action=put_beside(case), tell=True)


def put_beside(case: Case) -> Prepare | Lower:
    """Return what brings the candidate beside the baseline at weight 0; a route without a baseline gets it back."""
    return Lower(case.attempt, NONE, Ruling.CONTINUE) if case.view.repointed else Prepare(case.attempt)


def edited(case: Case) -> Decision | None:
    """Respect a foreign lowering, put a foreign raise right, and settle a disagreement with status downwards.

    A lowering is respected even where a damaged status knows of no step any more, unless the candidate has no endpoint
    for what is left: then all of it is taken back.
    """
    view, asked = case.view, case.view.asked
    who = view.editor or "somebody else"
    stranded = case.progress.step < 0 and case.world.candidate_ready == 0 and view.weight > NONE
    lowered = asked is not None and view.floor < asked and view.weight <= asked and view.attempt == case.attempt
    if lowered and not stranded:
        where = "" if view.floor == view.weight else " in one of its rules"
        return hold(
            case,
            Reason.ROUTE_LOWERED,
            f"{who} lowered the candidate on route {case.pair.route} from {asked} to {view.floor}{where}, which is "
            f"respected: set it back to {asked} to go on",
        )
    if case.progress.step < 0 or asked is None:
        return None
    if view.weight > asked:
        return _put_right(case, asked, who)
    fits = asked == case.progress.requested and (case.plan.paused or _coherent(case))
    return None if fits else _settle(case, asked)


def refused(case: Case) -> Decision | None:
    """Hold while the route cannot be written as the ladder asks; what lowers is tried all the same, by rules before."""
    return hold(case, Reason.ROUTE_UNFIT, case.world.refusal) if case.world.refusal else None


def _put_right(case: Case, asked: Weight, who: str) -> Decision:
    raised = f"{who} raised the candidate on route {case.pair.route} from {asked} to {case.view.weight}"
    return contest(case, Reason.ROUTE_RAISED, raised, Lower(case.attempt, asked, Ruling.CONTINUE))


def contest(case: Case, reason: Reason, undone: str, action: Lower | Mirror) -> Decision:
    """Put right what somebody has undone, at most once a minute; whoever goes on is let, and people are told.

    Parameters
    ----------
    case
        The facts.
    reason, undone
        What somebody has done, for people.
    action
        What puts it right.
    """
    fights = _fights(case)
    if len(fights) >= _WAR:
        return hold(case, Reason.ROUTE_CONTESTED, _contested(undone))
    if fights and case.since(fights[-1]) < _TRUCE:
        return hold(case, reason, f"{undone}: put right again in a minute")
    progress = replace(case.progress, fights=(*fights, case.now))
    return hold(replace(case, progress=progress), reason, f"{undone}: put right", action=action)


def _fights(case: Case) -> tuple[datetime, ...]:
    """Return when others undid what Davylamp had written, lately."""
    return tuple(fight for fight in case.progress.fights if case.since(fight) < _WAR_TIME)


def _contested(what: str) -> str:
    return (
        f"{what} for the {_WAR + 1}th time in {_WAR_TIME.total_seconds() / 60:.0f} minutes: stop it from writing the "
        "rules (with Argo CD: ignoreDifferences on spec.rules), or delete this rollout"
    )


def _coherent(case: Case) -> bool:
    """Whether the step, the weight and the ruling of a stored progress fit together, so that the next step is one."""
    progress, steps = case.progress, len(case.plan.steps)
    promoting = progress.ruling is Ruling.PROMOTE
    if progress.step == steps:
        return promoting and progress.requested == ALL
    return progress.step < steps and not promoting and progress.requested == case.plan.weight_at(progress.step)


def _settle(case: Case, asked: Weight) -> Decision:
    """Go to the step that the lower of route and status allows; evidence is collected anew there.

    The route is written even where its weight stays: the epoch in its marks keeps a raise that a former leader still
    has on its way from arriving.
    """
    requested = case.progress.requested
    step = case.plan.rung_below(min(asked, requested))
    weight = case.plan.weight_at(step)
    message = f"the route says {asked}, status says {requested}: {weight} counts, and new evidence is collected"
    back = replace(case, progress=unruled(case, step, weight))
    action = Lower(case.attempt, weight, Ruling.CONTINUE)
    return stay(back, back.climbing, Reason.STEP_STARTED, message, action=action)
