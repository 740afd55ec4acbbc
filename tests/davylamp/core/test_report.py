import math
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace

import pytest

from davylamp.core.evidence import Evidence, Trouble, begin, learn_baseline, new_stratum, observe, source_down
from davylamp.core.judge import judge
from davylamp.core.latency import Baseline
from davylamp.core.model import Variant, Verdict
from davylamp.core.plan import AbsoluteMargin, Gate, Margin, OddsRatioMargin, Plan, RelativeMargin
from davylamp.core.reading import Reading, SignalReading
from davylamp.core.report import GateReport, Limits, Side, report, sentence
from davylamp.core.shadow_evidence import observe_shadow
from davylamp.core.shadow_gates import signal_names
from tests.davylamp.core.readings import (
    CLICKS,
    COARSE,
    ERRORS,
    FINE,
    LATENCY,
    TICK,
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
from tests.davylamp.core.shadow_readings import (
    DISAGREEMENT,
    OVER_NOISE,
    SCORE_SHIFT,
    moved,
    of_candidate,
    shadow_plan,
)

BLANK = [0] * len(FINE)


def of_errors(baseline: int, candidate: int, ticks: int) -> GateReport:
    """Return the report after so many looks at 500 requests of each variant."""
    of = plan(ERRORS)
    found = reading({"errors": pair(steady((baseline, 500), ticks), steady((candidate, 500), ticks))})
    return judge(of, watched(of, begin(of), found, ticks))[1][0]


def of_latency(edges: Sequence[float], baseline: Sequence[int], candidate: Sequence[int]) -> GateReport:
    """Return the report after one look at counts by bucket; the baseline was the same before the rollout."""
    of, nothing = plan(LATENCY), [0] * len(edges)
    before, theirs, ours = (histogram(edges, (0, nothing), (10, counts)) for counts in (baseline, baseline, candidate))
    learnt = reading({"latency": SignalReading({Variant.BASELINE: (before,)})})
    evidence = new_stratum(learn_baseline(of, begin(of), learnt, window(0, 10)), at(0))
    return judge(of, observe(of, evidence, reading({"latency": pair(theirs, ours)}), window(0, 10)))[1][0]


def numbers(shown: GateReport) -> Iterator[float]:
    for holder in (shown, shown.baseline, shown.candidate):
        if holder is not None:
            values = (getattr(holder, field.name) for field in fields(holder))
            yield from (value for value in values if isinstance(value, int | float))


# Sentences


def test_no_worse_is_said_with_both_shares_and_the_evidence_that_was_needed() -> None:
    shown = of_errors(5, 0, 3)
    assert shown.verdict is Verdict.NON_INFERIOR
    assert shown.sentence == (
        "errors 0.00% of 1,500 against 1.00% of 1,500 (-1.00 points), evidence that it is no worse 817, needed 20"
    )


def test_what_is_not_proven_yet_says_how_far_it_is() -> None:
    shown = of_errors(5, 5, 2)
    assert shown.verdict is Verdict.INCONCLUSIVE
    assert shown.sentence == (
        "errors 1.00% of 1,000 against 1.00% of 1,000 (+0.00 points), evidence that it is no worse 1.13 of 20"
    )


def test_a_regression_is_said_with_its_evidence_and_the_limit() -> None:
    shown = of_errors(5, 40, 1)
    assert shown.verdict is Verdict.REGRESSED
    assert shown.sentence == (
        "errors 8.00% of 500 against 1.00% of 500 (+7.00 points), evidence of a regression 23,300, limit 100"
    )


def test_suspicion_says_how_far_the_evidence_of_a_regression_is() -> None:
    shown = replace(of_errors(5, 5, 2), evidence=1.0, threshold=2.0)
    assert sentence(ERRORS, shown).endswith("(+0.00 points), evidence of a regression 10 of 100")
    assert "no worse" in sentence(ERRORS, replace(shown, evidence=0.999))
    assert "no worse" in sentence(ERRORS, replace(shown, threshold=None))


def test_the_same_evidence_is_further_from_the_limit_among_more_gates() -> None:
    both = plan(ERRORS, CLICKS)
    found = reading(
        {
            "errors": pair(steady((5, 500), 1), steady((40, 500), 1)),
            "clicks": pair(steady((50, 500), 1), steady((50, 500), 1)),
        }
    )
    errors, clicks = judge(both, observe(both, begin(both), found, window(0, 10)))[1]
    assert errors.sentence.endswith("evidence of a regression 23,300, limit 200")
    assert clicks.threshold == pytest.approx(math.log10(400))


def test_great_powers_are_written_short() -> None:
    assert of_errors(5, 40, 3).sentence.endswith("evidence of a regression 1e+15, limit 100")


def test_missing_evidence_is_said_to_be_none() -> None:
    shown = replace(of_errors(5, 5, 1), non_inferiority=None, evidence=None)
    assert sentence(ERRORS, shown).endswith("evidence that it is no worse none of 20")


@pytest.mark.parametrize("silent", ["baseline", "candidate", "both"])
def test_a_variant_without_requests_is_said_to_have_none(silent: str) -> None:
    of, busy, idle = plan(ERRORS), steady((5, 500), 1), counters((0, 0, 0), (10, 0, 0))
    found = pair(busy if silent == "candidate" else idle, busy if silent == "baseline" else idle)
    shown = judge(of, observe(of, begin(of), reading({"errors": found}), window(0, 10)))[1][0]
    assert shown.sentence == "errors: no requests of both variants yet"
    assert shown.difference is None


def test_latency_is_said_as_the_95th_percentile_of_both() -> None:
    same = of_latency(FINE, spread(FINE, 15, 500), spread(FINE, 15, 500))
    slower = of_latency(FINE, spread(FINE, 15, 500), spread(FINE, 17, 500))
    assert same.sentence.startswith("latency p95 44.9 ms against 44.9 ms (+0%), evidence that it is no worse 1e+")
    assert slower.verdict is Verdict.REGRESSED
    assert slower.sentence.startswith("latency p95 54.3 ms against 44.9 ms (+21%), evidence of a regression 1e+")
    assert slower.difference == pytest.approx(0.0543 - 0.0449, abs=1e-4)
    assert (slower.candidate or Side(0)).events is None


def test_a_candidate_slower_than_the_last_bucket_is_said_to_be_so() -> None:
    shown = of_latency(FINE, spread(FINE, 15, 500), spread(FINE, 29, 500))
    assert shown.verdict is Verdict.REGRESSED
    assert shown.sentence.startswith("latency p95 beyond the last bucket against 44.9 ms, evidence of a regression 1e+")
    assert shown.difference is None


def test_latency_on_coarse_buckets_is_said_as_a_share_beyond_the_edge() -> None:
    shown = of_latency(COARSE, spread(COARSE, 2, 500), spread(COARSE, 3, 500))
    assert shown.sentence.startswith(
        "latency beyond the edge 80.00% of 500 against 20.00% of 500 (+60.00 points), evidence of a regression 1e+"
    )


def test_a_percentile_of_nothing_has_an_endless_ratio() -> None:
    side = Side(10, None, 0.0)
    shown = GateReport("latency", Verdict.INCONCLUSIVE, True, "", baseline=side, candidate=Side(10, None, 0.5))
    assert sentence(LATENCY, shown) == (
        "latency p95 500 ms against 0 ms (+inf%), evidence that it is no worse none of none"
    )


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.00536, "5.36 ms"), (0.9999, "1,000 ms"), (1.25, "1.25 s"), (1234.0, "1,230 s")]
)
def test_a_percentile_is_said_with_its_unit_and_without_an_exponent(seconds: float, text: str) -> None:
    side = Side(10, None, seconds)
    shown = GateReport("latency", Verdict.INCONCLUSIVE, True, "", baseline=side, candidate=side)
    assert sentence(LATENCY, shown).startswith(f"latency p95 {text} against {text} (+0%)")


