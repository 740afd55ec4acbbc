"""What is shown of a ModelRollout: its spec and its status as far as they can be read.

What a cluster holds is untrusted: a damaged status or a spec of another version is shown in part and named, and no text
of it reaches a terminal with control characters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any, Final

from davylamp.api.v1alpha1.policy import PolicySpec
from davylamp.api.v1alpha1.rollout import ModelRolloutSpec
from davylamp.api.v1alpha1.status import ModelRolloutStatus, Signal
from davylamp.api.v1alpha1.steps import Step
from davylamp.api.v1alpha1.stored import Damage, read_status
from davylamp.core.model import Phase, worst
from davylamp.wording import plain

UNREADABLE: Final = "?"


class Place(Enum):
    """Where a rung is from where the rollout stands."""

    BEHIND = "behind"
    HERE = "here"
    AHEAD = "ahead"


@dataclass(frozen=True, slots=True)
class Rung:
    """A step of the ladder: a weight in percent, or (None) a pause; ``time`` is its bake or length.

    With ``shadow``, requests are mirrored, and without a weight that is all. The promotion is the last rung, 100 %.
    """

    weight: int | None
    time: str
    place: Place
    shadow: bool = False


@dataclass(frozen=True, slots=True)
class Sight:
    """A ModelRollout as it can be shown.

    Parameters
    ----------
    name, namespace, generation, created
        Of the object.
    spec
        What was asked; None if it cannot be read.
    status, damages
        What can be read of the status, and what cannot.
    baseline, candidate, route
        Names, ``?`` where they cannot be read.
    rungs
        The ladder as far as it is known.
    """

    name: str
    namespace: str
    generation: int | None
    created: datetime | None
    spec: ModelRolloutSpec | None
    status: ModelRolloutStatus
    damages: tuple[Damage, ...]
    baseline: str
    candidate: str
    route: str
    rungs: tuple[Rung, ...]

    @property
    def stale(self) -> bool:
        """Whether the status is about an older spec than the object's."""
        seen = self.status.observed_generation
        return seen is None or (self.generation is not None and seen < self.generation)

    @property
    def worst_signal(self) -> Signal | None:
        """The signal with the worst verdict; the first of them."""
        if not self.status.signals:
            return None
        verdict = worst(signal.verdict for signal in self.status.signals)
        return next(signal for signal in self.status.signals if signal.verdict is verdict)


def sight(raw: Mapping[str, Any], policy: PolicySpec | None = None) -> Sight:
    """Return what can be shown of a ModelRollout; nothing that it holds can make this raise.

    Parameters
    ----------
    raw
        The object as the API server returned it.
    policy
        What its policy says, where it was read.
    """
    metadata = _mapping(raw.get("metadata"))
    spec = read_spec(raw)
    stored = read_status(raw.get("status"))
    generation = metadata.get("generation")
    return Sight(
        name=_text(metadata.get("name")),
        namespace=_text(metadata.get("namespace")),
        generation=generation if isinstance(generation, int) else None,
        created=_instant(metadata.get("creationTimestamp")),
        spec=spec,
        status=stored.status,
        damages=stored.damages,
        baseline=_backend(raw, "baseline"),
        candidate=_backend(raw, "candidate"),
        route=_text(_inside(raw, "spec", "route", "gatewayAPI", "httpRoute")),
        rungs=tuple(_rungs(spec, policy, stored.status)),
    )


def read_spec(raw: Mapping[str, Any]) -> ModelRolloutSpec | None:
    """Return the spec of a ModelRollout; None if it cannot be read."""
    spec = raw.get("spec")
    if not isinstance(spec, Mapping):
        return None
    try:
        return ModelRolloutSpec.parse(spec)
    except (ValueError, RecursionError):
        return None


def _rungs(spec: ModelRolloutSpec | None, policy: PolicySpec | None, status: ModelRolloutStatus) -> Iterable[Rung]:
    steps: Sequence[Step] = (spec and spec.steps) or (policy and policy.steps) or ()
    here = -1 if status.step is None else status.step.index
    if status.phase is Phase.PROMOTED:
        here = len(steps) + 1
    for index, step in enumerate(steps):
        time = step.pause.duration if step.pause is not None else step.bake or ""
        yield Rung(step.weight, time, _place(index, here), step.shadow is not None)
    if steps and steps[-1].weight != 100:
        yield Rung(100, "", _place(len(steps), here))


def _place(index: int, here: int) -> Place:
    if index == here:
        return Place.HERE
    return Place.BEHIND if index < here else Place.AHEAD


def _backend(raw: Mapping[str, Any], variant: str) -> str:
    backend = _inside(raw, "spec", variant, "backend")
    name, port = (_text(_mapping(backend).get(key)) for key in ("name", "port"))
    return name if port == UNREADABLE else f"{name}:{port}"


def _inside(value: Any, *path: str) -> Any:
    for key in path:
        value = _mapping(value).get(key)
    return value


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> str:
    return plain(str(value))[:253] if isinstance(value, str | int) and value != "" else UNREADABLE


def _instant(value: Any) -> datetime | None:
    try:
        instant = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        return None
    return instant if isinstance(instant, datetime) and instant.tzinfo is not None else None
