"""Mirrored requests over gRPC (HTTP/2 without TLS): any method of any service is answered with OK and no message.

Messages stay bytes. The library refuses a message over its own limit before it is seen here.
"""

from typing import Any, Final

import grpc

from davylamp.shadow.exchange import Headers, Protocol
from davylamp.shadow.reception import Arrived, Reception, Sink

#: More than any rollout may set, so that what is too large for one is counted.
_LARGEST_MESSAGE: Final = 17 * 2**20
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", _LARGEST_MESSAGE),
    ("grpc.max_metadata_size", 64 * 2**10),
    ("grpc.max_concurrent_streams", 256),
    # Or two processes may listen on one port, and each get half.
    ("grpc.so_reuseport", 0),
)


class GrpcListener:
    """Listens on one port.

    Parameters
    ----------
    sink
        Where requests go.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._server: Any = None

    async def open(self, host: str | None, port: int) -> int:
        """Start to listen, and return the port; 0 picks one.

        Raises
        ------
        OSError
            If the port cannot be had.
        """
        server = grpc.aio.server(options=_OPTIONS)
        server.add_generic_rpc_handlers((_AnyMethod(self._sink),))
        try:
            bound = int(server.add_insecure_port(f"{host or '[::]'}:{port}"))
        except RuntimeError as taken:
            raise OSError(str(taken)) from taken
        await server.start()
        self._server = server
        return bound

    async def close(self) -> None:
        """Stop at once."""
        if self._server is not None:
            await self._server.stop(None)


class _AnyMethod(grpc.GenericRpcHandler):  # type: ignore[misc]  # the library has no types
    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def service(self, handler_call_details: Any) -> Any:
        """Return what answers the method: without serialisers a message is bytes."""
        method = str(handler_call_details.method)
        headers = _headers(handler_call_details.invocation_metadata)

        async def answer(message: bytes, _: Any) -> bytes:
            self._take(Arrived("POST", method, headers, message, Protocol.GRPC))
            return b""

        return grpc.unary_unary_rpc_method_handler(answer)

    def _take(self, arrived: Arrived) -> None:
        sink = self._sink
        if len(arrived.body) > sink.max_body:
            sink.refuse(Reception.TOO_LARGE)
        elif not sink.reserve(len(arrived.body)):
            sink.refuse(Reception.DROPPED)
        else:
            sink.take(arrived)


def _headers(metadata: Any) -> Headers:
    return tuple((str(name).lower(), value) for name, value in metadata or () if isinstance(value, str))
