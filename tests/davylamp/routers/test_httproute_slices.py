"""Slices that are sent to the baseline alone: whole, without touching any other request, and without a trace after."""

import copy
from typing import Any

import jsonpatch
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from davylamp.core.model import Ruling, Weight
from davylamp.core.moves import Diversion, Divert, Lower, Mirror, Prepare, Raise, Repoint, Restore
from davylamp.core.world import ALTERED, Extent, RouteView
from davylamp.errors import Conflict, SpecError
from davylamp.ports import RouteChange
from davylamp.routers.httproute_changes import changed
from davylamp.routers.httproute_patch import patch, weights_patch
from davylamp.routers.httproute_slices import NAMED
from davylamp.routers.httproute_view import view
from davylamp.routers.marks import DIVERTED, NAMES, read_marks
from tests.davylamp.routers.httproutes import (
    BASELINE,
    CREDIT,
    FILTER,
    Manifest,
    backend,
    baseline,
    candidate,
    edited,
    route,
    rule,
    spoken,
    weights,
)
from tests.davylamp.routers.requests import Request, every_request, taker

ATTEMPT = "a-1"
PREPARE = Prepare(ATTEMPT)
HALF = Raise(ATTEMPT, Weight(50))
BACK = Lower(ATTEMPT, Weight(0), Ruling.ROLLBACK)
WOMEN, MEN, TEAM = Diversion("x-sex", "F"), Diversion("x-sex", "M"), Diversion("X-Team", "1")
ON, OFF = Divert(ATTEMPT, (WOMEN,)), Divert(ATTEMPT, ())
SHADOW = "davylamp-shadow:8090"
SIMPLE = route(rule(baseline()))
HEADER = {"type": "Exact", "name": "x-sex", "value": "F"}


def after(manifest: Any, *changes: RouteChange, epoch: int = 1) -> Any:
    for change in changes:
        manifest = changed(manifest, CREDIT, change, epoch)
    return manifest


def seen(manifest: Any) -> RouteView:
    found = view(manifest, CREDIT)
    assert isinstance(found, RouteView), found
    return found


def unnamed(manifest: Any) -> Any:
    """Return the route as an API server keeps it that knows no names of rules."""
    return edited(manifest, lambda m: [each.pop("name", None) for each in m["spec"]["rules"]])


def asking(*headers: tuple[str, str], path: str = "/", kind: str = "Exact", **more: Any) -> Manifest:
    """Return a match of headers."""
    entries = [{"type": kind, "name": name, "value": value} for name, value in headers]
    return {"path": {"type": "PathPrefix", "value": path}, "headers": entries} | more


RUNNING: Any = after(SIMPLE, PREPARE, HALF)
DIVERTED_: Any = after(RUNNING, ON)


# On and off.


def test_a_slice_gets_a_copy_of_the_rule_in_front_with_the_header_and_the_baseline_alone() -> None:
    before = route(
        rule(
            backend("x", 30),
            baseline(100, filters=[FILTER]),
            filters=[FILTER],
            timeouts={"request": "5s"},
            matches=[asking(("x-team", "1")), {"path": {"type": "Exact", "value": "/a"}, "method": "POST"}],
        )
    )
    running = after(before, PREPARE, HALF)
    first, second = after(running, ON)["spec"]["rules"]
    assert first.pop("name").startswith(NAMED)
    assert first == {
        "matches": [
            asking(("x-team", "1"), ("x-sex", "F")),
            {"path": {"type": "Exact", "value": "/a"}, "method": "POST", "headers": [HEADER]},
        ],
        "filters": [FILTER],
        "timeouts": {"request": "5s"},
        "backendRefs": [backend("x", 30), baseline(100, filters=[FILTER])],
    }
    assert second == running["spec"]["rules"][0]


def test_a_rule_without_matches_takes_everything_of_the_slice() -> None:
    diverted = after(route({"backendRefs": [baseline()]}), PREPARE, HALF, ON)
    assert diverted["spec"]["rules"][0]["matches"] == [asking(("x-sex", "F"))]


