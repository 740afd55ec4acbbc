from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from davylamp.shadow.doorway import Doorway, FullError, Limits

sizes = st.integers(0, 60)


async def test_what_is_larger_than_all_the_room_passes_alone() -> None:
    doorway = Doorway(Limits(octets=10, seconds=0.01))
    async with doorway.passing(11):
        with pytest.raises(FullError):
            await AsyncExitStack().enter_async_context(doorway.passing(1))
    assert doorway.free == 10


async def test_more_than_may_wait_are_turned_away_at_once() -> None:
    doorway = Doorway(Limits(octets=10, waiting=0, seconds=3600))
    async with doorway.passing(10):
        with pytest.raises(FullError):
            await AsyncExitStack().enter_async_context(doorway.passing(1))


async def test_who_came_first_goes_first_whatever_the_size() -> None:
    doorway, passed = Doorway(Limits(octets=10, seconds=3600)), []

    async def pass_through(size: int) -> None:
        async with doorway.passing(size):
            passed.append(size)

    async with doorway.passing(10):
        waiting = [asyncio.create_task(pass_through(size)) for size in (9, 1, 8, 2)]
        await asyncio.sleep(0)
    await asyncio.gather(*waiting)

    assert passed == [9, 1, 8, 2]


@given(plan=st.lists(st.tuples(sizes, st.sampled_from(("leave", "cancel", "come", "turn"))), max_size=40))
def test_whatever_comes_goes_or_is_cancelled_no_more_is_inside_than_fits_and_nothing_is_lost(
    plan: list[tuple[int, str]],
) -> None:
    async def play() -> None:
        doorway, inside = Doorway(Limits(octets=50, waiting=5, seconds=3600)), 0
        guests: list[tuple[asyncio.Task[None], asyncio.Event]] = []

        async def visit(size: int, leave: asyncio.Event) -> None:
            nonlocal inside
            async with doorway.passing(size):
                inside += min(size, 50)
                assert inside <= 50
                try:
                    await leave.wait()
                finally:
                    inside -= min(size, 50)

        for number, what in plan:
            if what == "come":
                leave = asyncio.Event()
                guests.append((asyncio.create_task(visit(number, leave)), leave))
            elif what == "turn":
                await asyncio.sleep(0)
            elif guests:
                guest, leave = guests[number % len(guests)]
                guest.cancel() if what == "cancel" else leave.set()
        for _, leave in guests:
            leave.set()
        ended = await asyncio.gather(*(guest for guest, _ in guests), return_exceptions=True)
        assert {type(each) for each in ended} <= {type(None), FullError, asyncio.CancelledError}
        assert (inside, doorway.free) == (0, 50)

    asyncio.run(play())
