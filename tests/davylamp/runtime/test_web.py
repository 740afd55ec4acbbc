"""Probes and metrics over HTTP."""

import socket

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, Counter

from davylamp.errors import SpecError
from davylamp.runtime.web import serve


async def fetched(port: int, path: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as answer:
        return answer.status, await answer.text()


async def test_probes_say_what_is_wrong() -> None:
    troubles = {"alive": "", "ready": "nothing is listed"}
    runner, port = await serve(
        "127.0.0.1", 0, CollectorRegistry(), alive=lambda: troubles["alive"], ready=lambda: troubles["ready"]
    )
    assert await fetched(port, "/livez") == (200, "ok")
    assert await fetched(port, "/readyz") == (503, "nothing is listed")
    troubles.update(alive="stuck", ready="")
    assert await fetched(port, "/livez") == (503, "stuck")
    assert await fetched(port, "/readyz") == (200, "ok")
    await runner.cleanup()


async def test_metrics_are_prometheus_text() -> None:
    registry = CollectorRegistry()
    Counter("davylamp_things", "Things.", registry=registry).inc(3)
    runner, port = await serve("127.0.0.1", 0, registry, alive=str, ready=str)
    status, text = await fetched(port, "/metrics")
    assert status == 200
    assert "davylamp_things_total 3.0" in text
    assert (await fetched(port, "/"))[0] == 404
    await runner.cleanup()


async def test_a_port_that_is_taken_is_said_with_the_setting_to_change() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SpecError, match=f"DAVYLAMP_LISTEN: cannot listen on 127.0.0.1:{port}"):
            await serve("127.0.0.1", port, CollectorRegistry(), alive=str, ready=str)
