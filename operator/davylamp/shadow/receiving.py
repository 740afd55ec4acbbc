"""Mirrored requests over HTTP/1.1: whatever comes is answered with 202 once it is whole, before it is looked at.

Rule 1: the answer depends on nothing but the end of the request; no request waits for another, or for a variant.
Rule 2: every bound is on what is held, not on what is sent: what is too large is read and thrown away.
Rule 3: which rollout a request belongs to is known by the port; its Host header says nothing.
"""

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Final

import httptools

from davylamp.shadow.reception import Arrived, Reception, Sink

_TAKEN: Final = b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"
_TAKEN_AND_CLOSED: Final = b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_BAD: Final = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_LATE: Final = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_LONG_HEADERS: Final = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_GO_ON: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Patience:
    """How much a sender may ask of the receiver.

    Parameters
    ----------
    whole
        Seconds from the first byte of a request to its last.
    idle
        Seconds that a connection may say nothing between requests.
    connections
        Most at once on one port; a further one is closed.
    headers
        Bytes in a row that are no body: of the headers, or of the trailers.
    """

    whole: float = 30.0
    idle: float = 600.0
    connections: int = 1024
    headers: int = 64 * 2**10


class HttpListener:
    """Listens on one port.

    Parameters
    ----------
    sink
        Where requests go.
    patience
        With senders.
    """

    def __init__(self, sink: Sink, patience: Patience) -> None:
        self.sink = sink
        self.patience = patience
        self.connections: set[_Connection] = set()
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.TimerHandle | None = None

    async def open(self, host: str | None, port: int) -> int:
        """Start to listen, and return the port; 0 picks one.

        Raises
        ------
        OSError
            If the port cannot be had.
        """
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self, loop), host, port, backlog=1024)
        self._sweep(loop)
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Stop at once; requests that are arriving are not counted."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self._server is not None:
            self._server.close()
            for connection in tuple(self.connections):
                connection.abandon()
            await self._server.wait_closed()

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close what takes too long; one timer for all costs less than one for each request."""
        now = loop.time()
        for connection in tuple(self.connections):
            connection.check(now)
        every = min(1.0, self.patience.whole / 4, self.patience.idle / 4)
        self._sweeper = loop.call_later(every, self._sweep, loop)


class _Connection(asyncio.Protocol):
    """One connection: what its parser has seen of the request that is arriving."""

    _transport: asyncio.Transport

    def __init__(self, listener: HttpListener, loop: asyncio.AbstractEventLoop) -> None:
        self._listener = listener
        self._sink = listener.sink
        self._loop = loop
        self._parser = httptools.HttpRequestParser(self)
        self._since = loop.time()
        self._without_body = 0
        self._reserved = 0
        self._arriving = False
        self._reset()

    def _reset(self) -> None:
        self._target = b""
        self._headers: list[tuple[str, str]] = []
        self._headed = False
        self._body = bytearray()
        self._refused: Reception | None = None

    # Of the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection up, if there are not too many."""
        self._transport = transport  # type: ignore[assignment]  # a stream's
        if len(self._listener.connections) >= self._listener.patience.connections:
            self._transport.abort()
            return
        self._listener.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Count a request that was not whole."""
        del exc
        self._listener.connections.discard(self)
        if self._arriving:
            self._sink.refuse(Reception.CUT_OFF)
        self._forget()

    def data_received(self, data: bytes) -> None:
        """Read on."""
        if self._transport.is_closing():
            return
        self._without_body += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # Answered when the request was whole; what follows is of another protocol.
            return
        except httptools.HttpParserCallbackError:
            self._forget()
            raise
        except httptools.HttpParserError:
            self._refuse_all(Reception.UNDECODABLE, _BAD)
            return
        if self._arriving and self._without_body > self._listener.patience.headers:
            self._refuse_all(Reception.TOO_LARGE, _LONG_HEADERS)

    def pause_writing(self) -> None:
        """Give up a sender that asks on and on and reads no answer."""
        self._transport.abort()

    def check(self, now: float) -> None:
        """Close the connection if its request, or its silence, takes too long."""
        patience = self._listener.patience
        if now - self._since > (patience.whole if self._arriving else patience.idle):
            if self._arriving:
                self._refuse_all(Reception.CUT_OFF, _LATE)
            else:
                self._transport.close()

    def abandon(self) -> None:
        """Close the connection and count nothing."""
        self._forget()
        self._transport.abort()

    # Of the parser.

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._arriving = True
        self._since = self._loop.time()

    def on_url(self, url: bytes) -> None:
        """Take a part of the target."""
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; what follows a chunked body is thrown away uncounted: as a header it might mean anything."""
        if not self._headed:
            self._headers.append((name.decode("latin-1").lower(), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        """Invite the body, where the sender waits for that."""
        self._headed = True
        self._without_body = 0
        if self._parser.get_http_version() == "1.1" and any(
            name == "expect" and value.lower() == "100-continue" for name, value in self._headers
        ):
            self._transport.write(_GO_ON)

    def on_body(self, part: bytes) -> None:
        """Keep a part of the body, if it can be kept."""
        self._without_body = 0
        if self._refused is not None:
            return
        if len(self._body) + len(part) > self._sink.max_body:
            self._throw_away(Reception.TOO_LARGE)
        elif not self._sink.reserve(len(part)):
            self._throw_away(Reception.DROPPED)
        else:
            self._reserved += len(part)
            self._body += part

    def on_message_complete(self) -> None:
        """Answer; then look at what came."""
        self._arriving = False
        self._since = self._loop.time()
        self._without_body = 0
        parser = self._parser
        upgrade = parser.should_upgrade()
        if upgrade or not parser.should_keep_alive() or parser.get_http_version() != "1.1":
            self._transport.write(_TAKEN_AND_CLOSED)
            self._transport.close()
        else:
            self._transport.write(_TAKEN)
        refused = Reception.UPGRADE if upgrade else self._refused
        if refused is not None:
            self._forget()
            self._sink.refuse(refused)
            return
        arrived = Arrived(
            parser.get_method().decode("latin-1"),
            self._target.decode("latin-1"),
            tuple(self._headers),
            bytes(self._body),
        )
        self._reserved = 0
        self._reset()
        self._sink.take(arrived)

    def _throw_away(self, why: Reception) -> None:
        self._release()
        self._body = bytearray()
        self._refused = why

    def _refuse_all(self, why: Reception, answer: bytes) -> None:
        self._forget()
        self._sink.refuse(why)
        with contextlib.suppress(RuntimeError):  # of a transport that has just gone
            self._transport.write(answer)
        self._transport.close()

    def _forget(self) -> None:
        self._arriving = False
        self._release()
        self._reset()

    def _release(self) -> None:
        self._sink.release(self._reserved)
        self._reserved = 0
