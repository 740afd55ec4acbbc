"""What the API server refuses Davylamp's service account about the rules that send a slice to the baseline."""

from typing import Any

import pytest

from davylamp.core.model import Weight
from davylamp.core.moves import Diversion, Divert, Mirror, Prepare, Raise, Repoint, Restore
from davylamp.ports import RouteChange
from e2e.lab import Api, ApiError, Lab
from tests.manifests.policed import (
    BACK,
    FULL,
    HALF,
    MARK,
    MIRRORED,
    MODIFIER,
    PREPARE,
    Edit,
    Manifest,
    Route,
    Violation,
    annotate,
    backend,
    both,
    filtered,
    mirror,
    refs,
    unmark,
    weigh,
)

SLICE = Divert("a-1", (Diversion("x-sex", "F"),))
NONE = Divert("a-1", ())
#: Then spec.rules[1] is the copy, and spec.rules[2] the user's rule.
SLICED = (PREPARE, HALF, SLICE)


def copied(manifest: Manifest) -> Manifest:
    return manifest["spec"]["rules"][1]  # type: ignore[no-any-return]  # JSON


def header(**change: Any) -> Edit:
    return lambda manifest: copied(manifest)["matches"][0]["headers"][0].update(change)


def unnamed(manifest: Manifest) -> None:
    for rule in manifest["spec"]["rules"]:
        rule.pop("name", None)


def another(**change: Any) -> Edit:
    """Put one copy more, changed, behind the one that is there."""

    def edit(manifest: Manifest) -> None:
        rules = manifest["spec"]["rules"]
        rules.insert(2, {**rules[1], "name": f"davylamp-slice-{'0' * 12}-1"} | change)

    return edit


def by_hand(manifest: Manifest) -> None:
    """Add to a route without copies what Davylamp would."""
    rules = manifest["spec"]["rules"]
    match = {"path": {"type": "PathPrefix", "value": "/"}, "headers": [{"name": "x-sex", "value": "F"}]}
    copy = {"name": f"davylamp-slice-{'0' * 12}-1", "matches": [match]}
    rules.insert(1, {**rules[1], "backendRefs": [backend("credit-fp32", 100), backend("third", 100)]} | copy)
    annotate(diverted='{"slices":[["x-sex","F"]],"rules":[]}')(manifest)


NOT_COPY = "a copy of a rule that has the candidate, with its filters"
NOT_MATCHES = "must have matches of the rule that it is a copy of, with one exact header more"
NOT_BASELINE = "must point to the baseline in the place of the pair"
NOT_BACK = "a slice goes back to the candidate only for the same attempt"

