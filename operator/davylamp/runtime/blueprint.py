"""From a ModelRollout and its policy to all that its looks need: plan, queries, channels."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from davylamp.api.v1alpha1.convert import read_policy, read_spec, settings_of, to_plan
from davylamp.api.v1alpha1.kinds import CLUSTER_ROLLOUT_POLICY, ROLLOUT_POLICY, Kind
from davylamp.api.v1alpha1.policy import PolicyKind, PolicySpec
from davylamp.api.v1alpha1.rollout import ModelRolloutSpec
from davylamp.core.model import Progress, Severity, Variant
from davylamp.core.outbox import Channel
from davylamp.core.plan import Plan
from davylamp.core.reading import SignalQuery
from davylamp.core.shadow_evidence import shadowing
from davylamp.core.slice_evidence import served_as, slicing, watched
from davylamp.errors import SpecError
from davylamp.runtime.catalogue import Name, Object, name_of
from davylamp.sources.presets import OwnCounter, Side, queries
from davylamp.sources.shadow_metrics import shadow_queries
from davylamp.sources.slice_metrics import slice_queries


class Objects(Protocol):
    """Where policies are looked up: the catalogue of a cluster, or the files of a command."""

    def find(self, kind: Kind, name: Name) -> Object | None:
        """Return an object; None if there is none."""
        ...


@dataclass(frozen=True, slots=True)
class Blueprint:
    """What a rollout asks for, complete and checked.

    Parameters
    ----------
    plan
        For the decision.
    source
        Name of the MetricSource.
    signals
        What is read from it.
    variants
        Labels by which the request tells the variants apart.
    channels
        Who is told.
    shadow
        What is read beside it while requests are mirrored.
    rollout
        Name of the rollout, as series of shadow traffic and of labels carry it.
    """

    plan: Plan
    source: str
    signals: tuple[SignalQuery, ...]
    variants: Mapping[Variant, Mapping[str, str]]
    channels: tuple[Channel, ...]
    shadow: tuple[SignalQuery, ...] = ()
    rollout: str = ""

    def at(self, progress: Progress) -> "Blueprint":
        """Return what is read at this point of the rollout, in ``signals``."""
        shadow = self.shadow if shadowing(self.plan, progress) else ()
        gates = watched(self.plan, progress.diverted) if slicing(self.plan, progress) else ()
        slices = slice_queries(self.rollout, served_as(progress), gates)
        return replace(self, signals=(*self.signals, *shadow, *slices)) if shadow or slices else self


def blueprint(manifest: Object, objects: Objects) -> Blueprint:
    """Return what a rollout asks for.

    Raises
    ------
    SpecError
        If something does not fit, or its policy does not exist; the message says what to do.
    """
    name = name_of(manifest)
    spec = read_spec(manifest.get("spec") or {})
    policy = _policy(spec, name.namespace, objects)
    settings = settings_of(spec, policy)
    signals = settings.signals
    if signals is None or signals.preset is None or signals.source is None:
        raise SpecError("signals.preset and signals.source are not set, neither here nor in the policy")
    sides = {
        Variant.BASELINE: _side(spec.baseline.backend.name, spec.baseline.backend.port, spec.baseline.metrics),
        Variant.CANDIDATE: _side(spec.candidate.backend.name, spec.candidate.backend.port, spec.candidate.metrics),
    }
    plan = to_plan(spec, policy, key=str(manifest["metadata"].get("uid", "")))
    own = [OwnCounter(m.name, m.counter.events, m.counter.total) for m in signals.metrics or ()]
    return Blueprint(
        plan=plan,
        source=signals.source,
        signals=queries(signals.preset.value, own, name.namespace, sides),
        variants={},
        channels=tuple(Channel(entry.channel, Severity(entry.from_.value)) for entry in settings.notify or ()),
        shadow=shadow_queries(name.name, plan.shadow_gates),
        rollout=name.name,
    )


def _side(service: str, port: int, metrics: object) -> Side:
    labels = getattr(metrics, "labels", None)
    return Side(service, port, dict(labels) if labels else {})


def _policy(spec: ModelRolloutSpec, namespace: str, objects: Objects) -> PolicySpec | None:
    if spec.policy_ref is None:
        return None
    ref = spec.policy_ref
    local = ref.kind is PolicyKind.ROLLOUT_POLICY
    kind, place = (ROLLOUT_POLICY, namespace) if local else (CLUSTER_ROLLOUT_POLICY, "")
    found = objects.find(kind, Name(place, ref.name))
    if found is None:
        raise SpecError(
            f"policyRef names {ref.kind.value} {ref.name}, which does not exist: create it, or correct the name"
        )
    return read_policy(found.get("spec") or {})
