"""Read a rollout's signals through its MetricSource; one source object serves all rollouts that name it."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from davylamp.api.v1alpha1.kinds import METRIC_SOURCE
from davylamp.api.v1alpha1.metricsource import MetricSourceSpec
from davylamp.api.v1alpha1.quantities import parse_duration
from davylamp.core.reading import Reading, Request
from davylamp.errors import SpecError
from davylamp.ports import Clock
from davylamp.runtime.blueprint import Blueprint
from davylamp.runtime.catalogue import Catalogue, Name
from davylamp.runtime.kube import Kube
from davylamp.runtime.secret import secret_value
from davylamp.sources.prometheus import PrometheusSource
from davylamp.sources.settings import Credentials, PrometheusSettings

#: How far a first look reaches back.
FIRST_WINDOW: Final = timedelta(seconds=60)
#: After a longer gap the window begins anew: old samples are dropped rather than read in one huge answer.
LONGEST_GAP: Final = timedelta(minutes=5)


class Sources:
    """All metric sources that are in use.

    Parameters
    ----------
    kube, clock, catalogue
        API server, time, and the MetricSources.
    namespace
        Of the operator, where the Secrets of MetricSources are.
    """

    def __init__(self, kube: Kube, clock: Clock, catalogue: Catalogue, namespace: str) -> None:
        self._kube = kube
        self._clock = clock
        self._catalogue = catalogue
        self._namespace = namespace
        self._open: dict[str, tuple[str, PrometheusSource]] = {}

    async def read(self, blueprint: Blueprint, namespace: str, window: tuple[datetime, datetime]) -> Reading:
        """Return the raw samples of a window.

        Raises
        ------
        SpecError
            If there is no such source, or it refuses the query.
        Unavailable
            If it does not answer in full.
        """
        spec, source = await self._source(blueprint.source)
        request = Request(
            namespace=namespace,
            variants=blueprint.variants,
            signals=blueprint.signals,
            start=window[0],
            end=window[1],
            lookback=parse_duration(spec.prometheus.max_sample_age),
        )
        return await source.read(request)

    async def close(self) -> None:
        """Close all connections."""
        for _, source in self._open.values():
            await source.close()

    async def _source(self, name: str) -> tuple[MetricSourceSpec, PrometheusSource]:
        found = self._catalogue.find(METRIC_SOURCE, Name("", name))
        if found is None:
            raise SpecError(
                f"MetricSource {name} does not exist: the platform team creates it, or correct signals.source"
            )
        try:
            spec = MetricSourceSpec.parse(found.get("spec") or {})
        except ValueError as wrong:
            raise SpecError(f"MetricSource {name}: {wrong}") from wrong
        version = found["metadata"]["resourceVersion"]
        known = self._open.get(name)
        if known is not None and known[0] == version:
            return spec, known[1]
        if known is not None:
            await known[1].close()
        source = PrometheusSource(_settings(name, spec), self._clock, lambda: self._credentials(found["spec"]))
        self._open[name] = version, source
        return spec, source

    async def _credentials(self, spec: Mapping[str, Any]) -> Credentials:
        prometheus = spec["prometheus"]
        auth = prometheus.get("auth") or {}
        basic = auth.get("basic") or {}
        return Credentials(
            bearer=await self._value(auth.get("bearerToken")),
            username=await self._value(basic.get("username")),
            password=await self._value(basic.get("password")),
            authority=await self._value(prometheus.get("ca")),
        )

    async def _value(self, ref: Mapping[str, Any] | None) -> str | None:
        return None if ref is None else await secret_value(self._kube, self._namespace, ref)


def window_for(as_of: datetime | None, now: datetime) -> tuple[datetime, datetime] | None:
    """Return the window of the next look; None while the stratum has not begun.

    Parameters
    ----------
    as_of
        Time up to which samples are counted; None before the first look.
    now
        Time of the look.
    """
    if as_of is None or now - as_of > LONGEST_GAP:
        return now - FIRST_WINDOW, now
    return (as_of, now) if as_of < now else None


def _settings(name: str, spec: MetricSourceSpec) -> PrometheusSettings:
    prometheus = spec.prometheus
    return PrometheusSettings(
        name=name,
        address=prometheus.address,
        timeout=parse_duration(prometheus.timeout),
        max_sample_age=parse_duration(prometheus.max_sample_age),
        queries_per_second=prometheus.queries_per_second,
        headers=tuple((header.name, header.value) for header in prometheus.headers or ()),
    )
