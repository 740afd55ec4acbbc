"""What mirrors really send, over real connections."""

from __future__ import annotations

import asyncio

import pytest

from davylamp.shadow.receiving import Patience
from davylamp.shadow.reception import Reception
from tests.davylamp.shadow.servers import HOST, request, send
from tests.davylamp.shadow.sinks import KeepingSink, listening

TAKEN = b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"
CLOSED = b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD", "PATCH"])
async def test_any_method_and_path_is_answered_with_202_and_no_body(method: str) -> None:
    sink = KeepingSink()
    async with listening(sink) as (port, _):
        assert await send(port, request(b"", method=method, target="/any/thing?x=1")) == TAKEN

    (arrived,) = sink.taken
    assert (arrived.method, arrived.target, arrived.body) == (method, "/any/thing?x=1", b"")


@pytest.mark.parametrize("host", ["credit.ml", "credit.ml-shadow", "credit.ml-shadow:8090", "", "[::1]"])
async def test_the_host_header_changes_nothing(host: str) -> None:
    sink = KeepingSink()
    async with listening(sink) as (port, _):
        assert await send(port, f"POST /a HTTP/1.1\r\nhost: {host}\r\ncontent-length: 1\r\n\r\nx".encode()) == TAKEN

    assert sink.taken[0].headers[0] == ("host", host)


async def test_a_chunked_body_is_put_together_and_its_trailers_are_no_headers() -> None:
    sink = KeepingSink()
    head = b"POST /a HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
    async with listening(sink) as (port, _):
        tail = b"de\r\n0\r\ncontent-encoding: gzip\r\nx-tenant: b\r\n\r\n"
        assert await send(port, head, b"3\r\nabc\r\n2;note=x\r\n", tail, request(b"next"), answers=2) == TAKEN * 2

    assert sink.taken[0].body == b"abcde"
    assert sink.taken[0].headers == (("host", "a"), ("transfer-encoding", "chunked"))
    assert [name for name, _ in sink.taken[1].headers] == ["host", "x-request-id", "content-length"]


@pytest.mark.parametrize(
    "part",
    [
        b"POST /a HT",
        b"POST /a HTTP/1.1\r\nhost: a\r\n",
        b"POST /a HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nabc",
        b"POST /a HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n5\r\nabc",
    ],
)
async def test_a_request_that_is_cut_off_is_counted_and_never_taken(part: bytes) -> None:
    sink = KeepingSink()
    async with listening(sink) as (port, _):
        _, writer = await asyncio.open_connection(HOST, port)
        writer.write(part)
        await writer.drain()
        writer.close()
        await sink.until(refused=1)

    assert (sink.taken, sink.refused) == ([], [Reception.CUT_OFF])


async def test_a_connection_that_ends_between_requests_is_no_cut_off_request() -> None:
    sink = KeepingSink()
    async with listening(sink) as (port, _):
        await send(port, request())
        await send(port, request())

    assert (len(sink.taken), sink.refused) == (2, [])


async def test_requests_on_one_connection_are_all_answered_even_if_sent_at_once() -> None:
    sink = KeepingSink()
    async with listening(sink) as (port, _):
        assert await send(port, request(b"1") + request(b"2") + request(b"3"), answers=3) == TAKEN * 3

    assert [arrived.body for arrived in sink.taken] == [b"1", b"2", b"3"]


async def test_a_body_that_waits_to_be_invited_is_invited() -> None:
    sink = KeepingSink()
    async with listening(sink) as (port, _):
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(b"POST /a HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n")
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"ab")
        assert await reader.readuntil(b"\r\n\r\n") == TAKEN
        writer.close()

    assert sink.taken[0].body == b"ab"


async def test_http_1_0_is_answered_and_its_connection_closed() -> None:
    sink = KeepingSink()
    async with listening(sink) as (port, _):
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(b"POST /a HTTP/1.0\r\ncontent-length: 1\r\nconnection: keep-alive\r\n\r\nx")
        assert await reader.read() == CLOSED
        writer.close()

    assert sink.taken[0].body == b"x"


@pytest.mark.parametrize(
    "wrong",
    [
        b"POST /a HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /a HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n0\r\n\r\n",
        b"POST /a HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
        b"POST /a HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nno\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"NONSENSE\r\n\r\n",
    ],
    ids=["CL+TE", "TE+CL", "CL+CL", "chunk", "HTTP/2", "TLS", "nonsense"],
)
async def test_what_is_ambiguous_or_not_http_1_is_refused(wrong: bytes) -> None:
    sink = KeepingSink()
    async with listening(sink) as (port, _):
        assert (await send(port, wrong)).startswith(b"HTTP/1.1 400 ")

    assert (sink.taken, sink.refused) == ([], [Reception.UNDECODABLE])


