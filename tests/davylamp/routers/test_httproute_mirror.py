"""The mirror on a route: put on beside the weights, taken off without a trace, and never mistaken for a user's own."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jsonpatch
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from davylamp.core.model import Ruling, Weight
from davylamp.core.moves import Lower, Mirror, Prepare, Raise, Repoint, Restore
from davylamp.core.world import Extent, RouteView
from davylamp.errors import Conflict, SpecError
from davylamp.ports import BackendRef, RouteChange, RouteRef
from davylamp.routers.httproute_changes import changed
from davylamp.routers.httproute_patch import patch
from davylamp.routers.httproute_view import view
from davylamp.routers.marks import MIRROR, NAMES, ORIGINAL, PAIR, read_marks
from tests.davylamp.routers.httproutes import (
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

SHADOW, OTHER = "davylamp-shadow:8090", "davylamp-shadow:8091"
ATTEMPT = "a-1"
PREPARE = Prepare(ATTEMPT)
ON, OFF = Mirror(ATTEMPT, SHADOW), Mirror(ATTEMPT, "")
BACK = Lower(ATTEMPT, Weight(0), Ruling.ROLLBACK)
#: The route of a rollout whose plan mirrors at some step.
MIRRORING = replace(CREDIT, comparator=BackendRef("davylamp-shadow", 8090))
MOVED = replace(CREDIT, comparator=BackendRef("davylamp-shadow", 8091))


def mirror(name: str, port: int = 8090, **more: Any) -> Manifest:
    """Return a mirror as the API server stores it."""
    ref = {"group": "", "kind": "Service", "name": name, "port": port}
    namespace = {"namespace": more.pop("namespace")} if "namespace" in more else {}
    return {"type": "RequestMirror", "requestMirror": {"backendRef": ref | namespace} | more}


OURS = mirror("davylamp-shadow")
#: What a user may have in a rule for himself: none of it is Davylamp's.
USERS = (
    FILTER,
    mirror("recorder", 9000),
    mirror("recorder"),
    mirror("davylamp-shadow", 8100),
    mirror("davylamp-shadow", namespace="elsewhere"),
    mirror("recorder", 9000, percent=10),
)
SIMPLE = route(rule(baseline()))


def after(manifest: Any, *changes: RouteChange, epoch: int = 1, ref: RouteRef = MIRRORING) -> Any:
    for change in changes:
        manifest = changed(manifest, ref, change, epoch)
    return manifest


def filters(manifest: Any, number: int = 0) -> Any:
    return manifest["spec"]["rules"][number].get("filters")


def seen(manifest: Any, ref: RouteRef = MIRRORING) -> tuple[str, Extent, str | None]:
    found = view(manifest, ref)
    assert isinstance(found, RouteView)
    return found.mirror, found.mirroring, found.editor


def marked(manifest: Any) -> bool:
    found = view(manifest, MIRRORING)
    return isinstance(found, RouteView) and found.marked


def stripped(manifest: Any) -> Manifest:
    return edited(manifest, lambda m: [m["metadata"]["annotations"].pop(name, None) for name in NAMES])


def of_somebody(manifest: Any, *edits: Callable[[Manifest], object]) -> Manifest:
    """Return the route after edits of its rules by the field manager `somebody`."""
    fields = {"manager": "somebody", "time": "2026-12-01T12:00:00Z", "fieldsV1": {"f:spec": {"f:rules": {}}}}
    return edited(manifest, *edits, lambda m: m["metadata"].update(managedFields=[fields]))


# On and off.


def test_a_mirror_is_put_behind_the_users_filters_and_no_weight_is_touched() -> None:
    running = after(route(rule(baseline(), filters=[FILTER])), PREPARE, Raise(ATTEMPT, Weight(25)))
    mirrored = after(running, ON)
    assert filters(mirrored) == [FILTER, OURS]
    assert weights(mirrored) == weights(running) == {"credit-fp32": 75, "credit-int8": 25}
    assert read_marks(mirrored) == replace(read_marks(running), mirror=MIRRORING.comparator)
    assert seen(mirrored) == (SHADOW, Extent.ALL, None)


def test_a_mirror_that_is_on_is_not_put_on_again() -> None:
    once = after(SIMPLE, PREPARE, ON)
    assert after(once, ON) == once
    assert patch(once, after(once, ON)) == []


def test_without_a_comparator_the_mirror_and_its_mark_are_taken_off() -> None:
    prepared = after(SIMPLE, PREPARE)
    assert after(prepared, ON, OFF) == prepared
    assert seen(prepared) == ("", Extent.NONE, None)


def test_every_rule_that_points_to_the_baseline_is_mirrored_and_no_other() -> None:
    before = route(rule(baseline()), rule(backend("admin"), path="/admin"), rule(baseline(4), backend("x"), path="/b"))
    mirrored = after(before, PREPARE, ON)
    assert [filters(mirrored, number) for number in range(3)] == [[OURS], None, [OURS]]
    assert mirrored["spec"]["rules"][1] is before["spec"]["rules"][1]


def test_a_rule_that_appears_in_mid_shadow_is_mirrored_with_the_next_write() -> None:
    grown = of_somebody(after(SIMPLE, PREPARE, ON), lambda m: m["spec"]["rules"].append(rule(baseline(), path="/new")))
    assert seen(grown) == (SHADOW, Extent.SOME, "somebody")
    both = after(grown, ON)
    assert [filters(both, number) for number in (0, 1)] == [[OURS], [OURS]]
    assert seen(both)[:2] == (SHADOW, Extent.ALL)


def test_a_mirror_that_somebody_took_off_is_seen_with_the_name_of_the_editor() -> None:
    taken = of_somebody(after(SIMPLE, PREPARE, ON), lambda m: m["spec"]["rules"][0].pop("filters"))
    assert seen(taken) == (SHADOW, Extent.NONE, "somebody")


def test_a_route_without_the_baseline_cannot_be_mirrored() -> None:
    alone = edited(after(SIMPLE, PREPARE), lambda m: m["spec"]["rules"][0]["backendRefs"].pop(0))
    with pytest.raises(SpecError, match="no rule of the route points to the baseline credit-fp32:8080"):
        after(alone, ON)


@pytest.mark.parametrize("ending", [OFF, Restore(), Raise(ATTEMPT, Weight(5), unmirror=True), Prepare("a-2")])
def test_an_empty_list_of_filters_comes_back_as_the_user_wrote_it(ending: RouteChange) -> None:
    mirrored = after(route(rule(baseline(), filters=[]), rule(baseline(), path="/b")), PREPARE, ON)
    assert [filters(mirrored, number) for number in (0, 1)] == [[OURS], [OURS]]
    ended = after(mirrored, ending)
    assert [filters(ended, number) for number in (0, 1)] == [[], None]


@pytest.mark.parametrize("own", USERS)
def test_what_only_looks_like_davylamps_mirror_is_the_users(own: Manifest) -> None:
    before = route(rule(baseline(), filters=[own]))
    assert seen(before) == ("", Extent.NONE, None)
    mirrored = after(before, PREPARE, ON)
    assert filters(mirrored) == [own, OURS]
    assert spoken(after(mirrored, Restore())) == spoken(before)


# Who may.


def test_only_the_attempt_that_the_route_is_prepared_for_mirrors() -> None:
    prepared = after(SIMPLE, PREPARE)
    with pytest.raises(Conflict, match="not prepared for attempt a-2: its marks say a-1"):
        after(prepared, Mirror("a-2", SHADOW))
    with pytest.raises(Conflict, match="not prepared for attempt a-1: its marks say None"):
        after(SIMPLE, ON)


@pytest.mark.parametrize("change", [ON, OFF])
def test_an_older_leader_changes_no_mirror(change: Mirror) -> None:
    with pytest.raises(Conflict, match="its epoch is 3, ours 2"):
        after(after(SIMPLE, PREPARE, ON, epoch=3), change, epoch=2)


def test_after_a_rollback_nothing_is_mirrored_again() -> None:
    with pytest.raises(Conflict, match="the route says that Rollback was decided for attempt a-1"):
        after(SIMPLE, PREPARE, BACK, ON)


# Taking it off.


def test_a_lowering_changes_no_filter_and_keeps_the_mark_so_that_the_mirror_is_taken_off_afterwards() -> None:
    running = after(SIMPLE, PREPARE, Raise(ATTEMPT, Weight(50)), ON)
    lowered = after(running, BACK)
    assert (weights(lowered), filters(lowered)) == ({"credit-fp32": 100, "credit-int8": 0}, [OURS])
    # The settings name no comparator by now: the mark alone does.
    assert seen(lowered, CREDIT)[:2] == (SHADOW, Extent.ALL)
    assert spoken(after(lowered, Restore(), ref=CREDIT)) == spoken(SIMPLE)


def test_a_raise_to_a_step_without_shadow_takes_the_mirror_off_in_the_same_write() -> None:
    mirrored = after(SIMPLE, PREPARE, ON)
    raised = after(mirrored, Raise(ATTEMPT, Weight(5), unmirror=True))
    assert (filters(raised), read_marks(raised).mirror) == (None, None)
    assert weights(raised) == {"credit-fp32": 95, "credit-int8": 5}
    assert filters(after(mirrored, Raise(ATTEMPT, Weight(5)))) == [OURS]


def test_another_comparator_takes_the_place_of_the_first() -> None:
    moved = after(after(SIMPLE, PREPARE, ON), Mirror(ATTEMPT, OTHER), ref=MOVED)
    assert filters(moved) == [mirror("davylamp-shadow", 8091)]
    assert seen(moved, MOVED) == (OTHER, Extent.ALL, None)
    assert spoken(after(moved, Restore(), ref=MOVED)) == spoken(SIMPLE)


def test_another_attempt_begins_without_the_mirror_of_the_one_before() -> None:
    again = after(after(SIMPLE, PREPARE, ON), Prepare("a-2"), ref=MOVED)
    assert (filters(again), read_marks(again).mirror) == (None, None)
    assert spoken(after(again, Restore(), ref=MOVED)) == spoken(SIMPLE)


def test_a_promotion_leaves_no_mirror() -> None:
    mirrored = after(route(rule(baseline(7), filters=[FILTER])), PREPARE, Raise(ATTEMPT, Weight(100)), ON)
    promoted = after(mirrored, Repoint())
    assert promoted["spec"]["rules"] == [rule(candidate(7), filters=[FILTER])]
    assert not read_marks(promoted).present


def test_a_mirror_is_taken_off_a_rule_that_others_pointed_to_the_candidate_alone() -> None:
    mirrored = after(SIMPLE, PREPARE, ON)
    repointed = edited(mirrored, lambda m: m["spec"]["rules"][0].update(backendRefs=[candidate(1)]))
    assert filters(after(repointed, Restore())) is None


def test_a_mirror_is_taken_off_a_rule_that_others_pointed_elsewhere() -> None:
    maintenance = rule(backend("maintenance"), path="/b")
    before = route(rule(baseline()), rule(baseline(), path="/b"))
    pointed = edited(
        after(before, PREPARE, ON), lambda m: m["spec"]["rules"][1].update(backendRefs=[backend("maintenance")])
    )
    for changes in ([OFF], [Raise(ATTEMPT, Weight(5), unmirror=True)], [Prepare("a-2")], [BACK, Restore()]):
        assert after(pointed, *changes)["spec"]["rules"][1] == maintenance
    assert seen(pointed)[:2] == (SHADOW, Extent.ALL)
    left = edited(pointed, lambda m: m["spec"]["rules"][0].pop("filters"))
    assert seen(left)[:2] == (SHADOW, Extent.SOME)
    assert filters(after(left, ON)) == [OURS]


@pytest.mark.parametrize("what", ["all", "its own"])
def test_a_mirror_whose_marks_somebody_stripped_is_found_and_taken_off(what: str) -> None:
    mirrored = after(route(rule(baseline()), annotations={"team.example.org/owner": "credit"}), PREPARE, ON)
    unmarked = (
        stripped(mirrored) if what == "all" else edited(mirrored, lambda m: m["metadata"]["annotations"].pop(MIRROR))
    )
    assert seen(unmarked)[:2] == (SHADOW, Extent.ALL)
    restored = after(unmarked, Restore())
    assert filters(restored) is None
    assert [marked(each) for each in (unmarked, restored)] == [True, False]


@pytest.mark.parametrize("damage", ["davylamp-shadow", "davylamp-shadow:0", ":8090", "", "x" * 5000])
def test_a_mark_that_cannot_be_read_hides_no_mirror(damage: str) -> None:
    mirrored = edited(after(SIMPLE, PREPARE, ON), lambda m: m["metadata"]["annotations"].update({MIRROR: damage}))
    assert seen(mirrored)[:2] == (SHADOW, Extent.ALL)
    assert spoken(after(mirrored, Restore())) == spoken(SIMPLE)


# Everything at once.

_REFS = st.lists(
    st.builds(backend, st.sampled_from(["x", "y"]), st.integers(0, 1_000_000)),
    max_size=2,
    unique_by=lambda r: r["name"],
)
_FILTERS = st.lists(st.sampled_from(USERS), max_size=4)
_WEIGHT = st.one_of(st.none(), st.integers(1, 1_000_000), st.just(100))


@st.composite
def _routes(draw: st.DrawFn) -> Manifest:
    rules = []
    for number in range(draw(st.integers(1, 4))):
        refs = draw(_REFS)
        if number == 0 or draw(st.booleans()):
            refs.insert(draw(st.integers(0, len(refs))), baseline(draw(_WEIGHT)))
            if draw(st.booleans()):
                refs.insert(draw(st.integers(0, len(refs))), candidate(0))
        own = {"filters": draw(_FILTERS)} if draw(st.booleans()) else {}
        rules.append(rule(*refs, path=f"/{number}", **own))
    annotated = {"annotations": {"team.example.org/owner": "credit"}} if draw(st.booleans()) else {}
    return route(*rules, **annotated)


_ATTEMPTS = st.sampled_from(["a-1", "a-2"])
_CHANGES = st.lists(
    st.one_of(
        st.builds(Prepare, _ATTEMPTS),
        st.builds(Mirror, _ATTEMPTS, st.sampled_from([SHADOW, OTHER, ""])),
        st.builds(Raise, _ATTEMPTS, st.builds(Weight, st.integers(0, 100)), st.booleans()),
        st.builds(Lower, _ATTEMPTS, st.builds(Weight, st.integers(0, 100)), st.sampled_from(list(Ruling))),
    ),
    max_size=8,
)


def _users(manifest: Any) -> list[list[Manifest]]:
    own = (OURS, mirror("davylamp-shadow", 8091))
    return [[each for each in r.get("filters", []) if each not in own] for r in manifest["spec"]["rules"]]


@settings(max_examples=300, deadline=None)
@given(_routes(), _CHANGES)
def test_whatever_is_mirrored_restore_gives_the_route_back_byte_for_byte(
    before: Manifest, changes: list[RouteChange]
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
        assert _users(result) == _users(before)
        if isinstance(change, Mirror):
            assert [r["backendRefs"] for r in result["spec"]["rules"]] == [
                r["backendRefs"] for r in manifest["spec"]["rules"]
            ]
            wanted = Extent.ALL if change.comparator else Extent.NONE
            assert seen(result)[:2] == (change.comparator, wanted)
        manifest = result
    restored = after(manifest, Restore())
    assert jsonpatch.apply_patch(manifest, patch(manifest, restored)) == restored
    assert spoken(restored) == spoken(before)


@settings(max_examples=200, deadline=None)
@given(_routes(), st.sampled_from([SHADOW, OTHER]), st.sets(st.sampled_from(NAMES), min_size=1))
def test_whatever_marks_are_stripped_no_mirror_is_left_behind(
    before: Manifest, comparator: str, gone: set[str]
) -> None:
    ref = replace(CREDIT, comparator=BackendRef("davylamp-shadow", int(comparator[-4:])))
    mirrored = after(before, PREPARE, Mirror(ATTEMPT, comparator), ref=ref)
    unmarked = edited(mirrored, lambda m: [m["metadata"]["annotations"].pop(name, None) for name in gone])
    assert seen(unmarked, ref)[:2] == (comparator, Extent.ALL)
    restored = after(unmarked, Restore(), ref=ref)
    # Without its record nobody knows whether a rule without filters had an empty list of them.
    known = gone.isdisjoint({ORIGINAL, PAIR})
    assert [r.get("filters") if known else r.get("filters", []) for r in restored["spec"]["rules"]] == [
        r.get("filters") if known else r.get("filters", []) for r in before["spec"]["rules"]
    ]
