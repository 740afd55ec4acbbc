"""Evidence from shadow traffic: what looks come to, restarts included, and what missing data leave as it was."""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from davylamp.core.checkpoint import resume
from davylamp.core.evidence import Evidence, Trouble, begin, designs, new_stratum, observe, source_down
from davylamp.core.judge import judge
from davylamp.core.looking import advance, cut
from davylamp.core.model import NONE, Attempt, Pair, Progress, Ruling, Variant, Verdict, Weight
from davylamp.core.plan import Plan
from davylamp.core.reading import Reading, SignalReading
from davylamp.core.shadow_evidence import observe_shadow, shadowing
from davylamp.core.shadow_gates import MIRRORED, shadow_designs
from gatestats.limits import LimitDesign
from gatestats.paired import PairedDesign
from gatestats.rates import AbsoluteRateDesign
from gatestats.ticks import OneArmCounts, PairedCounts, Tick, TwoArmCounts, Worse
from tests.davylamp.core.readings import BEGIN, ERRORS, TICK, ZERO, at, counters, pair, reading, steady, window
from tests.davylamp.core.shadow_readings import (
    CONFIDENCE,
    DISAGREEMENT,
    GATES,
    arrivals,
    everything,
    moved,
    of_candidate,
    shadow_plan,
)

ALL = shadow_plan(*GATES)
ONE = shadow_plan(DISAGREEMENT)
IN_THE_SHADOW = Progress(
    attempt=Attempt("a-1", 1, "digest", "spec", BEGIN, Pair("route", "old:80", "new:80")), step=0, requested=NONE
)
BESIDE = replace(IN_THE_SHADOW, step=1, requested=Weight(5))


def looked(of: Plan, found: Reading, ticks: int, progress: Progress = IN_THE_SHADOW) -> Evidence:
    """Return the evidence after looking at every tick in turn."""
    evidence = begin(of)
    for tick in range(ticks):
        evidence = advance(of, progress, evidence, (found, window(TICK * tick, TICK * (tick + 1))))
    return evidence


def disagreeing(events: int, total: int, ticks: int) -> Reading:
    """Return readings in which so many pairs disagree in each tick, and the live traffic of both is the same."""
    return reading(
        {
            "errors": pair(steady((5, 500), ticks), steady((5, 500), ticks)),
            "disagreement": of_candidate(steady((events, total), ticks)),
            MIRRORED: arrivals(2 * total, ticks),
        }
    )


# When it is looked at.


@pytest.mark.parametrize(
    ("progress", "looks"),
    [
        (IN_THE_SHADOW, True),
        (BESIDE, True),
        (replace(BESIDE, step=2), False),
        (replace(BESIDE, step=3), False),
        (replace(IN_THE_SHADOW, step=-1), False),
        (replace(IN_THE_SHADOW, attempt=None), False),
        (replace(IN_THE_SHADOW, ruling=Ruling.ROLLBACK), False),
    ],
)
def test_shadow_traffic_is_looked_at_where_a_step_of_a_running_attempt_mirrors_it(
    progress: Progress, looks: bool
) -> None:
    assert shadowing(ALL, progress) is looks
    seen = advance(ALL, progress, begin(ALL), (everything(1), window(0, 10)))
    assert ("disagreement" in seen.samples) is looks
    assert not shadowing(replace(ALL, comparator=""), progress)


def test_a_promotion_reads_nothing_of_the_comparator_even_if_the_last_step_mirrored() -> None:
    # From the ruling on nothing is mirrored, and the comparator shows nothing of the rollout any more.
    last = replace(ALL, steps=ALL.steps[:2])
    promoting = replace(BESIDE, step=2, requested=Weight(100), ruling=Ruling.PROMOTE)
    assert shadowing(last, replace(promoting, ruling=Ruling.CONTINUE))
    assert not shadowing(last, promoting)
    live = reading({"errors": pair(steady((5, 500), 1), steady((5, 500), 1))})
    assert advance(last, promoting, begin(last), (live, window(0, 10))).troubles == {}


# What it comes to.


