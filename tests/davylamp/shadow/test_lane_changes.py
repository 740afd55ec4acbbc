"""What becomes of requests that are in a rollout's hands when it changes."""

from __future__ import annotations

import asyncio
import gzip
import threading
from concurrent.futures import ThreadPoolExecutor
from random import Random

from davylamp.shadow.capturing import keep_nothing
from davylamp.shadow.lane import Lane, Means
from davylamp.shadow.reception import Arrived
from davylamp.shadow.room import Room
from davylamp.shadow.telemetry import Tallies, Telemetry
from tests.davylamp.shadow.servers import INFER, compare, task


def value(telemetry: Telemetry, metric: str, **labels: str) -> float | None:
    return telemetry.registry.get_sample_value(
        f"davylamp_shadow_{metric}", {"namespace": "ml", "rollout": "credit", **labels}
    )


async def test_a_request_that_is_being_decoded_is_dropped_and_every_request_has_one_outcome() -> None:
    telemetry, room, go_on = Telemetry(), Room(), threading.Event()
    coded = gzip.compress(b"{}", mtime=0)
    with ThreadPoolExecutor(1) as aside:
        # Whoever decodes comes after this.
        aside.submit(go_on.wait, 20)
        means = Means(compare, keep_nothing, Random(7), room, aside)  # noqa: S311 - the same in every run
        lane = Lane(task("127.0.0.1:1", "127.0.0.1:1"), means, Tallies(telemetry, "ml", "credit"))
        for number in range(2):
            lane.reserve(len(coded))
            headers = (("x-request-id", str(number)), ("content-encoding", "gzip"))
            lane.take(Arrived("POST", INFER, headers, coded))
        while value(telemetry, "waiting_requests") != 1:  # noqa: ASYNC110 - nobody is told
            await asyncio.sleep(0)
        await lane.end()
        go_on.set()

    assert value(telemetry, "requests_total", outcome="Dropped") == 2
    assert value(telemetry, "incomparable_pairs_total", reason="Abandoned") == 0
    assert (room.held, room.held_octets) == (0, 0)
