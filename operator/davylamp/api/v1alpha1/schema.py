"""Turn a model into a structural schema, the form of JSON Schema that Kubernetes takes.

It has no references, no ``null`` and no unions: what pydantic says by those is said here by inlining, by leaving a
field out of ``required``, and by CEL rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from davylamp.api.v1alpha1.strict import Strict

#: Fields of JSON Schema that a structural schema does not have; references and unions are resolved first.
_DROPPED: Final = frozenset({"$defs", "$ref", "anyOf", "const", "propertyNames", "title"})
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


def structural(model: type[Strict], *, defaults: bool = True) -> dict[str, Any]:
    """Return the structural schema of a model.

    Parameters
    ----------
    model
        A spec or a status.
    defaults
        Whether the API server fills in defaults. Not in a status: what was not written was not seen.
    """
    schema = model.model_json_schema(by_alias=True, mode="validation")
    made = _structural(schema, schema.get("$defs", {}))
    return made if defaults else _without_defaults(made)


def _without_defaults(schema: Mapping[str, Any]) -> dict[str, Any]:
    bare = {key: value for key, value in schema.items() if key != "default"}
    if "properties" in bare:
        bare["properties"] = {name: _without_defaults(field) for name, field in bare["properties"].items()}
    if "items" in bare:
        bare["items"] = _without_defaults(bare["items"])
    return bare


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
