"""Forecasts: what must follow from more traffic, more weight and wider margins, and what is refused."""

import math
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from davylamp.core.model import Weight
from davylamp.core.plan import AbsoluteMargin, Direction, Gate, OddsRatioMargin, RelativeMargin, SignalKind, Step
from davylamp.errors import SpecError
from davylamp.offline.demand import Demand, Durations, lognormal
from davylamp.offline.effects import direction, forgiven, slowdown_of, slowed, worse_share
from davylamp.offline.prediction import Forecast, forecast
from davylamp.offline.remedies import for_promotion, remedies
from davylamp.offline.timeline import timeline
from tests.davylamp.offline.planned import APPROVALS, ERRORS, INTERVAL, LATENCY, gateway, planned, pods

_COARSE = (0.005, 0.05, 0.5, math.inf)


def _seen(demand: Demand, gates: tuple[Gate, ...] = (ERRORS,)) -> Forecast:
    return forecast(planned(12, gates), demand)


@pytest.fixture(scope="module")
def little() -> Forecast:
    return _seen(pods(20))


@pytest.fixture(scope="module")
def much() -> Forecast:
    return _seen(pods(400))


def test_more_traffic_finds_sooner_smaller_effects_and_promotes_sooner(little: Forecast, much: Forecast) -> None:
    few, many = little.gates[0], much.gates[0]
    assert many.at(2.0).arrival.mean < few.at(2.0).arrival.mean / 5
    assert many.smallest < few.smallest
    assert much.promotion.mean < little.promotion.mean


def test_a_larger_effect_is_found_sooner_and_one_at_the_margin_is_accepted(much: Forecast) -> None:
    gate = much.gates[0]
    assert gate.at(1.0).arrival.surely == 0
    assert gate.at(3.0).arrival.mean < gate.at(2.0).arrival.mean
    assert gate.at(3.0).arrival.quantile(0.9) > gate.at(3.0).arrival.mean


def test_bad_requests_are_what_the_candidate_causes_beyond_the_baseline(much: Forecast) -> None:
    prospect = much.gates[0].at(2.0)
    odds = 1.5 * 0.01 / 0.99
    assert prospect.bad == pytest.approx(prospect.requests * (odds / (1 + odds) - 0.01))
    least, most = prospect.arrival.mean * 0.05 * 4000, prospect.arrival.mean * 0.5 * 4000
    assert least < prospect.requests < most


def test_a_higher_weight_finds_sooner_and_the_chance_grows_from_step_to_step(much: Forecast) -> None:
    gate = much.gates[0]
    means = [prospect.arrival.mean for _, prospect in gate.steps]
    assert means == sorted(means, reverse=True)
    assert list(gate.found) == sorted(gate.found)


def test_more_gates_share_the_budget_so_each_finds_a_little_later(much: Forecast) -> None:
    shared = _seen(pods(400), (ERRORS, APPROVALS, LATENCY)).gates[0]
    alone = much.gates[0].at(3.0).arrival.mean
    assert alone < shared.at(3.0).arrival.mean < 1.6 * alone


def test_what_helps_a_blind_gate_is_said_with_numbers_that_do_help(little: Forecast) -> None:
    gate = little.gates[0]
    advice = remedies(little, gate)
    factor = next(float(each.split()[0]) for each in advice if each.endswith("times the traffic"))
    assert factor > 1.5
    more = _seen(pods(20 * factor * 1.1))
    assert more.gates[0].at(2.0).arrival.by(little.length) > 0.75
    assert remedies(more, more.gates[0]) == () or more.length < little.length


def test_a_gate_that_sees_enough_needs_no_help() -> None:
    seen = _seen(gateway(400), (LATENCY,))
    assert remedies(seen, seen.gates[0]) == ()
    assert for_promotion(seen) == ()


def test_a_ladder_below_half_learns_what_half_would_bring() -> None:
    plan = planned(12, (ERRORS,), (2, 5))
    seen = forecast(plan, pods(100))
    assert any(each.startswith("50% weight finds it after") for each in remedies(seen, seen.gates[0]))


def test_a_promotion_that_cannot_be_proven_in_time_names_the_slowest_gate() -> None:
    plan = replace(planned(12, (ERRORS, LATENCY)), promotion_deadline=timedelta(minutes=5))
    seen = forecast(plan, pods(5))
    assert seen.chance < 0.8
    advice = for_promotion(seen)
    assert advice[0].startswith("errors is the slowest to prove")
    assert float(advice[1].split()[0]) > 1


def test_buckets_that_show_nothing_are_a_trouble_and_not_a_prediction() -> None:
    demand = replace(pods(), durations=Durations(_COARSE, (0.0, 1.0, 0.0, 0.0)))
    seen = _seen(demand, (ERRORS, LATENCY))
    assert "one bucket" in seen.gates[1].trouble
    assert remedies(seen, seen.gates[1]) == ()
    assert seen.chance == 0
    assert for_promotion(seen)[0].startswith("latency proves nothing")


def test_coarse_buckets_are_seen_through_one_edge_and_finer_ones_are_advised() -> None:
    edges = (0.005, 0.01, 0.025, 0.05, 0.1, math.inf)
    seen = _seen(replace(pods(40), durations=lognormal(edges, 0.012, 0.5)), (LATENCY,))
    assert seen.gates[0].method.startswith("buckets too coarse")
    assert seen.gates[0].at(3.0).arrival.mean > _seen(pods(40), (LATENCY,)).gates[0].at(3.0).arrival.mean


