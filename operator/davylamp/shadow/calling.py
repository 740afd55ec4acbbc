"""Calls of a variant over HTTP/1.1: one request at a time on a kept connection, all bounded.

Rule 1: redirects are not followed, nothing is retried but a request to a connection that the server had given up.
Rule 2: every way to fail is an outcome; nothing here raises.
Rule 3: spans are taken from the finest clock; that of the loop may count whole milliseconds.
"""

import asyncio
import ssl
from dataclasses import dataclass
from time import perf_counter
from typing import Final

import httptools

from davylamp.shadow.coding import CodingError, TooLargeError, decoded
from davylamp.shadow.exchange import Answer, Call, Failure, Headers, Outcome, header_of

#: Bytes in a row that are no body.
_LONGEST_HEADERS: Final = 64 * 2**10
#: Seconds after which a connection is opened anew, so that calls spread over pods that have come since.
_OLDEST: Final = 30.0
_WITH_LENGTH: Final = frozenset({"POST", "PUT", "PATCH"})


class HttpCaller:
    """Calls one variant.

    Parameters
    ----------
    address
        ``host:port``.
    timeout
        Of one call, with connecting, in seconds.
    max_body
        Bytes of an answer's body, decoded.
    tls
        How the variant's certificate is checked; None to call it without TLS.
    """

    def __init__(self, address: str, timeout: float, max_body: int, tls: ssl.SSLContext | None = None) -> None:
        host, _, port = address.rpartition(":")
        self._host, self._port = host.strip("[]"), int(port)
        self._address = address
        self._timeout = timeout
        self._max_body = max_body
        self._tls = tls
        self._idle: list[_Connection] = []
        self._used: set[_Connection] = set()

    async def call(self, call: Call) -> Outcome:
        """Send a call and return what became of it."""
        loop = asyncio.get_running_loop()
        start = perf_counter()
        request = _request(call, self._address)
        headless = call.method == "HEAD"
        try:
            async with asyncio.timeout(self._timeout):
                while True:
                    connection = self._kept(loop.time()) or await self._connect(loop)
                    start = perf_counter()
                    result = await self._exchange(connection, request, headless=headless)
                    if result is not None:
                        break
        except TimeoutError:
            result = Failure.TIMEOUT
        except OSError:
            result = Failure.UNREACHABLE
        seconds = perf_counter() - start
        return Outcome(await self._plain(result), seconds)

    async def close(self) -> None:
        """Close all connections."""
        for connection in (*self._idle, *self._used):
            connection.abort()
        self._idle.clear()

    def _kept(self, now: float) -> "_Connection | None":
        while self._idle:
            connection = self._idle.pop()
            if connection.usable and now - connection.made_at < _OLDEST:
                return connection
            connection.abort()
        return None

    async def _connect(self, loop: asyncio.AbstractEventLoop) -> "_Connection":
        _, connection = await loop.create_connection(
            lambda: _Connection(loop, self._max_body), self._host, self._port, ssl=self._tls
        )
        return connection

    async def _exchange(self, connection: "_Connection", request: bytes, *, headless: bool) -> Answer | Failure | None:
        """Return what came of it; None if the kept connection was given up before, so that nothing was done."""
        kept = connection.answers > 0
        self._used.add(connection)
        try:
            result = await connection.ask(request, headless=headless)
        finally:
            self._used.discard(connection)
            if connection.usable:
                self._idle.append(connection)
            else:
                connection.abort()
        if kept and result is Failure.BROKEN_OFF and connection.silent:
            return None
        return result

    async def _plain(self, result: Answer | Failure) -> Answer | Failure:
        if isinstance(result, Failure):
            return result
        codings = ",".join(value for name, value in result.headers if name == "content-encoding")
        if not codings:
            return result
        try:
            # Beside the event loop: a small body may be large when it is decoded.
            body = await asyncio.to_thread(decoded, result.body, codings, self._max_body)
        except CodingError:
            return Failure.MALFORMED
        except TooLargeError:
            return Failure.TOO_LARGE
        return Answer(result.status, result.headers, body)


def _request(call: Call, address: str) -> bytes:
    lines = [f"{call.method} {call.target} HTTP/1.1", f"host: {address}"]
    if call.body or call.method in _WITH_LENGTH:
        lines.append(f"content-length: {len(call.body)}")
    lines.extend(f"{name}: {value}" for name, value in call.headers)
    return "\r\n".join((*lines, "", "")).encode("latin-1", "replace") + call.body


