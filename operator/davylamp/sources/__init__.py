"""Adapters that read metrics: one module each, and one line here."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, Protocol

from davylamp.ports import Clock, MetricSource
from davylamp.sources.prometheus import PrometheusSource
from davylamp.sources.settings import CredentialReader, PrometheusSettings


class OpenSource(MetricSource, Protocol):
    """A source with connections of its own."""

    async def close(self) -> None:
        """Close the connections."""
        ...


SourceFactory = Callable[[PrometheusSettings, Clock, CredentialReader], OpenSource]

#: By the field of ``MetricSource.spec``; the contract test runs over all of them.
SOURCES: Final[Mapping[str, SourceFactory]] = MappingProxyType(
    {
        "prometheus": PrometheusSource,
    }
)