def test_every_rule_that_has_the_candidate_is_copied_for_every_slice_and_no_other_rule() -> None:
    before = route(rule(baseline()), rule(backend("admin"), path="/admin"), rule(baseline(), path="/b"))
    rules = after(before, PREPARE, HALF, Divert(ATTEMPT, (TEAM, WOMEN)))["spec"]["rules"]
    assert [(each["matches"][0]["path"]["value"], "name" in each) for each in rules] == [
        ("/", True),
        ("/", True),
        ("/", False),
        ("/admin", False),
        ("/b", True),
        ("/b", True),
        ("/b", False),
    ]
    assert len({each["name"] for each in rules if "name" in each}) == 4


def test_a_copy_never_repeats_a_name_of_the_users() -> None:
    before = route(rule(baseline(), name="main"))
    names = [each["name"] for each in after(before, PREPARE, HALF, ON)["spec"]["rules"]]
    assert names[0].startswith(NAMED)
    assert names[1] == "main"


def test_a_rule_for_another_value_of_the_header_has_nothing_of_the_slice() -> None:
    before = route(rule(baseline(), matches=[asking(("X-Sex", "M")), asking(path="/a")]))
    assert after(before, PREPARE, HALF, ON)["spec"]["rules"][0]["matches"] == [asking(("x-sex", "F"), path="/a")]
    alone: Any = after(route(rule(baseline(), matches=[asking(("x-sex", "M"))])), PREPARE, HALF)
    assert after(alone, ON)["spec"] == alone["spec"]


def test_a_rule_for_the_slice_is_copied_as_it_is_and_the_copy_comes_first() -> None:
    before = after(route(rule(baseline(), matches=[asking(("X-Sex", "F"))])), PREPARE, HALF)
    first, second = after(before, ON)["spec"]["rules"]
    assert first["matches"] == second["matches"] == [asking(("X-Sex", "F"))]
    assert (first["backendRefs"], second) == ([baseline(100)], before["spec"]["rules"][0])


@pytest.mark.parametrize("place", [0, 1])
def test_what_another_rule_of_the_users_takes_of_the_slice_it_goes_on_to_take(place: int) -> None:
    rules = [rule(baseline()), rule(baseline(), matches=[asking(("X-Sex", "F"))], filters=[FILTER])]
    diverted = after(route(*rules[place:], *rules[:place]), PREPARE, HALF, ON)
    women = taker(diverted, Request(headers={"x-sex": "F"}))
    assert (women["filters"], women["backendRefs"]) == ([FILTER], [baseline(100)])
    assert len(diverted["spec"]["rules"]) == 3


def test_what_is_diverted_is_seen_and_diverting_it_again_changes_nothing() -> None:
    both = Divert(ATTEMPT, (TEAM, WOMEN))
    diverted = after(RUNNING, both)
    assert seen(diverted).diverted == (TEAM, WOMEN)
    assert (seen(diverted).weight, seen(diverted).floor, seen(diverted).prepared) == (Weight(50), Weight(50), True)
    assert patch(diverted, after(diverted, both)) == []


def test_the_whole_set_is_written_so_that_what_is_not_wanted_any_more_goes() -> None:
    assert spoken(after(RUNNING, Divert(ATTEMPT, (MEN, TEAM)), ON)) == spoken(DIVERTED_)
    assert spoken(after(DIVERTED_, OFF)) == spoken(RUNNING)
    assert seen(after(DIVERTED_, OFF)).diverted == ()


def test_a_patch_that_adds_copies_replaces_the_rules_as_a_whole_and_one_beside_them_does_not() -> None:
    added = patch(RUNNING, DIVERTED_)
    assert [operation["path"] for operation in added] == [
        "/metadata/resourceVersion",
        "/spec/rules",
        "/metadata/annotations/davylamp.dev~1diverted",
    ]
    raised = patch(DIVERTED_, after(DIVERTED_, Raise(ATTEMPT, Weight(60))))
    assert [operation["path"] for operation in raised][1:] == [
        "/spec/rules/1/backendRefs",
        "/metadata/annotations/davylamp.dev~1weight",
    ]


# Where rules have no names.


def test_without_names_of_rules_the_marks_tell_the_copies() -> None:
    stored = unnamed(DIVERTED_)
    assert seen(stored).diverted == (WOMEN,)
    assert patch(stored, after(stored, ON)) == []
    assert patch(stored, after(stored, HALF)) == []
    assert spoken(after(stored, OFF)) == spoken(RUNNING)
    for change in (BACK, Raise(ATTEMPT, Weight(75))):
        assert spoken(after(stored, change, Restore())) == spoken(SIMPLE)