def test_a_difference_that_rounds_to_nothing_has_no_minus() -> None:
    baseline, candidate = Side(10, None, 0.00790), Side(10, None, 0.00788)
    shown = GateReport("latency", Verdict.INCONCLUSIVE, True, "", baseline=baseline, candidate=candidate)
    assert "(+0%)" in sentence(LATENCY, shown)


# Gates without evidence


def unseen(evidence: Evidence, of: Plan, gate: Gate) -> GateReport:
    assert gate.name not in {stream.gate for stream in evidence.streams.values()}
    return judge(of, evidence)[1][of.gates.index(gate)]


@pytest.mark.parametrize("requests", [0, 199])
def test_latency_says_how_much_of_its_baseline_is_known(requests: int) -> None:
    of = plan(LATENCY)
    few = histogram(FINE, (0, BLANK), (10, spread(FINE, 15, requests)))
    seen = learn_baseline(of, begin(of), reading({"latency": SignalReading({Variant.BASELINE: (few,)})}), window(0, 10))
    shown = unseen(seen, of, LATENCY)
    assert shown.sentence == f"latency: the baseline's histogram has {requests} of 200 requests"
    assert shown.verdict is Verdict.INCONCLUSIVE


def test_a_baseline_in_one_bucket_says_what_to_do() -> None:
    of = plan(LATENCY)
    seen = replace(begin(of), baselines={"latency": Baseline(COARSE, (0, 900, 0, 0, 0))})
    assert unseen(seen, of, LATENCY).sentence == (
        "latency: all of the baseline's requests lie in one bucket, so a slowdown cannot be seen: use finer buckets, "
        "or set gates.latency.requiredForPromotion to false"
    )


