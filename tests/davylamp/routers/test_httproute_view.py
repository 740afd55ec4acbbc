"""What a route says."""

from dataclasses import replace
from typing import Any

import pytest

from davylamp.core.model import Ruling, Weight
from davylamp.core.moves import Lower, Prepare, Raise
from davylamp.core.world import RouteTrouble, RouteView
from davylamp.ports import BackendRef, RouteRef
from davylamp.routers.httproute_changes import changed
from davylamp.routers.httproute_view import view
from tests.davylamp.routers.httproutes import (
    BASELINE,
    CREDIT,
    Manifest,
    backend,
    baseline,
    candidate,
    edited,
    route,
    rule,
)

PREPARED: Any = changed(route(rule(baseline())), CREDIT, Prepare("a-1"), 3)


def seen(manifest: Any, ref: RouteRef = CREDIT) -> RouteView:
    result = view(manifest, ref)
    assert isinstance(result, RouteView), result
    return result


def trouble(manifest: Any) -> str:
    result = view(manifest, CREDIT)
    assert isinstance(result, RouteTrouble), result
    assert not result.missing
    return result.message


def condition(kind: str, status: str = "True", generation: int = 1) -> Manifest:
    return {"type": kind, "status": status, "observedGeneration": generation, "reason": "Why", "message": "Because"}


def parent(name: str, *conditions: Manifest) -> Manifest:
    return {"parentRef": {"name": name}, "controllerName": "example.org/gateway", "conditions": list(conditions)}


GOOD = (condition("Accepted"), condition("ResolvedRefs"))


def reported(*parents: Manifest) -> Manifest:
    return route(rule(baseline())) | {"status": {"parents": list(parents)}}


def test_an_unprepared_route_says_so() -> None:
    found = seen(route(rule(baseline())))
    assert (found.prepared, found.weight, found.attempt, found.ruling, found.epoch) == (
        False,
        Weight(0),
        None,
        None,
        None,
    )


def test_a_prepared_route_says_what_was_written() -> None:
    found = seen(changed(PREPARED, CREDIT, Raise("a-1", Weight(25)), 4))
    assert (found.prepared, found.weight, found.asked) == (True, Weight(25), Weight(25))
    assert (found.attempt, found.ruling, found.epoch, found.uid) == ("a-1", Ruling.CONTINUE, 4, "5f0c")


@pytest.mark.parametrize(("given", "percent"), [((999, 1), 1), ((99, 1), 1), ((0, 1), 100), ((2, 1), 34), ((1, 0), 0)])
def test_the_weight_is_rounded_up(given: tuple[int, int], percent: int) -> None:
    assert seen(route(rule(baseline(given[0]), candidate(given[1])))).weight == Weight(percent)


def test_the_rule_with_the_most_candidate_counts() -> None:
    assert seen(route(rule(baseline(90), candidate(10)), rule(baseline(60), candidate(40)))).weight == Weight(40)


TWO = route(rule(baseline(), path="/a"), rule(baseline(), path="/b"))
RUNNING: Any = changed(changed(TWO, CREDIT, Prepare("a-1"), 3), CREDIT, Raise("a-1", Weight(25)), 3)


@pytest.mark.parametrize(
    ("refs", "lowest"),
    [([baseline(100), candidate(0)], 0), ([baseline(90), candidate(10)], 10), ([baseline(100)], 0)],
    ids=["nothing", "less", "taken out"],
)
def test_a_rule_that_was_lowered_alone_is_seen_beside_the_one_with_the_most(refs: list[Manifest], lowest: int) -> None:
    found = seen(edited(RUNNING, lambda m: m["spec"]["rules"][1].update(backendRefs=refs)))
    assert (found.weight, found.floor) == (Weight(25), Weight(lowest))


def test_a_rule_that_others_add_is_not_one_that_they_lowered() -> None:
    found = seen(edited(RUNNING, lambda m: m["spec"]["rules"].append(rule(baseline(), path="/new"))))
    assert (found.weight, found.lowest) == (Weight(25), None)