def test_without_names_a_rule_of_the_users_with_the_matches_of_a_copy_stays_his() -> None:
    before = route(rule(baseline(), matches=[asking(("x-sex", "F"))]), rule(baseline()))
    stored = unnamed(after(before, PREPARE, HALF, ON))
    assert seen(stored).diverted == (WOMEN,)
    assert spoken(after(stored, Restore())) == spoken(before)


# Beside other changes.


def test_a_raise_keeps_the_slice_with_the_baseline_in_rules_that_appeared_meanwhile_too() -> None:
    grown = edited(DIVERTED_, lambda m: m["spec"]["rules"].append(rule(baseline(4), path="/a")))
    assert seen(grown).diverted == (WOMEN,)
    raised = after(grown, Raise(ATTEMPT, Weight(100)))
    for path in ("/", "/a"):
        women, men = (taker(raised, Request(path, headers={"x-sex": sex})) for sex in "FM")
        assert [ref["name"] for ref in women["backendRefs"]] == ["credit-fp32"]
        assert {ref["name"]: ref["weight"] for ref in men["backendRefs"]} == {"credit-fp32": 0, "credit-int8": 100}
    assert seen(raised).diverted == (WOMEN,)


@pytest.mark.parametrize("weight", [25, 0])
def test_a_lowering_lowers_the_others_and_leaves_the_slice_where_it_is(weight: int) -> None:
    down = after(DIVERTED_, Lower(ATTEMPT, Weight(weight), Ruling.CONTINUE))
    assert down["spec"]["rules"][0] == DIVERTED_["spec"]["rules"][0]
    assert weights(down, 1) == {"credit-fp32": 100 - weight, "credit-int8": weight}
    assert (seen(down).weight, seen(down).diverted) == (Weight(weight), (WOMEN,))


def test_a_lowering_takes_traffic_from_a_candidate_that_somebody_put_into_a_copy() -> None:
    def put(*refs: Manifest) -> Manifest:
        return edited(DIVERTED_, lambda m: m["spec"]["rules"][0].update(backendRefs=list(refs)))

    for forged, weight in ((put(baseline(20), candidate(80)), 80), (put(candidate(1)), 100)):
        assert (seen(forged).weight, seen(forged).diverted) == (Weight(weight), (ALTERED,))
        down = after(forged, BACK)
        assert weights(down, 0)["credit-int8"] == 0
        assert seen(down).weight == Weight(0)
        assert weights(down, 0)["credit-fp32"] > 0
    within = put(baseline(20), candidate(80))
    operations = weights_patch(within, after(within, BACK))
    assert {"op": "add", "path": "/spec/rules/0/backendRefs/1/weight", "value": 0} in operations


def test_the_mirror_goes_on_for_the_slice_and_comes_off_with_the_others() -> None:
    mirrored = after(DIVERTED_, Mirror(ATTEMPT, SHADOW))
    assert [len(each["filters"]) for each in mirrored["spec"]["rules"]] == [1, 1]
    assert (seen(mirrored).mirroring, seen(mirrored).diverted) == (Extent.ALL, (WOMEN,))
    assert spoken(mirrored) == spoken(after(RUNNING, Mirror(ATTEMPT, SHADOW), ON))
    for off in (Mirror(ATTEMPT, ""), Raise(ATTEMPT, Weight(50), unmirror=True)):
        assert spoken(after(mirrored, off)) == spoken(DIVERTED_)


@pytest.mark.parametrize("ending", [[Restore()], [BACK, Restore()], [Raise(ATTEMPT, Weight(0)), Restore()]])
def test_restore_leaves_nothing_of_a_slice(ending: list[RouteChange]) -> None:
    assert spoken(after(DIVERTED_, *ending)) == spoken(SIMPLE)


def test_a_promotion_leaves_nothing_of_a_slice() -> None:
    promoted = after(DIVERTED_, Raise(ATTEMPT, Weight(100)), Repoint())
    assert promoted["spec"]["rules"] == [rule(candidate(1))]
    assert not read_marks(promoted).present


def test_another_attempt_begins_without_slices() -> None:
    again = after(DIVERTED_, Prepare("a-2"))
    assert (seen(again).diverted, seen(again).weight, len(again["spec"]["rules"])) == ((), Weight(0), 1)


