from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import inf
from statistics import NormalDist

import pytest
from scipy.stats import norm

from davylamp.core.latency import Baseline
from davylamp.core.plan import AbsoluteMargin, Direction, Gate, OddsRatioMargin, SignalKind, SlowdownMargin
from davylamp.offline.counts import Counted, Histogram, Pair
from davylamp.offline.mann_whitney import shift_of
from davylamp.offline.rivals import Thresholds, _p, _z, by_kayenta, by_threshold, by_z, points, rivals
from gatestats.ticks import OneArmCounts
from tests.davylamp.offline.pasts import subject

NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
ERRORS = Gate("errors", SignalKind.ERRORS, Direction.HIGHER, OddsRatioMargin(1.25))
LATENCY = Gate("latency", SignalKind.LATENCY, Direction.HIGHER, SlowdownMargin(0.1))
APPROVALS = Gate("approvals", SignalKind.COUNTER, Direction.LOWER, AbsoluteMargin(0.01))
EDGES = (0.1, 0.2, 0.4, 0.8, inf)


def looks(*shares: tuple[int, int], gate: str = "errors", total: int = 1000) -> list[Counted]:
    """Return looks 10 s apart with events of (baseline, candidate) among so many requests of each."""
    return [
        Counted(
            NOON + timedelta(seconds=10 * number),
            {gate: Pair(OneArmCounts(theirs, total), OneArmCounts(ours, total))},
        )
        for number, (theirs, ours) in enumerate(shares)
    ]


def minutely(*shares: tuple[int, int]) -> list[Counted]:
    """Return looks a minute apart; the first only begins the first minute."""
    made = looks(*shares)
    made[0] = replace(made[0], pairs={})
    return [replace(look, at=NOON + timedelta(minutes=number)) for number, look in enumerate(made)]


def slow(*counts: Sequence[int]) -> list[Counted]:
    """Return looks a minute apart with the candidate's histogram; the baseline's is always fast."""
    return [
        Counted(
            NOON + timedelta(minutes=number),
            {"latency": Pair(Histogram(EDGES, (90, 9, 1, 0, 0)), Histogram(EDGES, tuple(ours)))},
        )
        for number, ours in enumerate(counts)
    ]


def test_points_add_up_whole_minutes_and_leave_the_rest() -> None:
    made = list(points(looks(*[(1, 2)] * 15), timedelta(minutes=1)))
    assert [at - NOON for at, _ in made] == [timedelta(minutes=1), timedelta(minutes=2)]
    first, second = (pairs["errors"].candidate for _, pairs in made)
    assert first == OneArmCounts(14, 7000)  # the look at the beginning belongs to the first minute
    assert second == OneArmCounts(12, 6000)


def test_five_failed_checks_roll_back_and_good_ones_in_between_do_not_forgive() -> None:
    minute = [(0, 11)] * 6
    pattern = [(0, 11), *minute, *([(0, 0)] * 6), *minute, *minute, *minute]
    assert by_threshold([ERRORS], Thresholds(), looks(*pattern)) is None  # four failed
    alarm = by_threshold([ERRORS], Thresholds(), looks(*pattern, *minute))
    assert alarm is not None
    assert alarm.at == NOON + timedelta(minutes=6)
    assert alarm.why == "errors 1.10%, limit 1.00%, 5 failed checks"
    assert by_threshold([ERRORS], Thresholds(errors=0.02), looks(*pattern, *minute)) is None


def test_the_threshold_rule_looks_at_p99_and_not_at_own_counters() -> None:
    alarm = by_threshold([LATENCY], Thresholds(checks=1), slow((0,) * 5, (0, 0, 0, 100, 0)))
    assert alarm is not None
    assert alarm.gate == "latency"
    assert by_threshold([LATENCY], Thresholds(checks=1), slow((0,) * 5, (0, 0, 100, 0, 0))) is None
    # Beyond the last finite edge the rule sees that edge, as Prometheus' histogram_quantile does.
    assert (
        by_threshold([LATENCY], Thresholds(p99=timedelta(seconds=1), checks=1), slow((0,) * 5, (0, 0, 0, 0, 9))) is None
    )
    assert by_threshold([APPROVALS], Thresholds(checks=1), looks(*[(500, 0)] * 30, gate="approvals")) is None


