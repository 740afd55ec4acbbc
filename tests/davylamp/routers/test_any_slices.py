"""Whatever is diverted on whatever route: no other request notices, and nothing is left of it."""

import copy
from typing import Any

import jsonpatch
from hypothesis import given, settings
from hypothesis import strategies as st

from davylamp.core.model import Ruling, Weight
from davylamp.core.moves import Diversion, Divert, Lower, Mirror, Prepare, Raise, Restore
from davylamp.core.world import ALTERED
from davylamp.errors import Conflict, SpecError
from davylamp.ports import RouteChange
from davylamp.routers.httproute_patch import patch
from davylamp.routers.httproute_slices import NAMED
from davylamp.routers.marks import DIVERTED, NAMES
from tests.davylamp.routers.httproutes import (
    BASELINE,
    FILTER,
    Manifest,
    backend,
    baseline,
    candidate,
    edited,
    route,
    spoken,
)
from tests.davylamp.routers.requests import Request, every_request, taker
from tests.davylamp.routers.slicing import (
    ATTEMPT,
    HALF,
    MEN,
    PREPARE,
    SHADOW,
    TEAM,
    WOMEN,
    after,
    seen,
    unnamed,
)

_HEADERS = st.lists(
    st.sampled_from([("x-sex", "F"), ("x-sex", "M"), ("X-Team", "1")]), max_size=2, unique_by=lambda pair: pair[0]
)
_PATHS = st.sampled_from([("PathPrefix", "/"), ("PathPrefix", "/a"), ("Exact", "/a"), ("Exact", "/")])


@st.composite
def _matches(draw: st.DrawFn) -> Manifest:
    kind, value = draw(_PATHS)
    match: Manifest = {"path": {"type": kind, "value": value}}
    if headers := draw(_HEADERS):
        match["headers"] = [{"type": "Exact", "name": name, "value": text} for name, text in headers]
    if draw(st.booleans()):
        match["queryParams"] = [{"type": "Exact", "name": "q", "value": "1"}]
    return match | draw(st.sampled_from([{}, {}, {"method": "GET"}]))


@st.composite
def _routes(draw: st.DrawFn) -> Manifest:
    rules = []
    for number in range(draw(st.integers(1, 4))):
        refs = draw(st.sampled_from([[], [backend("x", 50)]]))
        if number == 0 or draw(st.booleans()):
            refs = [*refs, baseline(draw(st.sampled_from([None, 1, 100])))]
            if draw(st.booleans()):
                refs = [candidate(0), *refs]
        own: Manifest = draw(
            st.sampled_from([{}, {"filters": []}, {"filters": [FILTER]}, {"timeouts": {"request": "5s"}}])
        )
        matches = draw(st.lists(_matches(), max_size=2))
        rules.append({"matches": matches, "backendRefs": refs} | own)
    annotated = {"annotations": {"team.example.org/owner": "credit"}} if draw(st.booleans()) else {}
    return route(*draw(st.permutations(rules)), **annotated)


_SLICES = st.sets(st.sampled_from([WOMEN, MEN, TEAM])).map(lambda found: tuple(sorted(found)))
_ATTEMPTS = st.sampled_from(["a-1", "a-1", "a-1", "a-2"])
_CHANGES = st.lists(
    st.one_of(
        st.builds(Divert, _ATTEMPTS, _SLICES),
        st.builds(Prepare, _ATTEMPTS),
        st.builds(Mirror, _ATTEMPTS, st.sampled_from([SHADOW, ""])),
        st.builds(Raise, _ATTEMPTS, st.sampled_from([Weight(0), Weight(50), Weight(100)]), st.booleans()),
        st.builds(Lower, _ATTEMPTS, st.builds(Weight, st.integers(0, 100)), st.sampled_from(list(Ruling))),
    ),
    max_size=8,
)


def _of(slices: tuple[Diversion, ...], request: Request) -> bool:
    return any(request.headers.get(each.header.lower()) == each.value for each in slices)


def _said(ruled: Any) -> Any:
    """Return what a rule does to a request, beside the split between the two."""
    others = [ref for ref in ruled["backendRefs"] if ref["name"] not in {"credit-fp32", "credit-int8"}]
    return ruled.get("filters") or [], ruled.get("timeouts"), others


@settings(max_examples=400, deadline=None)
@given(_routes(), _SLICES)
def test_requests_of_a_slice_get_the_baseline_and_no_other_request_notices(
    before: Manifest, slices: tuple[Diversion, ...]
) -> None:
    try:
        running = after(before, PREPARE, HALF)
        diverted = after(running, Divert(ATTEMPT, slices))
    except SpecError:
        return
    for request in every_request():
        was, now = taker(running, request), taker(diverted, request)
        split = was is not None and any(ref["name"] == "credit-int8" for ref in was["backendRefs"])
        if not (split and _of(slices, request)):
            assert now == was
            continue
        had = {ref["name"]: ref["weight"] for ref in was["backendRefs"]}
        gets = {ref["name"]: ref["weight"] for ref in now["backendRefs"]}
        assert "credit-int8" not in gets
        assert gets["credit-fp32"] == had["credit-fp32"] + had["credit-int8"]
        assert _said(now) == _said(was)


@settings(max_examples=400, deadline=None)
@given(_routes(), _CHANGES, st.booleans())
def test_whatever_is_diverted_restore_gives_the_route_back_byte_for_byte(
    before: Manifest, changes: list[RouteChange], names: bool
) -> None:
    manifest: Any = after(before, PREPARE)
    for change in changes:
        given_to = copy.deepcopy(manifest)
        try:
            result = after(manifest, change)
        except (SpecError, Conflict):
            continue
        assert manifest == given_to, "a change must not alter what it was given"
        assert jsonpatch.apply_patch(given_to, patch(manifest, result)) == result
        manifest = result if names else unnamed(result)
        assert patch(manifest, after(manifest, change)) == []
        found = seen(manifest)
        if isinstance(change, Divert):
            assert found.diverted == change.slices
        assert ALTERED not in found.diverted
        for request in every_request():
            if _of(found.diverted, request) and (ruled := taker(manifest, request)):
                assert BASELINE.name not in str(ruled) or "credit-int8" not in str(ruled)
    restored = after(manifest, Restore())
    assert jsonpatch.apply_patch(manifest, patch(manifest, restored)) == restored
    assert spoken(restored) == spoken(before)


@settings(max_examples=200, deadline=None)
@given(_routes(), _SLICES, st.sets(st.sampled_from(NAMES)))
def test_whatever_marks_are_stripped_no_copy_is_left_behind(
    before: Manifest, slices: tuple[Diversion, ...], gone: set[str]
) -> None:
    try:
        diverted = after(before, PREPARE, HALF, Divert(ATTEMPT, slices))
    except SpecError:
        return
    unmarked = edited(diverted, lambda m: [m["metadata"]["annotations"].pop(name, None) for name in gone])
    restored = after(unmarked, Restore())
    assert [each["matches"] for each in restored["spec"]["rules"]] == [
        each["matches"] for each in before["spec"]["rules"]
    ]
    assert NAMED not in str(restored)
    assert DIVERTED not in restored["metadata"].get("annotations", {})
