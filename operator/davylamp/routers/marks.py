"""Davylamp's marks on a route: annotations that go in one write with the weights.

Rule 1: what is read back is untrusted input; a mark that cannot be read counts as absent, and never raises.
Rule 2: the marks alone tell how the route was before, so that it can be given back after any crash.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from davylamp.core.model import Ruling, Weight
from davylamp.core.moves import Diversion
from davylamp.errors import Conflict
from davylamp.ports import BackendRef, RouteRef

Manifest = Mapping[str, Any]

PREFIX: Final = "davylamp.dev/"
ATTEMPT: Final = f"{PREFIX}attempt"
ASKED: Final = f"{PREFIX}weight"
RULING: Final = f"{PREFIX}ruling"
EPOCH: Final = f"{PREFIX}epoch"
PAIR: Final = f"{PREFIX}pair"
ORIGINAL: Final = f"{PREFIX}original"
MIRROR: Final = f"{PREFIX}mirror"
DIVERTED: Final = f"{PREFIX}diverted"
NAMES: Final = (ATTEMPT, ASKED, RULING, EPOCH, PAIR, ORIGINAL, MIRROR, DIVERTED)

MAX_WEIGHT: Final = 1_000_000
_MAX_EPOCH: Final = 2**63 - 1
#: An HTTPRoute has at most 16 rules; rules that were edited meanwhile are recorded again.
MAX_RECORDS: Final = 64
_MAX_SLICES: Final = 100_000
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,18}")
_WORD: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/:-]{0,251}[A-Za-z0-9])?")
_BACKEND: Final = re.compile(r"([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?):([1-9][0-9]{0,4})")


@dataclass(frozen=True, slots=True)
class Pair:
    """The two backends that traffic is shared between."""

    baseline: BackendRef
    candidate: BackendRef

    def __str__(self) -> str:
        return f"{self.baseline} {self.candidate}"

    @classmethod
    def of(cls, route: RouteRef) -> "Pair":
        """Return the pair that the settings name."""
        return cls(route.baseline, route.candidate)


@dataclass(frozen=True, slots=True)
class Original:
    """One rule as it was before Davylamp's first write.

    Parameters
    ----------
    rule
        Its index in spec.rules at that time, >= 0.
    key
        What it is recognised by when rules were moved: a hash of its name and matches.
    baseline
        The weight of the baseline's reference; None if it had none written.
    candidate
        The weight of the candidate's reference; None if it had none written or was not there.
    added
        Whether the candidate's reference was not there.
    bare
        Whether its filters were an empty list, rather than none.
    """

    rule: int
    key: str
    baseline: int | None
    candidate: int | None = None
    added: bool = True
    bare: bool = False


@dataclass(frozen=True, slots=True)
class Marks:
    """What the annotations say; None for a mark that is absent or unreadable.

    Parameters
    ----------
    present
        Whether any mark is there, readable or not.
    mirror
        Where Davylamp mirrors requests to; absent on a route that it does not mirror.
    diverted
        The slices that go to the baseline alone; absent where there are none.
    copies
        What the rules that divert them are recognised by where rules have no names.
    """

    present: bool = False
    attempt: str | None = None
    asked: Weight | None = None
    ruling: Ruling | None = None
    epoch: int | None = None
    pair: Pair | None = None
    originals: tuple[Original, ...] | None = None
    mirror: BackendRef | None = None
    diverted: tuple[Diversion, ...] = ()
    copies: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether all marks that every prepared route has are there and readable."""
        return None not in {self.attempt, self.asked, self.ruling, self.epoch, self.pair, self.originals}

    def records(self, pair: Pair) -> tuple[Original, ...]:
        """Return what was recorded about rules, if it was recorded for this pair."""
        return (self.originals or ()) if self.pair == pair else ()

    def annotations(self) -> dict[str, str]:
        """Return the marks as annotations; those that are None are left out."""
        written = {
            ATTEMPT: self.attempt,
            ASKED: None if self.asked is None else str(self.asked.percent),
            RULING: None if self.ruling is None else self.ruling.value,
            EPOCH: None if self.epoch is None else str(self.epoch),
            PAIR: None if self.pair is None else str(self.pair),
            ORIGINAL: None if self.originals is None else _written(self.originals),
            MIRROR: None if self.mirror is None else str(self.mirror),
            DIVERTED: _written_slices(self.diverted, self.copies) if self.diverted else None,
        }
        return {name: value for name, value in written.items() if value is not None}


def read_marks(manifest: Manifest) -> Marks:
    """Return the marks on a route."""
    found = annotations_of(manifest)
    ruling = found.get(RULING)
    diverted, copies = _slices(found.get(DIVERTED))
    return Marks(
        present=any(name in found for name in NAMES),
        attempt=_matching(_WORD, found.get(ATTEMPT)),
        asked=_asked(found.get(ASKED)),
        ruling=Ruling(ruling) if ruling in list(Ruling) else None,
        epoch=_number(found.get(EPOCH), _MAX_EPOCH),
        pair=_pair(found.get(PAIR)),
        originals=_originals(found.get(ORIGINAL)),
        mirror=backend_ref(found.get(MIRROR, "")),
        diverted=diverted,
        copies=copies,
    )


