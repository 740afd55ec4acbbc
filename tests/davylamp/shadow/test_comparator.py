from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from davylamp.shadow.comparator import Comparator, Ports, loop_factory
from davylamp.shadow.task import Capture, Replay
from tests.davylamp.shadow.servers import (
    HOST,
    KEY,
    OK,
    compare,
    comparing,
    counted,
    get,
    key_file,
    port,
    received,
    request,
    send,
    task,
    upstream,
    value,
)


async def test_a_mirrored_request_is_answered_and_compared() -> None:
    async with (
        upstream() as first,
        upstream(OK.replace(b"{}", b"[]")) as second,
        comparing(task(first.address, second.address)) as comparator,
    ):
        answer = await send(port(comparator), request(b'{"inputs":[]}'))

        assert answer == b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"
        await counted(comparator, "pairs_total", pair="candidate")
        assert value(comparator, "disagreements_total", pair="candidate") == 1
        assert value(comparator, "differences_total", pair="candidate", difference="Bytes") == 1
        assert value(comparator, "timed_pairs_total", pair="candidate") == 1
        assert value(comparator, "status_mismatches_total", pair="candidate") == 0
        assert value(comparator, "requests_total", outcome="Sampled") == 1
        assert [each.requests[0][1] for each in (first, second)] == [b'{"inputs":[]}'] * 2


async def test_all_that_a_gate_reads_stands_at_zero_from_the_beginning_and_vanishes_at_the_end() -> None:
    async with comparing() as comparator:
        assert (await get(comparator, "/metrics"))[1].count("ml") == 0

        await comparator.set_tasks([task("127.0.0.1:1", "127.0.0.1:1")])
        shown = (await get(comparator, "/metrics"))[1]
        for line in (
            'requests_total{namespace="ml",outcome="Sampled",rollout="credit"} 0.0',
            'pairs_total{namespace="ml",pair="candidate",rollout="credit"} 0.0',
            'disagreements_total{namespace="ml",pair="baseline",rollout="credit"} 0.0',
            'score_raised_total{edge="0.05",namespace="ml",pair="candidate",rollout="credit"} 0.0',
            'confidence_lowered_total{edge="0.99",namespace="ml",pair="candidate",rollout="credit"} 0.0',
            'incomparable_pairs_total{namespace="ml",reason="BaselineFailed",rollout="credit"} 0.0',
            'latency_seconds_count{namespace="ml",pair="candidate",rollout="credit",variant="candidate"} 0.0',
            'waiting_requests{namespace="ml",rollout="credit"} 0.0',
        ):
            assert f"davylamp_shadow_{line}" in shown

        await comparator.set_tasks([])
        assert (await get(comparator, "/metrics"))[1].count('"ml"') == 0


async def test_a_changed_task_keeps_its_counters_and_its_port() -> None:
    async with upstream() as first, upstream() as second:
        asked = task(first.address, second.address, noise=1.0)
        async with comparing(asked) as comparator:
            here = port(comparator)
            await send(here, request(request_id="1"))
            await counted(comparator, "pairs_total", pair="baseline")
            assert second.requests == []

            await comparator.set_tasks([replace(asked, noise=0.0)])
            assert port(comparator) == here
            await send(here, request(request_id="2"))
            await counted(comparator, "pairs_total", pair="candidate")
            assert value(comparator, "pairs_total", pair="baseline") == 1
            assert len(second.requests) == 1


async def test_setting_the_same_tasks_again_changes_nothing() -> None:
    async with upstream() as first:
        asked = task(first.address, first.address)
        async with comparing(asked) as comparator:
            for number in range(2):
                await send(port(comparator), request(request_id=str(number)))
                await received(comparator, "Sampled", number + 1)
                await counted(comparator, "pairs_total", number + 1, pair="candidate")
                await comparator.set_tasks([asked])
            # The connection is still the same: nothing was begun anew.
            assert first.connections <= 2


async def test_rollouts_are_told_apart_by_port_and_never_by_host() -> None:
    async with upstream() as first, upstream() as second:
        credit = task(first.address, first.address)
        fraud = replace(credit, rollout="fraud", baseline=second.address, candidate=second.address)
        async with comparing(credit, fraud) as comparator:
            await send(port(comparator, "fraud"), request())
            await counted(comparator, "pairs_total", rollout="fraud", pair="candidate")

            assert value(comparator, "requests_total", outcome="Sampled") == 0
            assert first.requests == []


