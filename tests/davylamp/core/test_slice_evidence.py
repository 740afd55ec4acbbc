"""Evidence on slices: what looks come to, and which slices are judged."""

import json
from dataclasses import replace

import pytest

from davylamp.core.checkpoint import resume
from davylamp.core.evidence import Evidence, Trouble, begin, new_stratum
from davylamp.core.judge import judge, limits, regressed_slices, stream_weights
from davylamp.core.looking import advance, cut
from davylamp.core.model import NONE, Attempt, Pair, Progress, Ruling, Variant, Verdict, Weight
from davylamp.core.plan import Plan, SliceMeasure, SliceRules
from davylamp.core.reading import Reading
from davylamp.core.slice_evidence import served_as, slicing, support_of, too_small, watched
from gatestats.paired import PairedDesign
from gatestats.ticks import PairedCounts
from tests.davylamp.core.readings import BEGIN, ERRORS, TICK, at, window
from tests.davylamp.core.slice_readings import (
    BLACK_WOMEN,
    EVERYBODY,
    GOOD,
    MEN,
    RECALL,
    RULES,
    WOMEN,
    pairs,
    slice_gate,
    slice_plan,
)

PLAN = slice_plan(*RECALL)
RUNNING = Progress(
    attempt=Attempt("a-1", 1, "digest", "spec", BEGIN, Pair("route", "old:80", "new:80")), step=0, requested=NONE
)
#: Women lose a fifth, men nothing.
UNFAIR = {EVERYBODY: (75, 11, 1, 100), WOMEN: (30, 10, 0, 50), MEN: (45, 1, 1, 50)}


def looked(
    of: Plan, found: Reading, ticks: int, progress: Progress = RUNNING, start: Evidence | None = None
) -> Evidence:
    """Return the evidence after looking at every tick in turn."""
    evidence = start or begin(of)
    for tick in range(ticks):
        evidence = advance(of, progress, evidence, (found, window(TICK * tick, TICK * (tick + 1))))
    return evidence


def test_slices_are_looked_at_from_the_first_step_until_anything_is_decided() -> None:
    assert slicing(PLAN, RUNNING)
    assert slicing(PLAN, replace(RUNNING, step=2, requested=Weight(50)))
    for other in (replace(RUNNING, step=-1), replace(RUNNING, attempt=None), replace(RUNNING, ruling=Ruling.PROMOTE)):
        assert not slicing(PLAN, other)
    assert not slicing(slice_plan(), RUNNING)


def test_pairs_of_every_slice_become_the_evidence_of_its_gates() -> None:
    seen = looked(PLAN, pairs(UNFAIR), 6)
    design = PairedDesign(0.02, PLAN.planned_looks)
    state = design.start()
    for _ in range(6):
        state = design.update(state, PairedCounts(10, 0, 50))
    assert seen.streams["truePositiveRate[sex=Female]"].state == state
    assert seen.labelled == 600
    assert seen.troubles == {}


def test_pairs_count_on_without_a_gap_where_the_weight_changes() -> None:
    found = pairs(UNFAIR, ticks=12)
    whole = looked(PLAN, found, 12)
    half = new_stratum(looked(PLAN, found, 6), at(7.5 * TICK))
    rest = advance(PLAN, replace(RUNNING, step=1, requested=Weight(5)), half, (found, window(75, 120)))
    assert rest.labelled == whole.labelled == 1200
    assert rest.streams["truePositiveRate"].state.totals == whole.streams["truePositiveRate"].state.totals


def test_labels_that_have_not_come_are_neither_trouble_nor_success() -> None:
    seen = looked(PLAN, pairs({}), 6)
    judgement, reports = judge(PLAN, seen)
    assert seen.troubles == {}
    assert judgement.verdicts["truePositiveRate"] is Verdict.INCONCLUSIVE
    assert not judgement.proven
    assert judgement.small == {}
    assert [each.sentence for each in reports if each.name.startswith("true")] == [
        "true positive rate of all: no labels yet",
        "true positive rate of sex=Female: no labels yet",
        "true positive rate of sex=Male: no labels yet",
    ]


