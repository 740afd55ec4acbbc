"""What goes to a model server and what comes back, as bytes: values that every part of the comparator shares."""

from dataclasses import dataclass
from enum import StrEnum

Headers = tuple[tuple[str, str], ...]


class Protocol(StrEnum):
    """How a request travels."""

    #: HTTP/1.1.
    HTTP = "HTTP"
    #: gRPC over HTTP/2 without TLS (h2c), one message each way.
    GRPC = "GRPC"


@dataclass(frozen=True, slots=True)
class Call:
    """One request, ready to be sent to either variant.

    Parameters
    ----------
    method
        In capitals; POST for gRPC.
    target
        Path and query; ``/package.Service/Method`` for gRPC.
    headers
        Names in lower case, in order; nothing of one hop, and no credentials unless they are to be passed.
    body
        Without content coding. For gRPC the message, without its five bytes of framing.
    """

    method: str
    target: str
    headers: Headers
    body: bytes
    protocol: Protocol = Protocol.HTTP

    def header(self, name: str) -> str:
        """Return the first header of this lower-case name; empty if there is none."""
        return header_of(self.headers, name)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a variant answered.

    Parameters
    ----------
    status
        Of HTTP, 100..599; for gRPC the ``grpc-status``, 0..16.
    headers
        Names in lower case, in order.
    body
        Without content coding, whole. For gRPC the message, without its framing.
    protocol
        As the call's.
    """

    status: int
    headers: Headers
    body: bytes
    protocol: Protocol = Protocol.HTTP

    @property
    def succeeded(self) -> bool:
        """Whether the status says so."""
        return self.status == 0 if self.protocol is Protocol.GRPC else 200 <= self.status < 300

    def header(self, name: str) -> str:
        """Return the first header of this lower-case name; empty if there is none."""
        return header_of(self.headers, name)


class Failure(StrEnum):
    """Why there is no answer."""

    #: Nothing, or not all, within the time limit.
    TIMEOUT = "Timeout"
    #: No connection.
    UNREACHABLE = "Unreachable"
    #: The connection broke off before the answer was whole.
    BROKEN_OFF = "BrokenOff"
    #: The answer, decoded or not, is larger than the limit.
    TOO_LARGE = "TooLarge"
    #: What came is not HTTP, or its content coding cannot be read.
    MALFORMED = "Malformed"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a call.

    Parameters
    ----------
    result
        The answer, or why there is none.
    seconds
        From sending to the last byte, or to the failure, >= 0.
    """

    result: Answer | Failure
    seconds: float


def header_of(headers: Headers, name: str) -> str:
    """Return the first value of a lower-case name; empty if there is none."""
    return next((value for known, value in headers if known == name), "")
