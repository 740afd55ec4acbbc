from collections.abc import AsyncIterator

import aiohttp
import pytest_asyncio

from tests.davylamp.notifiers.receiver import Receiver, listening


@pytest_asyncio.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with listening() as receiver:
        yield receiver


@pytest_asyncio.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session