@pytest.mark.parametrize(
    ("trouble", "verdict"),
    [
        (Trouble("no series of the baseline for latency", Variant.BASELINE), Verdict.NO_DATA),
        (Trouble("prometheus: connection refused", source=True), Verdict.SOURCE_DOWN),
    ],
)
def test_trouble_is_said_as_it_is(trouble: Trouble, verdict: Verdict) -> None:
    of = plan(LATENCY)
    shown = unseen(replace(begin(of), troubles={"latency": trouble}), of, LATENCY)
    assert (shown.verdict, shown.sentence) == (verdict, trouble.sentence)


def test_trouble_after_data_keeps_the_numbers_and_says_the_trouble() -> None:
    of = plan(ERRORS)
    found = reading({"errors": pair(steady((5, 500), 1), steady((5, 500), 1))})
    down = source_down(of, observe(of, begin(of), found, window(0, 10)), "prometheus: connection refused")
    shown = judge(of, down)[1][0]
    assert (shown.verdict, shown.sentence) == (Verdict.SOURCE_DOWN, "prometheus: connection refused")
    assert shown.samples == 1000


def test_a_regression_is_told_with_its_numbers_even_if_the_source_is_down() -> None:
    of = plan(ERRORS)
    found = reading({"errors": pair(steady((5, 500), 1), steady((40, 500), 1))})
    down = source_down(of, observe(of, begin(of), found, window(0, 10)), "prometheus: connection refused")
    assert judge(of, down)[1][0].sentence.startswith("errors 8.00% of 500 against 1.00% of 500")


def test_the_default_limits_know_no_weights() -> None:
    shown = report(LATENCY, begin(plan(LATENCY)), Limits(4.6, 3.0), guilty=False)
    assert shown.threshold is None


# Numbers


@pytest.mark.parametrize(
    ("baseline", "candidate"), [(0, 0), (500, 500), (0, 500), (500, 0), (5, 0), (0, 5), (5, 5), (1, 499)]
)
def test_every_number_is_finite_and_limits_are_around_the_difference(baseline: int, candidate: int) -> None:
    shown = of_errors(baseline, candidate, 6)
    assert all(math.isfinite(value) for value in numbers(shown))
    assert shown.difference == pytest.approx((candidate - baseline) / 500, abs=1e-6)
    assert shown.low is None or shown.low <= (shown.difference or 0.0)
    assert shown.high is None or shown.high >= (shown.difference or 0.0)
    assert shown.samples == 6000


@pytest.mark.parametrize("margin", [OddsRatioMargin(1.25), AbsoluteMargin(0.05), RelativeMargin(0.2)])
@pytest.mark.parametrize("candidate", [0, 50, 60])
def test_every_margin_is_reported_as_a_difference_of_shares(margin: Margin, candidate: int) -> None:
    of = plan(replace(CLICKS, margin=margin))
    found = reading({"clicks": pair(steady((50, 500), 4), steady((candidate, 500), 4))})
    shown = judge(of, watched(of, begin(of), found, 4))[1][0]
    assert shown.sentence.startswith(f"clicks {candidate / 500:.2%} of 2,000 against 10.00% of 2,000 (")
    assert shown.difference == pytest.approx((candidate - 50) / 500, abs=1e-6)
    assert shown.low is None or shown.low <= (shown.difference or 0.0)
    assert shown.high is None or shown.high >= (shown.difference or 0.0)
    assert all(math.isfinite(value) for value in numbers(shown))


