"""Which requests are compared: a function of the request's id, so that all replicas choose the same.

Rule 1: a request without an id is chosen by its content, for all replicas see that.
Rule 2: content alone makes no duplicate: two people may ask the same. Nor does an id alone: some programs send on the
id that came to them with whatever they ask for it.
"""

from enum import StrEnum
from hashlib import blake2b
from typing import Final

from davylamp.shadow.exchange import header_of
from davylamp.shadow.reception import Arrived

#: Headers that tell one request from others, the first one that is there.
_IDS: Final = ("x-request-id", "traceparent")
#: Half the memory's ids are forgotten at once when it is full, so that remembering one costs the same each time.
_REMEMBERED: Final = 16384


class Purpose(StrEnum):
    """What is chosen by an id; the choices for different purposes are independent."""

    SAMPLE = "sample"
    NOISE = "noise"


def identity(arrived: Arrived) -> bytes:
    """Return what a request is chosen by; it is the same when the request is sent again."""
    request_id = _id(arrived)
    return _content(arrived, "") if request_id is None else _digest("id", (request_id,))


def repetition(arrived: Arrived) -> bytes | None:
    """Return what a request has in common with its repetitions and nothing else; None if that cannot be known."""
    request_id = _id(arrived)
    return None if request_id is None else _content(arrived, request_id)


def _id(arrived: Arrived) -> str | None:
    return next((value for name in _IDS if (value := header_of(arrived.headers, name))), None)


def _content(arrived: Arrived, request_id: str) -> bytes:
    return _digest("content", (arrived.method, arrived.target, request_id), arrived.body)


def _digest(purpose: str, parts: tuple[str, ...], body: bytes = b"") -> bytes:
    made = blake2b(digest_size=16, person=purpose.encode())
    for part in parts:
        made.update(part.encode("utf-8", "surrogateescape") + b"\0")
    made.update(body)
    return made.digest()


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