def test_samples_that_cannot_be_counted_stop_all_slices_and_are_counted_once_they_can() -> None:
    found = pairs(UNFAIR)
    broken = dict(found.signals)
    name = "labelled[sex=Male]:won"
    broken[name] = replace(found.signals[name], trouble={Variant.CANDIDATE: "1.5 is not a whole number"})
    seen = looked(PLAN, Reading(broken), 3)
    gates = {gate.name for gate in RECALL}
    assert seen.troubles == dict.fromkeys(gates, Trouble("1.5 is not a whole number", Variant.CANDIDATE))
    assert judge(PLAN, seen)[0].verdicts["truePositiveRate"] is Verdict.NO_DATA
    assert seen.labelled == 0
    broken[name] = broken["labelled[]:won"]
    unlike = looked(PLAN, Reading(broken), 3)
    assert "labelled pairs were counted for one slice" in unlike.troubles["truePositiveRate"].sentence
    mended = advance(PLAN, RUNNING, unlike, (found, window(30, 40)))
    assert mended.labelled in {100, 400}  # from its first look on, or from where it was cut


def test_a_restart_goes_on_bit_for_bit() -> None:
    found = pairs(UNFAIR)
    before = looked(PLAN, found, 3)
    assert before.as_of is not None
    after = resume(PLAN, before.to_json(), before.as_of)
    look = (found, window(30, 40))
    assert advance(PLAN, RUNNING, after, look) == advance(PLAN, RUNNING, before, look)
    damaged = json.loads(before.to_json()) | {"labelled": -5}
    with pytest.raises(ValueError, match="labels must be at least 0"):
        resume(PLAN, json.dumps(damaged), before.as_of)


# Who has regressed.


def test_a_slice_that_loses_is_named_and_what_goes_back_with_it() -> None:
    judgement, reports = judge(PLAN, looked(PLAN, pairs(UNFAIR, ticks=12), 12))
    assert judgement.regressed
    assert "truePositiveRate[sex=Female]" in judgement.culprits
    assert judgement.regressed_slices == ("sex=Female",)
    shown = next(each for each in reports if each.name == "truePositiveRate[sex=Female]")
    assert shown.verdict is Verdict.REGRESSED
    assert shown.sentence.startswith("true positive rate of sex=Female fell by 20.0 points, 95 % sequence ")
    assert ", 600 pairs, evidence of a regression " in shown.sentence
    assert shown.low is not None
    assert shown.high is not None
    assert -0.3 < shown.low < -0.2 < shown.high < 0


def test_without_a_way_to_send_it_back_alone_everything_goes_back() -> None:
    blind = slice_plan(*RECALL, rules=SliceRules(50, 200))
    judgement, _ = judge(blind, looked(blind, pairs(UNFAIR, ticks=12), 12))
    assert judgement.regressed
    assert judgement.regressed_slices == ()


def test_a_slice_that_regresses_together_with_live_traffic_does_not_go_back_alone() -> None:
    assert regressed_slices(PLAN, ("truePositiveRate[sex=Female]",)) == ("sex=Female",)
    assert regressed_slices(PLAN, ("errors", "truePositiveRate[sex=Female]")) == ()


def test_what_is_only_seen_for_everybody_goes_back_whole() -> None:
    whole = slice_plan(RECALL[0])
    judgement, _ = judge(whole, looked(whole, pairs({EVERYBODY: (70, 20, 0, 100)}, ticks=12), 12))
    assert judgement.regressed
    assert judgement.regressed_slices == ()


