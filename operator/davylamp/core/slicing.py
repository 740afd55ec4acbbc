"""Slices that have regressed: sent back to the baseline alone, while the candidate keeps the others.

Rule 1: it is carried out again until the route shows it, whoever has undone it.
Rule 2: within an attempt a slice never comes back to the candidate.
"""

from collections.abc import Mapping
from dataclasses import replace

from davylamp.core.case import Case, facts, hold, stay
from davylamp.core.model import NONE, Reason, Ruling
from davylamp.core.moves import Decision, Diversion, Divert
from davylamp.core.safety import rollback
from davylamp.core.world import RouteView


def divert(case: Case) -> Decision | None:
    """Send slices that have regressed to the baseline, if nothing else has."""
    judgement, progress = case.world.judgement, case.progress
    new = tuple(label for label in judgement.regressed_slices if label not in progress.diverted)
    usable = (
        isinstance(case.world.route, RouteView) and case.world.baseline_ready > 0 and _known(case).keys() >= set(new)
    )
    if not judgement.regressed or not new or not usable or progress.step < 0 or not _undecided(case):
        return None
    blamed = "; ".join(judgement.messages[name] for name in judgement.culprits if name in judgement.messages)
    message = f"{', '.join(new)} goes back to {case.pair.baseline}, the rest stays: {blamed}"
    progress = replace(
        progress,
        diverted=tuple(sorted({*progress.diverted, *new})),
        reason=Reason.SLICE_ROLLED_BACK,
        message=message,
    )
    case = replace(case, progress=progress)
    told = facts(case, Reason.SLICE_ROLLED_BACK, message)
    told = tuple(replace(fact, key=f"{fact.key}/{'+'.join(new)}") for fact in told)
    return Decision(progress, Divert(case.attempt, _wanted(case)), told)


def keep(case: Case) -> Decision | None:
    """Make the route show what was decided about slices, before any weight is given.

    A route that has no room for it, or whose API server refuses it, gives all traffic back.
    """
    wanted, view = _wanted(case), case.view
    if not wanted or view.diverted == wanted or not view.prepared or not _undecided(case):
        return None
    if case.world.refusal:
        if view.weight == NONE or case.world.baseline_ready == 0:
            return None
        why = f"{_named(case)} has regressed and cannot go back alone: {case.world.refusal}"
        return rollback(case, Reason.REGRESSED, why)
    message = f"route {case.pair.route} is to send {_named(case)} to {case.pair.baseline}, and does not"
    return stay(case, case.climbing, Reason.SLICE_ROLLED_BACK, message, action=Divert(case.attempt, wanted))


def unfinished(case: Case) -> Decision | None:
    """Hold before promotion while slices are away from the candidate, or too small to be judged where that matters."""
    rules, small = case.plan.slices, case.world.judgement.small
    if case.progress.diverted:
        message = (
            f"all has passed but {_named(case)}, which stays with {case.pair.baseline}, so the candidate cannot take "
            "the whole route: deploy a better one, or leave the route as it is"
        )
        return hold(case, Reason.SLICE_ROLLED_BACK, message)
    if rules is not None and rules.hold_when_small and small:
        named = ", ".join(f"{name} ({pairs} of {rules.min_support} pairs)" for name, pairs in sorted(small.items()))
        return hold(case, Reason.SLICE_TOO_SMALL, f"too small to judge, and promotion waits for it: {named}")
    return None


def remark(case: Case) -> str:
    """Return which slices a promotion says nothing about; empty if there are none."""
    rules, small = case.plan.slices, case.world.judgement.small
    if rules is None or not small:
        return ""
    named = ", ".join(f"{name} ({pairs} of {rules.min_support} pairs)" for name, pairs in sorted(small.items()))
    return f" (too small to judge: {named})"


def _undecided(case: Case) -> bool:
    return case.progress.ruling is Ruling.CONTINUE


def _wanted(case: Case) -> tuple[Diversion, ...]:
    known = _known(case)
    return tuple(sorted(known[label] for label in case.progress.diverted if label in known))


def _known(case: Case) -> Mapping[str, Diversion]:
    """Return what the plan can send to the baseline alone, by slice."""
    return {} if case.plan.slices is None else case.plan.slices.diversions


def _named(case: Case) -> str:
    return ", ".join(case.progress.diverted)