def test_restore_keeps_what_others_changed_around_the_copies() -> None:
    def edit(manifest: Manifest) -> None:
        rules = manifest["spec"]["rules"]
        rules[0]["timeouts"] = {"request": "1s"}
        rules[0]["backendRefs"] = [backend("elsewhere")]
        rules[1]["timeouts"] = {"request": "5s"}
        rules.insert(0, rule(backend("admin"), path="/admin"))
        rules.append(rule(backend("blog"), path="/blog"))

    restored = after(edited(DIVERTED_, edit), BACK, Restore())
    assert restored["spec"]["rules"] == [
        rule(backend("admin"), path="/admin"),
        rule(baseline(), timeouts={"request": "5s"}),
        rule(backend("blog"), path="/blog"),
    ]


# Others' edits.


def of_somebody(manifest: Any) -> Manifest:
    fields = {"manager": "somebody", "time": "2026-12-01T12:00:00Z", "fieldsV1": {"f:spec": {"f:rules": {}}}}
    return edited(manifest, lambda m: m["metadata"].update(managedFields=[fields]))


@pytest.mark.parametrize(
    "edit",
    [
        lambda rules: rules.pop(0),
        lambda rules: rules.reverse(),
        lambda rules: rules[0].update(timeouts={"request": "5s"}),
        lambda rules: rules[1].update(timeouts={"request": "5s"}),
        lambda rules: rules[0]["matches"].append(asking(path="/a")),
        lambda rules: rules[0]["matches"][0]["headers"].pop(),
        lambda rules: rules[0].update(backendRefs=[backend("elsewhere")]),
        lambda rules: rules.insert(0, copy.deepcopy(rules[0])),
    ],
    ids=["gone", "behind", "copy", "copied", "match more", "header gone", "elsewhere", "twice"],
)
def test_an_edit_of_a_copy_is_seen_with_the_name_of_the_editor_and_undone_by_diverting_again(edit: Any) -> None:
    changed_by_others = of_somebody(edited(DIVERTED_, lambda m: edit(m["spec"]["rules"])))
    assert (seen(changed_by_others).diverted, seen(changed_by_others).editor) == ((ALTERED,), "somebody")
    again = after(changed_by_others, ON)
    assert seen(again).diverted == (WOMEN,)
    women = taker(again, Request(headers={"x-sex": "F"}))
    assert [ref["name"] for ref in women["backendRefs"]] == ["credit-fp32"]


def test_copies_whose_mark_somebody_stripped_are_seen_and_no_raise_gives_the_slice_to_the_candidate() -> None:
    stripped = edited(DIVERTED_, lambda m: m["metadata"]["annotations"].pop(DIVERTED))
    assert seen(stripped).diverted == (WOMEN,)
    assert spoken(after(stripped, HALF)) == spoken(DIVERTED_)
    unreadable = edited(stripped, lambda m: m["spec"]["rules"][0]["matches"][0].pop("headers"))
    assert seen(unreadable).diverted == (ALTERED,)
    with pytest.raises(Conflict, match="divert them again"):
        after(unreadable, HALF)
    assert spoken(after(unreadable, OFF)) == spoken(RUNNING)


def test_copies_on_a_route_without_any_marks_are_seen_and_taken_off() -> None:
    stripped = edited(DIVERTED_, lambda m: m["metadata"].pop("annotations"))
    assert seen(stripped).marked
    restored = after(stripped, Restore())
    assert [weights(restored), len(restored["spec"]["rules"])] == [{"credit-fp32": 100, "credit-int8": 0}, 1]
    assert not seen(restored).marked


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "x",
        "[]",
        "{}",
        '{"slices":[["a"]],"rules":[]}',
        '{"slices":[[1,2]],"rules":[]}',
        '{"slices":[["a","b"]],"rules":[1]}',
        '{"slices":3,"rules":[]}',
        "[" * 5000,
        '{"slices":[["a","b"]],"rules":[]}' + " " * 100_000,
    ],
)
def test_a_mark_that_cannot_be_read_hides_no_copy(damage: str) -> None:
    damaged = edited(DIVERTED_, lambda m: m["metadata"]["annotations"].update({DIVERTED: damage}))
    assert seen(damaged).diverted == (WOMEN,)
    assert spoken(after(damaged, Restore())) == spoken(SIMPLE)


