"""Decisions on their way to the join of labels."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

import pytest_asyncio
from aiohttp import web
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from davylamp.shadow import predictions as module
from davylamp.shadow.predictions import LabelsService, Predictions


class Service:
    """A labels service that answers as it is told, and keeps what it has taken."""

    def __init__(self) -> None:
        self.statuses: list[int] = []
        self.batches: list[list[dict[str, Any]]] = []
        self.authorizations: list[str] = []
        self.url = ""
        self.poison = "none"

    async def take(self, request: web.Request) -> web.Response:
        self.authorizations.append(request.headers.get("authorization", ""))
        status = self.statuses.pop(0) if self.statuses else 200
        if any(each["id"] == self.poison for each in (await request.json())["predictions"]):
            status = 400
        if status < 300:
            self.batches.append((await request.json())["predictions"])
        return web.Response(status=status)

    @property
    def taken(self) -> list[str]:
        return [each["id"] for batch in self.batches for each in batch]


@pytest_asyncio.fixture
async def service() -> AsyncIterator[Service]:
    made = Service()
    application = web.Application(client_max_size=1 << 24)
    application.router.add_post("/predictions", made.take)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield made
    await runner.cleanup()


def sender(url: str, token_file: Path | None = None) -> tuple[Predictions, CollectorRegistry]:
    registry = CollectorRegistry()
    return Predictions(LabelsService(url, token_file), registry, Random(1)), registry  # noqa: S311 - a spread


def counted(registry: CollectorRegistry, outcome: str) -> float | None:
    return registry.get_sample_value("davylamp_shadow_predictions_total", {"outcome": outcome})


async def until_counted(registry: CollectorRegistry, outcome: str, count: int) -> None:
    async with asyncio.timeout(30):
        while counted(registry, outcome) != count:  # noqa: ASYNC110 - a counter tells nobody
            await asyncio.sleep(0.02)


async def test_decisions_arrive_in_batches_with_the_token_of_the_file(service: Service, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first-token\n", encoding="utf-8")
    made, registry = sender(service.url + "/", token)
    for number in range(1500):
        made.add({"id": str(number)})
    running = asyncio.create_task(made.run())
    await until_counted(registry, "sent", 1500)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert service.taken == [str(number) for number in range(1500)]
    assert [len(batch) for batch in service.batches] == [1000, 500]
    assert set(service.authorizations) == {"Bearer first-token"}


async def test_what_was_not_taken_is_sent_again_and_what_is_refused_is_not(service: Service) -> None:
    service.statuses = [503, 401, 200, 400]
    made, registry = sender(service.url)
    made.add({"id": "kept"})
    running = asyncio.create_task(made.run())
    await until_counted(registry, "sent", 1)
    made.add({"id": "wrong"})
    await until_counted(registry, "refused", 1)
    made.add({"id": "next"})
    await until_counted(registry, "sent", 2)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert service.taken == ["kept", "next"]


async def test_a_service_that_is_away_costs_no_more_than_the_buffer() -> None:
    made, registry = sender("http://127.0.0.1:9")
    running = asyncio.create_task(made.run())
    for number in range(module._MOST + 7):
        made.add({"id": str(number)})
    assert counted(registry, "dropped") == 7
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert counted(registry, "sent") == 0


async def test_a_request_without_an_id_can_have_no_label(service: Service) -> None:
    made, registry = sender(service.url)
    made.add({"id": ""})
    assert counted(registry, "without_id") == 1


async def test_what_is_wrong_takes_nothing_else_of_its_batch_away(service: Service) -> None:
    service.poison = "40"
    made, registry = sender(service.url)
    for number in range(100):
        made.add({"id": str(number)})
    running = asyncio.create_task(made.run())
    await until_counted(registry, "sent", 99)
    await until_counted(registry, "refused", 1)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert service.taken == [str(number) for number in range(100) if number != 40]


async def test_ids_that_could_not_be_stored_are_not_sent(service: Service) -> None:
    made, registry = sender(service.url)
    for wrong in ("x" * 257, "a\x00b", "\udc80"):
        made.add({"id": wrong})
    made.add({"id": "x" * 256})
    running = asyncio.create_task(made.run())
    await until_counted(registry, "sent", 1)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert counted(registry, "wrong_id") == 3
    assert service.taken == ["x" * 256]


async def test_a_token_file_that_cannot_be_read_is_read_again(service: Service, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_bytes(b"\xff\xfe")
    made, registry = sender(service.url, token)
    made.add({"id": "1"})
    running = asyncio.create_task(made.run())
    with capture_logs() as logs:
        async with asyncio.timeout(30):
            while not logs:  # noqa: ASYNC110 - the sender tells nobody else
                await asyncio.sleep(0.02)
    assert logs[0]["event"] == "predictions_not_taken"
    token.write_text("now-it-is-there", encoding="utf-8")
    await until_counted(registry, "sent", 1)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert service.authorizations == ["Bearer now-it-is-there"]
