"""Write the CustomResourceDefinitions from the models: ``python -m davylamp.api.v1alpha1.crdgen [--check] [folder]``.

A structural schema is JSON Schema without references, without ``null`` and without unions; what pydantic says by those
is said here by inlining, by leaving a field out of ``required``, and by CEL rules.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from davylamp.api.v1alpha1.kinds import CATEGORY, GROUP, KINDS, VERSION, Column, Kind
from davylamp.api.v1alpha1.rules import validations
from davylamp.api.v1alpha1.strict import Strict

_HEADER: Final = "# Generated from operator/davylamp/api by `python -m davylamp.api.v1alpha1.crdgen`. Do not edit.\n"
#: Fields of JSON Schema that a structural schema does not have; references and unions are resolved first.
_DROPPED: Final = frozenset({"$defs", "$ref", "anyOf", "const", "title"})
_ORDER: Final = (
    "description",
    "type",
    "format",
    "enum",
    "default",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "exclusiveMinimum",
    "maximum",
    "exclusiveMaximum",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "required",
    "properties",
    "additionalProperties",
    "items",
)


def crd(kind: Kind) -> dict[str, Any]:
    """Return the CustomResourceDefinition of a kind."""
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": [_column(column) for column in kind.columns],
        "schema": {"openAPIV3Schema": _resource(kind)},
        "subresources": {"status": {}} if kind.status else {},
    }
    names = {
        "kind": kind.name,
        "listKind": f"{kind.name}List",
        "plural": kind.plural,
        "singular": kind.name.lower(),
        "shortNames": list(kind.short_names),
        "categories": [CATEGORY],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.crd_name, "labels": {"app.kubernetes.io/part-of": "davylamp"}},
        "spec": {
            "group": GROUP,
            "names": {key: value for key, value in names.items() if value},
            "scope": kind.scope.value,
            "versions": [{key: value for key, value in version.items() if value}],
        },
    }


def rendered() -> dict[str, str]:
    """Return the text of each file, by its name."""
    return {f"{kind.crd_name}.yaml": _HEADER + _dump(crd(kind)) for kind in KINDS}


def structural(model: type[Strict]) -> dict[str, Any]:
    """Return the structural schema of a model."""
    schema = model.model_json_schema(by_alias=True, mode="validation")
    return _structural(schema, schema.get("$defs", {}))


def _resource(kind: Kind) -> dict[str, Any]:
    properties: dict[str, Any] = {
        "apiVersion": {"type": "string", "description": "Version of this representation of the object."},
        "kind": {"type": "string", "description": "Kind of the object."},
        "metadata": {"type": "object"},
        "spec": structural(kind.spec),
    }
    if kind.status:
        properties["status"] = structural(kind.status)
    resource = {"description": kind.description, "type": "object", "required": ["spec"], "properties": properties}
    return resource | (validations(*kind.rules) if kind.rules else {})


def _structural(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    merged = _inlined(schema, definitions)
    if "properties" in merged:
        merged["properties"] = {name: _structural(field, definitions) for name, field in merged["properties"].items()}
    if "items" in merged:
        merged["items"] = _structural(merged["items"], definitions)
    if isinstance(merged.get("additionalProperties"), Mapping):
        merged["additionalProperties"] = _structural(merged["additionalProperties"], definitions)
    return _ordered(_bounded(merged))


def _inlined(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema without reference and union; what stands beside a reference goes before what it points to."""
    merged: dict[str, Any] = {}
    if "$ref" in schema:
        merged |= _inlined(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    options = [option for option in schema.get("anyOf", []) if option != {"type": "null"}]
    if len(options) > 1:
        raise TypeError(f"a structural schema has no unions, got {options}")
    for option in options:
        merged |= _inlined(option, definitions)
    beside = {key: value for key, value in schema.items() if key not in _DROPPED}
    if beside.get("default", 0) is None:
        del beside["default"]
    return merged | beside


def _bounded(schema: dict[str, Any]) -> dict[str, Any]:
    """Spell open limits as OpenAPI 3.0 does, and drop what it does not know."""
    for limit, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if exclusive in schema:
            schema[limit], schema[exclusive] = schema[exclusive], True
    if isinstance(schema.get("additionalProperties"), bool):
        del schema["additionalProperties"]
    if schema.get("type") == "integer":
        schema["format"] = "int64"
    return schema


def _ordered(schema: Mapping[str, Any]) -> dict[str, Any]:
    known = {key: schema[key] for key in _ORDER if key in schema}
    return known | {key: schema[key] for key in sorted(schema.keys() - known.keys())}


def _column(column: Column) -> dict[str, Any]:
    entry = {
        "name": column.name,
        "type": column.type,
        "description": column.description,
        "jsonPath": column.json_path,
    }
    return entry | ({"priority": column.priority} if column.priority else {})


def _dump(document: Mapping[str, Any]) -> str:
    return yaml.safe_dump(document, sort_keys=False, width=120, allow_unicode=True)


def write(folder: Path) -> list[Path]:
    """Write the files into a folder and return those that changed."""
    changed = []
    for name, text in rendered().items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            changed.append(path)
    return changed


def stale(folder: Path) -> list[str]:
    """Return the names of files in a folder that are missing, differ, or should not be there."""
    texts = rendered()
    present = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.yaml")}
    return sorted(name for name in texts.keys() | present.keys() if texts.get(name) != present.get(name))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 1 if ``--check`` finds a difference."""
    parser = argparse.ArgumentParser(prog="crdgen", description="Write the CustomResourceDefinitions from the models.")
    parser.add_argument("folder", nargs="?", type=Path, default=Path("crds"), help="where they are (default: crds)")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file is not as it would be")
    options = parser.parse_args(arguments)
    if not options.check:
        write(options.folder)
        return 0
    names = stale(options.folder)
    for name in names:
        sys.stderr.write(
            f"{options.folder / name} differs from the models: run python -m davylamp.api.v1alpha1.crdgen\n"
        )
    return 1 if names else 0


if __name__ == "__main__":
    sys.exit(main())
