"""Whatever bytes come, in whatever pieces: the receiver and the caller go on, and hold nothing afterwards.

The pieces are handed to the protocols as an event loop does: over sockets, pieces are not what was sent.
"""

from __future__ import annotations

import asyncio
import gzip
import itertools

from hypothesis import given
from hypothesis import strategies as st

from davylamp.shadow.calling import _Connection as Calling
from davylamp.shadow.exchange import Answer, Failure
from davylamp.shadow.receiving import HttpListener, Patience
from davylamp.shadow.receiving import _Connection as Receiving
from davylamp.shadow.reception import Reception
from tests.davylamp.shadow.servers import OK, request
from tests.davylamp.shadow.sinks import KeepingSink
from tests.davylamp.shadow.test_calling import EVENTS

CHUNKED = b"POST /v2/models/a/infer HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nx: y\r\n\r\n"
REQUESTS = [
    request(b'{"inputs":[]}'),
    CHUNKED,
    request(gzip.compress(b"x", mtime=0), headers="expect: 100-continue\r\n"),
]
ANSWERS = [OK, EVENTS, b"HTTP/1.0 200 OK\r\n\r\nx", b"HTTP/1.1 100 Continue\r\n\r\n" + OK]
cuts = st.lists(st.integers(0, 400), max_size=6)
changes = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=3)


class Memory(asyncio.Transport):
    """A transport into nowhere."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    abort = close


def pieces(whole: bytes, at: list[int]) -> list[bytes]:
    places = [0, *sorted({place % (len(whole) + 1) for place in at}), len(whole)]
    return [whole[start:end] for start, end in itertools.pairwise(places) if start < end]


def damaged(whole: bytes, changed: list[tuple[int, int]]) -> bytes:
    made = bytearray(whole)
    for place, value in changed:
        made[place % len(made)] = value
    return bytes(made)


def received(parts: list[bytes]) -> tuple[KeepingSink, bytes]:
    async def feed() -> tuple[KeepingSink, bytes]:
        sink, transport = KeepingSink(max_body=1000), Memory()
        connection = Receiving(HttpListener(sink, Patience()), asyncio.get_running_loop())
        connection.connection_made(transport)
        for part in parts:
            connection.data_received(part)
        connection.connection_lost(None)
        assert sink.held == 0
        return sink, transport.written

    return asyncio.run(feed())


def answered(parts: list[bytes]) -> Answer | Failure:
    async def feed() -> Answer | Failure:
        connection = Calling(asyncio.get_running_loop(), 1000)
        connection.connection_made(Memory())
        asking = asyncio.ensure_future(connection.ask(b"", headless=False))
        await asyncio.sleep(0)
        for part in parts:
            connection.data_received(part)
        connection.connection_lost(None)
        return await asking

    return asyncio.run(feed())


@given(which=st.lists(st.sampled_from(REQUESTS), min_size=1, max_size=3), at=cuts)
def test_requests_are_the_same_in_whatever_pieces_they_come(which: list[bytes], at: list[int]) -> None:
    whole = b"".join(which)
    once, _ = received([whole])
    pieced, written = received(pieces(whole, at))

    assert pieced.taken == once.taken
    assert len(pieced.taken) == len(which) == written.count(b"202 Accepted")
    assert pieced.refused == []


@given(whole=st.sampled_from(REQUESTS), changed=changes, at=cuts)
def test_a_damaged_request_is_taken_or_counted(whole: bytes, changed: list[tuple[int, int]], at: list[int]) -> None:
    sink, _ = received(pieces(damaged(whole, changed), at))

    assert sink.taken or sink.refused


@given(parts=st.lists(st.binary(min_size=1, max_size=50), min_size=1, max_size=5))
def test_who_sends_any_bytes_is_told_when_they_are_no_request(parts: list[bytes]) -> None:
    sink, written = received(parts)

    assert written.count(b" 202 ") == len(sink.taken) + sink.refused.count(Reception.UPGRADE)
    assert written.count(b" 400 ") == sink.refused.count(Reception.UNDECODABLE) <= 1


@given(whole=st.sampled_from(ANSWERS), at=cuts)
def test_an_answer_is_the_same_in_whatever_pieces_it_comes(whole: bytes, at: list[int]) -> None:
    once = answered([whole])

    assert isinstance(once, Answer)
    assert answered(pieces(whole, at)) == once


@given(whole=st.sampled_from(ANSWERS), changed=changes, at=cuts)
def test_a_damaged_answer_is_an_answer_or_a_failure(
    whole: bytes, changed: list[tuple[int, int]], at: list[int]
) -> None:
    assert isinstance(answered(pieces(damaged(whole, changed), at)), Answer | Failure)


@given(parts=st.lists(st.binary(min_size=1, max_size=50), max_size=5))
def test_any_bytes_are_an_answer_or_a_failure(parts: list[bytes]) -> None:
    assert isinstance(answered(parts), Answer | Failure)
