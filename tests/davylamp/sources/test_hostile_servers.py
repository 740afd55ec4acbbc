"""What servers and proxies do instead of answering, over real connections."""

from __future__ import annotations

import asyncio
import gzip
from dataclasses import replace
from datetime import timedelta

import pytest
from aiohttp import web

from davylamp.errors import SpecError, Unavailable
from davylamp.sources.prometheus import PrometheusSource
from davylamp.sources.settings import PrometheusSettings
from tests.davylamp.sources.conftest import Opener
from tests.davylamp.sources.looks import (
    ERRORS,
    SETTINGS,
    both,
    envelope,
    request,
)
from tests.davylamp.sources.servers import Server


async def test_a_login_page_is_no_answer(server: Server, source: PrometheusSource) -> None:
    async def page(_: web.Request) -> web.Response:
        return web.Response(text="<html>log in</html>", content_type="text/html")

    server.handler = page

    with pytest.raises(Unavailable, match="a page instead of data"):
        await source.read(request(ERRORS))


async def test_a_redirect_is_not_followed(server: Server, source: PrometheusSource) -> None:
    async def redirect(_: web.Request) -> web.Response:
        raise web.HTTPTemporaryRedirect(server.address + "api/v1/query")

    server.handler = redirect

    with pytest.raises(Unavailable, match="redirect"):
        await source.read(request(ERRORS))
    assert len(server.forms) == 1


async def test_a_compressed_answer_is_not_inflated(server: Server, source: PrometheusSource) -> None:
    bomb = gzip.compress(bytes(20 * 2**20))

    async def compressed(_: web.Request) -> web.Response:
        return web.Response(body=bomb, content_type="application/json", headers={"Content-Encoding": "gzip"})

    server.handler = compressed

    with pytest.raises(Unavailable, match="compressed"):
        await source.read(request(ERRORS))


@pytest.mark.parametrize("status", [200, 500])
async def test_an_endless_answer_is_cut_off(server: Server, source: PrometheusSource, status: int) -> None:
    async def endless(asked: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=status, headers={"Content-Type": "application/json"})
        await response.prepare(asked)
        while True:
            await response.write(b" " * 2**20)

    server.handler = endless

    with pytest.raises(Unavailable):
        await source.read(request(ERRORS))


async def test_an_answer_that_drips_ends_at_the_deadline(
    server: Server, settings: PrometheusSettings, opened: Opener
) -> None:
    async def drip(asked: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(asked)
        while True:
            await response.write(b" ")
            await asyncio.sleep(0.02)

    server.handler = drip
    source = opened(replace(settings, timeout=timedelta(seconds=0.3)))

    with pytest.raises(Unavailable, match=r"does not answer within 0\.3 s"):
        await source.read(request(ERRORS))


async def test_an_answer_that_breaks_off_is_no_answer(server: Server, source: PrometheusSource) -> None:
    async def broken(asked: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": "1000"})
        await response.prepare(asked)
        await response.write(b'{"status"')
        assert asked.transport is not None
        asked.transport.close()
        return response

    server.handler = broken

    with pytest.raises(Unavailable, match="breaks off in mid-answer"):
        await source.read(request(ERRORS))


async def test_a_server_that_is_not_there_takes_no_connections(opened: Opener, unused_tcp_port: int) -> None:
    source = opened(replace(SETTINGS, address=f"http://127.0.0.1:{unused_tcp_port}"))

    with pytest.raises(Unavailable, match="does not take connections"):
        await source.read(request(ERRORS))


@pytest.mark.parametrize("address", ["http://127.0.0.1:99999", "http://", "ftp://x", "nonsense"])
async def test_an_address_that_is_none_is_for_a_person_to_put_right(opened: Opener, address: str) -> None:
    source = opened(replace(SETTINGS, address=address))

    with pytest.raises(SpecError, match=r"put prometheus\.address right"):
        await source.read(request(ERRORS))


async def test_a_connection_that_was_given_up_meanwhile_costs_no_look(server: Server, source: PrometheusSource) -> None:
    dropped: list[web.Request] = []

    async def drop_once(asked: web.Request) -> web.StreamResponse:
        if not dropped:
            dropped.append(asked)
            assert asked.transport is not None
            asked.transport.close()
        return web.json_response(envelope(both("ok_total", [1])))

    server.handler = drop_once

    assert (await source.read(request(ERRORS))).signals["errors"].targets
    assert len(server.forms) == 2
