"""The patches that are sent."""

from typing import Any

from davylamp.core.model import Ruling, Weight
from davylamp.core.moves import Lower, Prepare, Raise
from davylamp.routers.httproute_changes import changed
from davylamp.routers.httproute_patch import patch, weights_patch
from tests.davylamp.routers.httproutes import CREDIT, backend, baseline, edited, route, rule

BEFORE: Any = route(rule(backend("admin"), path="/admin"), rule(baseline()))
RUNNING = changed(changed(BEFORE, CREDIT, Prepare("a-1"), 1), CREDIT, Raise("a-1", Weight(50)), 1)
BACK = Lower("a-1", Weight(0), Ruling.ROLLBACK)


def test_a_patch_touches_the_backends_of_the_shared_rule_and_the_marks_and_is_bound_to_a_version() -> None:
    operations = patch(RUNNING, changed(RUNNING, CREDIT, BACK, 1))
    assert [(operation["op"], operation["path"]) for operation in operations] == [
        ("replace", "/metadata/resourceVersion"),
        ("replace", "/spec/rules/1/backendRefs"),
        ("add", "/metadata/annotations/davylamp.dev~1weight"),
        ("add", "/metadata/annotations/davylamp.dev~1ruling"),
    ]
    assert operations[0]["value"] == "7"


def test_what_is_there_needs_no_patch() -> None:
    assert patch(RUNNING, RUNNING) == weights_patch(RUNNING, RUNNING) == []


def test_without_a_version_the_uid_and_the_names_of_the_backends_are_tested() -> None:
    operations = weights_patch(RUNNING, changed(RUNNING, CREDIT, BACK, 1))
    ref = "/spec/rules/1/backendRefs"
    assert [(operation["op"], operation["path"]) for operation in operations] == [
        ("test", "/metadata/uid"),
        ("test", f"{ref}/0/name"),
        ("test", f"{ref}/0/port"),
        ("test", f"{ref}/1/name"),
        ("test", f"{ref}/1/port"),
        ("add", f"{ref}/0/weight"),
        ("add", f"{ref}/1/weight"),
        ("add", "/metadata/annotations/davylamp.dev~1weight"),
        ("add", "/metadata/annotations/davylamp.dev~1ruling"),
    ]


def test_without_a_version_the_first_annotation_is_not_added_since_it_might_replace_others() -> None:
    bare = edited(RUNNING, lambda m: m["metadata"].pop("annotations"))
    operations = weights_patch(bare, changed(bare, CREDIT, BACK, 1))
    assert not [operation for operation in operations if "annotations" in operation["path"]]


def test_without_a_version_a_rule_that_would_get_another_backend_is_left_alone() -> None:
    alone = edited(RUNNING, lambda m: m["spec"]["rules"][1]["backendRefs"].pop(0))
    operations = weights_patch(alone, changed(alone, CREDIT, BACK, 1))
    assert not [operation for operation in operations if operation["path"].startswith("/spec")]
