"""gRPC both ways, with the library's own client and server over real HTTP/2."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import grpc
import pytest

from davylamp.shadow.calling_grpc import GrpcCaller
from davylamp.shadow.comparator import Comparator
from davylamp.shadow.doorway import Doorway, Limits
from davylamp.shadow.exchange import Answer, Call, Failure, Protocol
from davylamp.shadow.receiving_grpc import Entry, GrpcListener
from davylamp.shadow.reception import Reception
from davylamp.shadow.room import Room
from davylamp.shadow.task import Replay
from tests.davylamp.shadow.servers import HOST, comparing, counted, received, task, value
from tests.davylamp.shadow.sinks import KeepingSink

INFER = "/inference.GRPCInferenceService/ModelInfer"
CALL = Call("POST", INFER, (("x-request-id", "1"),), b"request", Protocol.GRPC)
Answering = Callable[[bytes, Any], Awaitable[bytes]]


@asynccontextmanager
async def model_server(answering: Answering) -> AsyncIterator[str]:
    class AnyMethod(grpc.GenericRpcHandler):  # type: ignore[misc]  # the library has no types
        def service(self, _: Any) -> Any:
            return grpc.unary_unary_rpc_method_handler(answering)

    server = grpc.aio.server()
    server.add_generic_rpc_handlers((AnyMethod(),))
    port = server.add_insecure_port(f"{HOST}:0")
    await server.start()
    try:
        yield f"{HOST}:{port}"
    finally:
        await server.stop(None)


async def mirror(
    comparator: Comparator, message: bytes, *, method: str = INFER, metadata: tuple[tuple[str, Any], ...] = ()
) -> bytes:
    ports = comparator.ports_of("ml", "credit")
    assert ports is not None
    async with grpc.aio.insecure_channel(f"{HOST}:{ports[1]}") as channel:
        answer: bytes = await channel.unary_unary(method)(message, metadata=metadata, timeout=20)
        return answer


async def test_a_call_is_answered_with_ok_and_no_message_and_both_variants_get_it() -> None:
    seen: list[tuple[bytes, dict[str, Any]]] = []

    async def answer(message: bytes, context: Any) -> bytes:
        seen.append((message, {str(name): text for name, text in context.invocation_metadata()}))
        return b"answer"

    metadata = (("x-request-id", "1"), ("authorization", "Bearer secret"), ("x-tenant", "a"), ("trace-bin", b"\0"))
    async with model_server(answer) as address, comparing(task(address, address)) as comparator:
        assert await mirror(comparator, b"request", metadata=metadata) == b""
        await counted(comparator, "timed_pairs_total", pair="candidate")

    assert [message for message, _ in seen] == [b"request", b"request"]
    for _, sent in seen:
        assert (sent["x-request-id"], sent["x-tenant"], sent["x-davylamp-shadow"]) == ("1", "a", "1")
        assert not {"authorization", "trace-bin"} & sent.keys()


async def test_another_method_is_answered_and_not_replayed() -> None:
    async with comparing(task(f"{HOST}:1", f"{HOST}:1")) as comparator:
        assert await mirror(comparator, b"", method="/inference.GRPCInferenceService/ServerReady") == b""
        await received(comparator, "NotAllowed")


async def test_a_repeated_call_is_a_duplicate() -> None:
    async with comparing(task(f"{HOST}:1", f"{HOST}:1")) as comparator:
        for _ in range(2):
            await mirror(comparator, b"x", metadata=(("x-request-id", "1"),))
        await received(comparator, "Duplicate")
        assert value(comparator, "requests_total", outcome="Sampled") == 1


async def test_a_message_over_the_limit_is_answered_and_counted() -> None:
    asked = replace(task(f"{HOST}:1", f"{HOST}:1"), replay=Replay(max_body=100))
    async with comparing(asked) as comparator:
        with pytest.raises(grpc.aio.AioRpcError, match="larger than max"):
            await mirror(comparator, b"x" * 101)
        await received(comparator, "TooLarge")
        assert await mirror(comparator, b"x" * 100) == b""
        await received(comparator, "Sampled")


async def test_the_limit_of_messages_is_that_of_the_rollout_when_it_changes_too() -> None:
    asked = replace(task(f"{HOST}:1", f"{HOST}:1"), replay=Replay(max_body=100))
    async with comparing(asked) as comparator:
        await comparator.set_tasks([replace(asked, replay=Replay(max_body=200))])
        assert await mirror(comparator, b"x" * 200) == b""
        await received(comparator, "Sampled")


async def test_a_message_that_there_is_no_room_for_is_answered_and_dropped() -> None:
    async with comparing(task(f"{HOST}:1", f"{HOST}:1"), room=Room(octets=3)) as comparator:
        assert await mirror(comparator, b"four") == b""
        await received(comparator, "Dropped")
        assert value(comparator, "held_bytes") == 0


def frame(kind: int, flags: int, payload: bytes, stream: int = 1) -> bytes:
    """Return a frame of HTTP/2."""
    return len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + payload


def literal(name: bytes, text: bytes) -> bytes:
    """Return a header as HPACK has it, in no table and not compressed."""
    return b"\0" + bytes((len(name),)) + name + bytes((len(text),)) + text


HEADERS = b"".join(
    literal(name, text)
    for name, text in (
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", INFER.encode()),
        (b":authority", b"a"),
        (b"te", b"trailers"),
        (b"content-type", b"application/grpc"),
    )
)


@asynccontextmanager
async def half_a_message(port: int) -> AsyncIterator[None]:
    """Send the beginning of a message of 100 bytes, and no more."""
    _, writer = await asyncio.open_connection(HOST, port)
    begun = b"\0" + (100).to_bytes(4) + b"half"
    writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, b"", 0) + frame(1, 4, HEADERS) + frame(0, 0, begun))
    try:
        yield
    finally:
        writer.close()


@asynccontextmanager
async def listening(sink: KeepingSink, entry: Entry) -> AsyncIterator[tuple[int, Any]]:
    listener = GrpcListener(sink, entry)
    try:
        port = await listener.open(HOST, 0)
        async with grpc.aio.insecure_channel(f"{HOST}:{port}") as channel:
            yield port, channel.unary_unary(INFER)
    finally:
        await listener.close()
    assert sink.held == 0


async def test_no_more_messages_are_read_at_once_than_there_is_room_for_and_the_next_are_dropped() -> None:
    sink, doorway = KeepingSink(max_body=100), Doorway(Limits(octets=200, seconds=0.05))
    async with listening(sink, Entry(doorway, 20)) as (port, call):
        async with half_a_message(port), half_a_message(port):
            async with asyncio.timeout(20):
                while doorway.free > 0:  # noqa: ASYNC110 - nobody is told
                    await asyncio.sleep(0.001)
            assert await call(b"x" * 100, timeout=20) == b""
            assert sink.refused == [Reception.DROPPED]
        # Both were cut off, which is not told from a message that the library has refused; they leave their room.
        await sink.until(refused=3)
        assert await call(b"x" * 100, timeout=20) == b""
        await sink.until(taken=1)

    assert sink.refused[1:] == [Reception.TOO_LARGE] * 2
    assert doorway.free == 200


async def test_a_message_that_does_not_come_to_its_end_has_an_end() -> None:
    sink = KeepingSink(max_body=100)
    async with listening(sink, Entry(Doorway(Limits()), 0.05)) as (port, _), half_a_message(port):
        await sink.until(refused=1)

    assert (sink.taken, sink.refused) == ([], [Reception.CUT_OFF])


async def refused(port: int) -> None:
    """Wait until nobody listens."""
    async with asyncio.timeout(20):
        with contextlib.suppress(ConnectionRefusedError):
            while True:
                _, writer = await asyncio.open_connection(HOST, port)
                writer.close()


@asynccontextmanager
async def path_that_is_no_text(port: int) -> AsyncIterator[None]:
    """Send a request whose path is none."""
    _, writer = await asyncio.open_connection(HOST, port)
    path = HEADERS.replace(INFER.encode(), b"\xbc" * len(INFER))
    writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, b"", 0) + frame(1, 5, path))
    try:
        yield
    finally:
        writer.close()


async def test_a_path_that_is_no_text_ends_the_librarys_server_and_another_one_takes_its_place() -> None:
    sink = KeepingSink()
    async with listening(sink, Entry(Doorway(Limits()), 20)) as (port, call):
        for number in range(2):
            async with path_that_is_no_text(port):
                await sink.until(refused=number + 1)
            # The channel connects again when it can.
            await call(b"x", timeout=20, wait_for_ready=True)

    assert (len(sink.taken), sink.refused) == (2, [Reception.UNDECODABLE] * 2)


async def test_a_listener_whose_server_has_ended_can_be_closed() -> None:
    listener = GrpcListener(KeepingSink(), Entry(Doorway(Limits()), 20))
    port = await listener.open(HOST, 0)
    async with path_that_is_no_text(port):
        await refused(port)
        async with asyncio.timeout(20):
            await listener.close()
    await refused(port)


async def outcome(answering: Answering, *, seconds: float = 20, max_body: int = 1000) -> Answer | Failure:
    async with model_server(answering) as address:
        caller = GrpcCaller(address, seconds, max_body)
        try:
            return (await caller.call(CALL)).result
        finally:
            await caller.close()


async def test_an_answer_is_bytes_with_its_trailers() -> None:
    async def answer(message: bytes, context: Any) -> bytes:
        context.set_trailing_metadata((("x-version", "2"),))
        return message + b"!"

    answered = await outcome(answer)

    assert answered == Answer(0, (("x-version", "2"),), b"request!", Protocol.GRPC)
    assert isinstance(answered, Answer)
    assert answered.succeeded


@pytest.mark.parametrize(
    "code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.INTERNAL]
)
async def test_what_the_variant_says_is_an_answer(code: grpc.StatusCode) -> None:
    async def refuse(_: bytes, context: Any) -> bytes:
        await context.abort(code, "failed to connect to the model")
        raise AssertionError

    answered = await outcome(refuse)

    assert isinstance(answered, Answer)
    assert answered.status == code.value[0]


async def test_no_answer_in_time_is_a_timeout() -> None:
    async def never(_: bytes, __: Any) -> bytes:
        await asyncio.Event().wait()
        return b""

    assert await outcome(never, seconds=0.1) is Failure.TIMEOUT


async def test_an_answer_over_the_limit_is_too_large() -> None:
    async def large(_: bytes, __: Any) -> bytes:
        return b"x" * 1001

    assert await outcome(large) is Failure.TOO_LARGE


async def failure(behave: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> Answer | Failure:
    server = await asyncio.start_server(behave, HOST, 0)
    caller = GrpcCaller(f"{HOST}:{server.sockets[0].getsockname()[1]}", 2, 1000)
    try:
        return (await caller.call(CALL)).result
    finally:
        await caller.close()
        server.close()


async def test_a_server_that_hangs_up_is_no_answer() -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Its settings, so that there is a connection to hang up.
        writer.write(b"\0\0\0\4\0\0\0\0\0")
        await reader.readuntil(b"request")
        writer.transport.abort()

    assert await failure(hang_up) is Failure.BROKEN_OFF


async def test_a_server_that_speaks_http_1_is_no_answer() -> None:
    async def http_1(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    assert isinstance(await failure(http_1), Failure)


async def test_nobody_there_is_unreachable() -> None:
    caller = GrpcCaller(f"{HOST}:1", 20, 1000)
    assert (await caller.call(CALL)).result is Failure.UNREACHABLE
    await caller.close()