def with_marks(manifest: Manifest, marks: Marks) -> Manifest:
    """Return the route with these marks in place of its own."""
    others = {name: value for name, value in annotations_of(manifest).items() if name not in NAMES}
    return _annotated(manifest, others | marks.annotations())


def without_marks(manifest: Manifest) -> Manifest:
    """Return the route without Davylamp's marks."""
    if not read_marks(manifest).present:
        return manifest
    return _annotated(manifest, {name: value for name, value in annotations_of(manifest).items() if name not in NAMES})


def _annotated(manifest: Manifest, annotations: Mapping[str, str]) -> Manifest:
    return {**manifest, "metadata": {**manifest.get("metadata", {}), "annotations": dict(annotations)}}


def refuse_older(marks: Marks, epoch: int) -> None:
    """Raise Conflict if a newer leader than the one of `epoch` has written to the route."""
    if marks.epoch is not None and marks.epoch > epoch:
        raise Conflict(
            f"a newer leader has written to the route: its epoch is {marks.epoch}, ours {epoch}; "
            "if there is no newer leader, remove the route's davylamp.dev annotations"
        )


def annotations_of(manifest: Manifest) -> Mapping[str, str]:
    """Return the annotations of an object."""
    return manifest.get("metadata", {}).get("annotations") or {}


def _matching(pattern: re.Pattern[str], text: str | None) -> str | None:
    return text if text is not None and pattern.fullmatch(text) else None


def _number(text: str | None, limit: int) -> int | None:
    digits = _matching(_NUMBER, text)
    return int(digits) if digits is not None and int(digits) <= limit else None


def _asked(text: str | None) -> Weight | None:
    percent = _number(text, 100)
    return None if percent is None else Weight(percent)


def _pair(text: str | None) -> Pair | None:
    words = (text or "").split(" ")
    if len(words) != 2:
        return None
    baseline, candidate = (backend_ref(word) for word in words)
    return Pair(baseline, candidate) if baseline and candidate and baseline != candidate else None


def backend_ref(text: str) -> BackendRef | None:
    """Return what ``name:port`` names; None if it names nothing."""
    found = _BACKEND.fullmatch(text)
    return BackendRef(found[1], int(found[3])) if found and int(found[3]) <= 65535 else None


def _written(originals: tuple[Original, ...]) -> str:
    entries = []
    for original in originals:
        entry: dict[str, Any] = {"rule": original.rule, "key": original.key, "baseline": original.baseline}
        if not original.added:
            entry["candidate"] = original.candidate
        if original.bare:
            entry["filters"] = []
        entries.append(entry)
    return json.dumps(entries, separators=(",", ":"))


def _written_slices(diverted: tuple[Diversion, ...], copies: tuple[str, ...]) -> str:
    slices = [[each.header, each.value] for each in diverted]
    return json.dumps({"slices": slices, "rules": copies}, separators=(",", ":"), ensure_ascii=False)


def _slices(text: str | None) -> tuple[tuple[Diversion, ...], tuple[str, ...]]:
    entry = _read_json(text, _MAX_SLICES)
    slices, keys = (entry.get("slices"), entry.get("rules")) if isinstance(entry, dict) else (None, None)
    if not isinstance(slices, list) or not isinstance(keys, list) or len(keys) > MAX_RECORDS:
        return (), ()
    if not all(isinstance(key, str) for key in keys) or not all(map(_is_slice, slices)):
        return (), ()
    return tuple(Diversion(*each) for each in slices), tuple(keys)


def _is_slice(entry: Any) -> bool:
    return isinstance(entry, list) and len(entry) == 2 and all(isinstance(word, str) for word in entry)


def _read_json(text: str | None, most: int) -> Any:
    """Return what a mark says; None if it is absent, longer than ``most`` characters, or no JSON."""
    if text is None or len(text) > most:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _originals(text: str | None) -> tuple[Original, ...] | None:
    entries = _read_json(text, 100 * MAX_RECORDS)
    if not isinstance(entries, list) or len(entries) > MAX_RECORDS:
        return None
    read = [_original(entry) for entry in entries]
    whole = tuple(original for original in read if original is not None)
    return whole if len(whole) == len(read) else None


def _original(entry: Any) -> Original | None:
    if not isinstance(entry, dict):
        return None
    rule, key, added = entry.get("rule"), entry.get("key"), "candidate" not in entry
    baseline, candidate = entry.get("baseline"), entry.get("candidate")
    if type(rule) is not int or not 0 <= rule < MAX_RECORDS or not isinstance(key, str):
        return None
    if not all(weight is None or _is_weight(weight) for weight in (baseline, candidate)):
        return None
    return Original(rule, key, baseline, candidate, added, entry.get("filters") == [])


def _is_weight(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MAX_WEIGHT
