import math
from collections.abc import Iterator
from dataclasses import replace

import pytest

from davylamp.core.evidence import Evidence, Trouble, begin, learn_baseline, observe, source_down
from davylamp.core.judge import judge, limits, stream_weights
from davylamp.core.model import Variant, Verdict
from davylamp.core.plan import Plan
from davylamp.core.reading import Reading, SignalReading
from davylamp.core.world import Judgement
from tests.davylamp.core.readings import (
    CLICKS,
    ERRORS,
    FINE,
    LATENCY,
    histogram,
    pair,
    plan,
    reading,
    spread,
    steady,
    watched,
    window,
)

TWO = plan(ERRORS, CLICKS)


def found(errors: int, clicks: int, ticks: int = 20) -> Reading:
    """Return readings in which the candidate has so many of 500 per tick, beside 5 errors and 50 clicks."""
    return reading(
        {
            "errors": pair(steady((5, 500), ticks), steady((errors, 500), ticks)),
            "clicks": pair(steady((50, 500), ticks), steady((clicks, 500), ticks)),
        }
    )


def after(ticks: int, errors: int = 5, clicks: int = 50, of: Plan = TWO) -> Evidence:
    return watched(of, begin(of), found(errors, clicks), ticks)


def walk(errors: int = 5, clicks: int = 50, ticks: int = 20) -> Iterator[Judgement]:
    """Return what is judged after each look in turn."""
    evidence, found_all = begin(TWO), found(errors, clicks, ticks)
    for tick in range(ticks):
        evidence = observe(TWO, evidence, found_all, window(10 * tick, 10 * tick + 10))
        yield judge(TWO, evidence)[0]


def test_before_the_first_look_nothing_is_proven_and_nothing_readable() -> None:
    judgement, reports = judge(TWO, begin(TWO))
    assert judgement.verdicts == {"errors": Verdict.INCONCLUSIVE, "clicks": Verdict.INCONCLUSIVE}
    assert judgement.log_evidence == pytest.approx(0)
    assert not judgement.baseline_readable
    assert judgement.samples == 0
    assert [report.name for report in reports] == ["errors", "clicks"]


def test_equal_variants_are_proven_no_worse_and_never_suspected() -> None:
    judged = list(walk())
    assert not any(each.suspicious or each.culprits for each in judged)
    assert [each.proven for each in judged] == sorted(each.proven for each in judged)
    last = judged[-1]
    assert last.proven
    assert last.samples == 10_000
    assert (last.candidate_errors, last.candidate_requests) == (5, 500)


def test_a_regression_crosses_the_threshold_and_names_its_gate_alone() -> None:
    judgement, reports = judge(TWO, after(1, errors=40))
    assert judgement.log_evidence >= judgement.log_threshold == pytest.approx(math.log(100))
    assert judgement.regressed
    assert judgement.culprits == ("errors",)
    assert judgement.verdicts == {"errors": Verdict.REGRESSED, "clicks": Verdict.INCONCLUSIVE}
    assert judgement.messages["errors"] == reports[0].sentence


@pytest.mark.parametrize("clicks", [10, 130])
def test_either_side_of_a_two_sided_gate_is_a_regression(clicks: int) -> None:
    judgement, _ = judge(TWO, after(3, clicks=clicks))
    assert judgement.culprits == ("clicks",)
    assert judgement.verdicts["clicks"] is Verdict.REGRESSED


def test_a_two_sided_gate_is_proven_only_when_both_sides_are() -> None:
    # Nothing speaks better against "more" than far fewer; against "fewer" it speaks not at all.
    judgement, _ = judge(plan(CLICKS), after(20, clicks=45, of=plan(CLICKS)))
    assert judgement.verdicts["clicks"] is Verdict.INCONCLUSIVE


def test_several_regressions_are_all_named_the_strongest_first() -> None:
    judgement, _ = judge(TWO, after(6, errors=40, clicks=130))
    assert set(judgement.culprits) == {"errors", "clicks"}
    log_e = {
        name: stream.design.log_e(stream.state) for name, stream in after(6, errors=40, clicks=130).streams.items()
    }
    strongest = max(log_e, key=lambda name: log_e[name]).split(":")[0]
    assert judgement.culprits[0] == strongest
    assert set(judgement.verdicts.values()) == {Verdict.REGRESSED}


def test_suspicion_names_the_suspect_and_its_verdict_is_not_yet_a_regression() -> None:
    suspected = [each for each in walk(errors=13) if each.suspicious and not each.regressed]
    assert suspected
    for each in suspected:
        assert each.culprits == ("errors",)
        assert each.verdicts["errors"] is Verdict.INCONCLUSIVE


@pytest.mark.parametrize(("errors", "clicks"), [(11, 50), (11, 80), (5, 90)])
def test_where_no_stream_stands_out_the_strongest_is_named(errors: int, clicks: int) -> None:
    # Just over the threshold the closed test, which asks more than the mean does, may name nobody.
    judged = list(walk(errors, clicks))
    assert any(each.regressed for each in judged)
    for each in judged:
        assert bool(each.culprits) == each.suspicious
        assert (Verdict.REGRESSED in each.verdicts.values()) == (each.log_evidence >= each.log_threshold)


