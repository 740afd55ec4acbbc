"""What a Kubernetes schema can say beyond JSON Schema, attached to pydantic models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema


@dataclass(frozen=True, slots=True)
class Rule:
    """A CEL rule that the API server holds, with the sentence a person reads when it is broken.

    Attributes
    ----------
    rule
        CEL over ``self`` (and ``oldSelf`` for a transition).
    message
        What is wrong and what to do instead; the API server puts the field's path before it.
    field_path
        Where the error is shown, relative to the schema that carries the rule, such as ``.steps``.
    """

    rule: str
    message: str
    field_path: str | None = None

    def manifest(self) -> dict[str, str]:
        """Return the rule as it stands in a CRD."""
        entry = {"rule": self.rule, "message": self.message}
        if self.field_path is not None:
            entry["fieldPath"] = self.field_path
        return entry


def validations(*rules: Rule, **extra: Any) -> dict[str, Any]:
    """Return the schema extension that carries CEL rules."""
    return {"x-kubernetes-validations": [rule.manifest() for rule in rules], **extra}


def keyed_by(*keys: str) -> dict[str, Any]:
    """Return the schema extension of a list whose items are told apart by these fields: unique, and merged by them."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


#: A list that is one value: whoever writes it writes all of it.
ATOMIC_LIST: dict[str, Any] = {"x-kubernetes-list-type": "atomic"}
#: An object that is one value: its fields never come from two writers or two layers.
ATOMIC_MAP: dict[str, Any] = {"x-kubernetes-map-type": "atomic"}


class Spelling(ABC):
    """A way to write a string field, checked alike by the API server (CEL) and by Davylamp itself."""

    __slots__ = ()

    @abstractmethod
    def longest(self) -> int:
        """Return the length of the longest text, in characters."""

    @abstractmethod
    def rule(self) -> Rule:
        """Return what the API server checks."""

    @abstractmethod
    def check(self, text: str) -> str:
        """Return ``text``, or raise ValueError that says what to write instead."""

    def __get_pydantic_core_schema__(self, source: type, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._bounded, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {**handler(schema), "maxLength": self.longest(), **validations(self.rule())}

    def _bounded(self, text: str) -> str:
        if len(text) > self.longest():
            raise ValueError(f"may not be longer than {self.longest()} characters, got {len(text)}")
        return self.check(text)