def test_every_gate_gets_the_counts_of_every_look() -> None:
    seen = looked(ALL, everything(6), 6)
    expected: Mapping[str, tuple[LimitDesign | AbsoluteRateDesign | PairedDesign, Tick]] = {
        "disagreement": (LimitDesign(0.02, Worse.HIGHER, ALL.planned_looks), OneArmCounts(4, 500)),
        "overNoise": (AbsoluteRateDesign(0.01, Worse.HIGHER, ALL.planned_looks), TwoArmCounts(1, 25, 4, 500)),
        **{
            name: (PairedDesign(margin, ALL.planned_looks), PairedCounts(3, 3, 400))
            for name, margin in {
                "scoreShift@0.5:Higher": 0.02,
                "scoreShift@0.5:Lower": 0.02,
                "scoreShift@0.9:Higher": 0.02,
                "scoreShift@0.9:Lower": 0.02,
                "confidence@0.9:Lower": 0.05,
            }.items()
        },
    }
    assert {name for name, stream in seen.streams.items() if stream.gate != "errors"} == expected.keys()
    for name, (design, tick) in expected.items():
        state = design.start()
        for _ in range(6):
            state = design.update(state, tick)
        assert (seen.streams[name].design, seen.streams[name].state) == (design, state)


def test_pairs_and_arrivals_of_the_step_are_counted() -> None:
    seen = looked(ALL, everything(6), 6)
    assert seen.samples == {
        "disagreement": (0, 3000),
        "overNoise": (150, 3000),
        "scoreShift": (0, 2400),
        "confidence": (0, 2400),
        MIRRORED: (0, 3150),
    }
    judgement, _ = judge(ALL, seen)
    assert (judgement.pairs, judgement.mirrored) == (3000, 3150)
    assert judgement.shadow == {"disagreement", "overNoise", "scoreShift", "confidence"}
    assert judgement.mirrored_at == seen.as_of == at(60)
    another = new_stratum(seen, at(60))
    assert (judge(ALL, another)[0].pairs, judge(ALL, another)[0].mirrored) == (0, 0)
    assert another.streams == seen.streams
    assert another.mirrored_at is None


def test_another_step_that_mirrors_counts_its_own_pairs_even_at_the_same_weight() -> None:
    seen = looked(ALL, everything(6), 6)
    first = replace(IN_THE_SHADOW, accepted_at=at(0))
    assert cut(ALL, first, first, seen) == seen
    second = cut(ALL, first, replace(first, step=first.step + 1), seen)
    assert set(second.samples) == set(seen.samples) - {gate.name for gate in ALL.shadow_gates} - {MIRRORED}
    assert (second.streams, second.cursors, second.as_of) == (seen.streams, seen.cursors, seen.as_of)
    assert second.mirrored_at is None


def test_when_requests_arrived_last_is_remembered_and_survives_a_restart() -> None:
    seen = looked(ALL, everything(6), 9)
    assert (seen.as_of, seen.mirrored_at) == (at(90), at(60))
    assert seen.as_of is not None
    assert resume(ALL, seen.to_json(), seen.as_of).mirrored_at == at(60)
    damaged = seen.to_json().replace(str(at(60).timestamp()), '"noon"')
    with pytest.raises(ValueError, match="noon"):
        resume(ALL, damaged, seen.as_of)


def test_in_the_shadow_only_the_baseline_is_learnt_of_live_traffic() -> None:
    seen = looked(ONE, disagreeing(2, 500, 3), 3)
    assert "errors" not in seen.samples
    assert seen.streams["errors"].state == seen.streams["errors"].design.start()
    assert list(seen.spreads) == ["errors"]
    assert judge(ONE, seen)[0].baseline_readable


def test_beside_live_traffic_both_are_counted() -> None:
    seen = looked(ONE, disagreeing(2, 500, 3), 3, BESIDE)
    assert (seen.samples["errors"], seen.samples["disagreement"]) == ((1500, 1500), (0, 1500))


def test_a_shadow_gate_has_the_designs_of_its_kind() -> None:
    assert designs(DISAGREEMENT, None, looks=60) == shadow_designs(DISAGREEMENT, 60)