@pytest.mark.parametrize("protocol", ["websocket", "h2c"])
async def test_a_request_for_another_protocol_is_answered_counted_and_not_taken(protocol: str) -> None:
    sink = KeepingSink()
    head = f"GET /chat HTTP/1.1\r\nhost: a\r\nconnection: Upgrade\r\nupgrade: {protocol}\r\n\r\n"
    async with listening(sink) as (port, _):
        assert await send(port, head.encode(), b"\x81\x05hello") == CLOSED

    assert (sink.taken, sink.refused) == ([], [Reception.UPGRADE])


@pytest.mark.parametrize("chunked", [True, False])
async def test_a_huge_body_is_answered_and_thrown_away_and_the_connection_stays(chunked: bool) -> None:
    sink = KeepingSink(max_body=1000)
    part = b"x" * 2**16
    length = "transfer-encoding: chunked" if chunked else f"content-length: {64 * 2**16}"
    head = f"POST /a HTTP/1.1\r\nhost: a\r\n{length}\r\n\r\n".encode()
    parts = [b"10000\r\n" + part + b"\r\n"] * 64 + [b"0\r\n\r\n"] if chunked else [part] * 64
    async with listening(sink) as (port, _):
        assert await send(port, head, *parts, request(b"small"), answers=2) == TAKEN * 2

    assert sink.refused == [Reception.TOO_LARGE]
    assert [arrived.body for arrived in sink.taken] == [b"small"]
    assert sink.highest <= 1000


async def test_a_body_that_there_is_no_room_for_is_thrown_away() -> None:
    sink = KeepingSink(most=4)
    async with listening(sink) as (port, _):
        assert await send(port, request(b"four"), request(b"five!"), answers=2) == TAKEN * 2

    assert sink.refused == [Reception.DROPPED]
    assert [arrived.body for arrived in sink.taken] == [b"four"]


@pytest.mark.parametrize("part", [b"POST /a HTTP/1.1\r\nhost: a\r\n", request(b"12345")[:-1]])
async def test_a_request_that_drips_in_has_an_end(part: bytes) -> None:
    sink = KeepingSink()
    async with listening(sink, Patience(whole=0.1)) as (port, _):
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(part)
        async with asyncio.timeout(20):
            assert (await reader.read()).startswith(b"HTTP/1.1 408 ")
        writer.close()

    assert (sink.taken, sink.refused) == ([], [Reception.CUT_OFF])


async def test_a_silent_connection_is_closed_and_nothing_counted() -> None:
    sink = KeepingSink()
    async with listening(sink, Patience(idle=0.1)) as (port, _):
        reader, writer = await asyncio.open_connection(HOST, port)
        async with asyncio.timeout(20):
            assert await reader.read() == b""
        writer.close()

    assert sink.refused == []


@pytest.mark.parametrize("head", [b"POST /a HTTP/1.1\r\nx: ", b"POST /", b"POST /a HTTP/1.1\r\n"])
async def test_headers_without_end_are_refused(head: bytes) -> None:
    sink = KeepingSink()
    endless = b"x: y\r\n" if head.endswith(b"\n") else b"xxxxxx"
    async with listening(sink, Patience(headers=4096)) as (port, _):
        assert (await send(port, head, endless * 1000)).startswith(b"HTTP/1.1 431 ")

    assert sink.refused == [Reception.TOO_LARGE]


async def test_trailers_without_end_are_refused() -> None:
    sink = KeepingSink()
    head = b"POST /a HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nx: "
    async with listening(sink, Patience(headers=4096)) as (port, _):
        # More than is read at once: only what follows a read with some body in it is known to be none.
        await send(port, head, *[b"x" * 2**16] * 32)
        await sink.until(refused=1)

    assert sink.refused == [Reception.TOO_LARGE]


async def test_more_connections_than_allowed_are_closed() -> None:
    sink = KeepingSink()
    async with listening(sink, Patience(connections=1)) as (port, _):
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(request())
        assert await reader.readuntil(b"\r\n\r\n") == TAKEN
        assert await send(port, request()) == b""
        writer.write(request())
        assert await reader.readuntil(b"\r\n\r\n") == TAKEN
        writer.close()

    assert len(sink.taken) == 2


async def test_a_sender_that_reads_no_answers_is_given_up() -> None:
    sink = KeepingSink()
    async with listening(sink) as (port, listener):
        _, writer = await asyncio.open_connection(HOST, port, limit=1)
        async with asyncio.timeout(60):
            while listener.connections or not sink.taken:
                writer.write(request(b"") * 100)
                await asyncio.sleep(0)
        writer.transport.abort()

    assert sink.refused.count(Reception.CUT_OFF) <= 1


async def test_closing_ends_what_is_arriving_and_counts_nothing() -> None:
    sink = KeepingSink()
    async with listening(sink) as (port, listener):
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(request(b"first") + request(b"12345")[:-1])
        await reader.readuntil(b"\r\n\r\n")
        await listener.close()
        with pytest.raises(ConnectionError):
            await asyncio.open_connection(HOST, port)
        writer.close()

    assert (len(sink.taken), sink.refused) == (1, [])
