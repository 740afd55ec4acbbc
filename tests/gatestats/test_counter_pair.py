"""Two ways to count the same samples must agree on everything."""

from hypothesis import given
from hypothesis import strategies as st

from gatestats.counters import Sample, Tally, _events_within_total, _sum_of, count_events, fold, scrapes_of
from gatestats.ticks import OneArmCounts

_ROWS = st.lists(
    st.tuples(st.one_of(st.none(), st.integers(0, 6)), st.integers(0, 9), st.integers(1, 3)), min_size=0, max_size=9
)


@given(_ROWS, st.integers(0, 12), st.integers(1, 12), st.booleans())
def test_the_quick_way_counts_what_the_general_one_does_whatever_restarts_or_runs_ahead(
    rows: list[tuple[int | None, int, int]], start: int, length: int, born: bool
) -> None:
    time, events, total = 0, [], []
    for event, requests, gap in rows:
        time += gap
        total.append(Sample(time, requests))
        if event is not None:
            events.append(Sample(time, event))
    window = (float(start), float(start + length))
    series: dict[object, list[Sample]] = {("event", "e"): events, ("total", "t"): total}
    gained = fold(scrapes_of(series), Tally(*window, born=born, plausible=_events_within_total))
    expected = None if gained is None else OneArmCounts(_sum_of(gained, "event"), _sum_of(gained, "total"))
    assert count_events({"e": events} if events else {}, {"t": total}, window, born=born) == expected


def test_samples_out_of_order_are_counted_all_the_same() -> None:
    total = [Sample(20, 9), Sample(0, 1), Sample(10, 5)]
    assert count_events({}, {"t": total}, (0, 20)) == OneArmCounts(0, 8)
    assert count_events({"e": [Sample(20, 1)]}, {"t": total}, (0, 20)) == OneArmCounts(1, 8)
