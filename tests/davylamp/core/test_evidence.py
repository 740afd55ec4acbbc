import json
import math
from dataclasses import replace
from typing import Any

import pytest

from davylamp.core.checkpoint import resume
from davylamp.core.evidence import (
    Evidence,
    Trouble,
    begin,
    designs,
    learn_baseline,
    new_stratum,
    observe,
    slowdown,
    source_down,
)
from davylamp.core.latency import Baseline
from davylamp.core.model import Variant
from davylamp.core.plan import (
    AbsoluteMargin,
    Direction,
    Gate,
    Margin,
    OddsRatioMargin,
    Plan,
    RelativeMargin,
    SignalKind,
    SlowdownMargin,
)
from davylamp.core.reading import Reading, SignalReading, Target
from gatestats.bracketed import BracketedOddsRatioDesign
from gatestats.histogram import HistogramDesign
from gatestats.non_inferiority import ErrorRateDesign
from gatestats.odds_ratio import OddsRatioDesign
from gatestats.process import Process
from gatestats.rates import AbsoluteRateDesign, RelativeRateDesign
from gatestats.ticks import Worse
from tests.davylamp.core.readings import (
    CLICKS,
    COARSE,
    ERRORS,
    FINE,
    LATENCY,
    ZERO,
    at,
    counters,
    histogram,
    pair,
    plan,
    reading,
    spread,
    steady,
    watched,
    window,
)

ALL_GATES = plan(ERRORS, LATENCY, CLICKS)
LOOKS = ALL_GATES.planned_looks
NOTHING = SignalReading({})


def durations(edges: tuple[float, ...], middle: int, ticks: int, name: str = "pod") -> Target:
    counts = spread(edges, middle, 500)
    return histogram(edges, *((10 * tick, [tick * count for count in counts]) for tick in range(ticks + 1)), name=name)


def of_baseline(target: Target) -> SignalReading:
    return SignalReading({Variant.BASELINE: (target,)})


def everything(edges: tuple[float, ...] = FINE, middle: int = 15, ticks: int = 6) -> Reading:
    latency = durations(edges, middle, ticks)
    return reading(
        {
            "errors": pair(steady((5, 500), ticks), steady((6, 400), ticks)),
            "latency": pair(latency, latency),
            "clicks": pair(steady((50, 500), ticks), steady((41, 400), ticks)),
        }
    )


def prepared(of: Plan = ALL_GATES, edges: tuple[float, ...] = FINE, middle: int = 15) -> Evidence:
    """Return evidence whose baseline is known and whose first weight was just given, at second 0."""
    learnt = learn_baseline(of, begin(of), everything(edges, middle), window(0, 20))
    assert not learnt.troubles
    return new_stratum(learnt, at(0))


def stored(evidence: Evidence) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(evidence.to_json())
    return data


# From samples to counts


def test_before_the_first_look_streams_of_shares_exist_and_latency_waits_for_its_baseline() -> None:
    evidence = begin(ALL_GATES)
    assert set(evidence.streams) == {"errors", "clicks:Higher", "clicks:Lower"}
    assert evidence.as_of is None


def test_one_look_counts_requests_and_shows_the_share_of_the_candidate() -> None:
    seen = observe(ALL_GATES, prepared(), everything(), window(0, 10))
    assert seen.as_of == at(10)
    assert seen.samples == {"errors": (500, 400), "latency": (500, 500), "clicks": (500, 400)}
    assert (seen.candidate_errors, seen.candidate_requests) == (6, 400)
    assert seen.share == pytest.approx(4 / 9)
    assert not seen.troubles


def test_looks_that_join_add_up_and_keep_only_the_last_look_for_the_trip_wire() -> None:
    seen = watched(ALL_GATES, prepared(), everything(), 3)
    assert seen.samples["errors"] == (1500, 1200)
    assert seen.candidate_requests == 400


def test_only_the_gates_own_streams_move() -> None:
    before = prepared()
    only_errors = reading({"errors": everything().signals["errors"]})
    seen = observe(ALL_GATES, before, only_errors, window(0, 10))
    assert seen.streams["errors"].state != before.streams["errors"].state
    assert seen.streams["clicks:Higher"] == before.streams["clicks:Higher"]
    assert seen.streams["latency"] == before.streams["latency"]