@pytest.mark.parametrize("name", sorted(PREPARED["metadata"]["annotations"]))
def test_a_damaged_mark_makes_a_route_unprepared(name: str) -> None:
    assert not seen(edited(PREPARED, lambda m: m["metadata"]["annotations"].update({name: "~"}))).prepared


def test_a_route_prepared_for_another_candidate_is_not_prepared_and_still_shows_that_ones_weight() -> None:
    running = changed(PREPARED, CREDIT, Raise("a-1", Weight(25)), 3)
    found = seen(running, RouteRef("ml", "credit", BASELINE, BackendRef("credit-pruned", 8080)))
    assert (found.prepared, found.weight, found.attempt) == (False, Weight(25), "a-1")


def test_a_route_without_the_baseline_says_where_it_points_and_what_to_do() -> None:
    message = trouble(route(rule(backend("a"), backend("b"))))
    assert (
        "HTTPRoute ml/credit: no rule points to the baseline credit-fp32:8080 (they point to a:8080, b:8080)" in message
    )
    assert "add it to a rule's backendRefs" in message


def test_a_backend_elsewhere_is_named_with_what_keeps_it_from_being_the_baseline() -> None:
    elsewhere = rule(baseline(namespace="other"), backend("credit-fp32", kind="InferencePool"))
    assert "they point to InferencePool credit-fp32:8080, other/credit-fp32:8080" in trouble(route(elsewhere))


def test_a_route_of_redirects_alone_points_to_no_backend() -> None:
    assert "they point to no backend" in trouble(route({"filters": []}))


def test_a_rule_that_cannot_be_shared_is_named() -> None:
    assert "HTTPRoute ml/credit: spec.rules[1] names credit-fp32:8080 2 times" in trouble(
        route(rule(baseline()), rule(baseline(), baseline()))
    )


def test_a_route_to_the_candidate_alone_is_repointed() -> None:
    found = seen(route(rule(candidate(1)), rule(backend("admin"), path="/admin")))
    assert (found.repointed, found.weight, found.prepared) == (True, Weight(100), False)


def test_a_candidate_without_weight_is_no_promotion() -> None:
    assert "no rule" in trouble(route(rule(candidate(0), backend("third"))))


@pytest.mark.parametrize(
    ("refs", "weight", "prepared", "repointed"),
    [
        ([baseline(75)], 0, True, False),
        ([backend("elsewhere")], 0, True, False),
        ([candidate(25)], 100, False, True),
        ([baseline(0), candidate(0)], 0, True, False),
        ([baseline(50), candidate(25), candidate(25)], 50, True, False),
        ([baseline(25), baseline(25), candidate(50)], 50, True, False),
    ],
    ids=["no candidate", "neither", "candidate alone", "all zero", "candidate twice", "baseline twice"],
)
def test_whatever_others_do_to_a_marked_route_it_has_a_view(
    refs: list[Manifest], weight: int, prepared: bool, repointed: bool
) -> None:
    running = changed(PREPARED, CREDIT, Raise("a-1", Weight(25)), 3)
    found = seen(edited(running, lambda m: m["spec"]["rules"][0].update(backendRefs=refs)))
    assert (found.weight, found.prepared, found.repointed) == (Weight(weight), prepared, repointed)
    assert found.attempt == "a-1"


def test_a_candidate_that_was_taken_out_before_it_had_traffic_must_be_put_in_again() -> None:
    assert not seen(edited(PREPARED, lambda m: m["spec"]["rules"][0].update(backendRefs=[baseline(100)]))).prepared


def test_marks_of_a_rollback_are_there_to_be_taken_off_even_without_a_candidate() -> None:
    back = changed(PREPARED, CREDIT, Lower("a-1", Weight(0), Ruling.ROLLBACK), 3)
    assert seen(edited(back, lambda m: m["spec"]["rules"][0].update(backendRefs=[baseline(100)]))).prepared


# Acceptance.


