import math
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatestats.counters import Sample, count_events, gains_between, increase_between, pool, scrapes_of
from gatestats.ticks import OneArmCounts


def samples(*pairs: tuple[float, float]) -> list[Sample]:
    return [Sample(time, value) for time, value in pairs]


@dataclass(frozen=True)
class History:
    """A counter as a scraper saw it, and what truly happened between the scrapes."""

    seen: list[Sample]
    counted: int


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Raw samples with restarts and missed scrapes; a restart takes the growth since the last scrape with it."""
    seen: list[Sample] = []
    value = last_seen = draw(st.integers(0, 50))
    counted, born = 0, False
    for index in range(draw(st.integers(1, 25))):
        grows = draw(st.integers(0, 20))
        if draw(st.integers(0, 9)) == 0 and grows < last_seen:
            value = grows
        else:
            value += grows
        if draw(st.integers(0, 4)) == 0:
            continue
        if born:
            counted += value - last_seen if value >= last_seen else value
        born, last_seen = True, value
        seen.append(Sample(10.0 * index + draw(st.integers(0, 9)), float(value)))
    return History(seen, counted)


@given(histories(), st.lists(st.floats(0, 260), max_size=12))
@settings(max_examples=300)
def test_ticks_add_up_to_the_whole_however_time_is_cut(history: History, cuts: list[float]) -> None:
    edges = sorted({-1.0, 300.0, *cuts})
    parts = [increase_between(history.seen, start, end) for start, end in pairwise(edges)]
    assert sum(part for part in parts if part is not None) == history.counted
    assert (increase_between(history.seen, -1, 300) or 0) == history.counted


@given(histories(), st.lists(st.floats(0, 260), max_size=12))
@settings(max_examples=100)
def test_the_last_scrape_before_a_tick_is_all_the_history_it_needs(history: History, cuts: list[float]) -> None:
    for start, end in pairwise(sorted({-1.0, 300.0, *cuts})):
        before = [sample for sample in history.seen if sample.time <= start][-1:]
        within = [sample for sample in history.seen if start < sample.time <= end]
        assert increase_between(before + within, start, end) == increase_between(history.seen, start, end)


@given(histories(), st.randoms(use_true_random=False))
@settings(max_examples=50)
def test_order_and_repetition_of_samples_do_not_matter(history: History, random: object) -> None:
    shuffled = history.seen * 2
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert increase_between(shuffled, 0, 200) == increase_between(history.seen, 0, 200)


def test_the_tick_is_open_at_its_start_and_closed_at_its_end() -> None:
    seen = samples((0, 5), (10, 8), (20, 15))
    assert increase_between(seen, 0, 10) == 3
    assert increase_between(seen, 10, 20) == 7
    assert increase_between(seen, 5, 19.9) == 3


def test_a_missed_scrape_moves_counts_to_the_next_tick() -> None:
    seen = samples((0, 5), (30, 12))
    assert increase_between(seen, 0, 10) is None
    assert increase_between(seen, 10, 20) is None
    assert increase_between(seen, 20, 30) == 7


def test_not_observed_is_not_zero() -> None:
    assert increase_between([], 0, 10) is None
    assert increase_between(samples((5, 7)), 0, 10) is None
    assert increase_between(samples((0, 7), (5, 7)), 0, 10) == 0


def test_a_fall_is_a_restart_from_zero() -> None:
    assert increase_between(samples((0, 100), (4, 103), (8, 2), (10, 6)), 0, 10) == 3 + 2 + 4


def test_a_series_born_within_the_attempt_counts_its_first_value() -> None:
    seen = samples((3, 4), (9, 6))
    assert increase_between(seen, 0, 10) == 2
    assert increase_between(seen, 0, 10, born=True) == 6
    assert increase_between(seen, 5, 10, born=True) == 2


def test_a_series_that_appears_later_on_a_known_target_counts_in_full() -> None:
    series = {"200": samples((0, 50), (10, 60), (20, 70)), "500": samples((20, 3))}
    assert gains_between(series, 10, 20) == {"200": 10, "500": 3}
    assert gains_between(series, 0, 10) == {"200": 10, "500": 0}


def test_a_restart_restarts_every_series_of_the_target() -> None:
    # 500 comes back higher than before the crash: alone it would count as 2 only
    series = {"200": samples((0, 500), (10, 510), (20, 5)), "500": samples((0, 10), (10, 10), (20, 12))}
    assert gains_between(series, 10, 20) == {"200": 5, "500": 12}


def test_one_small_series_that_falls_alone_does_not_restart_the_others() -> None:
    series = {"200": samples((0, 500), (10, 600)), "500": samples((0, 10), (10, 2))}
    assert gains_between(series, 0, 10) == {"200": 100, "500": 2}


def test_a_series_that_is_gone_and_comes_back_is_not_counted_twice() -> None:
    series = {"200": samples((0, 50), (10, 60), (20, 70)), "500": samples((0, 9), (20, 11))}
    assert gains_between(series, 0, 20) == {"200": 20, "500": 2}


def test_events_and_total_come_from_the_same_scrapes() -> None:
    total = {"a": samples((0, 100), (10, 150))}
    assert count_events({"e": samples((0, 3), (10, 5))}, total, (0, 10)) == OneArmCounts(2, 50)
    assert count_events({}, total, (0, 10)) == OneArmCounts(0, 50)
    assert count_events({"e": samples((10, 5))}, total, (0, 10)) == OneArmCounts(5, 50)
    assert count_events({}, {"a": samples((0, 100))}, (0, 10)) is None
    with pytest.raises(ValueError, match="events e at 9 come from a scrape without a total"):
        count_events({"e": samples((0, 3), (9, 5))}, total, (0, 10))


def test_events_that_run_ahead_of_their_requests_wait_for_the_next_scrape() -> None:
    total = {"a": samples((0, 100), (10, 100), (20, 140))}
    events = {"e": samples((0, 3), (10, 5), (20, 6))}
    assert count_events(events, total, (0, 10)) is None
    assert count_events(events, total, (10, 20)) == OneArmCounts(3, 40)
    assert count_events(events, total, (0, 20)) == OneArmCounts(3, 40)


def test_targets_not_observed_are_left_out_of_the_pool() -> None:
    assert pool([OneArmCounts(1, 5), None, OneArmCounts(2, 7)]) == OneArmCounts(3, 12)
    assert pool([None, None]) is None


def test_refuses_samples_that_are_no_counts() -> None:
    for value in (math.nan, math.inf, -1.0, 2.0**53 * 2):
        with pytest.raises(ValueError, match=r"must be in 0\.\.2\^53"):
            Sample(0, value)
    with pytest.raises(ValueError, match=r"whole number, got 1\.25"):
        Sample(0, 1.25)
    with pytest.raises(ValueError, match="time of a sample must be finite, got nan"):
        Sample(math.nan, 1)
    assert increase_between(samples((0, 1), (10, 3.0000000001)), 0, 10) == 2


def test_refuses_contradictions_and_empty_ticks() -> None:
    with pytest.raises(ValueError, match="two values at 5: 1 and 2"):
        scrapes_of({"a": samples((5, 1), (5, 2))})
    with pytest.raises(ValueError, match=r"must end after it starts, got \(10, 10\]"):
        increase_between([], 10, 10)
    with pytest.raises(ValueError, match="must end after it starts"):
        count_events({}, {}, (math.nan, 10))