def test_no_requests_at_all_give_no_share() -> None:
    idle = pair(steady((0, 0), 1), steady((0, 0), 1))
    seen = observe(plan(ERRORS), begin(plan(ERRORS)), reading({"errors": idle}), window(0, 10))
    assert (seen.candidate_errors, seen.candidate_requests, seen.share) == (0, 0, None)


def test_a_look_without_a_new_scrape_counts_nothing_and_is_no_trouble() -> None:
    once = reading({"errors": pair(steady((5, 500), 1), steady((6, 400), 1))})
    of = plan(ERRORS)
    seen = observe(of, begin(of), once, window(0, 10))
    again = observe(of, seen, once, window(10, 20))
    assert not again.troubles
    assert again.streams == seen.streams
    assert again.samples == seen.samples
    assert again.candidate_requests is None


def test_a_variant_without_a_new_scrape_counts_as_silent_beside_the_other() -> None:
    of = plan(ERRORS)
    found = reading({"errors": pair(steady((5, 500), 1), counters((0, 0, 0)))})
    seen = observe(of, begin(of), found, window(0, 10))
    assert seen.samples == {"errors": (500, 0)}
    assert seen.share == 0


def test_targets_of_a_variant_add_up() -> None:
    of = plan(ERRORS)
    two = (counters((0, 0, 0), (9, 1, 10), name="a"), counters((0, 5, 50), (8, 7, 80), name="b"))
    found = SignalReading({Variant.BASELINE: two, Variant.CANDIDATE: (steady((0, 5), 1),)})
    seen = observe(of, begin(of), reading({"errors": found}), window(0, 10))
    assert seen.samples == {"errors": (40, 5)}
    assert seen.cursors["errors/Baseline/b"] == ZERO + 8


def test_a_change_of_weight_starts_samples_and_cursors_anew_and_keeps_the_evidence() -> None:
    seen = watched(ALL_GATES, prepared(), everything(), 2)
    cut = new_stratum(seen, at(25))
    assert (cut.as_of, cut.samples, cut.cursors) == (at(25), {}, {})
    assert (cut.streams, cut.baselines) == (seen.streams, seen.baselines)
    # What came between the last look and the new stratum is dropped.
    assert observe(ALL_GATES, cut, everything(), window(25, 40)).samples["errors"] == (1000, 800)


# Trouble


def test_a_gate_without_series_names_the_variant_and_changes_no_state() -> None:
    of, gone = plan(ERRORS), SignalReading({Variant.BASELINE: (steady((5, 500), 1),)})
    before = begin(of)
    seen = observe(of, before, reading({"errors": gone}), window(0, 10))
    assert seen.troubles == {"errors": Trouble("no series of the candidate for errors")}
    assert seen == replace(before, as_of=at(10), troubles=seen.troubles)


def test_a_gate_that_was_not_read_at_all_has_no_series() -> None:
    seen = observe(plan(ERRORS), begin(plan(ERRORS)), reading({}), window(0, 10))
    assert seen.troubles["errors"].sentence == "no series of the baseline for errors"


@pytest.mark.parametrize("variant", Variant)
def test_trouble_that_the_source_names_is_handed_on_with_its_variant(variant: Variant) -> None:
    stale = replace(everything().signals["errors"], trouble={variant: "http_requests_total is stale"})
    before = prepared()
    seen = observe(ALL_GATES, before, Reading({**everything().signals, "errors": stale}), window(0, 10))
    assert seen.troubles == {"errors": Trouble("http_requests_total is stale", variant)}
    assert seen.streams["errors"] == before.streams["errors"]
    assert seen.samples["clicks"] == (500, 400)
    assert seen.candidate_requests is None


