"""Check manifests before they are applied: what the API server would refuse, and what would surprise."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final

from pydantic import ValidationError

from davylamp.api.v1alpha1.kinds import API_VERSION, GROUP, KINDS, MODEL_ROLLOUT, Kind, Scope
from davylamp.api.v1alpha1.policy import PolicySpec
from davylamp.api.v1alpha1.rollout import ModelRolloutSpec
from davylamp.api.v1alpha1.strict import Strict
from davylamp.cli.documents import Document, Location, UnreadableError, documents
from davylamp.cli.hints import hints

_KINDS: Final = {kind.name: kind for kind in KINDS}
_POLICIES: Final = frozenset({"RolloutPolicy", "ClusterRolloutPolicy"})
_FIELDS: Final = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)
_LONGEST_ROLLOUT_NAME: Final = 63


class Level(StrEnum):
    """How bad a finding is."""

    #: The API server or the operator would refuse the object.
    ERROR = "error"
    #: The object works, and perhaps not as meant.
    HINT = "hint"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that was found in a file: where, in which object and field, and what to do."""

    file: str
    line: int
    object: str
    field: str
    level: Level
    message: str

    def manifest(self) -> dict[str, Any]:
        """Return it ready for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        place = " ".join(part for part in (self.object, self.field) if part)
        return f"{self.file}:{self.line}: {self.level.value}: {place + ': ' if place else ''}{self.message}"


@dataclass(frozen=True, slots=True)
class Report:
    """All findings, and how many objects of Davylamp were looked at."""

    findings: tuple[Finding, ...]
    objects: int

    @property
    def failed(self) -> bool:
        """Whether anything would be refused."""
        return any(finding.level is Level.ERROR for finding in self.findings)


@dataclass(frozen=True, slots=True)
class _Found:
    file: str
    document: Document
    value: Any
    at: Location

    @property
    def title(self) -> str:
        value = self.value if isinstance(self.value, Mapping) else {}
        metadata = value.get("metadata")
        name = metadata.get("name") if isinstance(metadata, Mapping) else None
        return f"{value.get('kind', 'object')} {name or '(without a name)'}"

    @property
    def policy_key(self) -> tuple[str, str]:
        return str(self.value.get("kind")), str(self.value["metadata"].get("name"))

    def finding(self, path: Location, message: str, level: Level = Level.ERROR) -> Finding:
        line = self.document.line((*self.at, *path))
        return Finding(self.file, line, self.title, field_name(path), level, message)


def lint(files: Mapping[str, str]) -> Report:
    """Return what is wrong or surprising in some texts.

    Parameters
    ----------
    files
        Texts by the names that findings show.
    """
    findings: list[Finding] = []
    objects: list[_Found] = []
    for name, text in files.items():
        try:
            found = [inner for document in documents(text) for inner in _objects(name, document)]
        except UnreadableError as error:
            findings.append(Finding(name, error.line, "", "", Level.ERROR, str(error)))
        else:
            objects += found
    ours = [found for found in objects if _is_ours(found.value)]
    findings += (finding for found in ours for finding in _check(found))
    findings += _check_together(ours)
    order = {name: index for index, name in enumerate(files)}
    return Report(tuple(sorted(findings, key=lambda each: (order[each.file], each.line))), len(ours))


def field_name(path: Location) -> str:
    """Return a path as people write it, such as ``spec.steps[1].weight``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.lstrip(".")


def _objects(file: str, document: Document) -> Iterator[_Found]:
    """Yield the objects of a document, those inside a List too."""
    value = document.value
    if isinstance(value, Mapping) and value.get("kind") == "List" and isinstance(value.get("items"), list):
        for index, item in enumerate(value["items"]):
            yield _Found(file, document, item, ("items", index))
    else:
        yield _Found(file, document, value, ())


def _is_ours(value: Any) -> bool:
    return isinstance(value, Mapping) and (
        str(value.get("apiVersion", "")).startswith(f"{GROUP}/") or value.get("kind") in _KINDS
    )


def _check(found: _Found) -> Iterator[Finding]:
    value = found.value
    if value.get("apiVersion") != API_VERSION:
        yield found.finding(("apiVersion",), f"write apiVersion: {API_VERSION}")
    kind = _KINDS.get(str(value.get("kind")))
    if kind is None:
        yield found.finding(("kind",), f"there is no such kind: write {_nearest(str(value.get('kind')), _KINDS)}")
        return
    yield from _metadata(found, kind)
    for name in value.keys() - _FIELDS:
        yield found.finding((str(name),), f"there is no such field: remove it, or write {_nearest(str(name), _FIELDS)}")
    if "status" in value:
        yield found.finding(("status",), "the status is the operator's and is not applied: remove it", Level.HINT)
    spec = value.get("spec")
    if not isinstance(spec, Mapping):
        yield found.finding(("spec",), "an object has a spec: add it")
        return
    yield from _spec(found, kind, spec)


