"""Which rollouts the comparator serves, and how: from ModelRollouts and their policies to tasks. Pure.

Rule 1: a rollout is served while its attempt runs and its present step mirrors requests to this comparator.
Rule 2: a port belongs to one rollout, the oldest; what is not served for another reason says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from davylamp.api.v1alpha1.convert import read_policy, read_spec, settings_of, to_plan
from davylamp.api.v1alpha1.policy import PolicyKind, PolicyRef, PolicySpec
from davylamp.api.v1alpha1.progress import to_progress
from davylamp.api.v1alpha1.quantities import parse_duration, parse_percent
from davylamp.api.v1alpha1.shadow import Capture as CaptureSettings
from davylamp.api.v1alpha1.shadow import Comparator, Compare, Shadow
from davylamp.api.v1alpha1.slice_plan import POSITIVE, attributes_of
from davylamp.api.v1alpha1.slices import SliceAttribute, Slices
from davylamp.api.v1alpha1.stored import read_status
from davylamp.core.model import TERMINAL, Progress, Ruling
from davylamp.core.plan import WITHOUT_LABELS
from davylamp.core.shadow_evidence import shadowing
from davylamp.core.slice_evidence import served_as
from davylamp.core.slices import Attribute, class_of
from davylamp.errors import SpecError
from davylamp.jsonpath import query
from davylamp.runtime.catalogue import Name, Object, name_of
from davylamp.shadow.task import Capture, Format, Notion, Replay, Rules, SlicedBy, Slicing, Task

#: Returns ``host:port`` for a Service and its port, as ``name:port``.
Resolve = Callable[[str], str]
Policies = Mapping[PolicyKind, Mapping[Name, Object]]
_DEFAULT_NOISE: Final = 0.05
_DEFAULT_SLOWDOWN: Final = 0.1


class Refusal(StrEnum):
    """Why a rollout is not served that should be."""

    #: Another rollout has its port.
    PORT_TAKEN = "PortTaken"
    #: Its settings, or those of its policy, cannot be understood.
    WRONG_SPEC = "WrongSpec"


@dataclass(frozen=True, slots=True)
class Refused:
    """A rollout that is not served, and why."""

    rollout: Name
    refusal: Refusal
    why: str


@dataclass(frozen=True, slots=True)
class Chosen:
    """What is served, and what is not though it should be."""

    tasks: tuple[Task, ...]
    refused: tuple[Refused, ...]


class Choice:
    """Chooses tasks; what was read of a rollout is kept until it or its policy changes.

    Parameters
    ----------
    service
        Name of the comparator's own Service.
    """

    def __init__(self, service: str) -> None:
        self._service = service
        self._known: dict[Name, tuple[tuple[object, object], Task | Refused | None]] = {}

    def tasks(self, rollouts: Mapping[Name, Object], policies: Policies, resolve: Resolve) -> Chosen:
        """Return what is served now."""
        self._known = {name: self._read(name, rollouts[name], policies) for name in rollouts}
        found = [self._known[name][1] for name in sorted(rollouts, key=lambda name: _age(rollouts[name]))]
        tasks, refused = _one_for_each_port(each for each in found if isinstance(each, Task))
        refused += [each for each in found if isinstance(each, Refused)]
        return Chosen(tuple(_resolved(task, resolve) for task in tasks), tuple(refused))

    def _read(
        self, name: Name, manifest: Object, policies: Policies
    ) -> tuple[tuple[object, object], Task | Refused | None]:
        policy = _policy_of(manifest, policies)
        versions = (manifest["metadata"].get("resourceVersion"), policy and policy["metadata"].get("resourceVersion"))
        known = self._known.get(name)
        if known is not None and known[0] == versions and None not in versions[:1]:
            return known
        try:
            return versions, shadow_task(manifest, policy, self._service)
        except SpecError as error:
            return versions, Refused(name, Refusal.WRONG_SPEC, str(error))


def shadow_task(manifest: Object, policy: Object | None, service: str) -> Task | None:
    """Return what is done for a rollout, its variants named as ``name:port`` of Services; None for nothing.

    Parameters
    ----------
    manifest
        The ModelRollout.
    policy
        What its policyRef names; None without one, or where there is none of that name.
    service
        Name of the comparator's own Service.

    Raises
    ------
    SpecError
        If its settings cannot be understood.
    """
    progress = _running(manifest)
    if progress is None or progress.attempt is None:
        return None
    spec = read_spec(manifest.get("spec") or {})
    if spec.policy_ref is not None and policy is None:
        raise SpecError(f"policyRef names {spec.policy_ref.kind.value} {spec.policy_ref.name}, which does not exist")
    read = None if policy is None else read_policy(policy.get("spec") or {})
    key = str(manifest["metadata"].get("uid", ""))
    plan, settings = to_plan(spec, read, key=key), settings_of(spec, read)
    shadow = settings.shadow or Shadow()
    comparator = shadow.comparator or Comparator()
    step = plan.shadow_at(progress.step)
    if not shadowing(plan, progress) or step is None or comparator.name != service:
        return None
    where = name_of(manifest)
    return Task(
        namespace=where.namespace,
        rollout=where.name,
        port=comparator.port,
        baseline=progress.attempt.pair.baseline,
        candidate=progress.attempt.pair.candidate,
        sample=step.sample,
        noise=_DEFAULT_NOISE if shadow.noise is None else parse_percent(shadow.noise),
        slowdown=_slowdown(settings),
        rules=rules_of(shadow.compare or Compare()),
        replay=replay_of(shadow),
        capture=_capture(shadow.capture or CaptureSettings(), settings.slices or Slices()),
        slicing=slicing_of(settings.slices or Slices(), progress, key) if plan.slice_gates else None,
    )


def slicing_of(slices: Slices, progress: Progress, key: str) -> Slicing:
    """Return how pairs are counted by slice at this point of a rollout.

    Parameters
    ----------
    slices
        Settings.
    progress
        Where the attempt stands.
    key
        By which protected values are hashed.
    """
    given = zip(attributes_of(slices), slices.attributes or (), strict=True)
    gates = {gate.metric for gate in slices.gates or ()}
    return Slicing(
        by=tuple(_sliced_by(attribute, place) for attribute, place in given),
        intersections=tuple(slices.intersections or ()),
        key=key,
        attempt=served_as(progress),
        cohort=str(progress.step),
        positive=class_of(slices.positive or POSITIVE),
        diverted=progress.diverted,
        awaits_labels=not gates <= WITHOUT_LABELS,
        labelled_by_decision=bool(slices.labelled_by_decision),
    )


def _sliced_by(attribute: Attribute, place: SliceAttribute) -> SlicedBy:
    tensor = place.tensor
    where = ("", 0) if tensor is None else (tensor.name, tensor.column)
    return SlicedBy(attribute, place.json_path or "", *where)


def rules_of(compare: Compare) -> Rules:
    """Return how answers are compared.

    Raises
    ------
    SpecError
        If a path is no JSONPath.
    """
    for path in (*compare.select, *compare.ignore):
        query(path)
    return Rules(
        format=Format(compare.format.value),
        notion=Notion(compare.disagreement.value),
        absolute=compare.absolute,
        relative=compare.relative,
        threshold=compare.threshold,
        top_k=compare.top_k,
        similarity=compare.similarity,
        cosine=compare.cosine,
        select=compare.select,
        ignore=compare.ignore,
    )


def replay_of(shadow: Shadow) -> Replay:
    """Return what is replayed, and within which limits."""
    usual = Replay()
    return Replay(
        methods=usual.methods if shadow.methods is None else frozenset(shadow.methods),
        paths=shadow.paths or (),
        pass_headers=frozenset(name.lower() for name in shadow.pass_headers or ()),
        pass_query=frozenset(name.lower() for name in shadow.pass_query or ()),
        timeout=usual.timeout if shadow.timeout is None else parse_duration(shadow.timeout).total_seconds(),
        concurrency=shadow.concurrency or usual.concurrency,
        max_body=shadow.max_body_bytes or usual.max_body,
    )


def _capture(capture: CaptureSettings, slices: Slices) -> Capture:
    """Return what is captured; protected attributes are blotted out as if they had been named."""
    for path in capture.redact:
        query(path)
    protected = (each.json_path for each in slices.attributes or () if each.protected and each.json_path)
    return Capture(capture.pairs, (*capture.redact, *protected))


def _slowdown(settings: PolicySpec) -> float:
    gate = settings.gates.paired_latency if settings.gates is not None else None
    return _DEFAULT_SLOWDOWN if gate is None or gate.slowdown is None else parse_percent(gate.slowdown)


def _running(manifest: Object) -> Progress | None:
    """Return where a rollout stands whose attempt runs and is not decided; None for others, most of them unread."""
    status = manifest.get("status")
    over = isinstance(status, Mapping) and status.get("phase") in TERMINAL
    if over or not status or "deletionTimestamp" in manifest["metadata"]:
        return None
    progress = to_progress(read_status(status))
    return progress if progress.ruling is Ruling.CONTINUE and progress.phase not in TERMINAL else None


def _policy_of(manifest: Object, policies: Policies) -> Object | None:
    raw = (manifest.get("spec") or {}).get("policyRef")
    if raw is None:
        return None
    try:
        ref = PolicyRef.parse(raw)
    except ValueError:
        # Reading the whole spec says what is wrong.
        return None
    place = name_of(manifest).namespace if ref.kind is PolicyKind.ROLLOUT_POLICY else ""
    return policies[ref.kind].get(Name(place, ref.name))


def _one_for_each_port(tasks: Iterable[Task]) -> tuple[list[Task], list[Refused]]:
    """Return the first task of each port, and the others."""
    holders: dict[int, Task] = {}
    refused = []
    for task in tasks:
        holder = holders.setdefault(task.port, task)
        if holder is not task:
            why = (
                f"port {task.port} belongs to the older ModelRollout {holder.rollout}: set spec.shadow.comparator.port "
                "to one that no other rollout of the namespace uses"
            )
            refused.append(Refused(Name(task.namespace, task.rollout), Refusal.PORT_TAKEN, why))
    return list(holders.values()), refused


def _resolved(task: Task, resolve: Resolve) -> Task:
    return replace(task, baseline=resolve(task.baseline), candidate=resolve(task.candidate))


def _age(manifest: Object) -> tuple[str, str]:
    metadata = manifest["metadata"]
    return str(metadata.get("creationTimestamp", "")), str(metadata.get("uid", ""))
