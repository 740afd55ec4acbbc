"""Read a status that was stored earlier: by us, by another version, or by somebody who should not have.

What is stored is untrusted input. Nothing here raises: what cannot be read is left out and named, and the caller
decides what that means for safety.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from davylamp.api.v1alpha1.status import ModelRolloutStatus

#: Fields whose loss could hide that a candidate was rolled back, or what weight was asked.
_SAFETY: Final = frozenset({"epoch", "attempt", "step", "weight", "decision", "quarantine", "diverted"})
_SHOWN: Final = 200


@dataclass(frozen=True, slots=True)
class Damage:
    """A field that could not be read, and why."""

    field: str
    reason: str

    @property
    def touches_safety(self) -> bool:
        """Whether the weight may not be trusted any more."""
        return self.field.partition("[")[0] in _SAFETY or self.field == "status"


@dataclass(frozen=True, slots=True)
class StoredStatus:
    """What could be read of a status.

    Attributes
    ----------
    status
        The readable fields.
    damages
        The others.
    """

    status: ModelRolloutStatus
    damages: tuple[Damage, ...] = ()

    @property
    def safe(self) -> bool:
        """Whether all that safety rests on could be read."""
        return not any(damage.touches_safety for damage in self.damages)


def read_status(raw: object) -> StoredStatus:
    """Return what can be read of the ``status`` of a ModelRollout; None or nothing is an empty status."""
    if raw is None:
        return StoredStatus(ModelRolloutStatus())
    if not isinstance(raw, Mapping):
        return StoredStatus(ModelRolloutStatus(), (Damage("status", f"is {type(raw).__name__}, not an object"),))
    try:
        return StoredStatus(ModelRolloutStatus.parse(raw))
    except (ValueError, RecursionError):
        return _salvaged(raw)


def _salvaged(raw: Mapping[Any, Any]) -> StoredStatus:
    """Read each field alone, and of a list each entry."""
    readable: dict[str, Any] = {}
    damages: list[Damage] = []
    for name, value in _known(raw):
        fault = _fault(name, value)
        if fault is None:
            readable[name] = value
            continue
        if not isinstance(value, list):
            damages.append(Damage(name, fault))
            continue
        faults = [(index, _fault(name, [entry])) for index, entry in enumerate(value)]
        entries = [value[index] for index, entry_fault in faults if entry_fault is None]
        damages += [Damage(f"{name}[{index}]", found) for index, found in faults if found is not None]
        if _fault(name, entries) is None:
            readable[name] = entries
        else:
            damages.append(Damage(name, fault))
    return StoredStatus(ModelRolloutStatus.parse(readable), tuple(damages))


def _known(raw: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    for field in ModelRolloutStatus.model_fields.values():
        name = field.alias
        if name is not None and name in raw:
            yield name, raw[name]


def _fault(name: str, value: Any) -> str | None:
    """Return why a field cannot be read; None if it can."""
    try:
        ModelRolloutStatus.parse({name: value})
    except (ValueError, RecursionError) as error:
        return str(error)[:_SHOWN]
    return None
