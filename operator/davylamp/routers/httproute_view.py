"""What an HTTPRoute says. Pure: the manifest in, the view out."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from davylamp.core.model import ALL, NONE, Ruling, Weight
from davylamp.core.world import ALTERED, Extent, RouteTrouble, RouteView
from davylamp.errors import SpecError
from davylamp.ports import RouteRef
from davylamp.routers.api import FIELD_MANAGER
from davylamp.routers.httproute_changes import pair_in_force, refuse_unfit
from davylamp.routers.httproute_mirror import comparators, mirroring
from davylamp.routers.httproute_records import recorded
from davylamp.routers.httproute_rules import (
    Share,
    backends_of,
    namespace_of,
    rules_of,
    shared,
    shares,
    split,
    with_all_rules,
)
from davylamp.routers.httproute_slices import apart, standing
from davylamp.routers.marks import Manifest, Marks, Pair, read_marks


def view(manifest: Manifest, route: RouteRef) -> RouteView | RouteTrouble:
    """Return what the route says about the pair that its marks name, or else the settings.

    Whatever others do to a marked route, it has a view: only what can be seen can be taken back.
    """
    marks = read_marks(manifest)
    pair = pair_in_force(manifest, route)
    base, copies = apart(manifest)
    found = shared(base, pair)
    repointed = not found and any(share.candidate for share in shares(base, pair))
    if not (marks.present or copies or repointed):
        try:
            _refuse_unfit(base, pair, route.ladder)
        except SpecError as error:
            return RouteTrouble(f"HTTPRoute {route.namespace}/{route.name}: {error}")
    # Whoever gives a candidate traffic in the copy of a rule, gives it traffic.
    in_copies = shares(with_all_rules(base, copies.values()), pair)
    weight = ALL if repointed else max((share.weight for share in (*found, *in_copies)), default=NONE)
    # A candidate that others took out before it had traffic must come back; afterwards it was lowered, and after a
    # ruling only the marks are left to be taken off.
    waits = marks.ruling is Ruling.CONTINUE and marks.asked == NONE
    there = any(share.candidates for share in found) or not waits
    prepared = marks.complete and marks.pair == Pair.of(route) and there and not repointed
    lowest = _lowest(base, pair, found, marks)
    seen = _viewed(manifest, marks, weight, prepared=prepared, repointed=repointed)
    seen = _with_slices(_with_mirror(seen, manifest, pair, route), manifest, pair)
    return seen if lowest in {None, weight} else replace(seen, lowest=lowest, editor=_editor(manifest))


def _with_mirror(seen: RouteView, manifest: Manifest, pair: Pair, route: RouteRef) -> RouteView:
    """Return the view with where the route is mirrored to; a mirror without a mark was left behind, and is seen too."""
    marks = read_marks(manifest)
    for comparator in comparators(marks, route):
        extent = mirroring(manifest, pair, comparator)
        if extent is not Extent.NONE or comparator == marks.mirror:
            editor = None if extent is Extent.ALL else _editor(manifest)
            return replace(seen, mirror=str(comparator), mirroring=extent, editor=seen.editor or editor)
    return seen


def _with_slices(seen: RouteView, manifest: Manifest, pair: Pair) -> RouteView:
    """Return the view with the slices that are diverted."""
    slices = standing(manifest, pair)
    editor = _editor(manifest) if slices == (ALTERED,) else None
    return replace(seen, diverted=slices, editor=seen.editor or editor)


def _lowest(manifest: Manifest, pair: Pair, found: Sequence[Share], marks: Marks) -> Weight | None:
    """Return the candidate's least share in a rule that is shared; a rule that others added waits for its share."""
    records = recorded(manifest, found, marks.records(pair))
    return min((share.weight for share in found if share.candidates or share.rule in records), default=None)


def _refuse_unfit(manifest: Manifest, pair: Pair, ladder: Iterable[Weight]) -> None:
    found = shared(manifest, pair)
    if not found:
        raise SpecError(_pointless(manifest, pair))
    for share in found:
        refuse_unfit(share, pair)
        for weight in ladder:
            split(share, weight)


def _viewed(manifest: Manifest, marks: Marks, weight: Weight, *, prepared: bool, repointed: bool) -> RouteView:
    accepted, acceptance = _acceptance(manifest)
    return RouteView(
        uid=str(manifest.get("metadata", {}).get("uid", "")),
        weight=weight,
        prepared=prepared,
        asked=marks.asked,
        attempt=marks.attempt,
        ruling=marks.ruling,
        epoch=marks.epoch,
        accepted=accepted,
        acceptance=acceptance,
        editor=_editor(manifest) if marks.asked not in {None, weight} else None,
        repointed=repointed,
    )


def _pointless(manifest: Manifest, pair: Pair) -> str:
    names = {_name(ref, namespace_of(manifest)) for rule in rules_of(manifest) for ref in backends_of(rule)}
    points = f"they point to {', '.join(sorted(names)[:5])}" if names else "they point to no backend"
    return (
        f"no rule points to the baseline {pair.baseline} ({points}): "
        "add it to a rule's backendRefs, or correct the baseline's name and port in the ModelRollout"
    )


def _name(ref: Mapping[str, Any], namespace: str) -> str:
    """Return a backend as people know it, with all that keeps it from being a Service of this namespace."""
    kind, home = ref.get("kind") or "Service", ref.get("namespace") or namespace
    name = f"{ref.get('name')}:{ref.get('port')}"
    return f"{'' if kind == 'Service' else f'{kind} '}{'' if home == namespace else f'{home}/'}{name}"


# Acceptance.


def _acceptance(manifest: Manifest) -> tuple[bool, str]:
    """Return whether every gateway that has reported serves this generation, and one sentence about it."""
    generation = manifest.get("metadata", {}).get("generation", 0)
    parents = (manifest.get("status") or {}).get("parents") or []
    if not parents:
        return False, "no gateway has reported about the route: check its parentRefs, and that a controller serves them"
    for parent in parents:
        for kind in ("Accepted", "ResolvedRefs"):
            if refusal := _refusal(parent.get("conditions") or [], kind, generation):
                return False, f"{_parent(parent)} {refusal}"
    return True, f"accepted by {', '.join(sorted({_parent(parent) for parent in parents}))}"


def _refusal(conditions: Iterable[Mapping[str, Any]], kind: str, generation: int) -> str | None:
    for condition in conditions:
        if condition.get("type") == kind:
            seen = condition.get("observedGeneration", 0)
            if seen < generation:
                return f"has seen generation {seen} of the route, which is at {generation}"
            if condition.get("status") != "True":
                return f"says {kind}={condition.get('status')}: {condition.get('reason')}, {condition.get('message')}"
            return None
    return f"has not reported {kind}"


def _parent(parent: Mapping[str, Any]) -> str:
    ref = parent.get("parentRef") or {}
    return f"{ref.get('kind') or 'Gateway'} {ref.get('name')} ({parent.get('controllerName')})"


# Who else.


def _editor(manifest: Manifest) -> str | None:
    """Return who changed the rules last, if it was not Davylamp."""
    owners = [
        entry
        for entry in manifest.get("metadata", {}).get("managedFields") or []
        if "f:rules" in ((entry.get("fieldsV1") or {}).get("f:spec") or {}) and not entry.get("subresource")
    ]
    if not owners:
        return None
    # Of writes in the same second, Davylamp's own is the earlier one: it wrote the weights that are no longer there.
    last = max(owners, key=lambda entry: (str(entry.get("time") or ""), entry.get("manager") != FIELD_MANAGER))
    manager = str(last.get("manager"))
    return None if manager == FIELD_MANAGER else manager
