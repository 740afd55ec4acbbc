"""What arrives from the mirror, and what becomes of it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol as Port

from davylamp.shadow.exchange import Headers, Protocol


class Reception(StrEnum):
    """What became of one mirrored request: each has exactly one, and the label of a metric is made of it."""

    #: It went to the variants.
    SAMPLED = "Sampled"
    NOT_SAMPLED = "NotSampled"
    #: One with the same id was there already.
    DUPLICATE = "Duplicate"
    #: Its method or path is not among those that are replayed.
    NOT_ALLOWED = "NotAllowed"
    #: There was no place to wait in.
    DROPPED = "Dropped"
    #: It ended, or its time did, before it was whole.
    CUT_OFF = "CutOff"
    #: Larger than the limit, as it came or decoded.
    TOO_LARGE = "TooLarge"
    #: It is not HTTP/1.1, or its content coding cannot be read.
    UNDECODABLE = "Undecodable"
    #: A variant asked to be left alone, or is slow.
    BACKED_OFF = "BackedOff"
    #: It is of a slice that has the baseline alone, so there is nothing to compare.
    DIVERTED = "Diverted"
    #: It asks for another protocol, such as a websocket.
    UPGRADE = "Upgrade"


@dataclass(frozen=True, slots=True)
class Arrived:
    """One whole request as it was mirrored.

    Parameters
    ----------
    method
        In capitals.
    target
        Path and query.
    headers
        Names in lower case, in order, all of them.
    body
        As it came, in its content coding.
    protocol
        How it came.
    """

    method: str
    target: str
    headers: Headers
    body: bytes
    protocol: Protocol = Protocol.HTTP


class Sink(Port):
    """Where requests go. Nothing here waits, and nothing raises."""

    @property
    def max_body(self) -> int:
        """Bytes of the largest body that is taken."""
        ...

    def reserve(self, size: int) -> bool:
        """Return whether so many more bytes may be held, and count them as held if so."""
        ...

    def release(self, size: int) -> None:
        """Give back bytes that were reserved."""
        ...

    def take(self, arrived: Arrived) -> None:
        """Take a whole request, and with it what was reserved for its body."""
        ...

    def refuse(self, why: Reception) -> None:
        """Count a request that is not taken."""
        ...