async def never(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read()


async def test_a_change_drops_what_waits_and_blames_nobody_for_what_is_under_way() -> None:
    async with upstream() as fine, upstream(behaviour=never) as hanging:
        asked = task(fine.address, hanging.address, replay=Replay(concurrency=1))
        async with comparing(asked) as comparator:
            for number in range(3):
                await send(port(comparator), request(request_id=str(number)))
            await received(comparator, "Sampled")

            await comparator.set_tasks([replace(asked, candidate=fine.address)])

            assert value(comparator, "requests_total", outcome="Dropped") == 2
            assert value(comparator, "incomparable_pairs_total", reason="Abandoned") == 1
            assert value(comparator, "held_bytes") == 0
            await send(port(comparator), request(request_id="3"))
            await counted(comparator, "pairs_total", pair="candidate")
            assert value(comparator, "disagreements_total", pair="candidate") == 0


async def test_a_rollout_that_goes_frees_its_port_at_once() -> None:
    async with comparing(task("127.0.0.1:1", "127.0.0.1:1")) as comparator:
        here = port(comparator)
        reader, writer = await asyncio.open_connection(HOST, here)
        await comparator.set_tasks([])

        assert comparator.ports_of("ml", "credit") is None
        async with asyncio.timeout(20):
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readexactly(1)
        with pytest.raises(ConnectionError):
            await asyncio.open_connection(HOST, here)
        writer.close()


async def free_ports(number: int) -> list[int]:
    servers = [await asyncio.start_server(lambda *_: None, HOST, 0) for _ in range(number)]
    ports = [int(server.sockets[0].getsockname()[1]) for server in servers]
    for server in servers:
        server.close()
        await server.wait_closed()
    return ports


async def test_rollouts_may_exchange_their_ports() -> None:
    one, other = await free_ports(2)
    credit = task("127.0.0.1:1", "127.0.0.1:1", port=one)
    fraud = replace(credit, rollout="fraud", port=other)
    async with comparing(credit, fraud) as running:
        await running.set_tasks([replace(credit, port=other), replace(fraud, port=one)])

        assert (port(running), port(running, "fraud")) == (other, one)
        assert (await get(running, "/readyz"))[0] == 200


async def test_a_port_that_is_taken_costs_its_own_rollout_alone_until_it_is_free() -> None:
    taken = await asyncio.start_server(lambda *_: None, HOST, 0)
    number = int(taken.sockets[0].getsockname()[1])
    asked = task("127.0.0.1:1", "127.0.0.1:1", port=number)
    other = replace(asked, rollout="fraud", port=0)
    async with comparing(asked, other) as comparator:
        assert (await get(comparator, "/readyz"))[0] == 200
        assert comparator.ports_of("ml", "credit") is None
        assert value(comparator, "pairs_total", pair="candidate") is None
        assert comparator.ports_of("ml", "fraud") is not None

        taken.close()
        await taken.wait_closed()
        await comparator.set_tasks([asked, other])
        assert port(comparator) == number


async def test_a_taken_port_for_grpc_is_no_half_service() -> None:
    taken = await asyncio.start_server(lambda *_: None, HOST, 0)
    number = int(taken.sockets[0].getsockname()[1])
    asked = task("127.0.0.1:1", "127.0.0.1:1", port=number - 100)
    async with comparing(asked) as comparator:
        assert comparator.ports_of("ml", "credit") is None
        with pytest.raises(ConnectionError):
            await asyncio.open_connection(HOST, number - 100)
        assert value(comparator, "pairs_total", pair="candidate") is None
    taken.close()


async def test_it_lives_at_once_and_is_ready_when_the_rollouts_are_known() -> None:
    comparator = Comparator(compare, ports=Ports(HOST, 0))
    await comparator.start()
    try:
        assert (await get(comparator, "/healthz"))[0] == 200
        assert await get(comparator, "/readyz") == (503, "the rollouts are not known yet")
        await comparator.set_tasks([])
        assert await get(comparator, "/readyz") == (200, "ok")
    finally:
        await comparator.stop()
        await comparator.stop()


async def test_an_admin_port_that_is_taken_is_an_error() -> None:
    async with comparing() as running:
        with pytest.raises(OSError, match="address already in use"):
            await Comparator(compare, ports=Ports(HOST, running.admin_port)).start()


async def test_captured_pairs_are_served_only_where_the_rollout_says_so(tmp_path: Path) -> None:
    async with upstream() as first, upstream(OK.replace(b"{}", b"[]")) as second:
        asked = task(first.address, second.address)
        async with comparing(asked, redact=lambda body, _: body, key=key_file(tmp_path)) as comparator:
            await send(port(comparator), request(request_id="1"))
            await counted(comparator, "disagreements_total", pair="candidate")
            assert (await get(comparator, "/captures/ml/credit", key=KEY))[0] == 404
            assert (await get(comparator, "/captures/ml/none", key=KEY))[0] == 404

            await comparator.set_tasks([replace(asked, capture=Capture(5))])
            assert await get(comparator, "/captures/ml/credit", key=KEY) == (200, '{"pairs": []}')
            await send(port(comparator), request(request_id="2"))
            await counted(comparator, "disagreements_total", 2, pair="candidate")
            status, text = await get(comparator, "/captures/ml/credit", key=KEY)

            (pair,) = json.loads(text)["pairs"]
            assert (status, pair["baseline"]["text"], pair["candidate"]["text"]) == (200, "{}", "[]")


def test_the_event_loop_is_the_fast_one() -> None:
    loop = loop_factory()()
    try:
        assert type(loop).__module__.startswith("uvloop")
    finally:
        loop.close()


def test_it_works_on_the_fast_event_loop() -> None:
    async def compared() -> None:
        async with upstream() as variant, comparing(task(variant.address, variant.address)) as comparator:
            await send(port(comparator), request())
            await counted(comparator, "pairs_total", pair="candidate")

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(compared())