VIOLATIONS = [
    Violation("to the candidate", NOT_BASELINE, lambda m: refs(m)[0].update(name="credit-int8"), SLICED),
    Violation("beside the candidate", NOT_BASELINE, lambda m: refs(m).append(backend("credit-int8", 0)), SLICED),
    Violation("to another namespace", NOT_BASELINE, lambda m: refs(m)[0].update(namespace="elsewhere"), SLICED),
    Violation("without weight", NOT_BASELINE, lambda m: refs(m)[0].update(weight=0), SLICED),
    Violation("without another backend", NOT_BASELINE, lambda m: refs(m).pop(), SLICED),
    Violation("to a stranger", NOT_BASELINE, lambda m: refs(m).append(backend("stranger")), SLICED),
    Violation("to nobody", NOT_BASELINE, lambda m: copied(m).pop("backendRefs"), SLICED),
    Violation("without header", NOT_MATCHES, lambda m: copied(m)["matches"][0].pop("headers"), SLICED),
    Violation("by an expression", NOT_MATCHES, header(type="RegularExpression"), SLICED),
    Violation("of an unmarked value", NOT_MATCHES, header(value="M"), SLICED),
    Violation("of an unmarked header", NOT_MATCHES, header(name="x-race"), SLICED),
    Violation("of another path", NOT_MATCHES, lambda m: copied(m)["matches"][0]["path"].update(value="/b"), SLICED),
    Violation("of a method", NOT_MATCHES, lambda m: copied(m)["matches"][0].update(method="GET"), SLICED),
    Violation(
        "of two headers more",
        NOT_MATCHES,
        lambda m: copied(m)["matches"][0]["headers"].append({"name": "x-race", "value": "1"}),
        SLICED,
    ),
    Violation("with another timeout", NOT_COPY, lambda m: copied(m)["timeouts"].update(request="1s"), SLICED),
    Violation("without timeout", NOT_COPY, lambda m: copied(m).pop("timeouts"), SLICED),
    Violation("with a filter", NOT_COPY, filtered(MODIFIER), SLICED),
    Violation("with an unmarked mirror", NOT_COPY, filtered(mirror("davylamp-shadow", 8090)), SLICED),
    Violation("of a rule without the candidate", NOT_COPY, another(name=f"davylamp-slice-{'0' * 12}-0"), SLICED),
    Violation("of no rule", NOT_COPY, another(name=f"davylamp-slice-{'0' * 12}-9"), SLICED),
    Violation("with any name", NOT_COPY, another(name="davylamp-slice-x"), SLICED),
    Violation("without a name", NOT_COPY, lambda m: copied(m).pop("name"), SLICED),
    Violation("by another name", "neither add nor remove", another(name="women"), SLICED),
    Violation(
        "a user's rule",
        "neither add nor remove",
        lambda m: m["spec"]["rules"][2].update(name="davylamp-slice-x"),
        SLICED,
    ),
    Violation("a user's rule away", "neither add nor remove", lambda m: m["spec"]["rules"].pop(2), SLICED),
    Violation("after a rollback", "only while nothing is decided", by_hand, (PREPARE, HALF, BACK)),
    Violation(
        "back for another attempt",
        NOT_BACK,
        both(lambda m: m["spec"]["rules"].pop(1), annotate(attempt="a-2", diverted=None)),
        SLICED,
    ),
    Violation(
        "back with a rollback",
        NOT_BACK,
        both(lambda m: m["spec"]["rules"].pop(1), annotate(ruling="Rollback", diverted=None)),
        SLICED,
    ),
    Violation("left behind", "no rule for a slice may stay", both(unmark, weigh(100, 0, 2)), SLICED),
    Violation("marked without an attempt", "only on a route that is prepared", annotate(diverted="{}"), ()),
    Violation(
        "a mark that stays",
        "stand or vanish together",
        both(lambda m: m["spec"]["rules"].pop(1), unmark, weigh(100, 0), annotate(diverted="{}")),
        SLICED,
    ),
]


@pytest.mark.parametrize("violation", VIOLATIONS, ids=lambda violation: violation.name)
def test_a_rule_for_a_slice_that_is_no_copy_for_the_baseline_is_refused_and_says_why(
    route: Route, operator_api: Api, control_plane: Lab, violation: Violation
) -> None:
    route.become(operator_api, violation.changes)
    operations = route.edited(violation.edit)
    with pytest.raises(ApiError) as refusal:
        route.send(operator_api, operations)
    assert refusal.value.status == 403
    assert violation.words in str(refusal.value)
    assert route.send(control_plane.api, operations)["spec"], "people keep their access in an emergency"


@pytest.mark.parametrize(
    "ending", [(BACK, Restore()), (Restore(),), (NONE, BACK, Restore()), (Prepare("a-2"), Restore())], ids=str
)
def test_slices_come_and_go_beside_weights_and_mirror(
    route: Route, operator_api: Api, ending: tuple[RouteChange, ...]
) -> None:
    before = route.manifest["spec"]
    more = Divert("a-1", (Diversion("x-race", "Black"), Diversion("x-sex", "F")))
    route.become(operator_api, (PREPARE, SLICE, HALF, MIRRORED, more, Raise("a-1", Weight(60), unmirror=True)))
    assert len(route.manifest["spec"]["rules"]) == len(before["rules"]) + 2
    route.become(operator_api, (Mirror("a-1", "davylamp-shadow:8091"), Mirror("a-1", ""), SLICE))
    route.become(operator_api, ending)
    assert route.manifest["spec"] == before
    assert not [name for name in route.manifest["metadata"]["annotations"] if name.startswith(MARK)]


