import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import count

import pytest
from aiohttp import web

from e2e.demo.traffic.generator import Pace, Target, Traffic
from e2e.demo.traffic.history import NO_ANSWER, NOBODY

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
BODIES = (b'{"row": 1}', b'{"row": 2}', b'{"row": 3}')
OVER_50K = {"outputs": [{"name": "probability", "data": [0.9]}, {"name": "over_50k", "data": [1]}]}


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[Target]:
    application = web.Application()
    application.router.add_post("/v2/models/income/infer", handler)
    runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    try:
        yield Target(f"http://127.0.0.1:{port}", "income.demo")
    finally:
        await runner.cleanup()


async def nobody(_: web.Request) -> web.Response:
    pytest.fail("no request may arrive")


def pace(requests: int, *, rate: float = 400, in_flight: int = 64, timeout: float = 10) -> Pace:
    return Pace(rate, timedelta(seconds=requests / rate), in_flight, timedelta(seconds=timeout))


async def run(target: Target, asked: Pace) -> Traffic:
    async with Traffic(target, BODIES, asked) as traffic:
        await traffic.finished()
    return traffic


async def test_every_request_is_sent_once_with_its_own_id_and_counted_by_who_answered() -> None:
    seen: list[tuple[str, str, bytes]] = []

    async def alternate(request: web.Request) -> web.Response:
        seen.append((request.headers["host"], request.headers["x-request-id"], await request.read()))
        if len(seen) % 4 == 0:
            return web.json_response({"error": "no"}, status=500, headers={"x-model-version": "int8"})
        return web.json_response(OVER_50K, headers={"x-model-version": "fp32"})

    async with serving(alternate) as target:
        books = (await run(target, pace(40))).snapshot()
    assert {host for host, _, _ in seen} == {"income.demo"}
    assert len({request_id for _, request_id, _ in seen}) == len(seen) == 40
    assert {body for _, _, body in seen} == set(BODIES)
    assert (books.asked, books.answered, books.shed, books.in_flight, books.failed) == (40, 40, 0, 0, 10)
    assert (books.served["fp32"].requests, books.served["fp32"].positive, books.served["fp32"].failed) == (30, 30, 0)
    assert (books.served["int8"].requests, books.served["int8"].failed) == (10, 10)


async def test_a_broken_connection_is_a_failure_and_is_not_sent_again() -> None:
    seen = count()
    last = -1

    async def hang_up(request: web.Request) -> web.Response:
        nonlocal last
        last = next(seen)
        if last % 2:
            assert request.transport is not None
            request.transport.abort()
        return web.json_response(OVER_50K, headers={"x-model-version": "fp32"})

    async with serving(hang_up) as target:
        traffic = await run(target, pace(20, rate=100, in_flight=1))
    books = traffic.snapshot()
    assert last + 1 == books.answered
    assert books.served[NOBODY].requests == books.served[NOBODY].failed == (last + 1) // 2
    assert (NOBODY, NO_ANSWER) in traffic.history.statuses()


async def test_a_closed_port_is_counted_and_does_not_stop_the_traffic() -> None:
    async with serving(nobody) as target:
        pass
    books = (await run(target, pace(10))).snapshot()
    assert (books.asked, books.answered, books.failed) == (10, 10, 10)


async def test_a_silent_server_times_out_and_the_rest_is_shed_not_queued() -> None:
    async def silence(request: web.Request) -> web.Response:
        await asyncio.Event().wait()
        return web.Response()

    async with serving(silence) as target:
        books = (await run(target, pace(40, in_flight=3, timeout=0.5))).snapshot()
    assert books.asked == 40
    assert books.answered == books.failed
    assert books.answered + books.shed == 40
    assert 3 <= books.answered < 40


async def test_requests_are_sent_when_due_although_none_is_answered() -> None:
    arrived, enough = count(1), asyncio.Event()

    async def hold_until_five_wait(request: web.Request) -> web.Response:
        if next(arrived) == 5:
            enough.set()
        await enough.wait()
        return web.json_response(OVER_50K, headers={"x-model-version": "fp32"})

    # A closed loop would send the first request and wait for ever.
    async with serving(hold_until_five_wait) as target:
        books = (await run(target, pace(5))).snapshot()
    assert (books.answered, books.failed) == (5, 0)


async def test_stopping_waits_for_what_is_under_way_and_forgets_nothing() -> None:
    arrived, let_go = asyncio.Event(), asyncio.Event()

    async def wait(request: web.Request) -> web.Response:
        arrived.set()
        await let_go.wait()
        return web.json_response(OVER_50K, headers={"x-model-version": "fp32"})

    async with serving(wait) as target:
        traffic = Traffic(target, BODIES, pace(100_000, in_flight=1))
        traffic.start()
        await arrived.wait()
        assert traffic.snapshot().in_flight == 1
        stopping = asyncio.create_task(traffic.stop())
        let_go.set()
        await stopping
        await traffic.stop()
    books = traffic.snapshot()
    assert books.in_flight == 0
    assert books.answered >= 1
    assert books.failed == 0
    assert books.asked == books.answered + books.shed


async def test_stopping_at_once_sends_nothing() -> None:
    async with serving(nobody) as target:
        traffic = Traffic(target, BODIES, pace(10))
        traffic.start()
        await traffic.stop()
    assert traffic.snapshot().asked == 0


async def test_cookies_and_redirects_do_not_bind_one_request_to_the_next() -> None:
    cookies: list[str | None] = []

    async def bind(request: web.Request) -> web.Response:
        cookies.append(request.headers.get("cookie"))
        return web.Response(status=307, headers={"location": str(request.url), "set-cookie": "variant=int8"})

    async with serving(bind) as target:
        traffic = await run(target, pace(6))
    assert cookies == [None] * 6
    assert traffic.history.statuses() == {(NOBODY, 307): 6}


@pytest.mark.parametrize("text", ["", "[]", '{"outputs": [{"name": "over_50k", "data": []}]}', '{"outputs": 3}'])
async def test_an_answer_without_a_decision_has_none(text: str) -> None:
    async def odd(request: web.Request) -> web.Response:
        return web.Response(text=text, headers={"x-model-version": "fp32"})

    async with serving(odd) as target:
        traffic = await run(target, pace(1))
    assert [answer.positive for answer in traffic.history.between()] == [None]


def test_traffic_without_bounds_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 2000"):
        Pace(rate=2001)
    with pytest.raises(ValueError, match="above 0"):
        Pace(rate=0)
    with pytest.raises(ValueError, match="within an hour"):
        Pace(rate=1, duration=timedelta(hours=2))
    with pytest.raises(ValueError, match="in flight"):
        Pace(rate=1, in_flight=0)
    with pytest.raises(ValueError, match="nothing to send"):
        Traffic(Target("http://127.0.0.1:1", "x"), (), Pace(rate=1))


async def test_traffic_starts_once() -> None:
    async with serving(nobody) as target:
        traffic = Traffic(target, BODIES, pace(1))
        traffic.start()
        with pytest.raises(RuntimeError, match="already"):
            traffic.start()
        await traffic.stop()
