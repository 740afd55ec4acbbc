"""The model that every part of a resource is made of."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

_SHOWN_ERRORS = 5


class Strict(BaseModel):
    """A part of a resource that is written by people: unknown fields and wrong types are refused."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        allow_inf_nan=False,
        extra="forbid",
        frozen=True,
        strict=True,
        validate_by_alias=True,
        validate_by_name=True,
        validate_default=False,
    )

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> Self:
        """Read what the API server or a file holds.

        Parameters
        ----------
        raw
            Decoded JSON or YAML.

        Raises
        ------
        ValueError
            If a field is wrong; the message names each by its path.
        """
        try:
            # JSON has no tuples, enums or instants: in this mode pydantic reads them, and is strict about all else.
            return cls.model_validate_json(json.dumps(_whole(raw), default=str))
        except ValidationError as error:
            raise ValueError(readable(error)) from error

    def manifest(self) -> dict[str, Any]:
        """Return what is set as Kubernetes spells it, ready for JSON."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


class Observed(Strict):
    """A part of a status: read leniently, since another version of Davylamp may have written it."""

    model_config = ConfigDict(extra="ignore")


def readable(error: ValidationError) -> str:
    """Return what is wrong in one line, each fault with the path of its field."""
    faults = [f"{_path(fault['loc'])}: {_message(fault['msg'])}" for fault in error.errors(include_url=False)]
    more = f"; and {len(faults) - _SHOWN_ERRORS} more" if len(faults) > _SHOWN_ERRORS else ""
    return "; ".join(faults[:_SHOWN_ERRORS]) + more


def _whole(value: Any) -> Any:
    """Return a document with 5.0 as 5: Kubernetes takes one for the other where a whole number is due."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {key: _whole(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_whole(inner) for inner in value]
    return value


def _path(location: tuple[int | str, ...]) -> str:
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part}"
    return path.lstrip(".") or "object"


def _message(text: str) -> str:
    return text.removeprefix("Value error, ")