def test_trouble_of_both_variants_is_told_of_the_baseline() -> None:
    both = SignalReading({}, trouble={Variant.CANDIDATE: "candidate's", Variant.BASELINE: "baseline's"})
    seen = observe(plan(ERRORS), begin(plan(ERRORS)), reading({"errors": both}), window(0, 10))
    assert seen.troubles == {"errors": Trouble("baseline's", Variant.BASELINE)}


def test_trouble_is_over_when_a_look_finds_data_and_nothing_was_lost_meanwhile() -> None:
    of = plan(ERRORS)
    found = reading({"errors": pair(steady((5, 500), 2), steady((6, 400), 2))})
    first = observe(of, begin(of), reading({}), window(0, 10))
    assert first.troubles
    seen = observe(of, first, found, window(10, 20))
    assert not seen.troubles
    assert seen.samples == {"errors": (500, 400)}


def test_events_that_cannot_be_paired_are_trouble() -> None:
    odd = Target("pod", events={"e": counters((5, 1, 1)).events["e"]}, total={"t": counters((6, 1, 1)).total["t"]})
    seen = observe(plan(ERRORS), begin(plan(ERRORS)), reading({"errors": pair(odd, odd)}), window(0, 10))
    assert "cannot be paired" in seen.troubles["errors"].sentence
    assert not seen.cursors


def test_a_source_that_does_not_answer_troubles_every_gate_and_counts_nothing() -> None:
    seen = observe(ALL_GATES, prepared(), everything(), window(0, 10))
    down = source_down(ALL_GATES, seen, "prometheus: connection refused")
    assert down.troubles == {
        name: Trouble("prometheus: connection refused", source=True) for name in ("errors", "latency", "clicks")
    }
    assert (down.candidate_errors, down.candidate_requests, down.share) == (None, None, None)
    assert (down.streams, down.samples, down.cursors, down.as_of) == (
        seen.streams,
        seen.samples,
        seen.cursors,
        seen.as_of,
    )


# The baseline's histogram


@pytest.mark.parametrize(
    ("edges", "middle", "kind"), [(FINE, 15, HistogramDesign), (COARSE, 2, BracketedOddsRatioDesign)]
)
def test_buckets_decide_how_latency_is_tested(edges: tuple[float, ...], middle: int, kind: type[Process]) -> None:
    before = prepared(edges=edges, middle=middle)
    assert isinstance(before.streams["latency"].design, kind)
    seen = observe(ALL_GATES, before, everything(edges, middle), window(0, 10))
    assert seen.samples["latency"] == (500, 500)
    assert seen.streams["latency"].state.informative == 1


def test_learning_adds_up_and_gives_the_candidate_no_evidence() -> None:
    of = plan(LATENCY)
    found = reading({"latency": of_baseline(durations(FINE, 15, 3))})
    first = learn_baseline(of, begin(of), found, window(0, 10))
    second = learn_baseline(of, first, found, window(10, 20))
    assert first.baselines["latency"].total == 500
    assert second.baselines["latency"] == Baseline(FINE, tuple(spread(FINE, 15, 1000)))
    assert second.streams["latency"].state.ticks == 0
    assert second.samples == {}


def test_fewer_than_enough_requests_make_no_stream() -> None:
    of = plan(LATENCY)
    few = histogram(FINE, (0, [0] * len(FINE)), (10, spread(FINE, 15, 199)))
    seen = learn_baseline(of, begin(of), reading({"latency": of_baseline(few)}), window(0, 10))
    assert seen.baselines["latency"].total == 199
    assert not seen.streams


@pytest.mark.parametrize("scrapes", [((0, [7] * len(FINE)),), ((0, [7] * len(FINE)), (10, [7] * len(FINE)))])
def test_nothing_new_teaches_nothing(scrapes: tuple[tuple[float, list[int]], ...]) -> None:
    of = plan(LATENCY)
    quiet = reading({"latency": of_baseline(histogram(FINE, *scrapes))})
    seen = learn_baseline(of, begin(of), quiet, window(0, 10))
    assert not seen.baselines
    assert not seen.troubles


