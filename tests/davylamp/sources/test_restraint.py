import random
from datetime import timedelta

from davylamp.sources.restraint import Breaker, TokenBucket
from tests.davylamp.sources.clocks import HandClock

NO_TIME = timedelta()
SECOND = timedelta(seconds=1)


def breaker_of(clock: HandClock) -> Breaker:
    return Breaker(clock, random.Random(1))  # noqa: S311 - spreads retries


def test_queries_of_one_second_pass_at_once_and_further_ones_wait_their_turn() -> None:
    bucket = TokenBucket(10, HandClock())

    waits = [bucket.reserve(1, 5 * SECOND) for _ in range(13)]

    assert waits[:10] == [NO_TIME] * 10
    assert waits[10:] == [timedelta(seconds=0.1), timedelta(seconds=0.2), timedelta(seconds=0.3)]


def test_time_gives_queries_back_but_no_more_than_those_of_one_second() -> None:
    clock = HandClock()
    bucket = TokenBucket(10, clock)
    assert bucket.reserve(10, SECOND) == NO_TIME

    clock.advance(0.2)
    assert bucket.reserve(2, SECOND) == NO_TIME
    assert bucket.reserve(1, SECOND) == timedelta(seconds=0.1)

    clock.advance(3600)
    assert bucket.reserve(10, SECOND) == NO_TIME
    assert bucket.reserve(1, NO_TIME) is None


def test_a_refused_reservation_takes_nothing() -> None:
    bucket = TokenBucket(2, HandClock())
    assert bucket.reserve(2, SECOND) == NO_TIME

    assert bucket.reserve(4, SECOND) is None
    assert bucket.reserve(1, SECOND) == timedelta(seconds=0.5)


def test_a_look_of_more_queries_than_a_second_has_is_only_slowed() -> None:
    assert TokenBucket(1, HandClock()).reserve(3, 5 * SECOND) == timedelta(seconds=2)


def test_a_breaker_stays_closed_for_two_failures_and_opens_at_the_third() -> None:
    breaker = breaker_of(HandClock())
    for _ in range(2):
        breaker.failed("down")
        assert breaker.refusal() is None

    breaker.failed("down")

    refusal = breaker.refusal()
    assert refusal is not None
    assert refusal.startswith("down; asked again in ")


def test_pauses_grow_to_ten_seconds_at_most_and_are_spread() -> None:
    clock = HandClock()
    breaker = breaker_of(clock)
    for _ in range(3):
        breaker.failed("down")
    pauses = []
    for _ in range(12):
        paused = 0.0
        while breaker.refusal() is not None:
            clock.advance(0.01)
            paused += 0.01
        pauses.append(paused)
        breaker.failed("down")

    assert 0.5 <= pauses[0] <= 1.01
    assert all(5 <= pause <= 10.01 for pause in pauses[4:])
    assert len({round(pause, 1) for pause in pauses[4:]}) > 3


def test_after_a_pause_one_asks_and_the_others_still_wait() -> None:
    clock = HandClock()
    breaker = breaker_of(clock)
    for _ in range(3):
        breaker.failed("down")
    clock.advance(1)

    assert breaker.refusal() is None
    assert breaker.refusal() is not None


def test_one_answer_lets_everybody_ask_again_at_once() -> None:
    clock = HandClock()
    breaker = breaker_of(clock)
    for _ in range(9):
        breaker.failed("down")

    breaker.succeeded()

    assert breaker.refusal() is None
    breaker.failed("down")
    assert breaker.refusal() is None


def test_a_query_that_never_reports_back_does_not_close_the_source_for_good() -> None:
    clock = HandClock()
    breaker = breaker_of(clock)
    for _ in range(3):
        breaker.failed("down")
    clock.advance(1)
    assert breaker.refusal() is None  # and then the asking task is cancelled

    clock.advance(10)

    assert breaker.refusal() is None


def test_a_server_that_asks_to_be_left_alone_is_left_alone_at_once_and_as_long_as_it_says() -> None:
    clock = HandClock()
    breaker = breaker_of(clock)

    breaker.failed("asked too often", retry_after=timedelta(seconds=30))

    clock.advance(29.9)
    assert breaker.refusal() is not None
    clock.advance(0.2)
    assert breaker.refusal() is None
