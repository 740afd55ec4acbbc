"""What is looked at: a rollout from manifests, with its policy and its metric source, without a cluster."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from davylamp.api.v1alpha1.kinds import API_VERSION, METRIC_SOURCE, MODEL_ROLLOUT, Kind
from davylamp.api.v1alpha1.metricsource import MetricSourceSpec
from davylamp.api.v1alpha1.quantities import parse_duration
from davylamp.core.looking import FIRST_WINDOW, Window
from davylamp.core.plan import Plan
from davylamp.core.reading import Request
from davylamp.errors import SpecError
from davylamp.offline.history import selector_of
from davylamp.runtime.blueprint import Blueprint, blueprint
from davylamp.runtime.catalogue import Name, Object
from davylamp.sources.questions import questions
from davylamp.sources.settings import PrometheusSettings

DEFAULT_NAMESPACE: Final = "default"
MOST_LOOKS: Final = 100_000


@dataclass(frozen=True, slots=True)
class Subject:
    """A rollout, complete and checked.

    Parameters
    ----------
    name
        Where it is.
    blueprint
        What it asks for.
    settings
        How its metric source is asked; of these, the age of samples matters here.
    """

    name: Name
    blueprint: Blueprint
    settings: PrometheusSettings

    @property
    def plan(self) -> Plan:
        """What it runs by on live traffic: of shadow traffic there is no history to look at."""
        return self.blueprint.plan.live

    def request(self, window: Window) -> Request:
        """Return what a live look at a window asks."""
        return Request(
            namespace=self.name.namespace,
            variants=self.blueprint.variants,
            signals=self.blueprint.signals,
            start=window[0],
            end=window[1],
            lookback=self.settings.max_sample_age,
        )

    def selectors(self, moment: datetime) -> tuple[str, ...]:
        """Return what its looks ask for."""
        asked = questions(self.request((moment - self.plan.interval, moment)))
        return tuple(dict.fromkeys(selector_of(question) for question in asked))

    def reach(self, begin: datetime, back: timedelta = FIRST_WINDOW) -> datetime:
        """Return from where samples are needed for looks from ``begin`` on, of which the first reaches ``back``."""
        return begin - back - self.settings.max_sample_age - timedelta(seconds=1)

    def looks(self, begin: datetime, end: datetime) -> int:
        """Return how many looks fit into a range.

        Raises
        ------
        SpecError
            If none does, or more than can be replayed.
        """
        number = (end - begin) // self.plan.interval
        if not 1 <= number <= MOST_LOOKS:
            seconds = self.plan.interval.total_seconds()
            raise SpecError(
                f"the range holds {max(0, number)} looks, one each {seconds:g} s, and must hold 1 to {MOST_LOOKS}: "
                "correct --from and --to, or the interval"
            )
        return number


@dataclass(frozen=True, slots=True)
class _Files:
    """Objects that were read from files."""

    objects: Mapping[tuple[str, Name], Object]

    def find(self, kind: Kind, name: Name) -> Object | None:
        """Return an object; one in a file without a namespace is in that of the rollout."""
        found = self.objects.get((kind.name, name))
        return found if found is not None else self.objects.get((kind.name, Name("", name.name)))


def subject_of(manifests: Iterable[Any], namespace: str | None = None, name: str | None = None) -> Subject:
    """Return the rollout among some manifests.

    Parameters
    ----------
    manifests
        Documents of Kubernetes objects: one ModelRollout, the policy and the MetricSource that it names; others are
        left aside.
    namespace
        Of the rollout if its manifest does not say.
    name
        Of the rollout if there are several.

    Raises
    ------
    SpecError
        If there is no such rollout, or it cannot be used.
    """
    objects = [found for found in manifests if _named(found)]
    rollouts = [found for found in objects if found.get("kind") == MODEL_ROLLOUT.name]
    if name is not None:
        rollouts = [found for found in rollouts if found["metadata"]["name"] == name]
    if len(rollouts) != 1:
        names = ", ".join(sorted(found["metadata"]["name"] for found in rollouts)) or "none"
        wanted = "one ModelRollout" if name is None else f"one ModelRollout named {name}"
        raise SpecError(f"the files must hold {wanted}, and hold {len(rollouts)} ({names}): name them with -f")
    place = rollouts[0]["metadata"].get("namespace") or namespace or DEFAULT_NAMESPACE
    manifest = dict(rollouts[0]) | {"metadata": {**rollouts[0]["metadata"], "namespace": place}}
    files = _Files({(str(found.get("kind")), _place(found)): found for found in objects})
    drawn = blueprint(manifest, files)
    return Subject(Name(place, manifest["metadata"]["name"]), drawn, _settings(drawn.source, files))


def rollout_of_service(service: str, port: int, namespace: str, preset: str) -> dict[str, Any]:
    """Return a rollout of which only the baseline exists, to look at a Service by Davylamp's defaults."""
    return {
        "apiVersion": API_VERSION,
        "kind": MODEL_ROLLOUT.name,
        "metadata": {"name": service, "namespace": namespace},
        "spec": {
            "baseline": {"backend": {"name": service, "port": port}},
            "candidate": {"backend": {"name": f"{service[:50]}-candidate", "port": port}},
            "route": {"gatewayAPI": {"httpRoute": service}},
            "steps": [{"weight": 50, "bake": "30m"}],
            "signals": {"preset": preset},
        },
    }


def _named(found: Any) -> bool:
    metadata = found.get("metadata") if isinstance(found, dict) else None
    return isinstance(metadata, dict) and isinstance(metadata.get("name"), str)


def _place(found: Mapping[str, Any]) -> Name:
    return Name(str(found["metadata"].get("namespace") or ""), found["metadata"]["name"])


def _settings(source: str, files: _Files) -> PrometheusSettings:
    """Return the settings of the MetricSource, or the defaults if no file holds it."""
    found = files.find(METRIC_SOURCE, Name("", source))
    if found is None:
        return PrometheusSettings(source, "")
    try:
        spec = MetricSourceSpec.parse(found.get("spec") or {})
    except ValueError as wrong:
        raise SpecError(f"MetricSource {source}: {wrong}") from wrong
    return PrometheusSettings(source, "", max_sample_age=parse_duration(spec.prometheus.max_sample_age))