def test_a_route_is_accepted_when_every_gateway_has_accepted_this_generation() -> None:
    found = seen(reported(parent("one", *GOOD), parent("two", *GOOD)))
    assert (found.accepted, found.acceptance) == (
        True,
        "accepted by Gateway one (example.org/gateway), Gateway two (example.org/gateway)",
    )


@pytest.mark.parametrize(
    ("parents", "words"),
    [
        ([], "no gateway has reported about the route: check its parentRefs"),
        ([parent("one")], "Gateway one (example.org/gateway) has not reported Accepted"),
        ([parent("one", condition("Accepted"))], "has not reported ResolvedRefs"),
        (
            [parent("one", condition("Accepted"), condition("ResolvedRefs", "False"))],
            "Gateway one (example.org/gateway) says ResolvedRefs=False: Why, Because",
        ),
        (
            [parent("one", condition("Accepted", generation=0), GOOD[1])],
            "has seen generation 0 of the route, which is at 1",
        ),
        ([parent("one", *GOOD), parent("two", condition("Accepted", "Unknown"))], "Gateway two"),
    ],
    ids=["nobody", "nothing", "half", "unresolved", "late", "one of two"],
)
def test_a_route_that_is_not_accepted_says_by_whom_and_why(parents: list[Manifest], words: str) -> None:
    found = seen(reported(*parents))
    assert not found.accepted
    assert words in found.acceptance


# Editors.


def managed(manifest: Any, *entries: tuple[str, str, str]) -> Manifest:
    fields = [
        {"manager": manager, "time": time, "fieldsV1": {"f:spec": {field: {}}}} for manager, time, field in entries
    ]
    return edited(manifest, lambda m: m["metadata"].update(managedFields=fields))


def by_hand(weight: int) -> Manifest:
    running = changed(PREPARED, CREDIT, Raise("a-1", Weight(25)), 3)
    return edited(
        running, lambda m: m["spec"]["rules"][0].update(backendRefs=[baseline(100 - weight), candidate(weight)])
    )


EARLY, LATE = "2026-03-01T12:00:00Z", "2026-03-01T12:00:01Z"


def test_the_editor_is_who_changed_the_rules_last() -> None:
    edit = managed(
        by_hand(60),
        ("davylamp", EARLY, "f:rules"),
        ("kubectl-edit", LATE, "f:rules"),
        ("argocd-controller", LATE, "f:hostnames"),
    )
    assert seen(edit).editor == "kubectl-edit"


def test_in_the_same_second_the_other_is_the_editor() -> None:
    edit = managed(by_hand(60), ("kubectl-edit", LATE, "f:rules"), ("davylamp", LATE, "f:rules"))
    assert seen(edit).editor == "kubectl-edit"


def test_nobody_edited_weights_that_are_as_asked() -> None:
    assert seen(managed(by_hand(25), ("kubectl-edit", LATE, "f:rules"))).editor is None


@pytest.mark.parametrize("entries", [(), (("davylamp", LATE, "f:rules"),), (("kubectl", LATE, "f:hostnames"),)])
def test_an_editor_who_is_not_recorded_is_unknown(entries: tuple[tuple[str, str, str], ...]) -> None:
    assert seen(managed(by_hand(60), *entries)).editor is None


def test_a_rollback_shows_weight_0_and_its_ruling() -> None:
    running = changed(PREPARED, CREDIT, Raise("a-1", Weight(25)), 3)
    found = seen(changed(running, CREDIT, Lower("a-1", Weight(0), Ruling.ROLLBACK), 3))
    assert (found.weight, found.asked, found.ruling) == (Weight(0), Weight(0), Ruling.ROLLBACK)


def test_a_route_that_cannot_express_a_step_is_refused_before_the_first_step() -> None:
    uneven = route(rule(baseline(20), backend("third", 1)))
    ladder = replace(CREDIT, ladder=(Weight(5), Weight(50), Weight(52)))
    found = view(uneven, ladder)
    assert isinstance(found, RouteTrouble)
    assert "of which 52 % is no whole number: put the weights of" in found.message
    assert isinstance(view(uneven, replace(CREDIT, ladder=(Weight(5), Weight(50)))), RouteView)
