"""Mirrored requests over gRPC (HTTP/2 without TLS): any method of any service is answered with OK and no message.

Rule 1: messages stay bytes, and one is read only when there is room for the largest; until then it waits in the sender
and in the little that HTTP/2 lets it send ahead.
Rule 2: the library itself ends a call whose message is over the limit; it is counted as all others.
"""

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Any, Final

import grpc
import structlog

from davylamp.shadow.doorway import Doorway, FullError
from davylamp.shadow.exchange import Headers, Protocol
from davylamp.shadow.reception import Arrived, Reception, Sink

_OPTIONS: Final = (
    ("grpc.max_metadata_size", 64 * 2**10),
    ("grpc.max_concurrent_streams", 128),
    # What a sender may send before its message is asked for; it would grow by itself else.
    ("grpc.http2.bdp_probe", 0),
    # Or two processes may listen on one port, and each get half.
    ("grpc.so_reuseport", 0),
)
#: Seconds until it is looked again whether the port is open, or free.
_PAUSE: Final = 1.0
_LONGEST_STOP: Final = 5.0
_log: Final = structlog.get_logger("davylamp")


@dataclass(frozen=True, slots=True)
class Entry:
    """How messages come in.

    Parameters
    ----------
    doorway
        Of the process.
    seconds
        From the headers of a request to its last byte.
    """

    doorway: Doorway
    seconds: float


class GrpcListener:
    """Listens on one port.

    Parameters
    ----------
    sink
        Where requests go; what is its largest body stays so until the listener is closed.
    entry
        How they come in.
    """

    def __init__(self, sink: Sink, entry: Entry) -> None:
        self._sink = sink
        self._entry = entry
        self._server: Any = None
        self._keeper: asyncio.Task[None] | None = None
        self._closing = False

    async def open(self, host: str | None, port: int) -> int:
        """Start to listen, and return the port; 0 picks one.

        Raises
        ------
        OSError
            If the port cannot be had.
        """
        bound = await self._start(host, port)
        self._keeper = asyncio.create_task(self._keep(host, bound))
        return bound

    async def close(self) -> None:
        """Stop at once; requests that are arriving are not counted."""
        self._closing = True
        if self._keeper is not None:
            # Not by cancelling what waits for its end, which would cancel the end.
            await self._stop()
            await self._keeper

    async def _keep(self, host: str | None, port: int) -> None:
        """Open the port anew whenever the library's server has ended by itself: a path that is no text ends it."""
        while True:
            while await self._serves() and await _listens(host, port):
                pass
            if self._closing:
                return
            self._sink.refuse(Reception.UNDECODABLE)
            _log.warning("grpc_server_ended", port=port)
            await self._stop()
            await self._reopen(host, port)
            if self._closing:
                await self._stop()
                return

    async def _serves(self) -> bool:
        """Wait for a while, and return whether the server has not ended meanwhile, as far as it says so itself."""
        with contextlib.suppress(Exception):
            return bool(await self._server.wait_for_termination(_PAUSE)) and not self._closing
        return False

    async def _reopen(self, host: str | None, port: int) -> None:
        while not self._closing:
            try:
                await self._start(host, port)
            except OSError:
                await asyncio.sleep(_PAUSE)
            else:
                return

    async def _stop(self) -> None:
        # One that has ended by itself says once more why, or never comes to its end.
        with contextlib.suppress(Exception):
            async with asyncio.timeout(_LONGEST_STOP):
                await self._server.stop(None)

    async def _start(self, host: str | None, port: int) -> int:
        largest = self._sink.max_body
        server = grpc.aio.server(options=(*_OPTIONS, ("grpc.max_receive_message_length", largest)))
        server.add_generic_rpc_handlers((_AnyMethod(self._sink, largest, self._entry),))
        try:
            bound = int(server.add_insecure_port(f"{host or '[::]'}:{port}"))
        except RuntimeError as taken:
            raise OSError(str(taken)) from taken
        await server.start()
        self._server = server
        return bound


async def _listens(host: str | None, port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(host or "localhost", port)
    except OSError:
        return False
    writer.close()
    return True


class _AnyMethod(grpc.GenericRpcHandler):  # type: ignore[misc]  # the library has no types
    def __init__(self, sink: Sink, largest: int, entry: Entry) -> None:
        self._sink = sink
        self._largest = largest
        self._entry = entry

    def service(self, handler_call_details: Any) -> Any:
        """Return what answers the method: without serialisers a message is bytes."""
        method = str(handler_call_details.method)
        headers = _headers(handler_call_details.invocation_metadata)

        async def answer(_: Any, context: Any) -> bytes:
            refused = await self._receive(method, headers, context)
            if refused is not None:
                self._sink.refuse(refused)
            return b""

        # As a stream, which is handed over before its first message is read.
        return grpc.stream_unary_rpc_method_handler(answer)

    async def _receive(self, method: str, headers: Headers, context: Any) -> Reception | None:
        """Take a request; return why not if it is not taken."""
        try:
            async with self._entry.doorway.passing(self._largest), asyncio.timeout(self._entry.seconds):
                # Not by the iterator, which would keep the message until it is collected as garbage.
                message = await context.read()
        except FullError:
            return Reception.DROPPED
        except TimeoutError:
            return Reception.CUT_OFF
        except asyncio.CancelledError:
            self._sink.refuse(Reception.CUT_OFF)
            raise
        if not isinstance(message, bytes):
            # The library refused it. Or the sender went away, which here looks the same.
            return Reception.TOO_LARGE
        if not self._sink.reserve(len(message)):
            return Reception.DROPPED
        self._sink.take(Arrived("POST", method, headers, message, Protocol.GRPC))
        return None


def _headers(metadata: Any) -> Headers:
    return tuple((str(name).lower(), value) for name, value in metadata or () if isinstance(value, str))
