from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Protocol

import pytest
import pytest_asyncio

from davylamp.sources.prometheus import PrometheusSource
from davylamp.sources.settings import CredentialReader, PrometheusSettings, no_credentials
from tests.davylamp.sources.clocks import HandClock
from tests.davylamp.sources.looks import SETTINGS
from tests.davylamp.sources.servers import Server, serving


@pytest_asyncio.fixture
async def server() -> AsyncIterator[Server]:
    async with serving() as started:
        yield started


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def settings(server: Server) -> PrometheusSettings:
    return replace(SETTINGS, address=server.address, queries_per_second=1000, timeout=timedelta(seconds=5))


class Opener(Protocol):
    """Opens a source that is closed after the test."""

    def __call__(
        self, settings: PrometheusSettings, credentials: CredentialReader = no_credentials
    ) -> PrometheusSource: ...


@pytest_asyncio.fixture
async def opened(clock: HandClock) -> AsyncIterator[Opener]:
    sources = []

    def open_one(settings: PrometheusSettings, credentials: CredentialReader = no_credentials) -> PrometheusSource:
        sources.append(PrometheusSource(settings, clock, credentials))
        return sources[-1]

    yield open_one
    for source in sources:
        await source.close()


@pytest.fixture
def source(settings: PrometheusSettings, opened: Opener) -> PrometheusSource:
    return opened(settings)
