from __future__ import annotations

from dataclasses import replace

from tests.davylamp.shadow.servers import (
    OK,
    comparing,
    counted,
    get,
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