def test_an_intersection_goes_back_with_a_slice_that_holds_it_and_not_otherwise() -> None:
    plan = slice_plan(*RECALL, slice_gate(of=BLACK_WOMEN))
    inside = {**UNFAIR, BLACK_WOMEN: (5, 10, 0, 20)}
    judgement, _ = judge(plan, looked(plan, pairs(inside, ticks=12), 12))
    assert "truePositiveRate[race=Black,sex=Female]" in judgement.culprits
    assert judgement.regressed_slices == ("sex=Female",)
    alone = {EVERYBODY: (90, 5, 4, 100), WOMEN: (45, 3, 3, 50), MEN: (45, 2, 1, 50), BLACK_WOMEN: (5, 10, 0, 20)}
    other, _ = judge(plan, looked(plan, pairs(alone, ticks=12), 12))
    assert other.regressed
    assert other.regressed_slices == ()


def test_a_slice_at_the_baseline_is_judged_no_more_and_the_others_begin_anew() -> None:
    plan = slice_plan(*RECALL, slice_gate(of=BLACK_WOMEN))
    seen = looked(plan, pairs({**UNFAIR, BLACK_WOMEN: GOOD}, ticks=12), 12)
    gone = replace(RUNNING, diverted=("sex=Female",))
    after = cut(plan, RUNNING, gone, seen)
    assert after.labelled == 0
    assert after.streams["errors"] == seen.streams["errors"]
    assert all(after.streams[gate.name].state.ticks == 0 for gate in plan.slice_gates)
    assert [gate.name for gate in watched(plan, gone.diverted)] == ["truePositiveRate", "truePositiveRate[sex=Male]"]
    judgement, reports = judge(plan, after, 0, gone.diverted)
    assert judgement.verdicts.keys() == {"errors", "truePositiveRate", "truePositiveRate[sex=Male]"}
    assert {each.name for each in reports} == judgement.verdicts.keys()
    assert not judgement.regressed
    assert (served_as(RUNNING), served_as(gone), served_as(Progress())) == ("a-1", "a-1+", "")


# Who is too small to judge.


def test_no_slice_is_called_too_small_before_enough_labels_have_come() -> None:
    few = {EVERYBODY: GOOD, WOMEN: (4, 0, 0, 4), MEN: (86, 1, 1, 96)}
    early = looked(PLAN, pairs(few), 1)
    assert too_small(PLAN, early) == {}
    later = looked(PLAN, pairs(few), 6)
    assert too_small(PLAN, later) == {"truePositiveRate[sex=Female]": 24}
    judgement, _ = judge(PLAN, later)
    assert judgement.small == {"truePositiveRate[sex=Female]": 24}
    assert judgement.required == {"errors", "truePositiveRate", "truePositiveRate[sex=Male]"}
    assert too_small(PLAN, later, ("sex=Female",)) == {}
    assert too_small(replace(PLAN, slices=None), later) == {}


def test_the_support_of_a_gate_with_two_sides_is_that_of_the_smaller() -> None:
    odds = slice_gate(SliceMeasure.EQUALIZED_ODDS, WOMEN)
    plan = slice_plan(odds)
    found = pairs({EVERYBODY: GOOD, WOMEN: (4, 0, 0, 4)}, {EVERYBODY: (700, 1, 1, 800), WOMEN: (70, 0, 0, 80)})
    assert support_of(odds, looked(plan, found, 6)) == 24
    assert support_of(odds, begin(slice_plan(ERRORS))) == 0


# Budgets.


def test_slices_share_half_of_the_weight_however_many_there_are() -> None:
    streams = begin(PLAN).streams
    weights = stream_weights(PLAN, streams)
    assert weights["errors"] == pytest.approx(0.5)
    assert [weights[gate.name] for gate in RECALL] == pytest.approx([1 / 6] * 3)
    assert sum(weights.values()) == pytest.approx(1)
    alone = replace(PLAN, gates=RECALL)
    assert sum(stream_weights(alone, begin(alone).streams).values()) == pytest.approx(1)


def test_what_may_follow_one_another_shares_the_rate_of_false_rollbacks() -> None:
    whole = limits(replace(PLAN, slices=replace(RULES, diversions={})), 0).rollback
    each = [limits(PLAN, 0, diverted).rollback for diverted in range(3)]
    assert sum(2.718281828459045**-threshold for threshold in each) < 2.718281828459045**-whole
    assert each[0] > whole