@pytest.mark.parametrize("value", ['say "yes"', "back\\slash", "Zoë", "F, M; [x]"])
def test_a_value_may_have_any_character(route: Route, operator_api: Api, control_plane: Lab, value: str) -> None:
    before = route.manifest["spec"]
    route.become(operator_api, (PREPARE, HALF, Divert("a-1", (Diversion("X-Sex", value),))))
    route.manifest = route.send(control_plane.api, route.edited(unnamed))
    route.become(operator_api, (BACK, Restore()))
    assert route.manifest["spec"] == before


def test_a_promotion_takes_the_rules_for_slices_away(route: Route, operator_api: Api) -> None:
    route.become(operator_api, (*SLICED, FULL, Repoint()))
    assert [ref["name"] for ref in refs(route.manifest)] == ["credit-int8", "third"]
    assert len(route.manifest["spec"]["rules"]) == 2


def test_a_candidate_that_others_put_into_a_copy_is_lowered_there_too(
    route: Route, operator_api: Api, control_plane: Lab
) -> None:
    before = route.manifest["spec"]
    route.become(operator_api, SLICED)
    forged = both(lambda m: refs(m).insert(1, backend("credit-int8", 60)), lambda m: refs(m)[0].update(weight=40))
    route.manifest = route.send(control_plane.api, route.edited(forged))
    route.become(operator_api, (BACK,))
    assert [ref["weight"] for ref in refs(route.manifest)] == [100, 0, 100]
    route.become(operator_api, (Restore(),))
    assert route.manifest["spec"] == before


@pytest.mark.parametrize("changes", [(BACK, Restore()), (MIRRORED, HALF, Restore()), (NONE, Restore())], ids=str)
def test_copies_that_others_took_the_names_from_still_go(
    route: Route, operator_api: Api, control_plane: Lab, changes: tuple[RouteChange, ...]
) -> None:
    before = route.manifest["spec"]
    route.become(operator_api, SLICED)
    route.manifest = route.send(control_plane.api, route.edited(unnamed))
    route.become(operator_api, changes)
    assert route.manifest["spec"] == before


def test_copies_stay_right_although_others_move_rules_around_them(
    route: Route, operator_api: Api, control_plane: Lab
) -> None:
    route.become(operator_api, SLICED)
    inserted: Manifest = {"matches": [{"path": {"value": "/blog"}}], "backendRefs": [backend("blog")]}
    route.manifest = route.send(
        control_plane.api,
        route.edited(both(lambda m: m["spec"]["rules"].insert(0, inserted), lambda m: copied(m).pop("filters"))),
    )
    route.become(operator_api, (Raise("a-1", Weight(60)), MIRRORED, BACK, Restore()))
    assert len(route.manifest["spec"]["rules"]) == 3


def test_the_largest_route_with_slices_stays_within_what_the_api_server_lets_expressions_cost(
    route: Route, operator_api: Api, control_plane: Lab
) -> None:
    def grow(manifest: Manifest) -> None:
        others = [backend(f"a-backend-with-quite-a-long-name-{number}", 100) for number in range(14)]
        match = {"headers": [{"name": f"x-header-{n}", "value": "v" * 200} for n in range(15)]}
        filters = [MODIFIER, *(mirror(f"recorder-{number}", 9000) for number in range(14))]
        manifest["spec"]["rules"] = [
            {
                "matches": [match | {"path": {"value": f"/{n}/{m}"}} for m in range(8)],
                "backendRefs": [backend("credit-fp32", 100), *others],
                "filters": filters,
            }
            for n in range(8)
        ]

    route.manifest = route.send(control_plane.api, route.edited(grow))
    before = route.manifest["spec"]
    route.become(operator_api, (PREPARE, HALF, SLICE, MIRRORED, FULL, BACK, Restore()))
    assert route.manifest["spec"] == before
