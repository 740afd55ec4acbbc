"""The memory of one e-process: a small plain value that survives a restart bit for bit.

Rule 1: a state read back is untrusted input; whatever does not fit is refused with a message.
Rule 2: every float is finite, so JSON's shortest round-trip form (`repr`) restores the same bits.
"""

import hashlib
import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

_FIELDS = frozenset({"design", "ticks", "informative", "spent", "wealth", "reverse", "totals", "sums", "parts"})


@dataclass(frozen=True, slots=True)
class State:
    """What one stream has shown so far.

    Parameters
    ----------
    design
        Mark of the design that made it (kind and parameters), see `mark`.
    ticks
        Updates seen, informative or not, >= 0.
    informative
        Updates that could move the evidence, 0..ticks.
    spent
        Prior mass of the late-change schedule already at stake, 0..1.
    wealth
        Log wealth of each rollback bet, nats.
    reverse
        Log wealth of each non-inferiority bet, nats; empty where ``sums`` hold it.
    totals
        Exact running counts, >= 0, meaning set by the design.
    sums
        Further running sums, meaning set by the design.
    parts
        States of the processes of which a composite design is made.
    """

    design: str
    ticks: int
    informative: int
    spent: float
    wealth: tuple[float, ...]
    reverse: tuple[float, ...]
    totals: tuple[int, ...]
    sums: tuple[float, ...]
    parts: tuple["State", ...] = ()

    def __post_init__(self) -> None:
        if type(self.design) is not str:
            raise ValueError(f"state.design must be a text, got {self.design!r}")
        _refuse_bad_whole("ticks", self.ticks)
        _refuse_bad_whole("informative", self.informative, self.ticks)
        for total in self.totals:
            _refuse_bad_whole("totals", total)
        for value in (*self.wealth, *self.reverse, *self.sums, self.spent):
            if type(value) is not float or not math.isfinite(value):
                raise ValueError(f"state holds {value!r} where a finite float is needed")
        if not 0 <= self.spent <= 1:
            raise ValueError(f"state.spent must be in 0..1, got {self.spent}")

    def to_json(self) -> str:
        """Return one line of JSON from which `from_json` restores the same bits."""
        return json.dumps(asdict(self), allow_nan=False, separators=(",", ":"))


def mark(kind: str, parameters: object) -> str:
    """Return a short mark of a design, so that a state is never read with another design's meaning.

    Parameters
    ----------
    kind
        Name of the kind of e-process.
    parameters
        The design, a dataclass of plain values.
    """
    text = json.dumps(asdict(parameters), sort_keys=True)  # type: ignore[call-overload]
    return f"{kind}:{hashlib.blake2s(text.encode(), digest_size=6).hexdigest()}"


def from_json(text: str) -> State:
    """Read a state back.

    Parameters
    ----------
    text
        What `State.to_json` wrote, perhaps damaged since.

    Raises
    ------
    ValueError
        If it is not JSON, or a field is missing, unknown, of the wrong type, not finite or out of range.
    """
    try:
        data = json.loads(text, parse_constant=_refuse_constant)
    except (json.JSONDecodeError, RecursionError) as broken:
        raise ValueError(f"state is not readable JSON: {broken}") from broken
    return _from_plain(data)


def must_belong(state: State, model: State) -> None:
    """Raise ValueError unless ``state`` was made by the design of which ``model`` is the fresh state."""
    if state.design != model.design:
        raise ValueError(f"state belongs to {state.design}, not to {model.design}: start again or replay")


def must_fit(state: State, model: State) -> None:
    """Raise ValueError unless ``state`` has the mark and the shape of ``model``.

    Parameters
    ----------
    state
        State to be used.
    model
        The design's own fresh state.
    """
    must_belong(state, model)
    for name in ("wealth", "reverse", "totals", "sums", "parts"):
        have, want = len(getattr(state, name)), len(getattr(model, name))
        if have != want:
            raise ValueError(f"state.{name} must hold {want} values for {model.design}, got {have}")
    for part, part_model in zip(state.parts, model.parts, strict=True):
        must_fit(part, part_model)


def _from_plain(data: Any) -> State:
    if not isinstance(data, dict) or data.keys() != _FIELDS:
        found = sorted(data) if isinstance(data, dict) else type(data).__name__
        raise ValueError(f"state must be an object with the fields {sorted(_FIELDS)}, got {found}")
    for name in ("wealth", "reverse", "totals", "sums", "parts"):
        if type(data[name]) is not list:
            raise ValueError(f"state.{name} must be a list, got {type(data[name]).__name__}")
    return State(
        design=data["design"],
        ticks=data["ticks"],
        informative=data["informative"],
        spent=data["spent"],
        wealth=tuple(data["wealth"]),
        reverse=tuple(data["reverse"]),
        totals=tuple(data["totals"]),
        sums=tuple(data["sums"]),
        parts=tuple(_from_plain(part) for part in data["parts"]),
    )


def _refuse_bad_whole(name: str, value: object, limit: int | None = None) -> None:
    if type(value) is not int or value < 0 or (limit is not None and value > limit):
        raise ValueError(f"state.{name} must be a whole number in 0..{'' if limit is None else limit}, got {value!r}")


def _refuse_constant(name: str) -> float:
    raise ValueError(f"state holds {name} where a finite float is needed")


def plain(values: Iterable[Any]) -> tuple[float, ...]:
    """Return numpy numbers as Python floats, bit for bit."""
    return tuple(float(value) for value in values)