def test_a_candidate_that_disagrees_too_often_has_regressed_without_one_live_request() -> None:
    judgement, reports = judge(ONE, looked(ONE, disagreeing(40, 500, 2), 2))
    assert judgement.regressed
    assert judgement.culprits == ("disagreement",)
    assert judgement.verdicts == {"errors": Verdict.INCONCLUSIVE, "disagreement": Verdict.REGRESSED}
    assert reports[1].sentence.startswith("disagreement 8.00% of 1,000 pairs (limit 2.00%), evidence of a regression")


def test_a_candidate_that_hardly_disagrees_is_proven_in_the_shadow_and_not_yet_on_live_traffic() -> None:
    judgement, _ = judge(ONE, looked(ONE, disagreeing(0, 500, 2), 2))
    assert judgement.shadow_verdict is Verdict.NON_INFERIOR
    assert (judgement.shadow_proven, judgement.proven) == (True, False)


def test_what_was_proven_in_the_shadow_stays_so_at_steps_without_it() -> None:
    seen = looked(ONE, disagreeing(0, 500, 2), 2)
    live = reading({"errors": pair(steady((5, 500), 3), steady((5, 500), 3))})
    after = advance(ONE, replace(BESIDE, step=2), seen, (live, window(20, 30)))
    assert (after.troubles, judge(ONE, after)[0].verdicts["disagreement"]) == ({}, Verdict.NON_INFERIOR)


# What is missing.


def test_a_comparator_without_series_is_no_data_and_changes_no_evidence() -> None:
    found = reading({"errors": pair(steady((5, 500), 1), steady((5, 500), 1))})
    seen = advance(ALL, IN_THE_SHADOW, begin(ALL), (found, window(0, 10)))
    assert seen.streams == begin(ALL).streams
    assert {name: trouble.sentence for name, trouble in seen.troubles.items()} == {
        "disagreement": "no series of the candidate for disagreement",
        "overNoise": "no series of the candidate for overNoise",
        "scoreShift": "no series of the candidate for scoreShift@0.5:raised",
        "confidence": "no series of the candidate for confidence@0.9:raised",
    }
    judgement, _ = judge(ALL, seen)
    assert judgement.shadow_verdict is Verdict.NO_DATA
    assert not judgement.shadow_proven
    # The baseline of live traffic can be read all the same.
    assert judgement.baseline_readable


def test_a_mismatch_of_moves_is_said_and_counted_by_no_stream_nor_cursor() -> None:
    of = shadow_plan(CONFIDENCE)
    good = moved(CONFIDENCE, {0.9: (1, 2)}, 500, 2)
    odd = good | {"confidence@0.9:lowered": of_candidate(steady((2, 499), 2))}
    seen = looked(of, reading(odd), 1)
    assert seen.troubles["confidence"] == Trouble(
        "confidence: 500 and 499 pairs were counted for edge 0.9", Variant.CANDIDATE
    )
    assert not [name for name in seen.cursors if name.startswith("confidence")]
    # Once they fit, nothing is lost.
    mended = observe_shadow(of, replace(seen, troubles={}), reading(good), window(0, 20))
    assert mended.samples["confidence"] == (0, 1000)


def test_trouble_that_the_source_names_is_handed_on_and_one_gates_trouble_is_not_anothers() -> None:
    stale = SignalReading({}, trouble={Variant.CANDIDATE: "davylamp_shadow_pairs_total is stale"})
    found = everything(1)
    seen = looked(ALL, Reading({**found.signals, "disagreement": stale}), 1)
    assert seen.troubles == {"disagreement": Trouble("davylamp_shadow_pairs_total is stale", Variant.CANDIDATE)}
    assert seen.samples["overNoise"] == (25, 500)
    assert judge(ALL, seen)[0].verdicts["disagreement"] is Verdict.NO_DATA


def test_pairs_that_come_back_after_trouble_are_counted_from_where_counting_stopped() -> None:
    found, missing = disagreeing(2, 500, 3), reading({})
    evidence = begin(ONE)
    for tick, each in enumerate((found, missing, found)):
        evidence = advance(ONE, IN_THE_SHADOW, evidence, (each, window(TICK * tick, TICK * (tick + 1))))
    assert evidence.samples["disagreement"] == (0, 1500)
    assert evidence.samples[MIRRORED] == (0, 3000)


