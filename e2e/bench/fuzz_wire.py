"""Broken requests and answers as bytes that arrive: what they become, and that nothing of them stays."""

import asyncio
import gzip
import itertools
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Final

from davylamp.shadow.calling import _Connection as Calling
from davylamp.shadow.doorway import Doorway, Limits
from davylamp.shadow.exchange import Answer
from davylamp.shadow.receiving import HttpListener, Patience
from davylamp.shadow.receiving import _Connection as Receiving
from davylamp.shadow.receiving_grpc import Entry, GrpcListener
from davylamp.shadow.reception import Arrived, Reception
from e2e.bench.fuzz_answers import BrokenError

_HOST: Final = "127.0.0.1"
_LARGEST: Final = 1000
_INFER: Final = "/v2/models/credit/infer"
_BODY: Final = b'{"inputs":[]}'
_REQUESTS: Final = (
    b"POST %s HTTP/1.1\r\nhost: a\r\nx-request-id: 1\r\ncontent-length: 13\r\n\r\n" % _INFER.encode() + _BODY,
    b"POST %s HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nx: y\r\n\r\n" % _INFER.encode(),
    b"POST /a HTTP/1.1\r\nexpect: 100-continue\r\ncontent-encoding: gzip\r\ncontent-length: 21\r\n\r\n"
    + gzip.compress(b"x", mtime=0),
    b"GET /chat?key=1 HTTP/1.1\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\r\n\x81\x05hello",
)
_OK: Final = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
_ANSWERS: Final = (
    _OK,
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n8\r\ndata: 1\n\r\n1\r\n\n\r\n0\r\nx: y\r\n\r\n",
    b"HTTP/1.0 200 OK\r\n\r\nx",
    b"HTTP/1.1 100 Continue\r\n\r\n" + _OK,
    b"HTTP/1.1 502 Bad Gateway\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n<html>no</html>",
)
_NASTY: Final = (
    *b"\r\n|\r\n\r\n|\n|:|content-length: 5|content-length: -1|content-length: 99999999999999999999".split(b"|"),
    *b"transfer-encoding: chunked|0\r\n\r\n|ffffffffffffffff\r\n|HTTP/2.0|\x00|\xff| |connection: close".split(b"|"),
    b"x" * 2000,
    b"x: y\r\n" * 2000,
)
#: Connections at once, how long one waits for an answer, and how long a request may take, in seconds.
_AT_ONCE: Final = 50
_PATIENCE: Final = 0.1
_LONGEST: Final = 5.0
#: Until the receiver listens again, in seconds.
_LONGEST_OUTAGE: Final = 60.0


class _Sink:
    """Counts what becomes of requests, and keeps none."""

    max_body = _LARGEST

    def __init__(self) -> None:
        self.held = 0
        self.outcomes: Counter[str] = Counter()

    def reserve(self, size: int) -> bool:
        self.held += size
        return True

    def release(self, size: int) -> None:
        self.held -= size

    def take(self, arrived: Arrived) -> None:
        self.outcomes["taken"] += 1
        self.release(len(arrived.body))

    def refuse(self, why: Reception) -> None:
        self.outcomes[f"refused: {why.value}"] += 1


class _Nowhere(asyncio.Transport):
    """A transport into nowhere."""

    def __init__(self) -> None:
        super().__init__()
        self._closing = False

    def write(self, _: bytes | bytearray | memoryview) -> None:
        return

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        self._closing = True

    abort = close


async def try_requests_over_http(inputs: int, seed: int, passed: Callable[[int], None]) -> Counter[str]:
    """Try requests on the receiver."""
    sink, loop = _Sink(), asyncio.get_running_loop()
    listener = HttpListener(sink, Patience())
    for number in range(inputs):
        random = Random(f"{seed}/http-requests/{number}")  # noqa: S311
        connection = Receiving(listener, loop)
        connection.connection_made(_Nowhere())
        for piece in _pieces(_damaged(random.choices(_REQUESTS, k=random.randint(1, 3)), random), random):
            connection.data_received(piece)
        connection.connection_lost(None)
        _nothing_held(sink, number)
        passed(number + 1)
    return sink.outcomes


async def try_answers_over_http(inputs: int, seed: int, passed: Callable[[int], None]) -> Counter[str]:
    """Try answers on the caller."""
    outcomes: Counter[str] = Counter()
    loop = asyncio.get_running_loop()
    for number in range(inputs):
        random = Random(f"{seed}/http-answers/{number}")  # noqa: S311
        connection = Calling(loop, _LARGEST)
        connection.connection_made(_Nowhere())
        asking = loop.create_task(connection.ask(b"", headless=random.random() < 0.1))
        await asyncio.sleep(0)
        for piece in _pieces(_damaged(random.choices(_ANSWERS, k=random.randint(1, 2)), random), random):
            connection.data_received(piece)
        connection.connection_lost(None)
        result = await asking
        outcomes[f"status {result.status}" if isinstance(result, Answer) else result.value] += 1
        passed(number + 1)
    return outcomes