def test_before_traffic_every_gate_asks_for_the_baseline_only() -> None:
    found = reading(
        {
            "errors": replace(NOTHING, trouble={Variant.BASELINE: "errors are stale"}),
            "clicks": replace(of_baseline(steady((1, 10), 1)), trouble={Variant.CANDIDATE: "no pod yet"}),
        }
    )
    seen = learn_baseline(ALL_GATES, begin(ALL_GATES), found, window(0, 10))
    assert seen.troubles == {
        "errors": Trouble("errors are stale", Variant.BASELINE),
        "latency": Trouble("no series of the baseline for latency", Variant.BASELINE),
    }


def test_all_requests_in_one_bucket_make_no_stream_but_counting_goes_on() -> None:
    of = plan(LATENCY)
    lumped = histogram(COARSE, (0, [0] * 5), (10, [0, 900, 0, 0, 0]), (20, [0, 990, 0, 0, 0]))
    learnt = learn_baseline(of, begin(of), reading({"latency": of_baseline(lumped)}), window(0, 10))
    seen = observe(of, learnt, reading({"latency": pair(lumped, lumped)}), window(10, 20))
    assert not seen.streams
    assert not seen.troubles
    assert seen.cursors["latency/Candidate/pod"] == ZERO + 20


def test_a_lost_baseline_is_learnt_again_beside_the_candidate_and_then_judged() -> None:
    of, found = plan(LATENCY), reading({"latency": everything().signals["latency"]})
    first = observe(of, begin(of), found, window(0, 10))
    assert first.baselines["latency"].total == 500
    assert first.samples == {}
    assert first.streams["latency"].state.ticks == 0
    second = observe(of, first, found, window(10, 20))
    assert second.baselines == first.baselines
    assert second.samples == {"latency": (500, 500)}
    assert second.streams["latency"].state.ticks == 1


def test_latency_without_a_new_scrape_counts_nothing() -> None:
    of = plan(LATENCY)
    before = prepared(of)
    once = reading({"latency": pair(durations(FINE, 15, 0), durations(FINE, 15, 0))})
    seen = observe(of, before, once, window(0, 10))
    assert seen.streams == before.streams
    assert seen.samples == {}
    assert not seen.troubles


def test_latency_of_one_variant_alone_is_counted() -> None:
    of = plan(LATENCY)
    lone = reading({"latency": pair(durations(FINE, 15, 1), durations(FINE, 15, 0))})
    assert observe(of, prepared(of), lone, window(0, 10)).samples == {"latency": (500, 0)}


def test_buckets_that_do_not_fit_the_learnt_ones_are_trouble_and_change_no_state() -> None:
    of = plan(LATENCY)
    before = prepared(of)
    other = durations((0.005, 0.05, 0.5, math.inf), 1, 1)
    seen = observe(of, before, reading({"latency": pair(other, other)}), window(0, 10))
    assert "does not lie in one bucket" in seen.troubles["latency"].sentence
    assert (seen.streams, seen.cursors) == (before.streams, before.cursors)


def test_a_native_histogram_is_learnt_and_counted() -> None:
    of, growth = plan(LATENCY), 2.0**0.125
    counts = {(growth**power, growth ** (power + 1)): 100 for power in range(5)}
    scrapes = tuple((ZERO + 10 * tick, {bounds: tick * count for bounds, count in counts.items()}) for tick in range(3))
    native = Target("pod", native=scrapes)
    learnt = learn_baseline(of, begin(of), reading({"latency": of_baseline(native)}), window(0, 10))
    seen = observe(of, learnt, reading({"latency": pair(native, native)}), window(10, 20))
    assert not seen.troubles
    assert seen.samples == {"latency": (500, 500)}


# Replay and restart


def test_a_replay_of_the_same_samples_gives_the_same_bits() -> None:
    once, again = (watched(ALL_GATES, prepared(), everything(), 6) for _ in range(2))
    assert once == again
    assert once.to_json() == again.to_json()


