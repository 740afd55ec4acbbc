"""Where each setting of a rollout comes from: the object, its policy, or Davylamp."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from davylamp.api.v1alpha1.effective import effective
from davylamp.api.v1alpha1.policy import PolicySpec
from davylamp.api.v1alpha1.rollout import ModelRolloutSpec

OWN: Final = "this object"
DAVYLAMP: Final = "Davylamp's default"
#: Fields that tell the entries of a list apart.
_KEYS: Final = ("name", "channel")

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting that is in force: its path, its value as it is written, and who set it."""

    path: str
    value: str
    origin: str


def settings(spec: ModelRolloutSpec, policy: PolicySpec | None) -> tuple[Setting, ...]:
    """Return every setting that a rollout runs by.

    Raises
    ------
    ValueError
        If the object and its policy do not fit together; the message says what to add where.
    """
    own = dict(leaves(spec.manifest()))
    shared = dict(leaves(policy.manifest())) if policy is not None else {}
    ref = spec.policy_ref
    name = f"{ref.kind.value} {ref.name}" if ref is not None else "policy"
    in_force = {"interval": spec.interval, "paused": spec.paused} | effective(spec, policy).manifest()
    return tuple(
        Setting(_written(path), _value(value), _origin(path, own=own, shared=shared, policy=name))
        for path, value in leaves(in_force)
        if not (path[-1] in _KEYS and path[-2:-1] == (f"[{value}]",))
    )


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield the values inside a document with their paths; entries of lists are named by their keys."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from leaves(inner, (*path, str(key)))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from leaves(inner, (*path, _entry(index, inner)))
    else:
        yield path, value


def _entry(index: int, value: Any) -> str:
    if isinstance(value, Mapping):
        named = next((value[key] for key in _KEYS if key in value), None)
        if named is not None:
            return f"[{named}]"
    return f"[{index}]"


def _origin(path: Path, *, own: Mapping[Path, Any], shared: Mapping[Path, Any], policy: str) -> str:
    if path in own:
        return OWN
    return policy if path in shared else DAVYLAMP


def _written(path: Path) -> str:
    text = ""
    for part in path:
        text += part if part.startswith("[") or not text else f".{part}"
    return text


def _value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