@dataclass(slots=True)
class _Incoming:
    """An answer that is arriving."""

    headers: list[tuple[str, str]]
    body: bytearray
    #: Whether the headers are whole.
    begun: bool = False


class _Connection(asyncio.Protocol):
    """One kept connection."""

    _transport: asyncio.Transport

    def __init__(self, loop: asyncio.AbstractEventLoop, max_body: int) -> None:
        self._loop = loop
        self._max_body = max_body
        self._parser = httptools.HttpResponseParser(self)
        self._waiting: asyncio.Future[Answer | Failure] | None = None
        self._incoming = _Incoming([], bytearray())
        self._headless = False
        self._without_body = 0
        self._keeps = True
        self.made_at = loop.time()
        #: Whole answers that came.
        self.answers = 0
        #: Whether nothing came of the answer that is waited for.
        self.silent = True

    @property
    def usable(self) -> bool:
        """Whether another request may be sent."""
        return self._keeps and self._waiting is None and not self._transport.is_closing()

    async def ask(self, request: bytes, *, headless: bool) -> Answer | Failure:
        """Send a request and return what came."""
        self._waiting = self._loop.create_future()
        self._headless = headless
        self.silent = True
        self._without_body = 0
        self._incoming = _Incoming([], bytearray())
        self._transport.write(request)
        return await self._waiting

    def abort(self) -> None:
        """Close at once."""
        self._keeps = False
        self._transport.abort()

    # Of the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection up."""
        self._transport = transport  # type: ignore[assignment]  # a stream's

    def data_received(self, data: bytes) -> None:
        """Read on."""
        if self._waiting is None:
            # Nobody asked, or the answer is settled.
            self.abort()
            return
        self.silent = False
        self._without_body += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # Another protocol follows, or an answer to CONNECT.
            self._keeps = False
        except httptools.HttpParserCallbackError:
            self._settle(Failure.MALFORMED)
            raise
        except httptools.HttpParserError:
            self._keeps = False
            self._settle(Failure.MALFORMED)
        if self._without_body > _LONGEST_HEADERS:
            self._settle(Failure.TOO_LARGE)

    def connection_lost(self, exc: Exception | None) -> None:
        """Settle what is waited for: an answer without a length ends with its connection."""
        self._keeps = False
        if exc is None and self._incoming.begun and not _has_length(tuple(self._incoming.headers)):
            self._complete()
        self._settle(Failure.BROKEN_OFF)

    # Of the parser.

    def on_message_begin(self) -> None:
        """Begin an answer; one that only says to go on may have come before."""
        if self._waiting is None:
            # A second answer to one request: whose would the next one be?
            self._keeps = False
        self._incoming = _Incoming([], bytearray())

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; what follows a chunked body is thrown away."""
        if not self._incoming.begun:
            self._incoming.headers.append((name.decode("latin-1").lower(), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        """Know how the body ends."""
        self._without_body = 0
        status = self._parser.get_status_code()
        self._incoming.begun = status >= 200
        if status >= 200 and not self._parser.should_keep_alive():
            self._keeps = False
        if self._headless and status >= 200:
            # The parser would wait for the body that the headers speak of.
            self._keeps = False
            self._complete()

    def on_body(self, part: bytes) -> None:
        """Keep a part of the body."""
        self._without_body = 0
        if self._waiting is None:
            return
        if len(self._incoming.body) + len(part) > self._max_body:
            self._settle(Failure.TOO_LARGE)
        else:
            self._incoming.body += part

    def on_message_complete(self) -> None:
        """Settle, unless it only said to go on."""
        status = self._parser.get_status_code()
        if status >= 200 or status == 101:
            self._complete()

    def _complete(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self.answers += 1
            incoming = self._incoming
            self._waiting.set_result(
                Answer(self._parser.get_status_code(), tuple(incoming.headers), bytes(incoming.body))
            )
        self._waiting = None

    def _settle(self, failure: Failure) -> None:
        """Say how the answer failed, if it is still waited for; the connection is of no more use then."""
        if self._waiting is None:
            return
        if not self._waiting.done():
            self._waiting.set_result(failure)
        self._waiting = None
        self.abort()


def _has_length(headers: Headers) -> bool:
    return bool(header_of(headers, "content-length") or header_of(headers, "transfer-encoding"))
