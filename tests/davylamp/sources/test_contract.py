"""What every source does, found through the registry."""

import dataclasses

import pytest

from davylamp.core.reading import Reading
from davylamp.errors import Unavailable
from davylamp.sources import SOURCES
from davylamp.sources.settings import PrometheusSettings, no_credentials
from tests.davylamp.sources.clocks import HandClock
from tests.davylamp.sources.looks import ERRORS, LATENCY, request
from tests.davylamp.sources.servers import Server

pytestmark = pytest.mark.parametrize("name", sorted(SOURCES))


async def test_a_reading_has_one_entry_for_each_gate_and_says_what_is_missing(
    name: str, settings: PrometheusSettings
) -> None:
    source = SOURCES[name](settings, HandClock(), no_credentials)

    reading = await source.read(request(ERRORS, LATENCY))
    await source.close()

    assert isinstance(reading, Reading)
    assert reading.signals.keys() == {"errors", "latency"}
    assert all(len(signal.trouble) == 2 for signal in reading.signals.values())


async def test_a_server_that_fails_is_unavailable_and_the_source_can_be_used_again(
    name: str, settings: PrometheusSettings, server: Server
) -> None:
    source = SOURCES[name](settings, HandClock(), no_credentials)
    server.answer({}, status=500)

    with pytest.raises(Unavailable):
        await source.read(request(ERRORS))
    server.answer()
    assert (await source.read(request(ERRORS))).signals
    await source.close()


async def test_closing_twice_and_before_any_look_does_no_harm(name: str, settings: PrometheusSettings) -> None:
    source = SOURCES[name](dataclasses.replace(settings), HandClock(), no_credentials)

    await source.close()
    await source.close()
