"""A sink that keeps what it is given."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from davylamp.shadow.receiving import HttpListener, Patience
from davylamp.shadow.reception import Arrived, Reception
from tests.davylamp.shadow.servers import HOST


class KeepingSink:
    """Keeps all requests, and holds no more bytes than it may."""

    def __init__(self, *, max_body: int = 1 << 20, most: int = 1 << 24) -> None:
        self._max_body = max_body
        self.most = most
        self.held = 0
        self.highest = 0
        self.taken: list[Arrived] = []
        self.refused: list[Reception] = []
        self._changed = asyncio.Event()

    @property
    def max_body(self) -> int:
        return self._max_body

    def reserve(self, size: int) -> bool:
        if self.held + size > self.most:
            return False
        self.held += size
        self.highest = max(self.highest, self.held)
        return True

    def release(self, size: int) -> None:
        self.held -= size

    def take(self, arrived: Arrived) -> None:
        self.taken.append(arrived)
        self.release(len(arrived.body))
        self._changed.set()

    def refuse(self, why: Reception) -> None:
        self.refused.append(why)
        self._changed.set()

    async def until(self, *, taken: int = 0, refused: int = 0) -> None:
        """Wait until so many requests were taken and refused."""
        async with asyncio.timeout(20):
            while len(self.taken) < taken or len(self.refused) < refused:
                self._changed.clear()
                await self._changed.wait()


@asynccontextmanager
async def listening(sink: KeepingSink, patience: Patience | None = None) -> AsyncIterator[tuple[int, HttpListener]]:
    """Listen on a free port of loopback."""
    listener = HttpListener(sink, patience or Patience())
    try:
        yield await listener.open(HOST, 0), listener
    finally:
        await listener.close()
    assert sink.held == 0
