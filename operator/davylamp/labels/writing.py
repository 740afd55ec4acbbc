"""Puts messages of many requests into one transaction: each is on disk before it is answered, at little cost."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from davylamp.errors import Unavailable
from davylamp.labels.store import MOST_MESSAGES, Answer, Message, Store, Tidied

#: Messages that may wait for their transaction; more are refused, so that memory and waiting stay bounded.
MOST_WAITING: Final = 4 * MOST_MESSAGES


class Overloaded(Unavailable):
    """More waits to be written than may wait: come back later."""


@dataclass(frozen=True, slots=True)
class _Batch:
    messages: Sequence[Message]
    answers: "asyncio.Future[list[Answer]]"


class Writer:
    """The only one in its process that writes, in a thread of its own.

    Parameters
    ----------
    store
        Where.
    now
        The clock.
    took
        Told how many seconds each transaction took.
    """

    def __init__(self, store: Store, now: Callable[[], datetime], took: Callable[[float], None]) -> None:
        self._store = store
        self._now = now
        self._took = took
        self._waiting: deque[_Batch] = deque()
        self._size = 0
        self._some = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="davylamp-labels-writer")

    async def take(self, messages: Sequence[Message]) -> list[Answer]:
        """Return what became of each message once that is on disk.

        Raises
        ------
        Overloaded
            If too many wait; nothing was done.
        Unavailable
            If the database fails. Whether they were taken is unknown; they may be sent again.
        """
        if self._size + len(messages) > MOST_WAITING:
            raise Overloaded(f"{self._size} messages wait to be written")
        batch = _Batch(messages, asyncio.get_running_loop().create_future())
        self._waiting.append(batch)
        self._size += len(messages)
        self._some.set()
        return await batch.answers

    async def run(self) -> None:
        """Write until cancelled; what had begun is finished, and what waits still is told that it was not done."""
        try:
            while True:
                await self._some.wait()
                while group := self._next():
                    await self._write(group)
                self._some.clear()
        finally:
            while self._waiting:
                _tell(self._waiting.popleft(), Unavailable("the service stops"))
            self._thread.shutdown()

    async def tidy(self, most: int) -> Tidied:
        """Do one small step of tidying, between two transactions of messages."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._store.tidy, self._now(), most)

    def _next(self) -> list[_Batch]:
        """Take what waits, as much as fits into a transaction."""
        group: list[_Batch] = []
        size = 0
        while self._waiting and size + len(self._waiting[0].messages) <= MOST_MESSAGES:
            group.append(self._waiting.popleft())
            size += len(group[-1].messages)
        self._size -= size
        return group

    async def _write(self, group: list[_Batch]) -> None:
        messages = [message for batch in group for message in batch.messages]
        began = asyncio.get_running_loop().time()
        writing = asyncio.get_running_loop().run_in_executor(self._thread, self._store.take, messages, self._now())
        stopped = False
        while not writing.done():
            try:
                await asyncio.wait([writing])
            except asyncio.CancelledError:
                # Too late to stop it: who waits for it shall know how it ended.
                stopped = True
        self._took(asyncio.get_running_loop().time() - began)
        if failed := writing.exception():
            for batch in group:
                _tell(batch, failed)
        else:
            _split(group, writing.result())
        if stopped:
            raise asyncio.CancelledError


def _split(group: list[_Batch], answers: list[Answer]) -> None:
    start = 0
    for batch in group:
        end = start + len(batch.messages)
        if not batch.answers.done():
            batch.answers.set_result(answers[start:end])
        start = end


def _tell(batch: _Batch, failed: BaseException) -> None:
    if not batch.answers.done():
        batch.answers.set_exception(failed)