# Who may.


def test_only_the_attempt_that_the_route_is_prepared_for_diverts_and_never_after_a_rollback() -> None:
    with pytest.raises(Conflict, match="not prepared for attempt a-2"):
        after(RUNNING, Divert("a-2", (WOMEN,)))
    with pytest.raises(Conflict, match="not prepared for attempt a-1: its marks say None"):
        after(SIMPLE, ON)
    for change in (ON, OFF):
        with pytest.raises(Conflict, match="Rollback was decided for attempt a-1"):
            after(DIVERTED_, BACK, change)
        with pytest.raises(Conflict, match="its epoch is 3, ours 2"):
            after(after(SIMPLE, PREPARE, epoch=3), change, epoch=2)


# What does not fit.


def many(number: int, **more: Any) -> Manifest:
    return route(*(rule(baseline(), path=f"/{n}", **more) for n in range(number)))


@pytest.mark.parametrize(
    ("before", "slices", "words"),
    [
        (many(9), (WOMEN,), "the route has 9 rules and would have 18 .* at most 16"),
        (many(5, matches=[asking(path=f"/{n}") for n in range(13)]), (WOMEN,), "65 matches and would have 130 .* 128"),
        (
            route(rule(baseline(), matches=[asking(*((f"x-{n}", "1") for n in range(16)))])),
            (WOMEN,),
            r"spec.rules\[0\] has a match with 16 headers, and a match has at most 16: there is no room for x-sex",
        ),
        (
            route(rule(baseline(), matches=[asking(("X-SEX", "F|M"), kind="RegularExpression")])),
            (WOMEN,),
            r"spec.rules\[0\] matches the header x-sex by an expression",
        ),
        (SIMPLE, (Diversion("a b", "1"),), "slice 1 of 1 is no header match .* 'a b'"),
        (SIMPLE, (WOMEN, Diversion("x-sex", "")), "slice 2 of 2 .* 0 characters of 1 to 4096"),
        (SIMPLE, (Diversion("x-sex", "F" * 4097),), "4097 characters of 1 to 4096"),
    ],
    ids=["rules", "matches", "headers", "expression", "header", "no value", "long value"],
)
def test_what_an_httproute_cannot_say_is_refused_with_the_number_and_the_limit(
    before: Manifest, slices: tuple[Diversion, ...], words: str
) -> None:
    with pytest.raises(SpecError, match=words):
        after(before, PREPARE, HALF, Divert(ATTEMPT, slices))


def test_the_largest_route_that_fits_is_diverted() -> None:
    assert len(after(many(8), PREPARE, HALF, ON)["spec"]["rules"]) == 16


def test_no_refusal_repeats_the_value_of_a_header() -> None:
    before = after(route(rule(baseline()), rule(backend("x"), matches=[asking(("x-team", "1"))])), PREPARE, HALF)
    with pytest.raises(SpecError, match="x-sex") as refusal:
        after(before, Divert(ATTEMPT, (Diversion("x-sex", "secret"),)))
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize(
    "other",
    [
        {"matches": [asking(("x-team", "1"))]},
        {"matches": [{"path": {"type": "PathPrefix", "value": "/"}, "queryParams": [{"name": "q", "value": "1"}]}]},
    ],
    ids=["header", "query"],
)
def test_a_copy_that_would_take_requests_from_a_rule_that_is_not_shared_is_refused(other: Manifest) -> None:
    before = after(route(rule(baseline()), rule(backend("x"), **other)), PREPARE, HALF)
    with pytest.raises(SpecError, match=r"in front of spec.rules\[0\] can send .* some from spec.rules\[1\]"):
        after(before, ON)


def test_a_rule_that_stands_first_or_cannot_meet_the_slice_loses_nothing_and_is_no_reason_to_refuse() -> None:
    first = rule(backend("x"), matches=[asking(("x-team", "1"))])
    men = rule(backend("x"), matches=[asking(("x-team", "1"), ("x-sex", "M"))])
    longer = rule(backend("x"), path="/admin")
    assert len(after(route(first, rule(baseline()), men, longer), PREPARE, HALF, ON)["spec"]["rules"]) == 5


# Everything at once.

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
