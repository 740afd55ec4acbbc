"""Variants that answer, and variants that are broken, over real connections."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from davylamp.shadow.calling import HttpCaller
from davylamp.shadow.exchange import Answer, Call, Failure, Outcome
from tests.davylamp.shadow.servers import INFER, OK, Behaviour, upstream

EVENTS = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    b"9\r\ndata: 1\n\n\r\ne\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"
)
CALL = Call("POST", INFER, (("x-request-id", "1"),), b"[1]")


@asynccontextmanager
async def calling(address: str, *, seconds: float = 20, max_body: int = 1000) -> AsyncIterator[HttpCaller]:
    caller = HttpCaller(address, seconds, max_body)
    try:
        yield caller
    finally:
        await caller.close()


async def result(answer: bytes, call: Call = CALL, *, close: bool = False) -> Answer | Failure:
    """Return what comes of an answer; the variant closes the connection after it, or waits."""

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        if not close:
            await reader.read()

    async with upstream(behaviour=behave) as variant, calling(variant.address) as caller:
        return (await caller.call(call)).result


async def failing(behave: Behaviour, *, seconds: float = 20) -> Outcome:
    async with upstream(behaviour=behave) as variant, calling(variant.address, seconds=seconds) as caller:
        return await caller.call(CALL)


async def test_a_call_names_the_variant_as_host_and_gives_its_length() -> None:
    async with upstream() as variant, calling(variant.address) as caller:
        outcome = await caller.call(CALL)

        assert outcome.result == Answer(200, (("content-length", "2"),), b"{}")
        assert outcome.seconds > 0
        assert variant.lines() == [
            f"POST {INFER} HTTP/1.1",
            f"host: {variant.address}",
            "content-length: 3",
            "x-request-id: 1",
        ]
        assert variant.requests[0][1] == b"[1]"


async def test_calls_one_after_the_other_share_a_connection() -> None:
    async with upstream() as variant, calling(variant.address) as caller:
        for _ in range(5):
            assert isinstance((await caller.call(CALL)).result, Answer)

        assert variant.connections == 1


async def test_calls_at_once_have_connections_of_their_own() -> None:
    together = asyncio.Barrier(2)

    async def both(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await together.wait()
        writer.write(OK)

    async with upstream(behaviour=both) as variant, calling(variant.address) as caller:
        outcomes = await asyncio.gather(caller.call(CALL), caller.call(CALL))

        assert all(isinstance(outcome.result, Answer) for outcome in outcomes)


async def test_a_call_without_a_body_says_no_length() -> None:
    async with upstream() as variant, calling(variant.address) as caller:
        await caller.call(Call("GET", "/v2", (), b""))

        assert variant.lines() == ["GET /v2 HTTP/1.1", f"host: {variant.address}"]


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n", b"abc"),
        (
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\ncontent-encoding: gzip\r\n\r\n",
            b"a",
        ),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + OK, b"{}"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        (b"HTTP/1.1 302 Found\r\nlocation: http://elsewhere/\r\ncontent-length: 1\r\n\r\nx", b"x"),
        (b"HTTP/1.1 500 Oops\r\ncontent-type: text/html\r\ncontent-length: 6\r\n\r\n<html>", b"<html>"),
        (EVENTS, b"data: 1\n\ndata: [DONE]\n\n"),
    ],
    ids=["chunked", "trailers", "informational", "empty", "redirect", "error", "events"],
)  # fmt: skip
async def test_an_answer_is_read_whole(answer: bytes, body: bytes) -> None:
    answered = await result(answer)

    assert isinstance(answered, Answer)
    assert answered.body == body
    assert f" {answered.status} ".encode() in answer


async def test_an_answer_without_a_length_ends_with_its_connection() -> None:
    for head in (b"HTTP/1.0 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n"):
        answered = await result(head + b"abc", close=True)

        assert isinstance(answered, Answer)
        assert answered.body == b"abc"


async def test_an_answer_to_head_has_no_body() -> None:
    answered = await result(b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n", Call("HEAD", "/", (), b""))

    assert answered == Answer(200, (("content-length", "7"),), b"")


async def test_switching_protocols_is_an_answer() -> None:
    answered = await result(b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\nhi")

    assert isinstance(answered, Answer)
    assert answered.status == 101


async def test_an_answer_in_a_coding_that_was_not_asked_for_is_decoded() -> None:
    body = gzip.compress(b"plain text")
    head = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(body)
    answered = await result(head + body)

    assert isinstance(answered, Answer)
    assert answered.body == b"plain text"


@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        (b"SSH-2.0-OpenSSH_9.6\r\n", Failure.MALFORMED),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n", Failure.MALFORMED),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", Failure.MALFORMED),
        (b"HTTP/1.1 200 OK\r\ncontent-encoding: lzma\r\ncontent-length: 1\r\n\r\nx", Failure.MALFORMED),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 1001\r\n\r\n" + b"x" * 1001, Failure.TOO_LARGE),
        (b"HTTP/1.1 200 OK\r\nx: " + b"x" * 70000, Failure.TOO_LARGE),
    ],
    ids=["not HTTP", "CL+TE", "chunk", "coding", "body", "headers"],
)
async def test_an_answer_that_cannot_be_used_is_a_failure(answer: bytes, failure: Failure) -> None:
    assert await result(answer) is failure


async def test_a_bomb_is_too_large_before_it_is_inflated() -> None:
    body = gzip.compress(bytes(10**6))[:1000]
    head = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(body)

    assert await result(head + body) is Failure.TOO_LARGE


@pytest.mark.parametrize("beginning", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nab"])
async def test_a_connection_that_breaks_off_is_a_failure(beginning: bytes) -> None:
    assert await result(beginning, close=True) is Failure.BROKEN_OFF


async def test_a_reset_is_a_failure_even_where_the_end_would_have_been_one() -> None:
    async def reset(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nab")
        # To linger for 0 s is to reset.
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    assert (await failing(reset)).result is Failure.BROKEN_OFF


async def test_a_stream_without_end_is_too_large() -> None:
    async def stream(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
        while not writer.transport.is_closing():
            writer.write(b"data: token\n\n")
            await asyncio.sleep(0)

    assert (await failing(stream)).result is Failure.TOO_LARGE


async def test_headers_without_end_before_any_answer_are_too_large() -> None:
    async def hint(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n")
        while not writer.transport.is_closing():
            writer.write(b"x: y\r\n" * 1000)
            await asyncio.sleep(0)

    assert (await failing(hint)).result is Failure.TOO_LARGE


async def test_no_answer_in_time_is_a_timeout_and_the_connection_is_not_used_again() -> None:
    async def never(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async with upstream(behaviour=never) as variant, calling(variant.address, seconds=0.1) as caller:
        for number in range(2):
            outcome = await caller.call(CALL)
            assert outcome.result is Failure.TIMEOUT
            assert outcome.seconds > 0.05
            assert variant.connections == number + 1


async def test_nobody_there_is_unreachable() -> None:
    async with upstream() as variant:
        address = variant.address
    async with calling(address) as caller:
        assert (await caller.call(CALL)).result is Failure.UNREACHABLE


async def test_a_name_that_does_not_resolve_is_unreachable() -> None:
    async with calling("nowhere.invalid:80") as caller:
        assert (await caller.call(CALL)).result is Failure.UNREACHABLE


async def test_a_kept_connection_that_was_given_up_is_replaced() -> None:
    async def once(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Closes without saying so before, and only when the next request is on its way or just before.
        writer.write(OK)

    async with upstream(behaviour=once) as variant, calling(variant.address) as caller:
        for _ in range(20):
            assert isinstance((await caller.call(CALL)).result, Answer)


async def test_a_kept_connection_that_ends_under_a_request_is_tried_once_more() -> None:
    answers = iter([OK, b"", OK])

    async def second_time_lost(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(next(answers))
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"POST")

    async with upstream(behaviour=second_time_lost) as variant, calling(variant.address) as caller:
        assert isinstance((await caller.call(CALL)).result, Answer)
        # Lost on the kept connection, and again without an answer on the new one: that is the variant's own doing.
        waiting = asyncio.create_task(caller.call(CALL))
        while variant.connections < 2:  # noqa: ASYNC110 - the variant tells nobody
            await asyncio.sleep(0.001)
        await caller.close()
        assert (await waiting).result is Failure.BROKEN_OFF


async def test_two_answers_to_one_request_spoil_the_connection_and_not_the_next_call() -> None:
    async with upstream(OK + OK.replace(b"{}", b"[]")) as variant, calling(variant.address) as caller:
        for _ in range(3):
            assert (await caller.call(CALL)).result == Answer(200, (("content-length", "2"),), b"{}")

        assert variant.connections == 3


async def test_bytes_that_nobody_asked_for_spoil_the_connection_and_not_the_next_call() -> None:
    async with upstream(OK + b"garbage") as variant, calling(variant.address) as caller:
        for _ in range(3):
            assert (await caller.call(CALL)).result == Answer(200, (("content-length", "2"),), b"{}")


async def test_a_connection_that_speaks_unasked_is_closed() -> None:
    speak, closed = asyncio.Event(), asyncio.Event()

    async def unasked(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK)
        await speak.wait()
        writer.write(b"HTTP/1.1 408 Request Timeout\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            await reader.read()
        closed.set()

    async with upstream(behaviour=unasked) as variant, calling(variant.address) as caller:
        assert isinstance((await caller.call(CALL)).result, Answer)
        speak.set()
        async with asyncio.timeout(20):
            await closed.wait()


def test_an_address_of_ip_version_6_is_understood() -> None:
    caller = HttpCaller("[fd00::1]:80", 20, 1000)

    assert (caller._host, caller._port) == ("fd00::1", 80)
