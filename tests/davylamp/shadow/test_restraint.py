from __future__ import annotations

import pytest

from davylamp.shadow.exchange import Answer, Failure, Headers, Outcome, Protocol
from davylamp.shadow.restraint import LONGEST_PAUSE, Restraint

TIMEOUT = 10.0


def answer(status: int = 200, seconds: float = 0.1, headers: Headers = ()) -> Outcome:
    return Outcome(Answer(status, headers, b""), seconds)


def pause(restraint: Restraint, now: float) -> float:
    """Return for how long nothing is sent, to a tenth of a second."""
    return next(tenths / 10 for tenths in range(1000) if not restraint.holds(now + tenths / 10))


def noted(*outcomes: Outcome, candidate: bool = True) -> Restraint:
    restraint = Restraint(TIMEOUT)
    for outcome in outcomes:
        restraint.note(outcome, 100.0, candidate=candidate)
    return restraint


def test_nothing_holds_back_at_first() -> None:
    assert not Restraint(TIMEOUT).holds(0.0)


@pytest.mark.parametrize("candidate", [True, False])
@pytest.mark.parametrize(
    ("outcome", "seconds"),
    [
        (answer(429), 0.5),
        (answer(429, headers=(("retry-after", "7"),)), 7.0),
        (answer(503, headers=(("retry-after", " 3 "),)), 3.0),
        (answer(503, headers=(("retry-after", "86400"),)), LONGEST_PAUSE),
        (answer(503, headers=(("retry-after", "Fri, 31 Dec 1999 23:59:59 GMT"),)), 0.5),
        (Outcome(Answer(8, (), b"", Protocol.GRPC), 0.1), 0.5),
    ],
)
def test_a_variant_that_asks_to_be_left_alone_is_left_alone(outcome: Outcome, seconds: float, candidate: bool) -> None:
    assert pause(noted(outcome, candidate=candidate), 100.0) == seconds


@pytest.mark.parametrize(
    "outcome",
    [
        answer(500),
        answer(503),
        Outcome(Failure.TIMEOUT, TIMEOUT),
        Outcome(Failure.BROKEN_OFF, 9.0),
        answer(500, seconds=9.0),
        Outcome(Answer(14, (), b"", Protocol.GRPC), 9.0),
    ],
)
def test_a_candidate_that_fails_is_evidence_and_no_reason_to_stop(outcome: Outcome) -> None:
    assert not noted(*[outcome] * 100).holds(100.0)


@pytest.mark.parametrize("candidate", [True, False])
def test_a_variant_that_grew_slow_is_left_alone(candidate: bool) -> None:
    slow = [answer(seconds=5.1)] * 20

    assert not noted(*slow[:-1], candidate=candidate).holds(100.0)
    assert noted(*slow, candidate=candidate).holds(100.0)


def test_a_few_slow_answers_are_no_slow_variant() -> None:
    assert not noted(*[answer(seconds=9.0), answer()] * 20).holds(100.0)


def test_a_baseline_that_does_not_answer_in_time_is_slow() -> None:
    assert noted(*[Outcome(Failure.TIMEOUT, TIMEOUT)] * 20, candidate=False).holds(100.0)


def test_each_pause_is_twice_the_one_before_up_to_the_longest() -> None:
    restraint, now, pauses = Restraint(TIMEOUT), 0.0, []
    for _ in range(8):
        restraint.note(answer(429), now, candidate=True)
        pauses.append(pause(restraint, now))
        now += pauses[-1]

    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


def test_calls_that_were_on_their_way_do_not_lengthen_the_pause() -> None:
    assert pause(noted(*[answer(429)] * 8), 100.0) == 0.5


def test_pauses_are_short_again_after_twenty_quiet_calls() -> None:
    restraint = Restraint(TIMEOUT)
    for now in (0.0, 10.0, 20.0):
        restraint.note(answer(429), now, candidate=True)
    for _ in range(20):
        restraint.note(answer(), 40.0, candidate=False)
    restraint.note(answer(429), 50.0, candidate=True)

    assert pause(restraint, 50.0) == 0.5


def test_the_weaker_of_both_variants_says_how_many_pairs_may_be_under_way() -> None:
    restraint = Restraint(TIMEOUT, concurrency=8)
    for candidate in (True, False):
        assert restraint.places == 1
        for _ in range(100):
            restraint.note(answer(), 0.0, candidate=candidate)
    assert restraint.places == 8

    restraint.note(answer(503), 0.0, candidate=True)
    assert restraint.places == 4


def test_after_a_pause_it_begins_with_one_pair_again() -> None:
    restraint = Restraint(TIMEOUT, concurrency=8)
    for _ in range(100):
        restraint.note(answer(), 0.0, candidate=True)
        restraint.note(answer(), 0.0, candidate=False)
    restraint.note(answer(429), 0.0, candidate=False)

    assert restraint.places == 1