def test_a_look_without_a_new_scrape_is_no_trouble() -> None:
    seen = looked(ONE, disagreeing(2, 500, 1), 1)
    again = advance(ONE, IN_THE_SHADOW, seen, (disagreeing(2, 500, 1), window(10, 12)))
    assert (again.troubles, again.samples, again.streams) == ({}, seen.samples, seen.streams)


def test_a_source_that_does_not_answer_troubles_the_gates_on_shadow_traffic_too() -> None:
    down = source_down(ONE, looked(ONE, disagreeing(0, 500, 2), 2), "prometheus: connection refused")
    judgement, _ = judge(ONE, down)
    assert judgement.shadow_verdict is Verdict.SOURCE_DOWN
    assert not judgement.shadow_proven


# Replay and restart.


def test_a_replay_of_the_same_samples_gives_the_same_bits() -> None:
    once, again = (looked(ALL, everything(6, restart=3), 6) for _ in range(2))
    assert once.to_json() == again.to_json()


@pytest.mark.parametrize("progress", [IN_THE_SHADOW, BESIDE])
@pytest.mark.parametrize("stop", range(1, 6))
def test_a_restart_at_any_look_goes_on_bit_for_bit(stop: int, progress: Progress) -> None:
    found = everything(6, restart=2)
    before = looked(ALL, found, stop, progress)
    back = resume(ALL, before.to_json(), at(TICK * stop))
    last = found, window(TICK * stop, TICK * (stop + 1))
    assert advance(ALL, progress, back, last) == advance(ALL, progress, before, last)


def test_stored_evidence_of_other_shadow_gates_is_refused() -> None:
    stored = looked(ONE, disagreeing(2, 500, 1), 1).to_json()
    assert "NaN" not in stored
    with pytest.raises(ValueError, match="the gates make"):
        resume(shadow_plan(DISAGREEMENT, CONFIDENCE), stored, at(10))
    data = json.loads(stored)
    data["streams"]["disagreement"] = data["streams"]["errors"]
    with pytest.raises(ValueError, match="state belongs to error-rate"):
        resume(ONE, json.dumps(data), at(10))


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 50)), min_size=1, max_size=8),
    st.sets(st.integers(1, 79), max_size=10),
)
def test_however_looks_are_cut_every_pair_is_counted_once(gains: list[tuple[int, int]], cuts: set[int]) -> None:
    events = total = 0
    scrapes = [(0.0, 0, 0)]
    for number, (more, others) in enumerate(gains, start=1):
        events, total = events + more, total + more + others
        scrapes.append((float(TICK * number), events, total))
    found = reading(
        {"errors": pair(steady((1, 10), 8), steady((1, 10), 8)), "disagreement": of_candidate(counters(*scrapes))}
    )
    edges = [0, *sorted(cuts), TICK * 8]
    evidence = begin(ONE)
    for start, end in pairwise(edges):
        evidence = advance(ONE, IN_THE_SHADOW, evidence, (found, window(start, end)))
    assert evidence.samples["disagreement"] == (0, total)
    assert evidence.streams["disagreement"].state.totals == (events, total)
    assert evidence.cursors["disagreement/Candidate/pod"] == ZERO + TICK * len(gains)


def test_shadow_gates_share_the_false_rollback_rate_with_all_others() -> None:
    # Of two gates each has half of the evidence: alone it must reach twice the threshold.
    seen = looked(ONE, disagreeing(40, 500, 2), 2)
    stream = seen.streams["disagreement"]
    judgement, reports = judge(ONE, seen)
    expected = math.log(0.5 * math.exp(stream.design.log_e(stream.state)) + 0.5)
    assert judgement.log_evidence == pytest.approx(expected)
    assert reports[1].threshold == pytest.approx(math.log10(200))


def test_live_gates_look_at_nothing_of_the_comparator() -> None:
    assert observe(ONE, begin(ONE), disagreeing(40, 500, 1), window(0, 10)).samples == {"errors": (500, 500)}
    assert ONE.live_gates == (ERRORS,)
