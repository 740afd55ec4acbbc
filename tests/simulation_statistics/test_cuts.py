"""Where evidence is cut, and over what time each variant is counted."""

from dataclasses import replace
from datetime import timedelta

from davylamp.core.counting import Span, counted_apart, cursors_after, events_of
from davylamp.core.model import Variant
from davylamp.core.reading import SignalReading, Target
from gatestats.counters import Sample
from gatestats.ticks import OneArmCounts
from tests.simulation_statistics.generator import BEGINNING, Scraping
from tests.simulation_statistics.rollout import Rollout, plan_of
from tests.simulation_statistics.traffic import Buckets, Truth


def _target(name: str, *counts: tuple[float, int]) -> Target:
    samples = tuple(Sample(BEGINNING.timestamp() + at, value) for at, value in counts)
    return Target(name, events={"e": samples}, total={"t": samples})


def _span(start: float, end: float) -> Span:
    return Span(BEGINNING + timedelta(seconds=start), BEGINNING + timedelta(seconds=end), {})


def test_what_was_served_before_the_cut_is_not_counted_later() -> None:
    # The stratum begins at 20. The scrape of 15 arrives late, after the first look; the requests between 5 and 15 were
    # served under the weight of before.
    cursors = cursors_after("errors", SignalReading({Variant.CANDIDATE: (_target("a", (5, 10)),)}), _span(20, 24))
    later = SignalReading({Variant.CANDIDATE: (_target("a", (5, 10), (15, 500), (25, 507)),)})
    counts = events_of("errors", later, Variant.CANDIDATE, replace(_span(24, 34), cursors=cursors))
    assert counts == OneArmCounts(7, 7)


def test_variants_seen_in_the_same_scrapes_are_counted_together_and_others_apart() -> None:
    samples = ((0.0, 1), (10.0, 5))
    gateway = SignalReading(dict.fromkeys(Variant, (_target("envoy", *samples),)))
    servers = SignalReading({variant: (_target(variant.value, *samples),) for variant in Variant})
    lone = SignalReading({Variant.BASELINE: (_target("envoy", *samples),)})
    assert not counted_apart("errors", gateway, _span(0, 12))
    assert counted_apart("errors", servers, _span(0, 12))
    assert counted_apart("errors", lone, _span(0, 12))


def test_no_request_is_counted_twice_and_few_are_left_out() -> None:
    # Without restarts, what is counted is what was served but for one interval at each of the cuts.
    scraping = Scraping(restarts=0.0, buckets=Buckets.FINE)
    for seed in range(3):
        rollout = Rollout(plan_of(5), Truth(requests=100, length=250.0), scraping, seed)
        outcome = rollout.run(25)
        counted = outcome.evidence.streams["more-errors"].state.totals
        for variant, total in ((Variant.BASELINE, counted[1]), (Variant.CANDIDATE, counted[3])):
            served = sum(server.requests for server in rollout.world.servers[variant])
            before = 75 * 100 if variant is Variant.BASELINE else 0
            assert 0.6 * (served - before) < total <= served
