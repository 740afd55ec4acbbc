"""Many requests in one transaction: each is told its own, and none waits for ever."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime

import pytest

from davylamp.errors import Unavailable
from davylamp.labels.records import Arrival, Taken, Terms
from davylamp.labels.store import Answer, Message, Store
from davylamp.labels.writing import MOST_WAITING, Overloaded, Writer
from tests.davylamp.labels.samples import NOW, counts, label, of, opened, prediction, rollout
from tests.davylamp.runtime.waiting import eventually


class HeldStore(Store):
    """A store whose transactions wait until the test lets them go on."""

    def hold(self) -> None:
        self.sizes: list[int] = []
        self.go = threading.Event()

    def take(self, messages: Sequence[Message], now: datetime) -> list[Answer]:
        self.sizes.append(len(messages))
        assert self.go.wait(60)
        return super().take(messages, now)


def held(url: str) -> HeldStore:
    database, _ = opened(url)
    store = HeldStore(database, Terms())
    store.hold()
    return store


@asynccontextmanager
async def writing(store: Store, took: Callable[[float], None] = lambda _: None) -> AsyncIterator[Writer]:
    writer = Writer(store, lambda: NOW, took)
    task = asyncio.create_task(writer.run())
    try:
        yield writer
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def begun(store: HeldStore) -> None:
    await eventually(lambda: store.sizes, "a transaction has begun")


async def test_what_comes_while_one_transaction_is_written_is_written_in_the_next(url: str) -> None:
    store = held(url)
    spans: list[float] = []
    async with writing(store, spans.append) as writer:
        first = asyncio.create_task(writer.take([prediction("a"), prediction("b")]))
        await begun(store)
        rest = [asyncio.create_task(writer.take([label(name)])) for name in ("a", "b", "nobody", "a")]
        await asyncio.sleep(0)
        store.go.set()
        assert await first == [Taken.NEW, Taken.NEW]
        answers = [await each for each in rest]
    assert answers == [[Arrival.JOINED], [Arrival.JOINED], [Arrival.WAITING], [Arrival.DUPLICATE]]
    assert store.sizes == [2, 4]
    assert len(spans) == 2


async def test_a_failure_is_told_to_all_whom_it_concerns_and_the_next_is_tried(url: str) -> None:
    database, store = opened(url)
    with database.engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE davylamp_label_waiting RENAME TO elsewhere")
    async with writing(store) as writer:
        results = await asyncio.gather(*(writer.take([label(name)]) for name in "abc"), return_exceptions=True)
        assert [type(result) for result in results] == [Unavailable] * 3
        with database.engine.begin() as connection:
            connection.exec_driver_sql("ALTER TABLE elsewhere RENAME TO davylamp_label_waiting")
        assert await writer.take([label("a")]) == [Arrival.WAITING]


async def test_more_than_may_wait_is_refused_and_nothing_of_it_is_done(url: str) -> None:
    store = held(url)
    async with writing(store) as writer:
        first = asyncio.create_task(writer.take([prediction("r")]))
        await begun(store)
        size = MOST_WAITING // 4
        waiting = [asyncio.create_task(writer.take([label(f"w{n}")] * size)) for n in range(4)]
        await asyncio.sleep(0)
        with pytest.raises(Overloaded, match=f"{MOST_WAITING} messages wait"):
            await writer.take([label("r")])
        store.go.set()
        await asyncio.gather(first, *waiting)
        assert await writer.take([label("r")]) == [Arrival.JOINED]


async def test_the_end_waits_for_what_has_begun_and_says_so_of_what_has_not(url: str) -> None:
    store = held(url)
    writer = Writer(store, lambda: NOW, lambda _: None)
    task = asyncio.create_task(writer.run())
    first = asyncio.create_task(writer.take([prediction("r"), label("r")]))
    await begun(store)
    second = asyncio.create_task(writer.take([label("other")]))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    store.go.set()
    await asyncio.gather(task, return_exceptions=True)
    assert await first == [Taken.NEW, Arrival.JOINED]
    with pytest.raises(Unavailable, match="the service stops"):
        await second


async def test_a_sender_that_goes_away_leaves_the_others_alone(url: str) -> None:
    store = held(url)
    async with writing(store) as writer:
        gone = asyncio.create_task(writer.take([prediction("a")]))
        await begun(store)
        stays = asyncio.create_task(writer.take([prediction("b")]))
        gone.cancel()
        store.go.set()
        assert await stays == [Taken.NEW]
    database, _ = opened(url)
    assert of(counts(database), rollout())["received"] == 2


async def test_tidying_goes_between_transactions(url: str) -> None:
    _, store = opened(url)
    async with writing(store) as writer:
        await writer.take([label("r")])
        tidied = await writer.tidy(10)
        assert (tidied.ended, tidied.forgotten, tidied.more) == (0, 0, False)