def test_finer_buckets_are_advised_where_coarse_ones_hide_twice_the_margin() -> None:
    edges = (0.005, 0.01, 0.025, 0.05, 0.1, math.inf)
    quick, optional = replace(APPROVALS, margin=AbsoluteMargin(0.2)), replace(LATENCY, required=False)
    seen = _seen(replace(pods(10), durations=lognormal(edges, 0.012, 0.5)), (quick, optional))
    assert remedies(seen, seen.gates[1])[-1] == "finer buckets, or native histograms"


def test_a_gate_of_both_directions_is_proven_in_both() -> None:
    either = Gate("approvals", SignalKind.COUNTER, Direction.EITHER, AbsoluteMargin(0.02))
    one, both = (_seen(pods(), (gate,)).gates[0] for gate in (APPROVALS, either))
    assert one.proof is not None
    assert both.proof is not None
    assert one.proof.mean < both.proof.mean < 1.5 * one.proof.mean
    assert one.at(2.0).arrival.mean < both.at(2.0).arrival.mean < 1.3 * one.at(2.0).arrival.mean


@pytest.mark.parametrize(
    ("gate", "message"),
    [
        (ERRORS, "gate errors: the baseline's share of events is not known: give --error-rate or --source"),
        (APPROVALS, "gate approvals: .* give --share approvals=PERCENT or --source"),
        (LATENCY, "gate latency: the baseline's durations are not known: give --latency-histogram"),
    ],
)
def test_what_is_not_known_is_asked_for_by_its_option(gate: Gate, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        _seen(Demand(10, {}), (gate,))


@pytest.mark.parametrize(
    ("requests", "shares", "message"),
    [
        (0.0, {}, "requests a second must be above 0 and finite, got 0"),
        (math.inf, {}, "got inf"),
        (1.0, {"errors": 1.5}, "the share of errors must lie in 0 % to 100 %, got 150 %"),
    ],
)
def test_traffic_that_cannot_be_is_refused(requests: float, shares: dict[str, float], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        Demand(requests, shares)


def test_a_step_waits_for_its_samples_and_a_pause_adds_to_its_weight() -> None:
    steps = (Step(Weight(5), 6 * INTERVAL, min_samples=1000), Step(None, 30 * INTERVAL), Step(Weight(50), 6 * INTERVAL))
    line = timeline(replace(planned(), steps=steps), pods(10))
    # 5 requests of the candidate a look: 1,000 take 200 looks beside the two that do not count.
    assert [(stage.looks, stage.dead) for stage in line.stages] == [(232, 2), (7, 1)]
    assert line.ladder == 239
    place, counts = line.of_look(240)
    assert place.tolist() == [0] * 232 + [1] * 8
    assert np.flatnonzero(~counts).tolist() == [0, 1, 232]


@pytest.mark.parametrize(
    ("gate", "share", "expected"),
    [
        (Gate("g", SignalKind.ERRORS, Direction.HIGHER, OddsRatioMargin(1.25)), 0.5, 0.6),
        (Gate("g", SignalKind.COUNTER, Direction.LOWER, OddsRatioMargin(1.25)), 0.5, 0.4),
        (Gate("g", SignalKind.COUNTER, Direction.HIGHER, AbsoluteMargin(0.01)), 0.5, 0.52),
        (Gate("g", SignalKind.COUNTER, Direction.LOWER, RelativeMargin(0.1)), 0.5, 0.4),
        (Gate("g", SignalKind.COUNTER, Direction.EITHER, RelativeMargin(0.1)), 0.6, 0.48),
        (Gate("g", SignalKind.COUNTER, Direction.HIGHER, AbsoluteMargin(0.5)), 0.5, 1 - 1e-7),
    ],
)
def test_twice_the_margin_is_told_in_the_margins_own_unit(gate: Gate, share: float, expected: float) -> None:
    assert worse_share(gate, share, 2.0) == pytest.approx(expected)


def test_margins_of_shares_and_durations_are_not_mixed_up() -> None:
    with pytest.raises(ValueError, match="gate latency does not compare the shares of two variants"):
        worse_share(LATENCY, 0.1, 1.0)
    with pytest.raises(ValueError, match="gate errors reads a share, not durations"):
        slowdown_of(ERRORS, 1.0)
    assert direction(ERRORS, 0.9) is Direction.HIGHER


def test_a_loss_within_the_allowance_is_told_since_promotion_forgives_it() -> None:
    # An odds ratio of 1.5 makes .75 % of .5 %: a quarter point, and half a point is forgiven unless the gate says else.
    assert forgiven(ERRORS, 0.005, 2.0)
    assert not forgiven(replace(ERRORS, allowance=0.002), 0.005, 2.0)
    assert not forgiven(ERRORS, 0.05, 2.0)
    assert not forgiven(APPROVALS, 0.005, 2.0)


def test_slower_durations_move_up_within_the_buckets() -> None:
    edges = (1.0, 2.0, 4.0, math.inf)
    # Half of what lies between 1 and 2 passes 2 when it is multiplied by the square root of 2.
    moved = slowed(edges, np.array([0.0, 1.0, 0.0, 0.0]), math.sqrt(2))
    assert moved == pytest.approx([0.0, 0.5, 0.5, 0.0])
    assert slowed(edges, np.array([0.0, 0.0, 1.0, 0.0]), 4.0) == pytest.approx([0, 0, 0, 1])
