"""Calls of a variant over gRPC (HTTP/2 without TLS), one message each way, as bytes."""

from time import perf_counter
from typing import Any, Final

import grpc

from davylamp.shadow.exchange import Answer, Call, Failure, Headers, Outcome, Protocol

_HEADERS: Final = 64 * 2**10
#: How the library's own words begin when there is no connection, and when it ends.
_NOBODY: Final = (
    "failed to connect to all addresses",
    "DNS resolution failed",
    "name resolution",
    "empty address list",
)
_LOST: Final = ("Stream removed", "Socket closed", "Connection reset", "recvmsg", "Broken pipe", "GOAWAY")


class GrpcCaller:
    """Calls one variant.

    Parameters
    ----------
    address
        ``host:port``.
    timeout
        Of one call, with connecting, in seconds.
    max_body
        Bytes of an answer's message.
    """

    def __init__(self, address: str, timeout: float, max_body: int) -> None:
        self._timeout = timeout
        self._channel: Any = grpc.aio.insecure_channel(
            address,
            options=(
                ("grpc.max_receive_message_length", max_body),
                ("grpc.max_metadata_size", _HEADERS),
                ("grpc.enable_retries", 0),
                ("grpc.enable_http_proxy", 0),
                ("grpc.initial_reconnect_backoff_ms", 100),
                ("grpc.max_reconnect_backoff_ms", 1000),
            ),
        )

    async def call(self, call: Call) -> Outcome:
        """Send a call and return what became of it."""
        start = perf_counter()
        running = self._channel.unary_unary(call.target)(call.body, metadata=call.headers, timeout=self._timeout)
        try:
            message = await running
            result: Answer | Failure = Answer(0, _headers(await running.trailing_metadata()), message, Protocol.GRPC)
        except grpc.aio.AioRpcError as error:
            result = _failed(error, late=perf_counter() - start >= 0.99 * self._timeout)
        return Outcome(result, perf_counter() - start)

    async def close(self) -> None:
        """Close the connection."""
        await self._channel.close()


def _failed(error: Any, *, late: bool) -> Answer | Failure:
    """Tell what the variant said from what the library says when nothing came: by its words, for want of a mark."""
    code, words = error.code(), error.details() or ""
    match code:
        case grpc.StatusCode.DEADLINE_EXCEEDED if late:
            return Failure.TIMEOUT
        case grpc.StatusCode.RESOURCE_EXHAUSTED if "larger than max" in words:
            return Failure.TOO_LARGE
        case grpc.StatusCode.UNAVAILABLE if words.startswith(_NOBODY):
            return Failure.UNREACHABLE
        case grpc.StatusCode.UNAVAILABLE if words.startswith(_LOST):
            return Failure.BROKEN_OFF
        case _:
            return Answer(code.value[0], _headers(error.trailing_metadata()), b"", Protocol.GRPC)


def _headers(metadata: Any) -> Headers:
    return tuple((str(name).lower(), value) for name, value in metadata or () if isinstance(value, str))
