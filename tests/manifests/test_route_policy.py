"""What the API server refuses Davylamp's service account on a route, whatever Davylamp may send."""

import pytest

from davylamp.api.v1alpha1.shadow import FIRST_PORT, GRPC_ABOVE, LAST_PORT
from davylamp.core.moves import Mirror, Restore
from e2e.lab import Api, ApiError, Lab
from tests.manifests.policed import (
    BACK,
    FULL,
    HALF,
    MARK,
    MIRRORED,
    MODIFIER,
    PREPARE,
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
from tests.support.installation import ROOT


def unrecorded(manifest: Manifest) -> None:
    filters = manifest["spec"]["rules"][0]["filters"]
    filters.remove(mirror("recorder", 9000))


def unmark_all_but_the_mirror(manifest: Manifest) -> None:
    kept = manifest["metadata"]["annotations"][f"{MARK}mirror"]
    both(unmark, annotate(mirror=kept), weigh(100, 0))(manifest)


SHADOWED = (PREPARE, MIRRORED)
NOT_SPEC = "nothing in the spec of a route but the weights"
NOT_RULE = "nothing in a rule of a route but its backendRefs"
NOT_FILTERS = "may change no filter of a route but the mirror to the comparator"
NOT_MIRRORED = "may mirror a rule only if it points to the pair"
NOT_OTHERS = "may not change the backends of a route that are not its pair (credit-fp32:8080 and credit-int8:8080)"
NOT_ALONE = "only into a rule that has the other one, and with that one's filters"
NOT_RAISED = "rises only on a route that is marked for the same attempt"
NOT_FREED = "the marks leave a route only when"

VIOLATIONS = [
    Violation("hostnames", NOT_SPEC, lambda m: m["spec"].update(hostnames=["other.example.org"])),
    Violation("hostnames away", NOT_SPEC, lambda m: m["spec"].pop("hostnames")),
    Violation("parents", NOT_SPEC, lambda m: m["spec"].update(parentRefs=[{"name": "gateway"}])),
    Violation("labels", "neither labels nor", lambda m: m["metadata"].update(labels={"a": "b"})),
    Violation("finalizers", "nor finalizers", lambda m: m["metadata"].update(finalizers=["davylamp.dev/route"])),
    Violation(
        "owner",
        "nor owners",
        lambda m: m["metadata"].update(
            ownerReferences=[{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "5f0c"}]
        ),
    ),
    Violation("other annotation", "no annotation on a route but its own marks", annotate(other="x")),
    Violation(
        "user's annotation",
        "no annotation on a route but",
        lambda m: m["metadata"]["annotations"].pop("team.org/owner"),
    ),
    *(
        Violation(f"{name} lost", "stand or vanish together", annotate(**{name: None}))
        for name in ("attempt", "weight", "ruling", "epoch", "pair", "original")
    ),
    Violation("lower epoch", "its epoch is 5, the writer says 4; the epoch never falls", annotate(epoch="4")),
    Violation("no epoch", "its epoch is 5, the writer says x", annotate(epoch="x")),
    Violation("negative epoch", "the epoch never falls", annotate(epoch="-1")),
    Violation("other pair", "give the route back first", annotate(pair="credit-fp32:8080 credit-fp16:8080")),
    Violation("unreadable pair", "give the route back first", annotate(pair="~")),
    Violation("rule added", "neither add nor remove a rule", lambda m: m["spec"]["rules"].append({"backendRefs": []})),
    Violation("rule removed", "neither add nor remove a rule", lambda m: m["spec"]["rules"].pop(0)),
    Violation("timeout", NOT_RULE, lambda m: m["spec"]["rules"][1].update(timeouts={"request": "1s"})),
    Violation("timeout away", NOT_RULE, lambda m: m["spec"]["rules"][1].pop("timeouts")),
    Violation("filter", NOT_FILTERS, filtered(MODIFIER)),
    Violation("filter away", NOT_FILTERS, lambda m: m["spec"]["rules"][0].pop("filters")),
    Violation("unmarked mirror", NOT_MIRRORED, filtered(mirror("davylamp-shadow", 8090))),
    Violation("mirror beside the marked one", NOT_MIRRORED, filtered(mirror("davylamp-shadow", 8091)), SHADOWED),
    Violation("mirror of a share", NOT_MIRRORED, filtered(mirror("davylamp-shadow", 8090, percent=5)), SHADOWED),
    Violation("mirror of another rule", NOT_MIRRORED, filtered(mirror("davylamp-shadow", 8090), 0), SHADOWED),
    Violation("mirror to no comparator", NOT_FILTERS, filtered(mirror("recorder", 8080))),
    Violation("mirror that a person made away", NOT_FILTERS, unrecorded),
    Violation(
        "mirror after a rollback",
        NOT_MIRRORED,
        both(annotate(mirror="davylamp-shadow:8090"), filtered(mirror("davylamp-shadow", 8090))),
        (PREPARE, HALF, BACK),
    ),
    Violation(
        "mark without an attempt", "only on a route that is prepared", annotate(mirror="davylamp-shadow:8090"), ()
    ),
    Violation("mark that stays", "stand or vanish together", unmark_all_but_the_mirror, SHADOWED),
    Violation("rules swapped", NOT_RULE, lambda m: m["spec"]["rules"].reverse()),
    Violation("other rule's weight", NOT_OTHERS, lambda m: refs(m, 0)[0].update(weight=5)),
    Violation("third backend", NOT_OTHERS, lambda m: refs(m)[2].update(weight=0)),
    Violation("third backend away", NOT_OTHERS, lambda m: refs(m).pop()),
    Violation("stranger", NOT_OTHERS, lambda m: refs(m).append(backend("stranger"))),
    Violation("port", NOT_OTHERS, lambda m: refs(m)[1].update(port=9090)),
    Violation("namespace", NOT_OTHERS, lambda m: refs(m)[1].update(namespace="elsewhere")),
    Violation("candidate elsewhere", NOT_ALONE, lambda m: refs(m, 0).append(backend("credit-int8", 0))),
    Violation("filter of a backend", NOT_ALONE, lambda m: refs(m)[1].update(filters=[MODIFIER])),
    Violation("all zero", "may not take all weight from both variants", weigh(0, 0)),
    Violation("raised after a rollback", "attempt a-1 was rolled back", weigh(95, 5), (PREPARE, HALF, BACK)),
    Violation(
        "repointed after a rollback",
        "attempt a-1 was rolled back: the weight of the candidate credit-int8:8080 does not rise in spec.rules[1]",
        both(lambda m: refs(m).pop(0), lambda m: refs(m)[0].update(weight=1), unmark),
        (PREPARE, HALF, BACK),
    ),
    Violation(
        "raised by a new attempt over a rollback",
        "attempt a-1 was rolled back",
        both(annotate(attempt="a-2", ruling="Continue", weight="5"), weigh(95, 5)),
        (PREPARE, HALF, BACK),
    ),
    Violation("rollback revoked", "a rollback is final", annotate(ruling="Continue"), (PREPARE, HALF, BACK)),
    Violation("over what is asked", NOT_RAISED, weigh(40, 60)),
    Violation("raised for another attempt", NOT_RAISED, both(annotate(attempt="a-2", weight="60"), weigh(40, 60))),
    Violation("raised with a rollback", NOT_RAISED, both(annotate(ruling="Rollback", weight="60"), weigh(40, 60))),
    Violation("raised with an unreadable weight", NOT_RAISED, both(annotate(weight="1e2"), weigh(40, 60))),
    Violation("freed with weight", NOT_FREED, unmark),
    Violation("repointed too early", NOT_RAISED, both(lambda m: refs(m).pop(0), unmark)),
    Violation("freed beside the baseline", NOT_FREED, both(weigh(1, 99), unmark), (PREPARE, FULL)),
]


@pytest.mark.parametrize("violation", VIOLATIONS, ids=lambda violation: violation.name)
def test_a_write_beyond_the_pairs_weights_is_refused_and_says_why(
    route: Route, operator_api: Api, control_plane: Lab, violation: Violation
) -> None:
    route.become(operator_api, violation.changes)
    operations = route.edited(violation.edit)
    with pytest.raises(ApiError) as refusal:
        route.send(operator_api, operations)
    assert refusal.value.status == 403
    assert "davylamp-routes" in str(refusal.value)
    assert violation.words in str(refusal.value)
    assert route.send(control_plane.api, operations)["spec"], "people keep their access in an emergency"


def test_the_mirror_to_the_comparator_comes_and_goes_beside_a_users_filters(
    route: Route, operator_api: Api, control_plane: Lab
) -> None:
    before = route.manifest["spec"]
    route.manifest = route.send(control_plane.api, route.edited(filtered(MODIFIER)))
    route.become(operator_api, SHADOWED)
    assert route.manifest["spec"]["rules"][1]["filters"] == [MODIFIER, mirror("davylamp-shadow", 8090)]
    route.become(operator_api, (Mirror("a-1", "davylamp-shadow:8105"), HALF))
    assert route.manifest["spec"]["rules"][1]["filters"] == [MODIFIER, mirror("davylamp-shadow", 8105)]
    route.become(operator_api, (Mirror("a-1", "davylamp-shadow:8205"),))
    assert route.manifest["spec"]["rules"][1]["filters"] == [MODIFIER, mirror("davylamp-shadow", 8205)]
    route.become(operator_api, (BACK, Restore()))
    assert route.manifest["spec"]["rules"][1].pop("filters") == [MODIFIER]
    assert route.manifest["spec"] == before


def test_the_policy_knows_a_comparator_by_the_ports_that_the_schema_allows() -> None:
    policy = " ".join((ROOT / "manifests/admission/routes.yaml").read_text(encoding="utf-8").split())
    port = "f.requestMirror.backendRef.?port.orValue(0)"
    for above in (0, GRPC_ABOVE):
        assert policy.count(f"{port} >= {FIRST_PORT + above} && {port} <= {LAST_PORT + above}") == 2


def test_a_status_that_a_gateway_writes_is_none_of_the_policys_business(route: Route, control_plane: Lab) -> None:
    status: Manifest = {"parents": []}
    written = control_plane.api.merge(f"{route.path}/status", {"status": status})
    assert written["status"] == status


@pytest.mark.parametrize("name", ["attempt", "weight", "ruling", "epoch", "pair", "original"])
@pytest.mark.parametrize("damage", ["", "~", "-1", "99999999999999999999", "a:1 b", None])
def test_damaged_marks_never_keep_davylamp_from_lowering_and_giving_back(
    route: Route, operator_api: Api, control_plane: Lab, name: str, damage: str | None
) -> None:
    route.become(operator_api, (PREPARE, HALF))
    route.manifest = route.send(control_plane.api, route.edited(annotate(**{name: damage})))
    route.become(operator_api, (BACK, Restore()))
    weights = {ref["name"]: ref["weight"] for ref in refs(route.manifest)}
    assert (weights["credit-fp32"], weights.get("credit-int8", 0)) == (100, 0)


def test_the_largest_route_stays_within_what_the_api_server_lets_expressions_cost(
    route: Route, operator_api: Api, control_plane: Lab
) -> None:
    def grow(manifest: Manifest) -> None:
        others = [backend(f"a-backend-with-quite-a-long-name-{number}", 100) for number in range(14)]
        match = {"headers": [{"name": f"x-header-{n}", "value": "v" * 200} for n in range(16)]}
        manifest["spec"]["rules"] = [
            {
                "matches": [match | {"path": {"value": f"/{n}/{m}"}} for m in range(8)],
                "backendRefs": [FP32, *others],
                **FILTERS,
            }
            for n in range(16)
        ]

    route.manifest = route.send(control_plane.api, route.edited(grow))
    before = route.manifest["spec"]
    route.become(operator_api, (PREPARE, MIRRORED, HALF, BACK, Restore()))
    assert route.manifest["spec"] == before


FP32 = backend("credit-fp32", 100)
FILTERS: Manifest = {"filters": [MODIFIER, *(mirror(f"recorder-{number}", 9000) for number in range(14))]}
