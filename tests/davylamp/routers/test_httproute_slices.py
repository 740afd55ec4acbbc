"""Slices that are sent to the baseline alone: whole, without touching any other request, and without a trace after."""

import copy
from typing import Any

import pytest

from davylamp.core.model import Ruling, Weight
from davylamp.core.moves import Diversion, Divert, Lower, Mirror, Prepare, Raise, Repoint, Restore
from davylamp.core.world import ALTERED, Extent
from davylamp.errors import Conflict, SpecError
from davylamp.ports import RouteChange
from davylamp.routers.httproute_patch import patch, weights_patch
from davylamp.routers.httproute_slices import NAMED
from davylamp.routers.marks import DIVERTED, read_marks
from tests.davylamp.routers.httproutes import (
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
from tests.davylamp.routers.requests import Request, taker
from tests.davylamp.routers.slicing import (
    ATTEMPT,
    BACK,
    HALF,
    HEADER,
    MEN,
    OFF,
    ON,
    PREPARE,
    RUNNING,
    SHADOW,
    SIMPLE,
    SLICED,
    TEAM,
    WOMEN,
    after,
    asking,
    seen,
    unnamed,
)

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


def test_a_header_in_two_spellings_is_one_header() -> None:
    twice = Divert(ATTEMPT, (Diversion("X-Sex", "F"), WOMEN))
    diverted = after(RUNNING, twice)
    assert len(diverted["spec"]["rules"]) == 2
    assert seen(diverted).diverted == twice.slices


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
    assert spoken(after(RUNNING, Divert(ATTEMPT, (MEN, TEAM)), ON)) == spoken(SLICED)
    assert spoken(after(SLICED, OFF)) == spoken(RUNNING)
    assert seen(after(SLICED, OFF)).diverted == ()


def test_a_patch_that_adds_copies_replaces_the_rules_as_a_whole_and_one_beside_them_does_not() -> None:
    added = patch(RUNNING, SLICED)
    assert [operation["path"] for operation in added] == [
        "/metadata/resourceVersion",
        "/spec/rules",
        "/metadata/annotations/davylamp.dev~1diverted",
    ]
    raised = patch(SLICED, after(SLICED, Raise(ATTEMPT, Weight(60))))
    assert [operation["path"] for operation in raised][1:] == [
        "/spec/rules/1/backendRefs",
        "/metadata/annotations/davylamp.dev~1weight",
    ]


# Where rules have no names.


def test_without_names_of_rules_the_marks_tell_the_copies() -> None:
    stored = unnamed(SLICED)
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
    grown = edited(SLICED, lambda m: m["spec"]["rules"].append(rule(baseline(4), path="/a")))
    assert seen(grown).diverted == (WOMEN,)
    raised = after(grown, Raise(ATTEMPT, Weight(100)))
    for path in ("/", "/a"):
        women, men = (taker(raised, Request(path, headers={"x-sex": sex})) for sex in "FM")
        assert [ref["name"] for ref in women["backendRefs"]] == ["credit-fp32"]
        assert {ref["name"]: ref["weight"] for ref in men["backendRefs"]} == {"credit-fp32": 0, "credit-int8": 100}
    assert seen(raised).diverted == (WOMEN,)


@pytest.mark.parametrize("weight", [25, 0])
def test_a_lowering_lowers_the_others_and_leaves_the_slice_where_it_is(weight: int) -> None:
    down = after(SLICED, Lower(ATTEMPT, Weight(weight), Ruling.CONTINUE))
    assert down["spec"]["rules"][0] == SLICED["spec"]["rules"][0]
    assert weights(down, 1) == {"credit-fp32": 100 - weight, "credit-int8": weight}
    assert (seen(down).weight, seen(down).diverted) == (Weight(weight), (WOMEN,))


def test_a_lowering_takes_traffic_from_a_candidate_that_somebody_put_into_a_copy() -> None:
    def put(*refs: Manifest) -> Manifest:
        return edited(SLICED, lambda m: m["spec"]["rules"][0].update(backendRefs=list(refs)))

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
    mirrored = after(SLICED, Mirror(ATTEMPT, SHADOW))
    assert [len(each["filters"]) for each in mirrored["spec"]["rules"]] == [1, 1]
    assert (seen(mirrored).mirroring, seen(mirrored).diverted) == (Extent.ALL, (WOMEN,))
    assert spoken(mirrored) == spoken(after(RUNNING, Mirror(ATTEMPT, SHADOW), ON))
    for off in (Mirror(ATTEMPT, ""), Raise(ATTEMPT, Weight(50), unmirror=True)):
        assert spoken(after(mirrored, off)) == spoken(SLICED)


@pytest.mark.parametrize("ending", [[Restore()], [BACK, Restore()], [Raise(ATTEMPT, Weight(0)), Restore()]])
def test_restore_leaves_nothing_of_a_slice(ending: list[RouteChange]) -> None:
    assert spoken(after(SLICED, *ending)) == spoken(SIMPLE)


def test_a_promotion_leaves_nothing_of_a_slice() -> None:
    promoted = after(SLICED, Raise(ATTEMPT, Weight(100)), Repoint())
    assert promoted["spec"]["rules"] == [rule(candidate(1))]
    assert not read_marks(promoted).present


def test_another_attempt_begins_without_slices() -> None:
    again = after(SLICED, Prepare("a-2"))
    assert (seen(again).diverted, seen(again).weight, len(again["spec"]["rules"])) == ((), Weight(0), 1)


def test_restore_keeps_what_others_changed_around_the_copies() -> None:
    def edit(manifest: Manifest) -> None:
        rules = manifest["spec"]["rules"]
        rules[0]["timeouts"] = {"request": "1s"}
        rules[0]["backendRefs"] = [backend("elsewhere")]
        rules[1]["timeouts"] = {"request": "5s"}
        rules.insert(0, rule(backend("admin"), path="/admin"))
        rules.append(rule(backend("blog"), path="/blog"))

    restored = after(edited(SLICED, edit), BACK, Restore())
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
    changed_by_others = of_somebody(edited(SLICED, lambda m: edit(m["spec"]["rules"])))
    assert (seen(changed_by_others).diverted, seen(changed_by_others).editor) == ((ALTERED,), "somebody")
    again = after(changed_by_others, ON)
    assert seen(again).diverted == (WOMEN,)
    women = taker(again, Request(headers={"x-sex": "F"}))
    assert [ref["name"] for ref in women["backendRefs"]] == ["credit-fp32"]


def test_copies_whose_mark_somebody_stripped_are_seen_and_no_raise_gives_the_slice_to_the_candidate() -> None:
    stripped = edited(SLICED, lambda m: m["metadata"]["annotations"].pop(DIVERTED))
    assert seen(stripped).diverted == (WOMEN,)
    assert spoken(after(stripped, HALF)) == spoken(SLICED)
    unreadable = edited(stripped, lambda m: m["spec"]["rules"][0]["matches"][0].pop("headers"))
    assert seen(unreadable).diverted == (ALTERED,)
    with pytest.raises(Conflict, match="divert them again"):
        after(unreadable, HALF)
    assert spoken(after(unreadable, OFF)) == spoken(RUNNING)


def test_copies_on_a_route_without_any_marks_are_seen_and_taken_off() -> None:
    stripped = edited(SLICED, lambda m: m["metadata"].pop("annotations"))
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
    damaged = edited(SLICED, lambda m: m["metadata"]["annotations"].update({DIVERTED: damage}))
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
            after(SLICED, BACK, change)
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
