from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from davylamp.cli.lint import Level, Report, lint
from tests.davylamp.api.manifests import (
    EXAMPLES,
    Change,
    append,
    changed,
    drop,
    examples,
    put,
    rollout,
    smallest,
)
from tests.davylamp.cli.calling import call


def check(*manifests: dict[str, Any]) -> Report:
    return lint({"file.yaml": yaml.safe_dump_all(manifests, sort_keys=False)})


def errors_of(report: Report) -> list[tuple[str, str]]:
    return [(found.field, found.message) for found in report.findings if found.level is Level.ERROR]


@pytest.mark.parametrize("name", sorted(examples()))
def test_what_is_documented_has_no_error(name: str) -> None:
    assert errors_of(check(examples()[name])) == []


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        (put("apiVersion", "davylamp.dev/v1"), "apiVersion", "davylamp.dev/v1alpha1"),
        (put("kind", "ModelRolout"), "kind", "write ModelRollout"),
        (put("metadata.name", "Credit"), "metadata.name", "lower-case"),
        (put("metadata.name", "x" * 64), "metadata.name", "63 characters"),
        (drop("metadata.name"), "metadata.name", "has a name"),
        (put("metadata", None), "metadata.name", "has a name"),
        (put("specs", {}), "specs", "write spec"),
        (drop("spec"), "spec", "has a spec"),
        (put("spec.stepz", []), "spec.stepz", "write steps"),
        (put("spec.gates.errors.margin", {"oddsRatioo": 2}), "spec.gates.errors.margin.oddsRatioo", "oddsRatio"),
        (drop("spec.baseline.backend.port"), "spec.baseline.backend.port", "add port"),
        (put("spec.steps.2.weight", 5), "spec.steps", "weights must rise"),
        (put("spec.steps.0.weight", "5"), "spec.steps[0].weight", "integer"),
        (put("spec.steps.0.bake", 90), "spec.steps[0].bake", "in quotes"),
        (put("spec.steps.0.bake", "soon"), "spec.steps[0].bake", "duration"),
        (put("spec.gates.latency.margin.slowdown", "200%"), "spec.gates.latency.margin.slowdown", "100%"),
        (put("spec.gates.metrics.0.name", "unknown"), "spec", "unknown"),
        (append("spec.notify", {"channel": "oncall"}), "spec", "oncall twice"),
        (put("spec.candidate.backend", {"name": "credit-fp32", "port": 8080}), "spec", "the same backend"),
        (put("spec.paused", "no"), "spec.paused", "boolean"),
        (put("spec.steps", []), "spec.steps", "at least 1"),
        (put("spec.signals.preset", "another"), "spec.signals.preset", "write 'mlserver' or 'envoy', not 'another'"),
    ],
)
def test_what_would_be_refused_is_found_with_its_field_and_remedy(change: Change, field: str, words: str) -> None:
    found = errors_of(check(changed(rollout(), change)))
    assert [place for place, _ in found][:1] == [field], found
    assert words in found[0][1]


def test_a_list_of_faulty_items_is_not_called_too_short() -> None:
    found = errors_of(check(changed(rollout(), put("spec.steps", [{"weight": 5, "bake": "5 m"}]))))
    assert [place for place, _ in found] == ["spec.steps[0].bake"]


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        (put("spec.steps", [{"weight": 50}]), "spec.steps[0].weight", "begin with 1 to 10"),
        (put("spec.steps", [{"weight": 5}, {"weight": 90}]), "spec.steps[1].weight", "put a step between"),
        (append("spec.steps", {"pause": {"duration": "1h"}}), "spec.steps[5].pause", "only delays"),
        (put("spec.steps.1.bake", "10s"), "spec.steps[1].bake", "make it 30s"),
        (put("spec.rollback.onNoData", {"policy": "Hold"}), "spec.rollback.onNoData.policy", "until a person"),
        (drop("spec.notify"), "spec.notify", "nobody is told"),
        (drop("spec.candidate.model"), "spec.candidate.model.digest", "description alone"),
        (put("spec.paused", True), "spec.paused", "paused from its beginning"),
        (put("spec.promotion.deadline", "5m"), "spec.promotion.deadline", "before the last step"),
        (put("status", {}), "status", "operator's"),
    ],
)
def test_what_may_not_be_meant_is_a_hint(change: Change, field: str, words: str) -> None:
    report = check(changed(rollout(), change))
    hints = [(found.field, found.message) for found in report.findings if found.level is Level.HINT]
    assert not report.failed
    assert any(place == field and words in message for place, message in hints), hints