def _metadata(found: _Found, kind: Kind) -> Iterator[Finding]:
    metadata = found.value.get("metadata")
    if not isinstance(metadata, Mapping) or not (metadata.get("name") or metadata.get("generateName")):
        yield found.finding(("metadata", "name"), "an object has a name: write metadata.name")
        return
    name = metadata.get("name")
    longest = _LONGEST_ROLLOUT_NAME if kind is MODEL_ROLLOUT else 253
    if name is not None and not (isinstance(name, str) and _NAME.fullmatch(name) and len(name) <= longest):
        yield found.finding(
            ("metadata", "name"),
            f"write lower-case letters, digits, '-' and '.', {longest} characters at most, "
            "beginning and ending with a letter or digit",
        )
    if kind.scope is Scope.CLUSTER and "namespace" in metadata:
        yield found.finding(("metadata", "namespace"), f"a {kind.name} is in no namespace: remove it", Level.HINT)


def _spec(found: _Found, kind: Kind, spec: Mapping[str, Any]) -> Iterator[Finding]:
    parsed, faults = _parsed(kind.spec, spec)
    for path, message in faults:
        yield found.finding(("spec", *path), message)
    if parsed is None:
        return
    for path, message in hints(parsed):
        yield found.finding(("spec", *path), message, Level.HINT)


def _parsed(model: type[Strict], raw: Mapping[str, Any]) -> tuple[Strict | None, list[tuple[Location, str]]]:
    try:
        return model.parse(raw), []
    except ValueError as error:
        cause = error.__cause__
        if not isinstance(cause, ValidationError):
            return None, [((), str(error))]
        faults = cause.errors(include_url=False)
        return None, [_fault(model, fault) for fault in faults if not _follows(fault, faults)]
    except RecursionError:
        return None, [((), "values lie too deep")]


def _follows(fault: Any, faults: Sequence[Any]) -> bool:
    """Whether a list is too short only because its items, which have faults of their own, were not counted."""
    size = len(fault["loc"])
    return fault["type"] == "too_short" and any(
        len(other["loc"]) > size and other["loc"][:size] == fault["loc"] for other in faults
    )


def _fault(model: type[Strict], fault: Any) -> tuple[Location, str]:
    path: Location = tuple(fault["loc"])
    message = str(fault["msg"]).removeprefix("Value error, ")
    match fault["type"]:
        case "extra_forbidden":
            near = _nearest(str(path[-1]), _fields_at(model, path[:-1]))
            return path, f"there is no such field: remove it{f', or write {near}' if near else ''}"
        case "missing":
            return path, f"this field is needed: add {path[-1]}"
        case "string_type":
            return path, f"write a text in quotes, not {fault['input']!r}: YAML reads it as something else"
        case "too_short":
            return path, f"the list needs at least {fault['ctx']['min_length']} of what belongs in it: add it"
        case "enum" | "literal_error":
            return path, f"write {fault['ctx']['expected']}, not {fault['input']!r}"
        case _:
            return path, message


def _fields_at(model: type[Strict], path: Location) -> list[str]:
    """Return the names of the fields at a place of a schema; none where it is no object."""
    from davylamp.api.v1alpha1.schema import structural

    schema: Any = structural(model)
    for part in path:
        schema = schema.get("items", {}) if isinstance(part, int) else schema.get("properties", {}).get(part, {})
    return list(schema.get("properties", {}))


def _nearest(word: str, known: Iterable[str]) -> str:
    """Return the known word that was probably meant, or all of them."""
    names = sorted(known)
    near = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    return near[0] if near else " or ".join((", ".join(names[:-1]), names[-1])).removeprefix(" or ") if names else ""


def _check_together(objects: list[_Found]) -> Iterator[Finding]:
    """Yield what is wrong between rollouts and the policies that they name, and with names that are used twice."""
    policies: dict[tuple[str, str], PolicySpec] = {}
    seen: dict[tuple[str, str, str], _Found] = {}
    for found in objects:
        metadata = found.value.get("metadata")
        if not isinstance(metadata, Mapping) or not metadata.get("name"):
            continue
        key = (*found.policy_key, str(metadata.get("namespace", "")))
        if key in seen:
            level = Level.ERROR if seen[key].file == found.file else Level.HINT
            message = f"an object of this kind and name stands in {seen[key].file} already"
            yield found.finding(("metadata", "name"), message, level)
        seen.setdefault(key, found)
        spec = found.value.get("spec")
        if found.value.get("kind") in _POLICIES and isinstance(spec, Mapping):
            parsed, _ = _parsed(PolicySpec, spec)
            if isinstance(parsed, PolicySpec):
                policies[found.policy_key] = parsed
    for found in objects:
        yield from _with_policy(found, policies)


def _with_policy(found: _Found, policies: Mapping[tuple[str, str], PolicySpec]) -> Iterator[Finding]:
    from davylamp.api.v1alpha1.convert import to_plan
    from davylamp.errors import SpecError

    spec = found.value.get("spec")
    if found.value.get("kind") != MODEL_ROLLOUT.name or not isinstance(spec, Mapping):
        return
    parsed, _ = _parsed(ModelRolloutSpec, spec)
    if not isinstance(parsed, ModelRolloutSpec):
        return
    ref = parsed.policy_ref
    policy = None if ref is None else policies.get((ref.kind.value, ref.name))
    if ref is not None and policy is None:
        message = f"{ref.kind.value} {ref.name} is not among these files, so the two were not checked together"
        yield found.finding(("spec", "policyRef"), message, Level.HINT)
        return
    try:
        to_plan(parsed, policy)
    except SpecError as error:
        yield found.finding(("spec",), str(error))
