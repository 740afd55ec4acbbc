"""What each change makes of an HTTPRoute. Pure: the route as it was read in, the route as it shall be out.

Rule 1: a change touches the backendRefs of rules that point to the baseline, Davylamp's mirror, its copies of rules
    for slices, and its marks; nothing else.
Rule 2: `Lower` and `Restore` work on any route, marked or not, and act on the pair that the marks name: what was put
    there is what has to be taken back, even if the settings name other backends by now.
Rule 3: `Lower` never gives a rule's candidate more than it has, and no mark becomes weaker by it.
Rule 4: no slice that is diverted gets the candidate by another change: a raise writes the copies anew, for rules that
    appeared since.
"""

from dataclasses import replace
from typing import assert_never

from davylamp.core.model import NONE, Ruling, Weight
from davylamp.core.moves import Diversion, Divert, Lower, Mirror, Prepare, Raise, Repoint, Restore
from davylamp.core.world import ALTERED
from davylamp.errors import Conflict, SpecError
from davylamp.ports import RouteChange, RouteRef
from davylamp.routers.httproute_endings import repointed, restored
from davylamp.routers.httproute_mirror import with_mirror, without_mirror
from davylamp.routers.httproute_records import records_of, with_baselines
from davylamp.routers.httproute_rules import (
    Share,
    lowered,
    rules_of,
    shared,
    shares,
    split,
    with_all_rules,
    with_candidate,
    with_rules,
    with_weights,
)
from davylamp.routers.httproute_slices import Copies, apart, closed, diverted, slices_of, woven
from davylamp.routers.marks import Manifest, Marks, Pair, backend_ref, read_marks, refuse_older, with_marks


def changed(manifest: Manifest, route: RouteRef, change: RouteChange, epoch: int) -> Manifest:
    """Return the route after `change`.

    Raises
    ------
    SpecError
        The route does not fit; a person must change it.
    Conflict
        The route is not as the change takes it to be: read it again and decide again.
    """
    match change:
        case Prepare():
            return _prepare(apart(manifest)[0], route, change, epoch)
        case Raise():
            return _raise(manifest, route, change, epoch)
        case Lower():
            return _lower(manifest, pair_in_force(manifest, route), change, epoch)
        case Mirror():
            return _mirror(manifest, route, change, epoch)
        case Divert():
            return _divert(manifest, route, change, epoch)
        case Restore() | Repoint():
            return _given_back(manifest, route, change, epoch)
        case never:
            assert_never(never)


def _given_back(manifest: Manifest, route: RouteRef, change: Restore | Repoint, epoch: int) -> Manifest:
    pair, (base, _) = pair_in_force(manifest, route), apart(manifest)
    return restored(base, pair, route) if isinstance(change, Restore) else repointed(base, route, epoch)


def pair_in_force(manifest: Manifest, route: RouteRef) -> Pair:
    """Return the pair that the marks name, as long as a rule points to either; otherwise the one of the settings."""
    marked = read_marks(manifest).pair
    return marked if marked and shares(apart(manifest)[0], marked) else Pair.of(route)


def leftover(manifest: Manifest, route: RouteRef) -> bool:
    """Whether the route carries the marks of another pair, which must be taken off before it is prepared."""
    return read_marks(manifest).pair not in {None, Pair.of(route)}


# Prepare, raise, mirror, divert.


def _prepare(manifest: Manifest, route: RouteRef, change: Prepare, epoch: int) -> Manifest:
    marks, pair = read_marks(manifest), Pair.of(route)
    refuse_older(marks, epoch)
    manifest = without_mirror(manifest, marks, route)
    written = Marks(True, change.attempt, NONE, Ruling.CONTINUE, epoch, pair, records_of(manifest, pair, marks))
    return with_marks(_weighted(with_baselines(manifest, pair, marks), pair, NONE), written)


def _raise(manifest: Manifest, route: RouteRef, change: Raise, epoch: int) -> Manifest:
    pair = Pair.of(route)
    marks = _own(read_marks(manifest), pair, change.attempt, epoch)
    base, copies = apart(manifest)
    if change.unmirror:
        base, marks = without_mirror(base, marks, route), replace(marks, mirror=None)
    slices = slices_of(marks, copies)
    if ALTERED in slices:
        raise Conflict("others changed the rules that divert slices, and the mark that says which: divert them again")
    written = replace(marks, asked=change.weight, epoch=epoch, originals=records_of(base, pair, marks))
    return _diverted(_weighted(base, pair, change.weight), written, slices, copies)