async def try_requests_over_grpc(inputs: int, seed: int, passed: Callable[[int], None]) -> Counter[str]:
    """Try requests on the receiver, each over a connection of its own."""
    sink, doorway = _Sink(), Doorway(Limits())
    listener = GrpcListener(sink, Entry(doorway, _LONGEST))
    port = await listener.open(_HOST, 0)
    randoms = (Random(f"{seed}/grpc-requests/{number}") for number in range(inputs))  # noqa: S311
    try:
        for first in range(0, inputs, _AT_ONCE):
            some = itertools.islice(randoms, _AT_ONCE)
            await asyncio.gather(*(_sent(port, _grpc_request(random)) for random in some))
            passed(min(inputs, first + _AT_ONCE))
    finally:
        await listener.close()
    _nothing_held(sink, inputs)
    if doorway.free != Limits().octets:
        raise BrokenError(f"the doorway holds {Limits().octets - doorway.free} bytes at the end")
    sink.outcomes["no request"] = inputs - sink.outcomes.total()
    return sink.outcomes


async def _sent(port: int, sent: bytes) -> None:
    """Send bytes and wait until the other side is done with them."""
    reader, writer = await _connected(port)
    try:
        writer.write(sent)
        async with asyncio.timeout(_PATIENCE):
            while not _ends(head := await reader.readexactly(9)):
                await reader.readexactly(int.from_bytes(head[:3]))
    except (OSError, TimeoutError, asyncio.IncompleteReadError):
        return
    finally:
        writer.close()


async def _connected(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect, as soon as a server that an input has ended is there again."""
    async with asyncio.timeout(_LONGEST_OUTAGE):
        while True:
            try:
                return await asyncio.open_connection(_HOST, port)
            except OSError:
                await asyncio.sleep(_PATIENCE)


def _ends(head: bytes) -> bool:
    """Return whether the head of a frame says that nothing more follows: headers at the end, RST_STREAM, or GOAWAY."""
    return (head[3] == 1 and bool(head[4] & 1)) or head[3] in {3, 7}


def _grpc_request(random: Random) -> bytes:
    """Return a call of a method, with one of its parts damaged."""
    message = random.randbytes(random.choice((0, 10, _LARGEST, _LARGEST + 1)))
    framed = bytes((random.choice((0, 0, 0, 1, 7)),)) + len(message).to_bytes(4) + message
    method = random.choice((b"/inference.GRPCInferenceService/ModelInfer", b"/a/b", b"", b"no path"))
    names = ((b":method", b"POST"), (b":scheme", b"http"), (b":path", method), (b":authority", b"a"))
    fields = (*names, (b"te", b"trailers"), (b"content-type", random.choice((b"application/grpc", b"text/plain"))))
    block = b"".join(_literal(name, value) for name, value in fields)
    parts = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", _frame(4, 0, b"", 0), _frame(1, 4, block), _frame(0, 1, framed)]
    place = random.randrange(len(parts) + 1)
    if place < len(parts):
        parts[place] = _damaged([parts[place]], random)
    return b"".join(parts)


def _frame(kind: int, flags: int, payload: bytes, stream: int = 1) -> bytes:
    return len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + payload


def _literal(name: bytes, text: bytes) -> bytes:
    """Return a header as HPACK has it, in no table and not compressed."""
    return b"\0" + bytes((len(name),)) + name + bytes((len(text),)) + text


def _damaged(parts: list[bytes], random: Random) -> bytes:
    whole = b"".join(parts)
    for _ in range(random.randint(0, 4)):
        start = random.randint(0, len(whole))
        stop = min(len(whole), start + random.choice((0, 1, 1, 2, 20)))
        put = random.choice((b"", random.randbytes(stop - start), random.choice(_NASTY), whole[start:stop] * 3))
        whole = whole[:start] + put + whole[stop:]
    return whole


def _pieces(whole: bytes, random: Random) -> list[bytes]:
    places = [0, *sorted(random.choices(range(len(whole) + 1), k=random.randint(0, 5))), len(whole)]
    return [whole[start:end] for start, end in itertools.pairwise(places) if start < end]


def _nothing_held(sink: _Sink, number: int) -> None:
    if sink.held:
        raise BrokenError(f"{sink.held} bytes are held after input {number}")