def test_a_threshold_out_of_range_is_refused() -> None:
    with pytest.raises(ValueError, match=r"share in \(0, 1\).*got 2"):
        Thresholds(errors=2)


def test_kayentas_rule_sees_a_clear_shift_after_a_few_minutes_and_no_small_one() -> None:
    clear = [(10 + number % 3, 40 + number % 5) for number in range(121)]
    alarm = by_kayenta([ERRORS], looks(*clear))
    assert alarm is not None
    # 98 % takes 5 minutes at least: 2 of 252 orders; it is asked every other minute.
    assert timedelta(minutes=6) <= alarm.at - NOON <= timedelta(minutes=14)
    same = [(10 + number % 3, 10 + (number * 7) % 3) for number in range(121)]
    assert by_kayenta([ERRORS], looks(*same)) is None


def test_kayentas_rule_asks_for_a_quarter_of_the_shift() -> None:
    # Minutes of 0..9 against the same moved up by 4.6: the interval excludes 0, and not a quarter of the estimate.
    # Far values first, so that no earlier judgement sees less of the noise.
    order = (0, 9, 1, 8, 2, 7, 3, 6, 4, 5)
    baseline = [100 + 10 * number for number in order]
    candidate = [146 + 10 * number for number in reversed(order)]
    shift = shift_of([c / 1000 for c in candidate], [b / 1000 for b in baseline], 0.98)
    assert shift is not None
    assert 0 < shift.low < shift.estimate / 4
    minutes = [(0, 0), *zip(baseline, candidate, strict=True)]
    assert by_kayenta([ERRORS], minutely(*minutes)) is None
    assert by_kayenta([ERRORS], minutely(*[(b, c + 30) for b, c in minutes])) is not None


def test_kayentas_rule_knows_the_direction() -> None:
    falling = [(500 + number % 3, 300 + number % 5) for number in range(121)]
    assert by_kayenta([APPROVALS], looks(*falling, gate="approvals")) is not None
    rising = [(ours, theirs) for theirs, ours in falling]
    assert by_kayenta([APPROVALS], looks(*rising, gate="approvals")) is None


def test_the_z_test_is_the_textbooks() -> None:
    # 30 of 1000 against 50 of 1000: pooled .04, error .0087636, z = .02 / .0087636.
    z = _z((30, 1000), (50, 1000))
    assert z == pytest.approx(2.2821773, abs=1e-6)
    assert z is not None
    assert _p(z, Direction.HIGHER) == pytest.approx(norm.sf(z))
    assert _p(z, Direction.LOWER) == pytest.approx(norm.cdf(z))
    assert _p(z, Direction.EITHER) == pytest.approx(2 * norm.sf(z))
    assert _z((0, 1000), (0, 1000)) is None
    assert _z((0, 0), (1, 10)) is None


def test_the_z_test_alarms_at_the_first_look_at_which_the_sum_is_extreme() -> None:
    plan = subject().plan
    critical = NormalDist().inv_cdf(1 - plan.false_rollback_rate)
    shares = [(30, 30), (30, 45), (30, 60)]
    sums = [(30, 30), (60, 75), (90, 135)]
    expected = next(
        number
        for number, (b, c) in enumerate(sums, start=1)
        if (_z((b, 1000 * number), (c, 1000 * number)) or 0) > critical
    )
    alarm = by_z(plan, {}, looks(*shares))
    assert alarm is not None
    assert alarm.at == NOON + timedelta(seconds=10 * (expected - 1))


def test_the_z_test_compares_latency_beyond_the_edge_next_to_p95() -> None:
    plan = subject().plan
    known = {"latency": Baseline(EDGES, (900, 70, 20, 10, 0))}
    rule = next(rule for name, rule in rivals(plan, Thresholds(), known).items() if name.startswith("z-test"))
    alarm = rule(slow((50, 10, 40, 0, 0)))
    assert alarm is not None
    assert alarm.gate == "latency"
    assert rule(slow((60, 40, 0, 0, 0))) is None  # slower, and not beyond that edge