def test_a_finding_names_file_and_line() -> None:
    text = (EXAMPLES / "classifier.yaml").read_text().replace("weight: 25,", "weight: 2,")
    (found,) = [found for found in lint({"credit.yaml": text}).findings if found.level is Level.ERROR]
    assert str(found).startswith(
        f"credit.yaml:{text.splitlines().index('  steps:') + 1}: error: ModelRollout credit spec.steps:"
    )


def with_policy(steps: list[dict[str, Any]] | None) -> tuple[dict[str, Any], dict[str, Any]]:
    policy: dict[str, Any] = {
        "apiVersion": "davylamp.dev/v1alpha1",
        "kind": "RolloutPolicy",
        "metadata": {"name": "shared"},
        "spec": {"steps": steps} if steps else {},
    }
    reference = put("spec.policyRef", {"kind": "RolloutPolicy", "name": "shared"})
    return changed(smallest(), drop("spec.steps"), reference), policy


def test_a_rollout_is_checked_together_with_the_policy_beside_it() -> None:
    assert errors_of(check(*with_policy([{"weight": 5}]))) == []
    ((field, message),) = errors_of(check(*with_policy(None)))
    assert field == "spec"
    assert "has steps" in message


def test_a_policy_that_is_elsewhere_is_a_hint() -> None:
    report = check(with_policy(None)[0])
    assert not report.failed
    assert any("is not among these files" in found.message for found in report.findings)


def test_objects_of_others_are_left_alone_and_lists_are_opened() -> None:
    bad = changed(rollout(), drop("spec.route"))
    report = check({"apiVersion": "v1", "kind": "List", "items": [bad, {"kind": "Service", "x": 1}]}, {"a": 1})
    assert report.objects == 1
    assert errors_of(report) == [("spec.route", "this field is needed: add route")]


def test_the_same_object_twice_in_a_file_is_an_error_and_in_two_files_a_hint() -> None:
    text = yaml.safe_dump(rollout())
    assert lint({"a.yaml": f"{text}---\n{text}"}).failed
    report = lint({"a.yaml": text, "b.yaml": text})
    assert not report.failed
    assert any("stands in a.yaml already" in found.message for found in report.findings)


def test_a_file_that_is_no_yaml_does_not_hide_the_others() -> None:
    report = lint({"a.yaml": "a: [", "b.yaml": yaml.safe_dump(changed(rollout(), drop("spec")))})
    assert {found.file for found in report.findings if found.level is Level.ERROR} == {"a.yaml", "b.yaml"}


def test_the_command_ends_by_what_it_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yml"
    good.write_text(yaml.safe_dump(rollout()))
    bad.write_text(yaml.safe_dump(changed(rollout(), drop("spec.route"), put("metadata.name", "other"))))

    assert call(capsys, "lint", str(good)).code == 0
    assert "1 object, 1 finding" in call(capsys, "lint", str(bad)).err
    folder = call(capsys, "lint", str(tmp_path), "-o", "json")
    assert folder.code == 2
    found = json.loads(folder.out)
    assert [finding["field"] for finding in found if finding["level"] == "error"] == ["spec.route"]
    assert call(capsys, "lint", str(tmp_path / "none.yaml")).code == 2


def test_hints_fail_where_they_are_asked_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file.yaml"
    file.write_text(yaml.safe_dump(smallest()))
    assert call(capsys, "lint", str(file)).code == 0
    assert call(capsys, "lint", "--strict", str(file)).code == 2
