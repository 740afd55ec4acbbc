from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2e.demo.traffic.history import NO_ANSWER, NOBODY, Answer, History, Served

START = datetime(2030, 1, 1, tzinfo=UTC)


def after(milliseconds: int) -> datetime:
    return START + timedelta(milliseconds=milliseconds)


def answer(at: int, variant: str = "fp32", status: int = 200, *, positive: bool | None = None) -> Answer:
    return Answer(after(at), variant, status, timedelta(milliseconds=2), positive)


def history(*answers: Answer) -> History:
    books = History()
    for each in answers:
        books.record(each)
    return books


def test_a_variant_is_summed_up_over_a_half_open_span() -> None:
    books = history(
        answer(0, "int8", positive=True),
        answer(10, "fp32"),
        answer(20, "int8", 500),
        answer(30, "int8", positive=False),
        answer(40, "int8"),
    )
    assert books.served("int8", after(10), after(40)) == Served(
        requests=2, failed=1, positive=0, first=after(20), last=after(30), first_failed=after(20)
    )
    assert books.served("int8").first == after(0)
    assert books.served("int8").positive == 1


def test_a_variant_that_served_nothing_has_no_first_request() -> None:
    assert history(answer(0)).served("int8") == Served(0, 0, 0, None, None, None)


def test_a_missing_answer_is_a_failure_of_nobody() -> None:
    books = history(answer(0, NOBODY, NO_ANSWER), answer(1, NOBODY, 503), answer(2))
    assert books.by_variant()[NOBODY].failed == 2
    assert books.statuses() == {(NOBODY, 0): 1, (NOBODY, 503): 1, ("fp32", 200): 1}


def test_seconds_without_traffic_are_shown_as_empty() -> None:
    seconds = list(history(answer(100), answer(900, status=500), answer(2500, "int8")).seconds())
    assert [second.start for second in seconds] == [after(0), after(1000), after(2000)]
    assert [second.requests() for second in seconds] == [2, 0, 1]
    assert seconds[0].counts == (("fp32", 200, 1), ("fp32", 500, 1))
    assert seconds[2].requests("fp32") == 0
    assert list(History().seconds()) == []


def test_an_answer_older_than_the_last_is_refused() -> None:
    books = history(answer(5))
    with pytest.raises(ValueError, match="in order"):
        books.record(answer(4))


@given(
    st.lists(st.tuples(st.integers(0, 50), st.sampled_from(["fp32", "int8", NOBODY]), st.sampled_from([0, 200, 500]))),
    st.integers(0, 60),
    st.integers(0, 60),
)
def test_spans_add_up_to_the_whole_and_nothing_is_counted_twice(
    drawn: list[tuple[int, str, int]], one: int, other: int
) -> None:
    books = history(*(answer(at, variant, status) for at, variant, status in sorted(drawn)))
    first, second = sorted((after(one), after(other)))
    spans = [(None, first), (first, second), (second, None)]
    for variant in ("fp32", "int8", NOBODY):
        parts = [books.served(variant, start, end) for start, end in spans]
        whole = books.served(variant)
        assert sum(part.requests for part in parts) == whole.requests
        assert sum(part.failed for part in parts) == whole.failed
        assert min((part.first for part in parts if part.first), default=None) == whole.first
        assert max((part.last for part in parts if part.last), default=None) == whole.last
    assert sum(found.requests for found in books.by_variant().values()) == len(drawn)
    assert sum(count.requests() for count in books.seconds()) == len(drawn)
