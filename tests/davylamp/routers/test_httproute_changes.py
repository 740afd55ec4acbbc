"""What each change makes of a route."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from davylamp.core.model import Ruling, Weight
from davylamp.core.moves import Lower, Prepare, Raise, Repoint, Restore
from davylamp.core.world import RouteView
from davylamp.errors import Conflict, SpecError
from davylamp.ports import BackendRef, RouteChange, RouteRef
from davylamp.routers.httproute_changes import changed, leftover, pair_in_force
from davylamp.routers.httproute_view import view
from davylamp.routers.marks import NAMES, ORIGINAL, PAIR, read_marks
from tests.davylamp.routers.httproutes import (
    BASELINE,
    CANDIDATE,
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

ATTEMPT = "a-1"
PREPARE = Prepare(ATTEMPT)
BACK = Lower(ATTEMPT, Weight(0), Ruling.ROLLBACK)


def raised(percent: int) -> Raise:
    return Raise(ATTEMPT, Weight(percent))


def after(manifest: Any, *changes: RouteChange, epoch: int = 1, ref: RouteRef = CREDIT) -> Any:
    for change in changes:
        before = copy.deepcopy(manifest)
        result = changed(manifest, ref, change, epoch)
        assert manifest == before, "a change must not alter what it was given"
        manifest = result
    return manifest


SIMPLE = route(rule(baseline()))


# Prepare.


def test_the_candidate_is_put_right_behind_the_baseline_at_weight_0_with_the_baselines_filters() -> None:
    before = route(rule(backend("other", 100), baseline(100, filters=[FILTER]), backend("third", 50)))
    refs = after(before, PREPARE)["spec"]["rules"][0]["backendRefs"]
    assert [ref["name"] for ref in refs] == ["other", "credit-fp32", "credit-int8", "third"]
    assert refs[2] == candidate(0, filters=[FILTER])
    assert [ref["weight"] for ref in refs] == [100, 100, 0, 50]


def test_a_candidate_that_is_there_is_adopted_and_loses_its_traffic() -> None:
    prepared = after(route(rule(candidate(30), baseline(70))), PREPARE)
    assert weights(prepared) == {"credit-int8": 0, "credit-fp32": 100}


def test_the_marks_say_all_that_is_needed_to_give_the_route_back() -> None:
    marks = read_marks(after(SIMPLE, PREPARE, epoch=4))
    assert marks.complete
    assert (marks.attempt, marks.asked, marks.ruling, marks.epoch) == (ATTEMPT, Weight(0), Ruling.CONTINUE, 4)
    assert marks.pair is not None
    assert (marks.pair.baseline, marks.pair.candidate) == (BASELINE, CANDIDATE)


def test_rules_without_the_baseline_stay_the_same_objects() -> None:
    redirect = {"filters": [{"type": "RequestRedirect", "requestRedirect": {"statusCode": 301}}]}
    others = [rule(backend("admin"), path="/admin"), redirect, rule(candidate(1), path="/try")]
    before = route(*others, rule(baseline()))
    result = after(before, PREPARE, raised(50))
    for number, other in enumerate(others):
        assert result["spec"]["rules"][number] is other


@pytest.mark.parametrize(
    "ref",
    [
        baseline(port=9090),
        baseline(namespace="elsewhere"),
        baseline(group="inference.networking.k8s.io", kind="InferencePool"),
    ],
    ids=["port", "namespace", "kind"],
)
def test_a_backend_that_only_looks_like_the_baseline_is_not_the_baseline(ref: Manifest) -> None:
    with pytest.raises(SpecError, match="no rule of the route points to the baseline credit-fp32:8080"):
        after(route(rule(ref)), PREPARE)


def test_a_reference_with_the_namespace_written_out_is_the_baseline() -> None:
    prepared = after(route(rule(baseline(namespace="ml"))), PREPARE)
    assert prepared["spec"]["rules"][0]["backendRefs"][1] == candidate(0, namespace="ml")


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (rule(baseline(), baseline()), r"spec.rules\[0\] names credit-fp32:8080 2 times: keep one"),
        (rule(baseline(), candidate(), candidate()), r"spec.rules\[0\] names credit-int8:8080 2 times: keep one"),
        (rule(baseline(0), backend("third")), r"spec.rules\[0\] gives credit-fp32:8080 the weight 0.*above 0"),
    ],
    ids=["baseline twice", "candidate twice", "baseline at 0"],
)
def test_a_rule_that_cannot_be_shared_is_refused_with_the_remedy(bad: Manifest, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        after(route(bad), PREPARE)


def test_preparing_again_puts_back_a_baseline_that_others_took_out() -> None:
    running = after(SIMPLE, PREPARE, raised(25))
    alone = edited(running, lambda m: m["spec"]["rules"][0]["backendRefs"].pop(0))
    again = after(alone, PREPARE)
    assert weights(again) == {"credit-fp32": 100, "credit-int8": 0}
    assert spoken(after(again, Restore())) == spoken(SIMPLE)


def test_preparing_a_new_attempt_keeps_the_record_of_the_route_as_the_user_wrote_it() -> None:
    again = after(SIMPLE, PREPARE, raised(25), Prepare("a-2"))
    assert weights(again) == {"credit-fp32": 100, "credit-int8": 0}
    assert spoken(after(again, Restore())) == spoken(SIMPLE)


# Weights.


@pytest.mark.parametrize("percent", [0, 1, 7, 50, 99, 100])
def test_a_weight_is_the_exact_share_of_the_pair(percent: int) -> None:
    assert weights(after(SIMPLE, PREPARE, raised(percent))) == {"credit-fp32": 100 - percent, "credit-int8": percent}


def test_other_backends_keep_their_weights() -> None:
    before = route(rule(baseline(700), backend("third", 300)))
    assert weights(after(before, PREPARE, raised(7))) == {"credit-fp32": 651, "credit-int8": 49, "third": 300}


def test_a_weight_that_does_not_divide_beside_another_backend_is_refused_with_the_remedy() -> None:
    prepared = after(route(rule(baseline(20), backend("third", 1))), PREPARE, raised(5))
    with pytest.raises(SpecError, match=r"a weight of 20 .* of which 7 % is no whole number: put the weights of"):
        after(prepared, raised(7))


def test_a_lowering_always_divides_and_rounds_down() -> None:
    half = after(route(rule(baseline(20), backend("third", 1))), PREPARE, raised(50))
    down = after(half, Lower(ATTEMPT, Weight(7), Ruling.CONTINUE))
    assert weights(down) == {"credit-fp32": 19, "credit-int8": 1, "third": 1}


def test_a_backend_at_weight_0_beside_the_pair_does_not_stop_the_scale() -> None:
    before = route(rule(baseline(3), backend("spare", 0)))
    assert weights(after(before, PREPARE, raised(1))) == {"credit-fp32": 99, "credit-int8": 1, "spare": 0}


def test_the_largest_weights_that_the_api_takes_are_shared_within_its_limit() -> None:
    shared = after(route(rule(baseline(1_000_000), candidate(1_000_000))), PREPARE, raised(50))
    assert weights(shared) == {"credit-fp32": 50, "credit-int8": 50}


# Raise.


def test_a_rule_that_appears_in_mid_rollout_is_shared_with_the_next_raise() -> None:
    running = after(SIMPLE, PREPARE, raised(25))
    grown = edited(running, lambda m: m["spec"]["rules"].insert(0, rule(baseline(5), path="/new")))
    higher = after(grown, raised(50))
    assert weights(higher, 0) == weights(higher, 1) == {"credit-fp32": 50, "credit-int8": 50}
    assert spoken(after(higher, Restore()))[0]["rules"] == [rule(baseline(5), path="/new"), rule(baseline())]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("davylamp.dev/attempt", "a-2"),
        ("davylamp.dev/ruling", "Rollback"),
        ("davylamp.dev/ruling", "Promote"),
        ("davylamp.dev/ruling", "sure"),
        ("davylamp.dev/epoch", "2"),
        ("davylamp.dev/epoch", "x"),
        ("davylamp.dev/pair", "credit-fp32:8080 other:8080"),
        ("davylamp.dev/original", "[]{"),
        ("davylamp.dev/weight", None),
    ],
)
def test_a_raise_needs_its_own_undamaged_marks(name: str, value: str | None) -> None:
    def edit(manifest: Manifest) -> None:
        manifest["metadata"]["annotations"][name] = value
        if value is None:
            del manifest["metadata"]["annotations"][name]

    with pytest.raises(Conflict):
        after(edited(after(SIMPLE, PREPARE), edit), raised(5))


def test_a_rolled_back_attempt_is_never_raised_again() -> None:
    back = after(SIMPLE, PREPARE, raised(50), BACK)
    with pytest.raises(Conflict, match="the route says that Rollback was decided for attempt a-1"):
        after(back, raised(5), epoch=9)


def test_an_older_leader_neither_prepares_nor_raises_nor_repoints() -> None:
    running = after(SIMPLE, PREPARE, raised(100), epoch=3)
    for change in (PREPARE, raised(100), Repoint()):
        with pytest.raises(Conflict, match="a newer leader has written to the route: its epoch is 3, ours 2"):
            after(running, change, epoch=2)


# Lower.


def test_a_lowering_never_gives_the_candidate_more_than_it_has() -> None:
    by_hand = edited(after(SIMPLE, PREPARE, raised(50)), lambda m: m["spec"]["rules"][0]["backendRefs"].pop())
    by_hand["spec"]["rules"][0]["backendRefs"].append(candidate(2))
    assert weights(after(by_hand, Lower(ATTEMPT, Weight(25), Ruling.CONTINUE))) == {"credit-fp32": 50, "credit-int8": 2}


def test_a_lowering_needs_no_marks() -> None:
    bare = route(rule(baseline(60), candidate(40)))
    down = after(bare, BACK)
    assert weights(down) == {"credit-fp32": 100, "credit-int8": 0}
    assert read_marks(down).ruling is Ruling.ROLLBACK
    assert weights(after(down, Restore())) == {"credit-fp32": 100, "credit-int8": 0}


def test_a_lowering_by_an_older_leader_does_not_lower_the_epoch() -> None:
    running = after(SIMPLE, PREPARE, raised(50), epoch=7)
    down = after(running, BACK, epoch=2)
    assert (weights(down)["credit-int8"], read_marks(down).epoch) == (0, 7)


def test_no_lowering_takes_a_rollback_or_a_lower_weight_back() -> None:
    back = after(SIMPLE, PREPARE, raised(50), BACK)
    marks = read_marks(after(back, Lower(ATTEMPT, Weight(25), Ruling.CONTINUE)))
    assert (marks.ruling, marks.asked) == (Ruling.ROLLBACK, Weight(0))


def test_a_lowering_reaches_the_pair_that_the_marks_name_after_the_settings_changed() -> None:
    running = after(SIMPLE, PREPARE, raised(50))
    other = RouteRef("ml", "credit", BASELINE, BackendRef("credit-pruned", 8080))
    assert leftover(running, other)
    assert weights(after(running, BACK, ref=other)) == {"credit-fp32": 100, "credit-int8": 0}
    assert spoken(after(running, Restore(), ref=other)) == spoken(SIMPLE)


def test_a_lowering_takes_traffic_from_a_candidate_that_was_left_alone() -> None:
    running = after(route(rule(baseline(100))), PREPARE, raised(50))
    alone = edited(running, lambda m: m["spec"]["rules"][0]["backendRefs"].pop(0))
    down = after(alone, BACK)
    assert weights(down) == {"credit-fp32": 100, "credit-int8": 0}
    assert spoken(after(down, Restore())) == spoken(route(rule(baseline(100))))


def test_every_reference_to_a_candidate_named_twice_is_lowered() -> None:
    running = after(SIMPLE, PREPARE, raised(50))
    twice = edited(running, lambda m: m["spec"]["rules"][0]["backendRefs"].append(candidate(50)))
    refs = after(twice, BACK)["spec"]["rules"][0]["backendRefs"]
    assert [ref["weight"] for ref in refs if ref["name"] == "credit-int8"] == [0, 0]
    assert spoken(after(twice, Restore())) == spoken(SIMPLE)


def test_weights_that_others_set_to_zero_everywhere_are_left_alone() -> None:
    def drain(manifest: Manifest) -> None:
        for ref in manifest["spec"]["rules"][0]["backendRefs"]:
            ref["weight"] = 0

    drained = edited(after(SIMPLE, PREPARE, raised(50)), drain)
    assert weights(after(drained, BACK)) == {"credit-fp32": 0, "credit-int8": 0}


# Restore.


@pytest.mark.parametrize(
    "before",
    [
        SIMPLE,
        route(rule(baseline(None))),
        route(rule(baseline(17, filters=[FILTER]))),
        route(rule(baseline(9000), backend("third", 1000))),
        route(rule(baseline(3), candidate(0))),
        route(rule(candidate(0, filters=[FILTER]), baseline(1))),
        route(rule(baseline()), rule(baseline(2), path="/b"), rule(backend("admin"), path="/c")),
        route(rule(baseline()), annotations={"team.example.org/owner": "credit"}),
        route(rule(baseline(), sessionPersistence={"type": "Cookie"}, name="main")),
    ],
    ids=["plain", "no weight", "odd weight", "third", "adopted", "adopted first", "rules", "annotations", "extras"],
)
def test_restore_gives_the_route_back_as_it_was(before: Manifest) -> None:
    assert spoken(after(before, PREPARE, raised(10), raised(50), BACK, Restore())) == spoken(before)
    assert spoken(after(before, PREPARE, raised(50), Restore())) == spoken(before)


def test_restore_keeps_what_others_changed_meanwhile() -> None:
    def edit(manifest: Manifest) -> None:
        manifest["spec"]["hostnames"] = ["new.example.org"]
        manifest["metadata"]["annotations"]["team.example.org/owner"] = "credit"
        manifest["spec"]["rules"].insert(0, rule(backend("admin"), path="/admin"))
        manifest["spec"]["rules"][1]["timeouts"] = {"request": "5s"}

    restored = after(edited(after(SIMPLE, PREPARE, raised(50)), edit), BACK, Restore())
    assert restored["spec"]["hostnames"] == ["new.example.org"]
    assert restored["spec"]["rules"] == [
        rule(backend("admin"), path="/admin"),
        rule(baseline(), timeouts={"request": "5s"}),
    ]
    assert restored["metadata"]["annotations"] == {"team.example.org/owner": "credit"}


def test_restore_knows_a_rule_by_its_place_after_its_matches_were_edited() -> None:
    running = after(route(rule(baseline(3)), rule(baseline(4), path="/b")), PREPARE, raised(50))
    moved = edited(running, lambda m: m["spec"]["rules"][1].update(matches=[{"path": {"value": "/new"}}]))
    restored = after(moved, Restore())
    assert [weights(restored, n) for n in (0, 1)] == [{"credit-fp32": 3}, {"credit-fp32": 4}]


def test_restore_tells_rules_apart_that_others_put_in_another_order() -> None:
    running = after(route(rule(baseline(3)), rule(baseline(4), path="/b")), PREPARE, raised(50))
    restored = after(edited(running, lambda m: m["spec"]["rules"].reverse()), Restore())
    assert [weights(restored, n) for n in (0, 1)] == [{"credit-fp32": 4}, {"credit-fp32": 3}]


@pytest.mark.parametrize(
    "damage", ["", "null", "[1]", '[{"rule":-1}]', "[" * 5000, '[{"rule":0,"key":"k","baseline":true}]']
)
def test_restore_without_a_readable_record_gives_the_baseline_the_pairs_weight_and_removes_nothing(damage: str) -> None:
    running = after(SIMPLE, PREPARE, raised(50))
    damaged = edited(running, lambda m: m["metadata"]["annotations"].update({ORIGINAL: damage}))
    restored = after(damaged, Restore())
    assert weights(restored) == {"credit-fp32": 100, "credit-int8": 0}
    assert not read_marks(restored).present


def test_restore_never_leaves_a_rule_without_weight_whatever_the_record_says() -> None:
    running = after(SIMPLE, PREPARE, raised(50))
    zero = json.dumps([json.loads(running["metadata"]["annotations"][ORIGINAL])[0] | {"baseline": 0}])
    forged = edited(running, lambda m: m["metadata"]["annotations"].update({ORIGINAL: zero}))
    assert weights(after(forged, Restore())) == {"credit-fp32": 100, "credit-int8": 0}
    assert weights(after(forged, raised(100), Repoint())) == {"credit-int8": 100}


def test_the_largest_weights_are_given_back_within_the_apis_limit() -> None:
    largest = route(rule(baseline(1_000_000), candidate(1_000_000), backend("third", 1)))
    assert weights(after(largest, BACK, Restore())) == {"credit-fp32": 1_000_000, "credit-int8": 0, "third": 1}


def test_restore_without_marks_takes_the_candidates_weight() -> None:
    stripped = edited(after(SIMPLE, PREPARE, raised(50)), lambda m: m["metadata"].pop("annotations"))
    assert weights(after(stripped, Restore())) == {"credit-fp32": 100, "credit-int8": 0}


def test_restore_leaves_a_candidate_that_was_there_with_traffic_without_it() -> None:
    restored = after(route(rule(baseline(70), candidate(30))), PREPARE, raised(50), Restore())
    assert weights(restored) == {"credit-fp32": 100, "credit-int8": 0}


def test_restore_respects_the_weight_of_somebody_who_took_the_candidate_out() -> None:
    running = after(route(rule(baseline(100), backend("third", 100))), PREPARE, raised(25))

    def take_out(weight: int) -> Manifest:
        return edited(
            running, lambda m: m["spec"]["rules"][0].update(backendRefs=[baseline(weight), backend("third", 100)])
        )

    assert weights(after(take_out(30), Restore())) == {"credit-fp32": 30, "third": 100}
    assert weights(after(take_out(75), Restore())) == {"credit-fp32": 100, "third": 100}


# Repoint.


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        (
            route(rule(baseline(17, filters=[FILTER]), backend("x", 0))),
            [candidate(17, filters=[FILTER]), backend("x", 0)],
        ),
        (route(rule(backend("x", 200), baseline(None))), None),
        (route(rule(candidate(0), backend("x", 0), baseline(5))), [backend("x", 0), candidate(5)]),
        (route(rule(candidate(30), baseline(70))), [candidate(100)]),
    ],
    ids=["added", "not whole", "adopted", "adopted with traffic"],
)
def test_repoint_puts_the_candidate_in_the_baselines_place(before: Manifest, expected: list[Manifest] | None) -> None:
    promoted = after(before, PREPARE, raised(100), Repoint())
    assert promoted["spec"]["rules"][0]["backendRefs"] == (expected or [backend("x", 200), candidate(None)])
    assert not read_marks(promoted).present
    seen = view(promoted, CREDIT)
    assert isinstance(seen, RouteView)
    assert (seen.repointed, seen.weight) == (True, Weight(100))
    assert after(promoted, Repoint()) == promoted


def test_repoint_waits_for_all_traffic() -> None:
    with pytest.raises(Conflict, match="does not have all traffic yet"):
        after(SIMPLE, PREPARE, raised(99), Repoint())


def test_repoint_never_follows_a_rollback() -> None:
    back = after(SIMPLE, PREPARE, raised(100), BACK)
    forged = edited(back, lambda m: m["spec"]["rules"][0].update(backendRefs=[baseline(0), candidate(1)]))
    with pytest.raises(Conflict, match="rolled back"):
        after(forged, Repoint())


# Everything at once.

_WEIGHT = st.one_of(st.none(), st.integers(1, 1_000_000), st.sampled_from([100, 10_000]))
_OTHERS = st.lists(
    st.builds(backend, st.sampled_from(["x", "y"]), st.integers(0, 1_000_000)),
    max_size=2,
    unique_by=lambda r: r["name"],
)


@st.composite
def _rules(draw: st.DrawFn) -> list[Manifest]:
    rules = []
    for number in range(draw(st.integers(1, 4))):
        refs = draw(_OTHERS)
        if number == 0 or draw(st.booleans()):
            refs.insert(draw(st.integers(0, len(refs))), baseline(draw(_WEIGHT)))
            if draw(st.booleans()):
                refs.insert(draw(st.integers(0, len(refs))), candidate(0))
        rules.append(rule(*refs, path=f"/{number}"))
    return rules


_CHANGES = st.lists(
    st.one_of(
        st.builds(Prepare, st.sampled_from(["a-1", "a-2"])),
        st.builds(Raise, st.sampled_from(["a-1", "a-2"]), st.builds(Weight, st.integers(0, 100))),
        st.builds(
            Lower,
            st.sampled_from(["a-1", "a-2"]),
            st.builds(Weight, st.integers(0, 100)),
            st.sampled_from(list(Ruling)),
        ),
    ),
    max_size=6,
)


@settings(max_examples=300, deadline=None)
@given(_rules(), _CHANGES)
def test_whatever_is_done_restore_gives_back_the_route_as_it_was(
    rules: list[Manifest], changes: list[RouteChange]
) -> None:
    before = manifest = route(*rules)
    for change in changes:
        try:
            manifest = after(manifest, change)
        except (SpecError, Conflict):
            continue
        for new, old in zip(manifest["spec"]["rules"], before["spec"]["rules"], strict=True):
            keep = [[ref for ref in r["backendRefs"] if ref["name"] in {"x", "y"}] for r in (new, old)]
            assert keep[0] == keep[1]
            given = [ref.get("weight", 1) for ref in new["backendRefs"]]
            assert sum(given) > 0 or not any(ref.get("weight", 1) for ref in old["backendRefs"])
            assert max(given, default=0) <= 1_000_000
    assert spoken(after(manifest, Restore())) == spoken(before)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(NAMES), st.text(max_size=40) | st.from_regex(r"[0-9]{1,20}|\[.*\]")))
def test_whatever_the_marks_say_the_traffic_can_be_taken_back(annotations: dict[str, str]) -> None:
    forged = route(rule(baseline(50), candidate(50)), annotations=annotations)
    assert isinstance(view(forged, CREDIT), RouteView)
    assert weights(after(forged, BACK))["credit-int8"] == 0
    restored = after(forged, Restore())
    assert weights(restored).get("credit-int8", 0) == 0
    assert weights(restored)["credit-fp32"] > 0


def test_marks_that_name_a_pair_which_is_not_on_the_route_count_for_nothing() -> None:
    prepared = after(route(rule(baseline(7))), PREPARE, raised(50))
    elsewhere = edited(prepared, lambda m: m["metadata"]["annotations"].update({PAIR: "a:1 b:2"}))
    assert pair_in_force(elsewhere, CREDIT).candidate == CANDIDATE
    assert leftover(elsewhere, CREDIT)
    assert weights(after(elsewhere, Restore())) == {"credit-fp32": 100, "credit-int8": 0}


def test_a_route_left_to_a_baseline_that_had_nothing_when_it_was_recorded_still_leads_somewhere() -> None:
    lowered = changed(route(rule(baseline(0), candidate(100))), CREDIT, Lower("a-1", Weight(0), Ruling.CONTINUE), 3)
    alone = edited(lowered, lambda m: m["spec"]["rules"][0].update(backendRefs=[baseline()]))
    assert weights(changed(alone, CREDIT, Restore(), 3)) == {"credit-fp32": 100}
