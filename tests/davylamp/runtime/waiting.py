"""Wait for conditions in the loop of a test."""

import asyncio
import gc
import warnings
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def eventually(condition: Callable[[], T | None], what: str, *, within: float = 60) -> T:
    """Return the first true answer of ``condition``, or fail after ``within`` seconds."""
    loop = asyncio.get_running_loop()
    end = loop.time() + within
    while not (answer := condition()):
        if loop.time() > end:
            raise AssertionError(f"waited {within:g} s in vain until {what}")
        await asyncio.sleep(0.03)
    return answer


async def eventually_so(condition: Callable[[], Awaitable[T | None]], what: str, *, within: float = 60) -> T:
    """As `eventually`, with a condition that itself waits."""
    loop = asyncio.get_running_loop()
    end = loop.time() + within
    while not (answer := await condition()):
        if loop.time() > end:
            raise AssertionError(f"waited {within:g} s in vain until {what}")
        await asyncio.sleep(0.03)
    return answer


async def kopf_ended(running: Callable[[], bool]) -> None:
    """Wait until Kopf's thread has ended, and collect the connections that it leaves open before others do."""
    await eventually(lambda: not running(), "Kopf has ended")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
