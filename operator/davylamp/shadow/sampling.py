"""Which requests are compared: a function of the request's id, so that all replicas choose the same.

A mirror that repeats a request repeats its ``x-request-id``; one that has none is known by its content.
"""

from enum import StrEnum
from hashlib import blake2b
from typing import Final

from davylamp.shadow.reception import Arrived

_REQUEST_ID: Final = "x-request-id"
#: Half the memory's ids are forgotten at once when it is full, so that remembering one costs the same each time.
_REMEMBERED: Final = 16384


class Purpose(StrEnum):
    """What is chosen by an id; the choices for different purposes are independent."""

    SAMPLE = "sample"
    NOISE = "noise"


def identity(arrived: Arrived) -> bytes:
    """Return what tells a request from others and is the same when it is sent again."""
    for name, value in arrived.headers:
        if name == _REQUEST_ID and value:
            return blake2b(value.encode("utf-8", "surrogateescape"), digest_size=16, person=b"id").digest()
    content = blake2b(digest_size=16, person=b"content")
    for part in (arrived.method, arrived.target):
        content.update(part.encode("utf-8", "surrogateescape") + b"\0")
    content.update(arrived.body)
    return content.digest()


class Sampler:
    """Chooses for one rollout.

    Parameters
    ----------
    rollout
        The only key: replicas that know the rollout choose alike, and rollouts choose independently of each other.
    """

    def __init__(self, rollout: str) -> None:
        self._keys = {purpose: blake2b(f"{purpose}/{rollout}".encode()).digest() for purpose in Purpose}

    def chooses(self, request: bytes, purpose: Purpose, share: float) -> bool:
        """Return whether the request of this identity is in the share.

        Parameters
        ----------
        request
            From `identity`.
        purpose
            What for.
        share
            0..1.
        """
        digest = blake2b(request, key=self._keys[purpose], digest_size=8).digest()
        # 53 bits are exact in a float, so that it is below 1 always.
        return (int.from_bytes(digest) >> 11) / 2**53 < share


class RecentRequests:
    """Remembers the identities of at least the last ``capacity / 2`` requests and of at most ``capacity``."""

    def __init__(self, capacity: int = _REMEMBERED) -> None:
        self._half = max(1, capacity // 2)
        self._newer: set[bytes] = set()
        self._older: set[bytes] = set()

    def __contains__(self, request: bytes) -> bool:
        return request in self._newer or request in self._older

    def add(self, request: bytes) -> None:
        """Remember a request."""
        self._newer.add(request)
        if len(self._newer) >= self._half:
            self._older, self._newer = self._newer, set()
