from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from davylamp.core.counting import Cursors, Span, buckets_of, cursors_after, events_of
from davylamp.core.model import Variant
from davylamp.core.reading import SignalReading, Target
from gatestats.counters import Sample
from gatestats.ticks import OneArmCounts

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
ZERO = BEGIN.timestamp()


def target(name: str, *counts: tuple[float, int]) -> Target:
    samples = tuple(Sample(ZERO + at, value) for at, value in counts)
    return Target(name, events={"e": samples}, total={"t": samples})


def reading(*targets: Target) -> SignalReading:
    return SignalReading({Variant.CANDIDATE: targets})


def span(start: float, end: float, cursors: Cursors) -> Span:
    return Span(BEGIN + timedelta(seconds=start), BEGIN + timedelta(seconds=end), cursors)


def test_a_scrape_that_was_under_way_at_the_look_is_counted_at_the_next() -> None:
    first = span(0, 10, {})
    cursors = cursors_after("errors", reading(target("a", (0, 0), (9, 5))), first)
    # The scrape of second 10 arrived after the look of second 10.
    late = reading(target("a", (0, 0), (9, 5), (10, 12), (11, 20)))
    assert events_of("errors", late, Variant.CANDIDATE, span(10, 11, cursors)) == OneArmCounts(15, 15)


@given(
    rises=st.lists(st.integers(0, 9), min_size=2, max_size=30),
    delays=st.lists(st.floats(0, 3), min_size=30, max_size=30),
    looks=st.lists(st.floats(0.1, 4), min_size=1, max_size=20),
)
def test_however_late_scrapes_arrive_every_one_is_counted_once(
    rises: list[int], delays: list[float], looks: list[float]
) -> None:
    samples = [(float(at), sum(rises[: at + 1])) for at in range(len(rises))]
    cursors: Cursors = {}
    counted, now, visible = 0, 0.0, [samples[0]]
    for step in [*looks, len(rises) + 5.0]:
        before, now = now, now + step
        # Prometheus takes the scrapes of one target in order.
        while len(visible) < len(samples) and samples[len(visible)][0] + delays[len(visible)] <= now:
            visible.append(samples[len(visible)])
        look, found = span(before, now, cursors), reading(target("a", *visible))
        counts = events_of("errors", found, Variant.CANDIDATE, look)
        counted += counts.events if counts else 0
        cursors = cursors_after("errors", found, look)
    assert counted == sum(rises[1:])


def test_cursors_of_targets_that_are_gone_are_forgotten_and_other_gates_keep_theirs() -> None:
    cursors = {"errors/Candidate/gone": ZERO, "latency/Candidate/a": ZERO}
    after = cursors_after("errors", reading(target("a", (1, 1))), span(0, 2, cursors))
    assert after == {"errors/Candidate/a": ZERO + 1, "latency/Candidate/a": ZERO}


def test_a_target_without_samples_has_no_cursor() -> None:
    assert cursors_after("errors", reading(Target("a")), span(0, 2, {})) == {}


def test_nothing_is_counted_of_a_target_whose_samples_were_all_counted() -> None:
    cursors = {"errors/Candidate/a": ZERO + 5, "latency/Candidate/a": ZERO + 5}
    look = span(0, 5, cursors)
    assert events_of("errors", reading(target("a", (0, 0), (5, 5))), Variant.CANDIDATE, look) is None
    assert buckets_of("latency", reading(Target("a")), Variant.CANDIDATE, look) is None


def test_a_variant_without_series_is_said_to_have_none() -> None:
    with pytest.raises(ValueError, match="no series of the baseline for errors"):
        events_of("errors", reading(target("a", (0, 0))), Variant.BASELINE, span(0, 1, {}))
