from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from davylamp.shadow.exchange import Answer, Failure, Outcome, Protocol
from davylamp.shadow.pace import ROUND, SLACK, SLOW, Pace

QUICK = 0.1
statuses = st.sampled_from([200, 400, 429, 500, 503])
results = st.one_of(statuses.map(lambda status: Answer(status, (), b"")), st.sampled_from(Failure))
outcomes = st.builds(Outcome, results, st.floats(0, 20))


def answer(status: int = 200, seconds: float = QUICK) -> Outcome:
    return Outcome(Answer(status, (), b""), seconds)


def paced(most: int, *outcomes: Outcome, full: bool = True) -> Pace:
    pace = Pace(most)
    for outcome in outcomes:
        pace.note(outcome, full=full)
    return pace


def widened(places: int) -> Pace:
    """Return a pace that has grown to so many places, with the last round over."""
    pace = Pace(100)
    while pace.places < places:
        pace.note(answer(), full=True)
    return pace


@given(most=st.integers(1, 20), noted=st.lists(st.tuples(outcomes, st.booleans()), max_size=300))
def test_there_is_always_a_place_never_more_than_allowed_and_at_most_one_more_at_a_time(
    most: int, noted: list[tuple[Outcome, bool]]
) -> None:
    pace = Pace(most)
    for outcome, full in noted:
        before = pace.places
        pace.note(outcome, full=full)

        assert 1 <= pace.places <= min(most, before + 1)
        assert pace.places >= before // 2


@given(most=st.integers(1, 20))
def test_it_begins_with_one_and_grows_by_one_each_round_of_quick_answers(most: int) -> None:
    pace, seen = Pace(most), []
    for _ in range(sum(max(ROUND, places) for places in range(1, most))):
        seen.append(pace.places)
        pace.note(answer(), full=True)

    assert seen == [places for places in range(1, most) for _ in range(max(ROUND, places))]
    assert pace.places == most


def test_places_that_nobody_wanted_are_not_added_to() -> None:
    assert paced(8, *[answer()] * 1000, full=False).places == 1


@pytest.mark.parametrize(
    "outcome",
    [
        answer(429),
        answer(503),
        answer(504),
        Outcome(Failure.TIMEOUT, 10.0),
        Outcome(Failure.BROKEN_OFF, 0.001),
        Outcome(Failure.UNREACHABLE, 0.001),
        Outcome(Answer(8, (), b"", Protocol.GRPC), 0.1),
        Outcome(Answer(14, (), b"", Protocol.GRPC), 0.1),
        Outcome(Answer(4, (), b"", Protocol.GRPC), 0.1),
    ],
)
def test_a_variant_that_cannot_bear_it_gets_half_at_once(outcome: Outcome) -> None:
    pace = widened(9)
    pace.note(outcome, full=True)

    assert pace.places == 4


@pytest.mark.parametrize("outcome", [answer(400), answer(500), answer(404), Outcome(Failure.MALFORMED, 0.1)])
def test_a_wrong_answer_is_no_sign_of_load(outcome: Outcome) -> None:
    pace = widened(4)
    for _ in range(ROUND):
        pace.note(outcome, full=True)

    assert pace.places == 5


def test_calls_that_were_under_way_lower_it_no_further() -> None:
    pace = widened(8)
    for _ in range(8):
        pace.note(answer(503), full=True)
    assert pace.places == 4

    pace.note(answer(503), full=True)
    assert pace.places == 2


@given(usual=st.floats(0.02, 5), factor=st.floats(1.01, 3))
def test_a_variant_that_takes_three_times_as_long_gets_half(usual: float, factor: float) -> None:
    pace = Pace(100)
    for _ in range(3 * ROUND):
        pace.note(answer(seconds=usual), full=True)
    for _ in range(ROUND):
        pace.note(answer(seconds=SLOW * usual * factor), full=True)

    assert pace.places == 2


def test_what_is_slower_by_less_than_a_machine_may_be_is_not_slow() -> None:
    pace = widened(4)
    quick = paced(100, *[answer(seconds=0.001)] * ROUND, *[answer(seconds=0.001 + 0.9 * SLACK)] * ROUND)

    assert (pace.places, quick.places) == (4, 3)


@pytest.mark.parametrize("seed", range(3))
def test_requests_that_differ_by_a_hundred_times_do_not_hold_it_down(seed: int) -> None:
    random = Random(seed)  # noqa: S311
    mean, _ = served(8, lambda _: answer(seconds=random.choice((0.05, 5.0))))

    assert mean >= 4


def test_errors_that_come_at_once_do_not_make_answers_slow() -> None:
    pace = widened(4)
    for outcome in [answer(400, 0.0001)] * ROUND + [answer()] * ROUND:
        pace.note(outcome, full=True)

    assert pace.places == 6


def test_after_a_pause_it_begins_again() -> None:
    pace = widened(8)
    pace.restart()
    assert pace.places == 1

    for _ in range(7 + ROUND):
        # The seven were under way.
        pace.note(answer(), full=True)
    assert pace.places == 2


def served(most: int, serve: Callable[[int], Outcome], calls: int = 2000) -> tuple[float, int]:
    """Return the mean and the greatest number of places at a server that sees so many calls at once."""
    pace, places = Pace(most), []
    for _ in range(calls):
        places.append(pace.places)
        pace.note(serve(pace.places), full=True)
    return sum(places) / calls, max(places)


@given(capacity=st.integers(1, 30))
def test_a_server_that_refuses_what_it_cannot_bear_is_asked_for_one_more_at_most(capacity: int) -> None:
    mean, greatest = served(64, lambda at_once: answer(503 if at_once > capacity else 200))

    assert greatest == capacity + 1
    assert mean >= capacity / 2


@given(capacity=st.integers(1, 15), seconds=st.floats(0.02, 1))
def test_a_server_that_queues_what_it_cannot_bear_is_asked_for_three_times_as_much_at_most(
    capacity: int, seconds: float
) -> None:
    _, greatest = served(64, lambda at_once: answer(seconds=seconds * max(1.0, at_once / capacity)))

    assert capacity <= greatest <= SLOW * capacity + 1


def test_what_is_usual_is_learnt_anew_where_only_one_call_is_under_way() -> None:
    pace, slower = widened(4), [answer(seconds=10 * QUICK)]
    for _ in range(3 * ROUND):
        pace.note(*slower, full=True)
    assert pace.places == 1
    for _ in range(20 * ROUND):
        pace.note(*slower, full=True)

    assert pace.places > 1
