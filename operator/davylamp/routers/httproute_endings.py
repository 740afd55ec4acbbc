"""How an HTTPRoute is given back, or pointed to the candidate for good. Pure.

Rule 1: after `restored` the candidate has weight 0 wherever it stands beside the baseline.
Rule 2: where the record of the route as it was cannot be read, nothing that might be the user's is removed: the
    candidate's reference stays, at weight 0, and the baseline gets what the two had together.
"""

from collections.abc import Sequence

from davylamp.core.model import ALL, NONE, Ruling
from davylamp.errors import Conflict
from davylamp.ports import RouteRef
from davylamp.routers.httproute_mirror import without_mirror
from davylamp.routers.httproute_records import recorded, with_baselines
from davylamp.routers.httproute_rules import (
    Ref,
    Rule,
    Share,
    backends_of,
    pointing,
    rules_of,
    shared,
    weight_of,
    with_backends,
    with_rules,
    with_weight,
    with_weights,
)
from davylamp.routers.marks import (
    MAX_WEIGHT,
    Manifest,
    Marks,
    Original,
    Pair,
    read_marks,
    refuse_older,
    without_marks,
)


def restored(manifest: Manifest, pair: Pair, route: RouteRef) -> Manifest:
    """Return the route, given without copies, as it was, with whatever others changed meanwhile, and without marks."""
    marks = read_marks(manifest)
    whole = without_mirror(with_baselines(manifest, pair, marks), marks, route)
    rules = rules_of(whole)
    found = shared(whole, pair)
    records = recorded(whole, found, marks.records(pair))
    given_back = {s.rule: _given_back(rules[s.rule], s, records.get(s.rule), marks) for s in found}
    return without_marks(with_rules(whole, given_back))


def _given_back(rule: Rule, share: Share, original: Original | None, marks: Marks) -> Rule:
    if original is None or _together(original) == 0:
        return _cleared(rule, share)
    if not share.candidates:
        return _reweighted(rule, share, original, marks)
    return _without_candidate(rule, share, original) if original.added else _adopted(rule, share, original)


def _cleared(rule: Rule, share: Share) -> Rule:
    """Take the candidate's weight in a rule of which nothing is known."""
    return with_weights(rule, share, min(share.total, MAX_WEIGHT), 0) if share.candidate else rule


def _reweighted(rule: Rule, share: Share, original: Original, marks: Marks) -> Rule:
    """Give the baseline its weight back where somebody took only the candidate away.

    A weight that Davylamp did not write is that person's, and stays.
    """
    asked = marks.asked or NONE
    ours = {total - total * asked.percent // 100 for total in (100, original.baseline or 1)}
    if share.baseline not in ours and share.baseline:
        return rule
    refs = list(backends_of(rule))
    # Where the candidate had all when it was recorded, the baseline alone must not be left with nothing.
    weight = _together(original) if original.baseline == 0 else original.baseline
    refs[share.baselines[0]] = with_weight(refs[share.baselines[0]], weight)
    return with_backends(rule, refs)


def _without_candidate(rule: Rule, share: Share, original: Original) -> Rule:
    refs = list(backends_of(rule))
    refs[share.baselines[0]] = with_weight(refs[share.baselines[0]], original.baseline)
    return with_backends(rule, _without(refs, share.candidates))


def _adopted(rule: Rule, share: Share, original: Original) -> Rule:
    """Give the rule back with the candidate where it stood, at weight 0: what it had goes to the baseline."""
    refs = list(with_weights(rule, share, 0, 0)["backendRefs"])
    refs[share.baselines[0]] = with_weight(refs[share.baselines[0]], _together(original))
    return with_backends(rule, refs)


def _without(refs: Sequence[Ref], places: Sequence[int]) -> list[Ref]:
    return [ref for place, ref in enumerate(refs) if place not in places]


def _together(original: Original) -> int | None:
    """Return the weight of both variants as recorded; None if the API's default alone was in force."""
    had = 0 if original.added else weight_of({"weight": original.candidate})
    return min(weight_of({"weight": original.baseline}) + had, MAX_WEIGHT) if had else original.baseline


def repointed(manifest: Manifest, route: RouteRef, epoch: int) -> Manifest:
    """Return the route, given without copies, with the candidate in the baseline's place, and without marks.

    Raises
    ------
    Conflict
        The candidate does not have all traffic, or the route says that it was rolled back.
    """
    marks, pair = read_marks(manifest), Pair.of(route)
    manifest = without_mirror(manifest, marks, route)
    found = shared(manifest, pair)
    if not found:
        return without_marks(manifest)
    refuse_older(marks, epoch)
    if not marks.complete or marks.pair != pair or marks.ruling is Ruling.ROLLBACK:
        raise Conflict("the route is not prepared, or its marks say that the candidate was rolled back")
    if max(share.weight for share in found) != ALL:
        raise Conflict("the candidate does not have all traffic yet, so the route is not pointed to it alone")
    rules = rules_of(manifest)
    records = recorded(manifest, found, marks.records(pair))
    return without_marks(
        with_rules(manifest, {s.rule: _repointed(rules[s.rule], s, pair, records.get(s.rule)) for s in found})
    )


def _repointed(rule: Rule, share: Share, pair: Pair, original: Original | None) -> Rule:
    """Put the candidate in the baseline's place, with what the two had together before."""
    refs = list(backends_of(rule))
    place = share.baselines[0]
    own = refs[share.candidates[0]] if share.candidates else pointing(refs[place], pair.candidate)
    known = original is not None and _together(original) != 0
    refs[place] = with_weight(own, _together(original) if original and known else min(share.total, MAX_WEIGHT))
    return with_backends(rule, _without(refs, (*share.baselines[1:], *share.candidates)))