@pytest.mark.parametrize("stop", range(1, 6))
def test_a_restart_at_any_look_goes_on_bit_for_bit(stop: int) -> None:
    found = everything()
    before = watched(ALL_GATES, prepared(), found, stop)
    back = resume(ALL_GATES, before.to_json(), at(10 * stop))
    assert back == replace(before, troubles={}, candidate_errors=None, candidate_requests=None, share=None)
    last = window(10 * stop, 10 * stop + 10)
    assert observe(ALL_GATES, back, found, last) == observe(ALL_GATES, before, found, last)


def test_what_is_stored_is_one_line_of_strict_json() -> None:
    text = watched(ALL_GATES, prepared(), everything(), 2).to_json()
    assert "\n" not in text
    assert not {"Infinity", "NaN"} & set(text.replace('"', " ").replace(",", " ").split())


@pytest.mark.parametrize("text", ["", "{", "null", "[]", "7", '"text"', "{}", "[" * 100_000])
def test_text_that_is_no_stored_evidence_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="stored evidence is damaged"):
        resume(ALL_GATES, text, at(0))


@pytest.mark.parametrize("part", ["streams", "baselines", "samples", "cursors"])
@pytest.mark.parametrize("value", [None, 7, [7], "text"])
def test_a_part_that_is_missing_or_of_another_kind_is_refused(part: str, value: object) -> None:
    whole = stored(watched(ALL_GATES, prepared(), everything(), 1))
    with pytest.raises(ValueError):
        resume(ALL_GATES, json.dumps({**whole, part: value}), at(10))
    del whole[part]
    with pytest.raises(ValueError, match=f"KeyError.*{part}"):
        resume(ALL_GATES, json.dumps(whole), at(10))


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        ("samples", "errors", [1]),
        ("samples", "errors", [1, 2, 3]),
        ("samples", "errors", 5),
        ("samples", "errors", ["many", 1]),
        ("samples", "errors", [-1, 1]),
        ("samples", "errors", [math.inf, 1]),
        ("samples", "errors", [math.nan, 1]),
        ("cursors", "errors/Baseline/pod", None),
        ("cursors", "errors/Baseline/pod", "soon"),
        ("cursors", "errors/Baseline/pod", math.inf),
        ("cursors", "errors/Baseline/pod", math.nan),
        pytest.param("cursors", "errors/Baseline/pod", 10**400, id="a cursor too large for a float"),
        ("baselines", "latency", None),
        ("baselines", "latency", {"edges": ["1", "2", "inf"]}),
        ("baselines", "latency", {"edges": ["1", "2", "inf"], "counts": [1, 2]}),
        ("baselines", "latency", {"edges": ["1", "2", "inf"], "counts": [1, -2, 3]}),
        ("baselines", "latency", {"edges": ["1", "2", "inf"], "counts": [1, math.inf, 3]}),
        ("baselines", "latency", {"edges": ["2", "1", "inf"], "counts": [1, 2, 3]}),
        ("baselines", "latency", {"edges": ["1", "nan", "inf"], "counts": [1, 2, 3]}),
        ("baselines", "latency", {"edges": ["1", "wide", "inf"], "counts": [1, 2, 3]}),
        ("baselines", "latency", {"edges": [], "counts": []}),
        ("streams", "errors", "{"),
        ("streams", "errors", None),
        ("streams", "errors", "{}"),
    ],
)
def test_a_damaged_value_is_refused(part: str, name: str, value: object) -> None:
    whole = stored(watched(ALL_GATES, prepared(), everything(), 1))
    whole[part][name] = value
    with pytest.raises(ValueError):
        resume(ALL_GATES, json.dumps(whole), at(10))


@pytest.mark.parametrize("planned", [None, 0, -1, "soon", math.inf, math.nan, [1], pytest.param(10**400, id="huge")])
def test_a_damaged_length_of_the_plan_is_refused(planned: object) -> None:
    whole = stored(watched(ALL_GATES, prepared(), everything(), 1))
    with pytest.raises(ValueError):
        resume(ALL_GATES, json.dumps({**whole, "planned": planned}), at(10))