# Weights


def test_gates_weigh_the_same_and_share_it_between_their_directions() -> None:
    weights = stream_weights(TWO, begin(TWO).streams)
    assert weights == {"errors": 0.5, "clicks:Higher": 0.25, "clicks:Lower": 0.25}


def test_weights_are_fixed_beforehand_whether_or_not_a_stream_exists_yet() -> None:
    of = plan(ERRORS, LATENCY, CLICKS)
    before = begin(of)
    counts = histogram(FINE, (0, [0] * len(FINE)), (10, spread(FINE, 15, 1000)))
    known = learn_baseline(
        of, before, reading({"latency": SignalReading({Variant.BASELINE: (counts,)})}), window(0, 10)
    )
    without, with_latency = (stream_weights(of, each.streams) for each in (before, known))
    assert sum(with_latency.values()) == pytest.approx(1)
    assert {name: with_latency[name] for name in without} == without
    assert sum(without.values()) == pytest.approx(2 / 3)


def test_a_plan_without_any_stream_yet_has_no_evidence() -> None:
    of = plan(LATENCY)
    judgement, reports = judge(of, begin(of))
    assert judgement.log_evidence == 0
    assert judgement.verdicts == {"latency": Verdict.INCONCLUSIVE}
    assert reports[0].evidence is None


# Thresholds


@pytest.mark.parametrize(("attempts", "factor"), [(0, 1), (1, 2), (5, 32), (32, 2**32), (10_000, 2**32)])
def test_each_further_attempt_pays_for_promotion_with_half_of_the_rate(attempts: int, factor: int) -> None:
    thresholds = limits(TWO, attempts)
    assert thresholds.promotion == pytest.approx(math.log(20 * factor))
    assert thresholds.rollback == pytest.approx(math.log(100))


def test_what_proves_a_first_attempt_may_not_prove_a_later_one() -> None:
    seen = after(20)
    assert judge(TWO, seen)[0].proven
    assert not judge(TWO, seen, attempts=32)[0].proven


# Data


def test_trouble_is_its_own_verdict_and_keeps_the_evidence_of_before() -> None:
    seen = after(20)
    stale = observe(TWO, seen, reading({}), window(200, 210))
    judgement, _ = judge(TWO, stale)
    assert judgement.verdicts == {"errors": Verdict.NO_DATA, "clicks": Verdict.NO_DATA}
    assert judgement.log_evidence == judge(TWO, seen)[0].log_evidence
    assert not judgement.proven
    assert judgement.candidate_requests is None


def test_a_regression_stays_one_when_data_stay_away() -> None:
    down = source_down(TWO, after(1, errors=40), "prometheus: connection refused")
    judgement, _ = judge(TWO, down)
    assert judgement.verdicts == {"errors": Verdict.REGRESSED, "clicks": Verdict.SOURCE_DOWN}
    assert judgement.verdict is Verdict.REGRESSED


@pytest.mark.parametrize(
    ("trouble", "readable"),
    [
        (Trouble("stale", Variant.CANDIDATE), True),
        (Trouble("stale", Variant.BASELINE), False),
        (Trouble("no series"), False),
        (Trouble("refused", source=True), False),
    ],
)
def test_only_trouble_of_the_candidate_leaves_the_baseline_readable(trouble: Trouble, readable: bool) -> None:
    seen = replace(after(1), troubles={"errors": trouble})
    assert judge(TWO, seen)[0].baseline_readable is readable


@pytest.mark.parametrize(("requests", "readable"), [(199, False), (200, True)])
def test_latency_is_readable_once_its_baseline_has_enough_requests(requests: int, readable: bool) -> None:
    of = plan(LATENCY)
    counts = histogram(FINE, (0, [0] * len(FINE)), (10, spread(FINE, 15, requests)))
    seen = learn_baseline(
        of, begin(of), reading({"latency": SignalReading({Variant.BASELINE: (counts,)})}), window(0, 10)
    )
    assert judge(of, seen)[0].baseline_readable is readable


def test_samples_are_those_of_the_variant_that_served_fewer_by_the_gates_of_errors() -> None:
    seen = replace(begin(TWO), samples={"errors": (900, 50), "clicks": (3, 2)})
    assert judge(TWO, seen)[0].samples == 50


def test_without_a_gate_of_errors_the_fewest_of_any_gate_count() -> None:
    of = plan(CLICKS, LATENCY)
    assert judge(of, replace(begin(of), samples={"clicks": (70, 80), "latency": (60, 90)}))[0].samples == 60


def test_gates_that_promotion_does_not_wait_for_are_not_required() -> None:
    of = plan(ERRORS, replace(CLICKS, required=False))
    assert judge(of, begin(of))[0].required == {"errors"}