def test_evidence_beyond_what_json_and_a_screen_can_hold_is_cut() -> None:
    fine = spread(FINE, 15, 50_000)
    same, slower = of_latency(FINE, fine, fine), of_latency(FINE, fine, spread(FINE, 20, 50_000))
    assert same.non_inferiority == 300
    assert slower.evidence == 300
    assert slower.non_inferiority == -300


def test_a_gate_that_is_not_required_says_so() -> None:
    of = plan(replace(ERRORS, required=False))
    assert not judge(of, begin(of))[1][0].required


# Shadow traffic


def of_shadow(gate: Gate, found: Reading, ticks: int) -> GateReport:
    """Return the report of a gate after so many looks at the comparator's counters."""
    of, evidence = shadow_plan(gate), begin(shadow_plan(gate))
    for tick in range(ticks):
        evidence = observe_shadow(of, evidence, found, window(TICK * tick, TICK * (tick + 1)))
    return judge(of, evidence)[1][1]


def test_a_share_of_pairs_is_said_with_its_limit() -> None:
    said = {
        events: of_shadow(DISAGREEMENT, reading({"disagreement": of_candidate(steady((events, 1000), 2))}), 2)
        for events in (2, 20, 120)
    }
    assert [shown.verdict for shown in said.values()] == [
        Verdict.NON_INFERIOR,
        Verdict.INCONCLUSIVE,
        Verdict.REGRESSED,
    ]
    assert [shown.sentence.split(", evidence")[0] for shown in said.values()] == [
        "disagreement 0.20% of 2,000 pairs (limit 2.00%)",
        "disagreement 2.00% of 2,000 pairs (limit 2.00%)",
        "disagreement 12.00% of 2,000 pairs (limit 2.00%)",
    ]
    assert said[2].candidate == Side(2000, 4, 0.002)
    assert {shown.method for shown in said.values()} == {"by pairs of answers to the same request"}


def test_disagreement_over_the_noise_is_said_beside_that_of_the_baseline_with_itself() -> None:
    shown = of_shadow(OVER_NOISE, reading({"overNoise": pair(steady((1, 100), 4), steady((60, 1000), 4))}), 4)
    assert shown.verdict is Verdict.REGRESSED
    assert shown.sentence.startswith(
        "overNoise 6.00% of 4,000 pairs against 1.00% of 400 of the baseline with itself, evidence of a regression"
    )
    sides = [(side.total, side.events) for side in (shown.baseline, shown.candidate) if side is not None]
    assert sides == [(400, 4), (4000, 240)]
    assert shown.difference == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("raised", "lowered", "said"),
    [
        (60, 10, "+5.00 points cross 0.5 upwards"),
        (10, 60, "+5.00 points cross 0.5 downwards"),
        (10, 10, "+0.00 points cross 0.9 upwards"),
    ],
)
def test_a_score_is_said_by_how_many_more_pairs_cross_an_edge_the_one_way_than_the_other(
    raised: int, lowered: int, said: str
) -> None:
    shown = of_shadow(SCORE_SHIFT, reading(moved(SCORE_SHIFT, {0.5: (raised, lowered)}, 1000, 3)), 3)
    assert shown.sentence.startswith(f"scoreShift {said}, of 3,000 (limit 2.00%), evidence ")
    assert (shown.verdict is Verdict.REGRESSED) is (raised != lowered)


@pytest.mark.parametrize("gate", [DISAGREEMENT, OVER_NOISE, SCORE_SHIFT])
def test_without_a_pair_no_share_is_said(gate: Gate) -> None:
    of = shadow_plan(gate)
    shown = judge(of, begin(of))[1][1]
    assert (shown.sentence, shown.verdict) == (f"{gate.name}: no pairs yet", Verdict.INCONCLUSIVE)
    idle = counters((0, 0, 0), (10, 0, 0))
    still = of_shadow(gate, reading({name: pair(idle, idle) for name in signal_names(gate)}), 1)
    assert still.sentence == f"{gate.name}: no pairs yet"


def test_a_margin_that_pairs_do_not_have_is_left_out_of_the_sentence() -> None:
    shown = of_shadow(DISAGREEMENT, reading({"disagreement": of_candidate(steady((2, 1000), 2))}), 2)
    odd = replace(DISAGREEMENT, margin=OddsRatioMargin(1.25))
    assert sentence(odd, shown).startswith("disagreement, evidence that it is no worse")