def _mirror(manifest: Manifest, route: RouteRef, change: Mirror, epoch: int) -> Manifest:
    pair = Pair.of(route)
    marks = _own(read_marks(manifest), pair, change.attempt, epoch)
    base, copies = apart(manifest)
    alone = with_all_rules(base, copies.values())
    base, alone = (without_mirror(each, marks, route) for each in (base, alone))
    comparator = backend_ref(change.comparator)
    if comparator is not None:
        base = with_mirror(base, pair, comparator)
        alone = with_mirror(alone, pair, comparator) if shared(alone, pair) else alone
    whole = woven(base, dict(zip(copies, rules_of(alone), strict=True)))
    return with_marks(whole, replace(marks, epoch=epoch, mirror=comparator))


def _divert(manifest: Manifest, route: RouteRef, change: Divert, epoch: int) -> Manifest:
    marks = _own(read_marks(manifest), Pair.of(route), change.attempt, epoch)
    base, copies = apart(manifest)
    return _diverted(base, replace(marks, epoch=epoch), change.slices, copies)


def _diverted(base: Manifest, marks: Marks, slices: tuple[Diversion, ...], present: Copies) -> Manifest:
    """Return the route with exactly these slices diverted, and marked so."""
    whole, keys = diverted(base, marks.pair, slices, present) if slices and marks.pair else (base, ())
    return with_marks(whole, replace(marks, diverted=slices, copies=keys))


def _own(marks: Marks, pair: Pair, attempt: str, epoch: int) -> Marks:
    """Return the marks if the route is prepared for this attempt and goes on; raise Conflict otherwise."""
    refuse_older(marks, epoch)
    if not marks.complete or (marks.attempt, marks.pair) != (attempt, pair):
        raise Conflict(f"the route is not prepared for attempt {attempt}: its marks say {marks.attempt}")
    if marks.ruling is not Ruling.CONTINUE:
        raise Conflict(f"the route says that {marks.ruling} was decided for attempt {attempt}")
    return marks


def _weighted(manifest: Manifest, pair: Pair, weight: Weight) -> Manifest:
    """Give the candidate exactly `weight` in every rule that points to the baseline, adding it where it is missing."""
    with_all = _with_candidates(manifest, pair)
    rules = rules_of(with_all)
    found = shared(with_all, pair)
    if not found:
        raise SpecError(f"no rule of the route points to the baseline {pair.baseline}")
    for share in found:
        refuse_unfit(share, pair)
    return with_rules(
        with_all, {share.rule: with_weights(rules[share.rule], share, *split(share, weight)) for share in found}
    )


def _with_candidates(manifest: Manifest, pair: Pair) -> Manifest:
    rules = rules_of(manifest)
    missing = [share for share in shared(manifest, pair) if not share.candidates]
    return with_rules(manifest, {share.rule: with_candidate(rules[share.rule], share, pair) for share in missing})


def refuse_unfit(share: Share, pair: Pair) -> None:
    """Raise SpecError if a rule cannot share traffic between the two variants."""
    for backend, places in ((pair.baseline, share.baselines), (pair.candidate, share.candidates)):
        if len(places) > 1:
            raise SpecError(f"{share.place} names {backend} {len(places)} times: keep one of its backendRefs")
    if not share.total:
        raise SpecError(
            f"{share.place} gives {pair.baseline} the weight 0, so there is nothing to share: "
            "give it a weight above 0, or take it out of the rule"
        )


# Lower.


def _lower(manifest: Manifest, pair: Pair, change: Lower, epoch: int) -> Manifest:
    marks = read_marks(manifest)
    base, copies = apart(manifest)
    whole = with_baselines(base, pair, marks)
    rules = rules_of(whole)
    found = [share for share in shared(whole, pair) if share.candidates]
    weighted = with_rules(
        whole,
        {s.rule: with_weights(rules[s.rule], s, *now) for s in found if (now := lowered(s, change.weight)) != _now(s)},
    )
    same = marks.attempt == change.attempt
    written = Marks(
        present=True,
        attempt=change.attempt,
        asked=min(marks.asked or change.weight, change.weight) if same else change.weight,
        ruling=Ruling.ROLLBACK if same and marks.ruling is Ruling.ROLLBACK else change.ruling,
        epoch=max(marks.epoch or 0, epoch),
        pair=pair,
        originals=records_of(base, pair, marks),
        mirror=marks.mirror,
        diverted=marks.diverted,
        copies=marks.copies,
    )
    return with_marks(woven(weighted, closed(base, copies, pair)), written)


def _now(share: Share) -> tuple[int, int]:
    return share.baseline, share.candidate
