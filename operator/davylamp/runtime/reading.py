"""Read a rollout's signals through its MetricSource; one source object serves all rollouts that name it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

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
from davylamp.sources import SOURCES, OpenSource
from davylamp.sources.settings import Credentials, PrometheusSettings


@dataclass(slots=True)
class _Open:
    """A source object, by the version of the MetricSource that it was made from, and how many are reading from it."""

    version: str
    source: OpenSource
    spec: MetricSourceSpec
    readers: int = 0
    retired: bool = False

    async def read(self, request: Request) -> Reading:
        """Read; the last reader of a source that was replaced closes it."""
        self.readers += 1
        try:
            return await self.source.read(request)
        finally:
            self.readers -= 1
            await self.close_unused()

    async def close_unused(self) -> None:
        """Close the connections of a source that was replaced, once nobody reads from it."""
        if self.retired and self.readers == 0:
            await self.source.close()


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
        self._open: dict[str, _Open] = {}

    async def read(
        self, blueprint: Blueprint, namespace: str, window: tuple[datetime, datetime], *, serving: bool = True
    ) -> Reading:
        """Return the raw samples of a window; candidates with traffic come first where a source has its limit.

        Raises
        ------
        SpecError
            If there is no such source, or it refuses the query.
        Unavailable
            If it does not answer in full.
        """
        used = await self._source(blueprint.source)
        request = Request(
            namespace=namespace,
            variants=blueprint.variants,
            signals=blueprint.signals,
            start=window[0],
            end=window[1],
            lookback=parse_duration(used.spec.prometheus.max_sample_age),
            serving=serving,
        )
        return await used.read(request)

    async def close(self) -> None:
        """Close all connections."""
        for used in self._open.values():
            await used.source.close()

    async def _source(self, name: str) -> _Open:
        for gone in [name for name in self._open if self._catalogue.find(METRIC_SOURCE, Name("", name)) is None]:
            if used := self._open.pop(gone, None):
                await _retire(used)
        found = self._catalogue.find(METRIC_SOURCE, Name("", name))
        if found is None:
            raise SpecError(
                f"MetricSource {name} does not exist: the platform team creates it, or correct signals.source"
            )
        version = found["metadata"]["resourceVersion"]
        known = self._open.get(name)
        if known is not None and known.version == version:
            return known
        try:
            spec = MetricSourceSpec.parse(found.get("spec") or {})
        except ValueError as wrong:
            raise SpecError(f"MetricSource {name}: {wrong}") from wrong
        source = SOURCES["prometheus"](_settings(name, spec), self._clock, lambda: self._credentials(found["spec"]))
        opened = self._open[name] = _Open(version, source, spec)
        if known is not None:
            await _retire(known)
        return opened

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


async def _retire(used: _Open) -> None:
    used.retired = True
    await used.close_unused()


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
