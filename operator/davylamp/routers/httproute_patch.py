"""JSON patches that make one HTTPRoute of another. Pure."""

from typing import Any

from davylamp.routers.httproute_mirror import filters_of
from davylamp.routers.httproute_rules import Rule, backends_of, rules_of
from davylamp.routers.marks import NAMES, Manifest, annotations_of

Patch = list[dict[str, Any]]


def patch(before: Manifest, after: Manifest) -> Patch:
    """Return the operations on rules and marks, bound to the version that `before` was read at, if any."""
    operations = _rules(before, after) + _marks(before, after)
    # Replaced, not tested: a stale version is then answered by 409, which nothing else is.
    version = before.get("metadata", {}).get("resourceVersion")
    bound = {"op": "replace", "path": "/metadata/resourceVersion", "value": version}
    return [bound, *operations] if operations else []


def _rules(before: Manifest, after: Manifest) -> Patch:
    """Return the operations on backends and mirrors, or on all rules if copies come, go or change."""
    had, gets = rules_of(before), rules_of(after)
    if [_others(rule) for rule in had] != [_others(rule) for rule in gets]:
        return [{"op": "replace", "path": "/spec/rules", "value": list(gets)}]
    operations = [
        {"op": "replace", "path": f"/spec/rules/{number}/backendRefs", "value": list(backends_of(new))}
        for number, (old, new) in enumerate(zip(had, gets, strict=True))
        if backends_of(old) != backends_of(new)
    ]
    operations += [
        _filters(number, old, new)
        for number, (old, new) in enumerate(zip(had, gets, strict=True))
        if filters_of(old) != filters_of(new)
    ]
    return operations


def _others(rule: Rule) -> dict[str, Any]:
    return {name: value for name, value in rule.items() if name not in {"backendRefs", "filters"}}


def _filters(number: int, old: Rule, new: Rule) -> dict[str, Any]:
    path = f"/spec/rules/{number}/filters"
    if "filters" not in new:
        return {"op": "remove", "path": path}
    return {"op": "replace" if "filters" in old else "add", "path": path, "value": list(filters_of(new))}


def weights_patch(before: Manifest, after: Manifest) -> Patch:
    """Return the operations that set weights and marks wherever the backends still stand in their places.

    Nothing is bound to a version: the names of the backends are tested instead, so that a route which others keep
    changing can be written all the same.
    """
    tests: Patch = [{"op": "test", "path": "/metadata/uid", "value": before.get("metadata", {}).get("uid")}]
    weights: Patch = []
    for number, (old, new) in enumerate(zip(rules_of(before), rules_of(after), strict=True)):
        if len(backends_of(old)) != len(backends_of(new)):
            continue
        for place, (had, gets) in enumerate(zip(backends_of(old), backends_of(new), strict=True)):
            if had != gets:
                path = f"/spec/rules/{number}/backendRefs/{place}"
                tests += [{"op": "test", "path": f"{path}/{name}", "value": had.get(name)} for name in ("name", "port")]
                weights.append({"op": "add", "path": f"{path}/weight", "value": gets["weight"]})
    # Marks only beside marks: adding the first would replace whatever annotations others may have added meanwhile.
    operations = [*weights, *(_marks(before, after) if annotations_of(before) else [])]
    return [*tests, *operations] if operations else []


def _marks(before: Manifest, after: Manifest) -> Patch:
    had, gets = annotations_of(before), annotations_of(after)
    if had == gets:
        return []
    if not had:
        return [{"op": "add", "path": "/metadata/annotations", "value": dict(gets)}]
    changed = [name for name in NAMES if had.get(name) != gets.get(name)]
    return [
        {"op": "add", "path": _path(name), "value": gets[name]}
        if name in gets
        else {"op": "remove", "path": _path(name)}
        for name in changed
    ]


def _path(name: str) -> str:
    return f"/metadata/annotations/{name.replace('~', '~0').replace('/', '~1')}"
