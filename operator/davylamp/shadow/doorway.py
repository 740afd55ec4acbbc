"""How many messages of an unknown size may be read at once, so that what they may hold together is bounded.

Rule 1: each counts as much as the largest may be, for its size is known only when it is there.
Rule 2: whoever waits is let in in the order of coming, and not for long: a sender that is slow costs others their place
and never the memory.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """What a process allows of messages that arrive.

    Parameters
    ----------
    octets
        Bytes of those that are read at once.
    waiting
        Most that wait to be read.
    seconds
        For which one waits, at most.
    """

    octets: int = 32 * 2**20
    waiting: int = 256
    seconds: float = 1.0


class FullError(Exception):
    """There are too many, or it took too long until there was a place."""


class Doorway:
    """Lets messages in.

    Parameters
    ----------
    limits
        Of the process.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        #: Bytes that are left.
        self.free = limits.octets
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def passing(self, size: int) -> AsyncIterator[None]:
        """Hold room for one message of this size or less.

        Raises
        ------
        FullError
            If there is none in time.
        """
        # One may always pass, or a limit that is larger than all of it would let nobody in.
        size = min(size, self._limits.octets)
        await self._enter(size)
        try:
            yield
        finally:
            self.free += size
            self._call_in()

    async def _enter(self, size: int) -> None:
        if not self._waiting and size <= self.free:
            self.free -= size
            return
        if len(self._waiting) >= self._limits.waiting:
            raise FullError
        called: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, called))
        try:
            async with asyncio.timeout(self._limits.seconds):
                await called
        except BaseException as gone:
            if not called.cancelled():
                # It was called in just then.
                self.free += size
            self._call_in()
            if isinstance(gone, TimeoutError):
                raise FullError from None
            raise

    def _call_in(self) -> None:
        while self._waiting:
            size, called = self._waiting[0]
            if not called.done():
                if size > self.free:
                    return
                self.free -= size
                called.set_result(None)
            self._waiting.popleft()
