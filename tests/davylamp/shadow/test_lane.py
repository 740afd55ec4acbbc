"""A rollout's requests from the mirror to the counters, with real variants, broken ones among them."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import brotli
import pytest
import zstandard

from davylamp.runtime.comparator import redact
from davylamp.shadow.capturing import keep_nothing
from davylamp.shadow.comparing import compare as real_compare
from davylamp.shadow.comparison import Comparison, Kind
from davylamp.shadow.exchange import Call, Failure, Outcome
from davylamp.shadow.lane import Lane, Means
from davylamp.shadow.reception import Arrived
from davylamp.shadow.room import Room
from davylamp.shadow.task import Capture, Replay, Rules
from davylamp.shadow.telemetry import Tallies, Telemetry
from tests.davylamp.shadow.servers import (
    INFER,
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

BODY = b'{"inputs":[]}'
NOBODY = task("127.0.0.1:1", "127.0.0.1:1")


def answering(status: str, headers: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\n{headers}content-length: 0\r\n\r\n".encode()


async def test_both_variants_get_the_same_request_without_what_is_not_theirs() -> None:
    headers = "authorization: Bearer secret\r\nx-envoy-internal: true\r\naccept-encoding: gzip\r\nx-tenant: a\r\n"
    async with (
        upstream() as first,
        upstream() as second,
        comparing(task(first.address, second.address)) as comparator,
    ):
        await send(port(comparator), request(BODY, headers=headers, target=f"{INFER}?api_key=secret&fast=1"))
        await counted(comparator, "pairs_total", pair="candidate")

    for variant in (first, second):
        assert variant.requests[0][1] == BODY
        assert variant.lines() == [
            "POST /v2/models/credit/infer?fast=1 HTTP/1.1",
            f"host: {variant.address}",
            "content-length: 13",
            "x-request-id: 1",
            "x-tenant: a",
            "x-davylamp-shadow: 1",
        ]


@pytest.mark.parametrize(
    ("coding", "code"),
    [
        ("gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("br", brotli.compress),
        ("zstd", zstandard.ZstdCompressor().compress),
        ("gzip, br", lambda body: brotli.compress(gzip.compress(body))),
    ],
)
async def test_a_coded_request_is_replayed_without_its_coding(coding: str, code: Callable[[bytes], bytes]) -> None:
    async with upstream() as variant, comparing(task(variant.address, variant.address)) as comparator:
        await send(port(comparator), request(code(BODY), headers=f"content-encoding: {coding}\r\n"))
        await counted(comparator, "pairs_total", pair="candidate")

    assert variant.requests[0][1] == BODY
    assert "content-length: 13" in variant.lines()
    assert "content-encoding" not in variant.requests[0][0]


@pytest.mark.parametrize(
    ("body", "coding", "outcome"),
    [
        (BODY, "lzma", "Undecodable"),
        (BODY, "gzip", "Undecodable"),
        (gzip.compress(BODY, mtime=0)[:-1], "gzip", "Undecodable"),
        (gzip.compress(bytes(10**6), mtime=0), "gzip", "TooLarge"),
    ],
)
async def test_a_request_that_cannot_be_decoded_is_counted_and_not_replayed(
    body: bytes, coding: str, outcome: str
) -> None:
    async with comparing(NOBODY) as comparator:
        await send(port(comparator), request(body, headers=f"content-encoding: {coding}\r\n"))
        await received(comparator, outcome)

        assert value(comparator, "requests_total", outcome="Sampled") == 0
        assert value(comparator, "held_bytes") == 0


@pytest.mark.parametrize(
    ("sent", "outcome"),
    [
        (request(target="/v2/repository/index"), "NotAllowed"),
        (request(method="DELETE"), "NotAllowed"),
        (b"GET /chat HTTP/1.1\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n", "Upgrade"),
        (request(b"x" * 101), "TooLarge"),
        (b"POST / HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n", "Undecodable"),
    ],
)
async def test_each_request_that_is_not_replayed_is_counted_once(sent: bytes, outcome: str) -> None:
    async with comparing(replace(NOBODY, replay=Replay(max_body=100))) as comparator:
        await send(port(comparator), sent)
        await received(comparator, outcome)

        shown = comparator.registry.collect()
        counts = [
            sample.value for family in shown for sample in family.samples if sample.name.endswith("requests_total")
        ]
        assert sum(counts) == 1
        assert value(comparator, "held_bytes") == 0


async def test_a_request_that_is_sent_again_is_a_duplicate() -> None:
    async with comparing(NOBODY) as comparator:
        for number in (1, 2, 1, 2, 3):
            await send(port(comparator), request(request_id=str(number)))
        await received(comparator, "Duplicate", 2)
        await received(comparator, "Sampled", 3)


async def test_the_same_question_asked_twice_is_two_requests_where_no_id_tells_them_apart() -> None:
    nameless = request(BODY).replace(b"x-request-id: 1\r\n", b"")
    async with comparing(NOBODY) as comparator:
        await send(port(comparator), nameless, nameless, answers=2)
        await received(comparator, "Sampled", 2)

        assert value(comparator, "requests_total", outcome="Duplicate") == 0


async def test_a_share_of_the_requests_is_sampled_and_a_share_of_these_is_noise() -> None:
    async with (
        upstream() as variant,
        comparing(task(variant.address, variant.address, sample=0.5, noise=0.5)) as comparator,
    ):
        requests = [request(request_id=str(number)) for number in range(400)]
        await send(port(comparator), *requests, answers=400)
        sampled = value(comparator, "requests_total", outcome="NotSampled")
        assert sampled is not None
        sampled = 400 - sampled
        await received(comparator, "Sampled", sampled)

        assert 160 < sampled < 240
        for pair in ("baseline", "candidate"):
            await counted(comparator, "pairs_total", 0.35 * sampled, pair=pair)


async def test_the_order_of_the_variants_is_random() -> None:
    order: list[str] = []

    def noting(name: str) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]:
        async def behave(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            order.append(name)
            writer.write(OK)

        return behave

    async with (
        upstream(behaviour=noting("b")) as first,
        upstream(behaviour=noting("c")) as second,
        comparing(task(first.address, second.address, replay=Replay(concurrency=1))) as comparator,
    ):
        for number in range(60):
            await send(port(comparator), request(request_id=str(number)))
        await counted(comparator, "pairs_total", 60, pair="candidate")

    pairs = ["".join(order[place : place + 2]) for place in range(0, 120, 2)]
    assert set(pairs) == {"bc", "cb"}
    assert 15 < pairs.count("bc") < 45


class Crowd:
    """A variant that bears some calls at once and refuses others; it notes how many there were."""

    def __init__(self, bears: int) -> None:
        self._bears = bears
        self.now = 0
        self.highest = 0

    async def serve(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.now += 1
        self.highest = max(self.highest, self.now)
        answer = OK if self.now <= self._bears else answering("503 Busy")
        # Long enough for all that are sent at once to be there at once.
        await asyncio.sleep(0.02)
        self.now -= 1
        writer.write(answer)


@pytest.mark.parametrize(("bears", "allowed", "reaches"), [(100, 3, 3), (2, 12, 3)])
async def test_no_more_calls_are_under_way_at_once_than_allowed_or_one_more_than_the_baseline_bears(
    bears: int, allowed: int, reaches: int
) -> None:
    crowd = Crowd(bears)
    async with (
        upstream(behaviour=crowd.serve) as baseline,
        upstream() as candidate,
        comparing(task(baseline.address, candidate.address, replay=Replay(concurrency=allowed))) as comparator,
    ):
        await send(port(comparator), *(request(request_id=str(number)) for number in range(200)), answers=200)
        assert value(comparator, "replaying_pairs_limit") == 1
        await received(comparator, "Sampled", 200)
        await until_idle(comparator)

        # A candidate that is quick leaves nearly every place to the baseline.
        assert crowd.highest == reaches
        assert value(comparator, "requests_total", outcome="BackedOff") == 0


async def never(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read()


async def test_what_there_is_no_place_for_is_dropped_the_newest_first_and_answered_all_the_same() -> None:
    async with (
        upstream(behaviour=never) as variant,
        comparing(
            task(variant.address, variant.address, replay=Replay(concurrency=2)), room=Room(requests=10)
        ) as comparator,
    ):
        sent = [request(request_id=str(number)) for number in range(50)]
        answers = await send(port(comparator), *sent, answers=50)

        assert answers.count(b"202 Accepted") == 50
        assert value(comparator, "requests_total", outcome="Dropped") == 40
        await received(comparator, "Sampled")
        assert value(comparator, "waiting_requests") == 9
        assert value(comparator, "held_bytes") == 20
        assert value(comparator, "replaying_pairs") == 1
        while not variant.requests:  # noqa: ASYNC110 - the variant tells nobody
            await asyncio.sleep(0.001)
        assert "x-request-id: 0" in variant.lines()


async def test_what_was_dropped_is_no_duplicate_when_it_comes_again() -> None:
    async with (
        upstream(behaviour=never) as variant,
        comparing(task(variant.address, variant.address), room=Room(requests=1)) as comparator,
    ):
        for number in ("1", "2", "2"):
            await send(port(comparator), request(request_id=number))

        assert value(comparator, "requests_total", outcome="Dropped") == 2
        assert value(comparator, "requests_total", outcome="Duplicate") == 0


@pytest.mark.parametrize("answer", [answering("429 Slow Down"), answering("503 Busy", "retry-after: 5\r\n")])
@pytest.mark.parametrize("whose", ["baseline", "candidate"])
async def test_a_variant_that_asks_for_it_is_left_alone(whose: str, answer: bytes) -> None:
    async with upstream() as fine, upstream(answer) as asking:
        variants = (asking.address, fine.address) if whose == "baseline" else (fine.address, asking.address)
        async with comparing(task(*variants)) as comparator:
            await send(port(comparator), request(request_id="1"))
            await received(comparator, "Sampled")
            await until_idle(comparator)
            assert value(comparator, "backing_off") == 1
            await send(port(comparator), request(request_id="2"))
            await received(comparator, "BackedOff")

            assert len(asking.requests) == 1
            assert value(comparator, "status_mismatches_total", pair="candidate") == (whose == "candidate")


async def until_idle(comparator: Any) -> None:
    async with asyncio.timeout(20):
        while value(comparator, "replaying_pairs"):  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.001)


async def html(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 502 Bad Gateway\r\ncontent-type: text/html\r\ncontent-length: 14\r\n\r\n<html>no</html")


async def reset(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


async def endless(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    while not writer.transport.is_closing():
        writer.write(b"b\r\ndata: x\n\nxx\r\n")
        await asyncio.sleep(0)


async def nonsense(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"\x00\x01\x02\r\n\r\n")


@pytest.mark.parametrize("broken", [html, reset, endless, nonsense, never])
async def test_a_broken_candidate_yields_pairs_that_differ_in_status_and_a_broken_baseline_none(
    broken: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any],
) -> None:
    limits = Replay(timeout=0.3, max_body=10000)
    async with upstream() as fine, upstream(behaviour=broken) as wrong:
        async with comparing(task(fine.address, wrong.address, replay=limits)) as comparator:
            for number in range(5):
                await send(port(comparator), request(request_id=str(number)))
            await counted(comparator, "status_mismatches_total", 5, pair="candidate")
            assert value(comparator, "pairs_total", pair="candidate") == 5
            assert value(comparator, "timed_pairs_total", pair="candidate") == 0
            assert value(comparator, "backing_off") == 0
        async with comparing(task(wrong.address, fine.address, replay=limits)) as comparator:
            for number in range(5):
                await send(port(comparator), request(request_id=str(number)))
            await counted(comparator, "incomparable_pairs_total", 5, reason="BaselineFailed")
            assert value(comparator, "pairs_total", pair="candidate") == 0
            await until_idle(comparator)
            assert value(comparator, "held_bytes") == 0


async def test_what_the_comparison_gets_is_the_call_and_the_baseline_first() -> None:
    seen: list[tuple[Call, Outcome, Outcome, Rules]] = []

    def noting(*what: Any) -> Comparison:
        seen.append(what)
        return compare(*what)

    rules = Rules(top_k=3)
    async with upstream() as first, upstream(behaviour=reset) as second:
        asked = task(first.address, second.address, rules=rules)
        async with comparing(asked, compare=noting) as comparator:
            for number in range(8):
                await send(port(comparator), request(BODY, request_id=str(number)))
            await counted(comparator, "pairs_total", 8, pair="candidate")

    for call, baseline, candidate, given in seen:
        assert (call.method, call.target, call.body) == ("POST", "/v2/models/credit/infer", BODY)
        assert call.header("x-davylamp-shadow") == "1"
        assert not isinstance(baseline.result, Failure)
        assert candidate.result is Failure.BROKEN_OFF
        assert given is rules


async def test_a_comparison_that_fails_unexpectedly_is_counted_and_ends_nothing() -> None:
    def fail(call: Call, *what: Any) -> Comparison:
        if call.header("x-request-id") == "1":
            raise ZeroDivisionError
        return compare(call, *what)

    async with upstream() as variant, comparing(task(variant.address, variant.address), compare=fail) as comparator:
        for number in (1, 2):
            await send(port(comparator), request(request_id=str(number)))
        await counted(comparator, "failures_total")
        await counted(comparator, "pairs_total", pair="candidate")
        await until_idle(comparator)

        assert value(comparator, "held_bytes") == 0


class Held:
    """Holds up the comparison of one request, and notes which thread compares which."""

    def __init__(self, request_id: str) -> None:
        self._request_id = request_id
        self.begun = asyncio.Event()
        self.go_on = threading.Event()
        self.threads: dict[str, int] = {}
        self._loop = asyncio.get_running_loop()

    def compare(self, call: Call, *what: Any) -> Comparison:
        request_id = call.header("x-request-id")
        self.threads[request_id] = threading.get_ident()
        if request_id == self._request_id:
            self._loop.call_soon_threadsafe(self.begun.set)
            assert self.go_on.wait(20)
        return compare(call, *what)


LARGE = b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n" + b"x" * 100000


@pytest.mark.parametrize(
    ("answer", "rules"), [(LARGE, Rules()), (OK, Rules(select=("$..*",))), (OK, Rules(ignore=("$.id",)))]
)
async def test_whoever_sends_the_next_request_does_not_wait_for_a_comparison_that_takes_long(
    answer: bytes, rules: Rules
) -> None:
    held = Held("1")
    async with (
        upstream(answer) as variant,
        comparing(task(variant.address, variant.address, rules=rules), compare=held.compare) as comparator,
    ):
        await send(port(comparator), request(request_id="1"))
        await held.begun.wait()

        assert b"202 Accepted" in await send(port(comparator), request(request_id="2"))
        held.go_on.set()
        await counted(comparator, "pairs_total", 2, pair="candidate")

    assert len(set(held.threads.values())) == 1
    assert threading.get_ident() not in held.threads.values()


async def test_small_answers_are_compared_where_they_arrive() -> None:
    held = Held("")
    async with (
        upstream() as variant,
        comparing(task(variant.address, variant.address), compare=held.compare) as comparator,
    ):
        await send(port(comparator), request(BODY))
        await counted(comparator, "pairs_total", pair="candidate")

    assert held.threads == {"1": threading.get_ident()}


async def test_what_arrives_while_the_last_worker_ends_does_not_wait_for_the_next_request() -> None:
    async with upstream() as variant:
        arrived = [Arrived("POST", INFER, (("x-request-id", str(number)),), BODY) for number in range(2)]
        tallies, done = Telemetry(), asyncio.Event()

        def compare_and_receive(*_: Any) -> Comparison:
            # A worker that has nothing left ends in this very round of the loop.
            asyncio.get_running_loop().call_soon(lane.take, arrived.pop()) if arrived else done.set()
            return Comparison(Kind.RAW)

        with ThreadPoolExecutor(1) as aside:
            means = Means(compare_and_receive, keep_nothing, Random(7), Room(), aside)  # noqa: S311 - the same in every run
            alone = task(variant.address, variant.address, replay=Replay(concurrency=1))
            lane = Lane(alone, means, Tallies(tallies, "ml", "credit"))
            lane.take(arrived.pop())
            async with asyncio.timeout(20):
                await done.wait()
            await lane.end()


async def test_a_rollout_can_end_in_the_middle_of_a_long_comparison() -> None:
    held = Held("1")
    async with (
        upstream(LARGE) as variant,
        comparing(task(variant.address, variant.address), compare=held.compare) as comparator,
    ):
        await send(port(comparator), request(request_id="1"))
        await held.begun.wait()
        await comparator.set_tasks([])
        held.go_on.set()

        assert value(comparator, "pairs_total", pair="candidate") is None


async def test_a_secret_that_a_rule_names_is_never_shown(tmp_path: Path) -> None:
    answers = []
    for label in (1, 2):
        output = {"name": "label", "shape": [1], "datatype": "INT64", "data": [label], "secret": "hunter2"}
        body = json.dumps({"outputs": [output], "secret": "hunter2"})
        answers.append(f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode())
    asked = b'{"secret": ["hunter2"], "inputs": [1], "user": {"secret": "hunter2"}}'
    capture = Capture(5, redact=("$..secret",))
    async with (
        upstream(answers[0]) as first,
        upstream(answers[1]) as second,
        comparing(
            task(first.address, second.address, capture=capture),
            redact=redact,
            compare=real_compare,
            key=key_file(tmp_path),
        ) as comparator,
    ):
        await send(port(comparator), request(asked, target=f"{INFER}?key=hunter2"))
        await send(port(comparator), request(asked[:-1], request_id="2"))
        await counted(comparator, "disagreements_total", 2, pair="candidate")
        status, shown = await get(comparator, "/captures/ml/credit", key=KEY)
        _, metrics = await get(comparator, "/metrics")

    assert (status, shown.count('"baseline"'), shown.count("[redacted]")) == (200, 2, 11)
    assert "hunter2" not in shown + metrics


@pytest.mark.parametrize("method", ["HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_captures_can_be_read_and_nothing_else(method: str) -> None:
    async with comparing(task("127.0.0.1:1", "127.0.0.1:1", capture=Capture(5))) as comparator:
        assert (await get(comparator, "/captures/ml/credit", method))[0] == 405
