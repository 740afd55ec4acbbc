"""The mirror that Davylamp puts on an HTTPRoute for shadow traffic. Pure.

Rule 1: only a mirror to the comparator that the marks or the rollout name is Davylamp's, since its port belongs to the
    rollout alone; any other mirror is never touched.
Rule 2: a rule is mirrored as a whole, beside its weights, which stay as they are.
Rule 3: a mirror is taken off every rule, even one that others have pointed elsewhere since.
Rule 4: a rule with an empty list of filters gets that back, as far as it was recorded: one that appears while requests
    are mirrored is left without filters.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from davylamp.core.world import Extent
from davylamp.errors import SpecError
from davylamp.ports import BackendRef, RouteRef
from davylamp.routers.httproute_records import recorded
from davylamp.routers.httproute_rules import Rule, rules_of, shared, shares, with_rules
from davylamp.routers.marks import Manifest, Marks, Pair

Filter = Mapping[str, Any]


def filters_of(rule: Rule) -> Sequence[Filter]:
    """Return the filters of a rule."""
    return rule.get("filters") or ()


def comparators(marks: Marks, route: RouteRef) -> tuple[BackendRef, ...]:
    """Return where mirrors that are Davylamp's lead: what the marks name first."""
    return tuple(dict.fromkeys(each for each in (marks.mirror, route.comparator) if each is not None))


def mirroring(manifest: Manifest, pair: Pair, comparator: BackendRef) -> Extent:
    """Return how many of the rules that are shared mirror to the comparator; NONE only if no rule at all does."""
    rules = rules_of(manifest)
    if not any(_mirrors(rule, comparator) for rule in rules):
        return Extent.NONE
    found = [_mirrors(rules[share.rule], comparator) for share in shared(manifest, pair)]
    return Extent.ALL if found and all(found) else Extent.SOME


def with_mirror(manifest: Manifest, pair: Pair, comparator: BackendRef) -> Manifest:
    """Return the route with every rule that points to the baseline mirrored to the comparator.

    Raises
    ------
    SpecError
        If no rule points to the baseline.
    """
    rules, found = rules_of(manifest), shared(manifest, pair)
    if not found:
        raise SpecError(f"no rule of the route points to the baseline {pair.baseline}, so nothing can be mirrored")
    added = {
        share.rule: {**rules[share.rule], "filters": [*filters_of(rules[share.rule]), _filter(comparator)]}
        for share in found
        if not _mirrors(rules[share.rule], comparator)
    }
    return with_rules(manifest, added)


def without_mirror(manifest: Manifest, marks: Marks, route: RouteRef) -> Manifest:
    """Return the route without Davylamp's mirrors."""
    found = shares(manifest, marks.pair) if marks.pair else ()
    bare = {number for number, original in recorded(manifest, found, marks.originals or ()).items() if original.bare}
    for comparator in comparators(marks, route):
        mirrored = {number: rule for number, rule in enumerate(rules_of(manifest)) if _mirrors(rule, comparator)}
        left = {n: _without(rule, comparator, [] if n in bare else None) for n, rule in mirrored.items()}
        manifest = with_rules(manifest, left)
    return manifest


def _filter(comparator: BackendRef) -> Filter:
    backend = {"group": "", "kind": "Service", "name": comparator.name, "port": comparator.port}
    return {"type": "RequestMirror", "requestMirror": {"backendRef": backend}}


def _mirrors(rule: Rule, comparator: BackendRef) -> bool:
    return any(_is(each, comparator) for each in filters_of(rule))


def _is(each: Filter, comparator: BackendRef) -> bool:
    backend = (each.get("requestMirror") or {}).get("backendRef") or {}
    named = (backend.get("name"), backend.get("port"), backend.get("namespace"))
    return each.get("type") == "RequestMirror" and named == (comparator.name, comparator.port, None)


def _without(rule: Rule, comparator: BackendRef, none: list[Filter] | None) -> Rule:
    """Return the rule without the mirror; ``none`` is how it says that it has no other filter."""
    left = [each for each in filters_of(rule) if not _is(each, comparator)]
    others = {name: value for name, value in rule.items() if name != "filters"}
    return {**others, "filters": left or none} if left or none is not None else others
