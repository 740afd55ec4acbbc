from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from davylamp.api.v1alpha1.crdgen import crd, main, rendered, stale
from davylamp.api.v1alpha1.kinds import KINDS, MODEL_ROLLOUT, Kind
from tests.davylamp.api.manifests import CRDS

Schema = dict[str, Any]

#: Words that YAML 1.1 reads as truth values; a field of such a name cannot be written without quotes.
YAML_TRUTHS = {"y", "n", "yes", "no", "on", "off", "true", "false"}

#: Members of a JSON Schema that a structural schema may not have.
FORBIDDEN = {
    "$ref",
    "$defs",
    "definitions",
    "anyOf",
    "oneOf",
    "allOf",
    "not",
    "const",
    "title",
    "nullable",
    "deprecated",
}


def root(kind: Kind) -> Schema:
    schema: Schema = crd(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def walk(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    yield path, schema
    for name, field in schema.get("properties", {}).items():
        yield from walk(field, f"{path}.{name}")
    if "items" in schema:
        yield from walk(schema["items"], f"{path}[]")
    if "additionalProperties" in schema:
        yield from walk(schema["additionalProperties"], f"{path}{{}}")


NODES = [(kind.name + path, node) for kind in KINDS for path, node in walk(root(kind))]


def test_the_files_are_what_the_models_say_byte_for_byte() -> None:
    assert {path.name: path.read_bytes() for path in CRDS.glob("*.yaml")} == {
        name: text.encode() for name, text in rendered().items()
    }


def test_a_difference_is_found_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 0
    assert main([str(tmp_path), "--check"]) == 0
    (tmp_path / "modelrollouts.davylamp.dev.yaml").write_text("{}\n")
    (tmp_path / "leftover.yaml").write_text("{}\n")
    (tmp_path / "metricsources.davylamp.dev.yaml").unlink()
    assert main([str(tmp_path), "--check"]) == 1
    assert stale(tmp_path) == ["leftover.yaml", "metricsources.davylamp.dev.yaml", "modelrollouts.davylamp.dev.yaml"]
    assert "modelrollouts.davylamp.dev.yaml differs" in capsys.readouterr().err


def test_the_text_is_the_same_each_time() -> None:
    assert rendered() == rendered()


@pytest.mark.parametrize(("path", "node"), NODES, ids=[path for path, _ in NODES])
def test_the_schema_is_structural_described_and_bounded(path: str, node: Schema) -> None:
    assert not FORBIDDEN & node.keys()
    assert "type" in node
    assert not YAML_TRUTHS & {name.lower() for name in node.get("properties", {})}
    known_by_kubernetes = path.endswith((".metadata", ".metadata.name"))
    inner = path.endswith(("[]", "{}"))
    assert known_by_kubernetes or inner or node["description"].endswith((".", "."))
    if node["type"] == "array":
        assert "maxItems" in node
        assert "x-kubernetes-list-type" in node
    if node["type"] == "string":
        bounded = "maxLength" in node or "enum" in node or node.get("format") == "date-time"
        assert bounded or known_by_kubernetes or path.endswith((".apiVersion", ".kind"))
    if "additionalProperties" in node:
        assert "maxProperties" in node


@pytest.mark.parametrize("rule", [rule for _, node in NODES for rule in node.get("x-kubernetes-validations", [])])
def test_every_rule_says_what_to_do(rule: dict[str, str]) -> None:
    assert len(rule["message"]) > 20
    assert not rule["message"].endswith(".")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_names_follow_the_habits_of_kubernetes(kind: Kind) -> None:
    spec = crd(kind)["spec"]
    assert spec["names"]["listKind"] == kind.name + "List"
    assert spec["names"]["singular"] == kind.name.lower()
    assert spec["names"]["categories"] == ["davylamp"]
    assert crd(kind)["metadata"]["name"] == f"{spec['names']['plural']}.{spec['group']}"


def test_columns_show_what_a_person_asks_first() -> None:
    columns = crd(MODEL_ROLLOUT)["spec"]["versions"][0]["additionalPrinterColumns"]
    assert [c["name"] for c in columns if not c.get("priority")] == ["Phase", "Step", "Weight", "Verdict", "Age"]
    assert [c["name"] for c in columns if c.get("priority")] == ["Baseline", "Candidate", "Reason"]


@pytest.mark.parametrize("column", [(kind, column) for kind in KINDS for column in kind.columns], ids=str)
def test_each_column_points_to_a_field(column: tuple[Kind, Any]) -> None:
    kind, shown = column
    if not shown.json_path.startswith(".metadata"):
        assert shown.json_path in {path for path, _ in walk(root(kind))}


def test_the_rollout_alone_has_a_status() -> None:
    with_status = [kind.name for kind in KINDS if "subresources" in crd(kind)["spec"]["versions"][0]]
    assert with_status == ["ModelRollout"]
    assert yaml.safe_load((CRDS / "modelrollouts.davylamp.dev.yaml").read_text()) == crd(MODEL_ROLLOUT)