def test_another_interval_in_mid_rollout_takes_nothing_from_what_was_seen() -> None:
    found, slower = everything(), replace(ALL_GATES, interval=2 * ALL_GATES.interval)
    before = watched(ALL_GATES, prepared(), found, 3)
    assert slower.planned_looks != ALL_GATES.planned_looks
    assert resume(slower, before.to_json(), at(30)).streams == before.streams
    after = observe(slower, before, found, window(30, 50))
    assert {name: stream.design for name, stream in after.streams.items()} == {
        name: stream.design for name, stream in before.streams.items()
    }
    assert after.streams["errors"].state.ticks == before.streams["errors"].state.ticks + 1


def test_a_state_of_another_stream_is_refused() -> None:
    whole = stored(watched(ALL_GATES, prepared(), everything(), 1))
    whole["streams"]["errors"] = whole["streams"]["latency"]
    with pytest.raises(ValueError, match="state belongs to"):
        resume(ALL_GATES, json.dumps(whole), at(10))


def test_evidence_of_other_gates_is_refused_by_name() -> None:
    text = begin(plan(ERRORS)).to_json()
    expected = r"has the streams \['errors'\], the gates make \['clicks:Higher', 'clicks:Lower'\]"
    with pytest.raises(ValueError, match=expected):
        resume(plan(CLICKS), text, at(0))


def test_evidence_of_another_margin_is_refused() -> None:
    text = begin(plan(ERRORS)).to_json()
    with pytest.raises(ValueError, match="state belongs to"):
        resume(plan(replace(ERRORS, margin=OddsRatioMargin(1.5))), text, at(0))


def test_a_latency_stream_whose_baseline_is_lost_is_refused() -> None:
    whole = stored(prepared())
    whole["baselines"] = {}
    with pytest.raises(ValueError, match="the gates make"):
        resume(ALL_GATES, json.dumps(whole), at(0))


# Margins


@pytest.mark.parametrize(
    ("kind", "margin", "allowance", "expected"),
    [
        (SignalKind.ERRORS, OddsRatioMargin(1.5), None, ErrorRateDesign(1.5, 0.005, planned_ticks=LOOKS)),
        (SignalKind.ERRORS, OddsRatioMargin(1.5), 0.02, ErrorRateDesign(1.5, 0.02, planned_ticks=LOOKS)),
        (SignalKind.COUNTER, OddsRatioMargin(1.5), None, OddsRatioDesign(1.5, planned_ticks=LOOKS)),
        (SignalKind.COUNTER, AbsoluteMargin(0.03), None, AbsoluteRateDesign(0.03, planned_ticks=LOOKS)),
        (SignalKind.ERRORS, RelativeMargin(0.2), None, RelativeRateDesign(0.2, planned_ticks=LOOKS)),
    ],
)
def test_each_margin_has_its_design(
    kind: SignalKind, margin: Margin, allowance: float | None, expected: Process
) -> None:
    gate = Gate("own", kind, Direction.HIGHER, margin, allowance)
    assert designs(gate, None, looks=LOOKS) == {"own": expected}


def test_a_share_that_may_only_fall_is_tested_the_other_way() -> None:
    gate = replace(CLICKS, worse=Direction.LOWER)
    assert designs(gate, None, looks=LOOKS) == {"clicks": OddsRatioDesign(1.25, Worse.LOWER, LOOKS)}


def test_a_gate_with_two_sides_has_a_stream_for_each() -> None:
    assert designs(CLICKS, None, looks=LOOKS) == {
        "clicks:Higher": OddsRatioDesign(1.25, Worse.HIGHER, LOOKS),
        "clicks:Lower": OddsRatioDesign(1.25, Worse.LOWER, LOOKS),
    }


def test_a_share_has_no_slowdown_and_a_latency_nothing_else() -> None:
    with pytest.raises(ValueError, match="gate clicks reads a share, so its margin cannot be a slowdown"):
        designs(replace(CLICKS, margin=SlowdownMargin(0.1)), None)
    with pytest.raises(ValueError, match="gate latency reads latency, so its margin must be a slowdown"):
        slowdown(replace(LATENCY, margin=OddsRatioMargin(1.25)))


def test_a_slowdown_is_read_as_a_ratio() -> None:
    assert slowdown(LATENCY) == pytest.approx(1.1)
