"""What the lab's tests hold of every history tells a mirror and a weight in the wrong place."""

from typing import Any

import pytest

from e2e.stage.invariants import (
    Expected,
    ends_clean,
    is_judged_in_the_shadow_first,
    leaves_the_rest_alone,
    mirrors_of,
    mirrors_where_asked,
    violations,
)
from e2e.stage.recorder import Kind, Object, Sighting

MIRROR = {"type": "RequestMirror", "requestMirror": {"backendRef": {"name": "davylamp-shadow", "port": 8090}}}
HEADER = {"type": "RequestHeaderModifier", "requestHeaderModifier": {"set": [{"name": "x-tier", "value": "gold"}]}}


def route(weight: int, *filters: Object, **metadata: Any) -> Object:
    refs = [{"name": "old", "weight": 100 - weight}, {"name": "new", "weight": weight}]
    return {"metadata": metadata, "spec": {"rules": [{"backendRefs": refs, "filters": [HEADER, *filters]}]}}


ORIGINAL = {"rules": [{"backendRefs": [{"name": "old"}], "filters": [HEADER]}]}
EXPECTED = Expected(
    "old", "new", {20: 0.0, 50: 0.0, 100: 0.0}, ORIGINAL, shadows=frozenset({0}), mirrored=frozenset({0, 50})
)


def history(index: int, found: Object, *, phase: str = "Progressing") -> list[Sighting]:
    status = {"status": {"phase": phase, "step": {"index": index}}}
    return [Sighting(1, 0.0, Kind.ROLLOUT, status), Sighting(2, 0.1, Kind.ROUTE, found)]


def test_a_live_weight_at_a_step_of_shadow_traffic_alone_is_found() -> None:
    found = violations(history(0, route(20, MIRROR)), EXPECTED, [is_judged_in_the_shadow_first])
    assert found == (
        "is judged in the shadow first: the candidate has 20 % at step 1, which is one of shadow traffic alone",
    )


@pytest.mark.parametrize(("index", "weight"), [(0, 0), (1, 20), (-1, 0)])
def test_a_live_weight_after_the_shadow_step_is_none_of_its_business(index: int, weight: int) -> None:
    assert violations(history(index, route(weight)), EXPECTED, [is_judged_in_the_shadow_first]) == ()


@pytest.mark.parametrize("weight", [20, 100])
def test_a_mirror_at_a_weight_whose_step_asks_for_none_is_found(weight: int) -> None:
    found = violations(history(1, route(weight, MIRROR)), EXPECTED, [mirrors_where_asked])
    assert found == (f"mirrors where asked: requests are mirrored at {weight} %, which no step asks for",)


@pytest.mark.parametrize(("weight", "filters"), [(0, [MIRROR]), (50, [MIRROR]), (20, []), (0, [])])
def test_a_mirror_at_a_weight_whose_step_asks_for_it_may_be_there(weight: int, filters: list[Object]) -> None:
    found = route(weight, *filters)
    assert mirrors_of(found) == ("davylamp-shadow",) * len(filters)
    assert violations(history(1, found), EXPECTED, [mirrors_where_asked]) == ()


def test_a_mirror_that_is_left_at_the_end_is_found() -> None:
    left = {"spec": {"rules": [{"backendRefs": [{"name": "old"}], "filters": [HEADER, MIRROR]}]}}
    assert violations(history(0, left, phase="RolledBack"), EXPECTED, [ends_clean]) != ()
    clean = {"spec": ORIGINAL}
    assert violations(history(0, clean, phase="RolledBack"), EXPECTED, [ends_clean]) == ()


def test_a_mirror_is_davylamps_to_change_and_another_filter_is_not() -> None:
    assert violations(history(0, route(0, MIRROR)), EXPECTED, [leaves_the_rest_alone]) == ()
    (told,) = violations(history(0, route(0, MIRROR, HEADER)), EXPECTED, [leaves_the_rest_alone])
    assert told.startswith("leaves the rest alone: the route's own content changed")
