"""What people are shown must agree with what is decided, also while traffic drifts and the weight rises."""

import pytest

from davylamp.core.report import _at_same_times, _gain
from gatestats.ticks import Estimate, Measure
from tests.simulation_statistics.generator import Scraping
from tests.simulation_statistics.rollout import Rollout, plan_of
from tests.simulation_statistics.traffic import Buckets, Truth

#: Errors grow eightfold, durations by half.
_DRIFT = Truth(requests=200, error_rate=0.01, drift=8.0, latency_drift=1.5, length=250.0)


@pytest.mark.parametrize("buckets", [Buckets.NATIVE, Buckets.COARSE])
def test_equal_variants_look_equal_though_their_plain_shares_drift_apart(buckets: Buckets) -> None:
    for seed in range(3):
        outcome = Rollout(plan_of(5), _DRIFT, Scraping(buckets=buckets), seed).run(25)
        reports = {report.name: report for report in outcome.reports}
        errors = outcome.evidence.streams["more-errors"].state.totals
        assert errors[2] / errors[3] - errors[0] / errors[1] > 0.01  # plain shares lie more than a point apart
        for report in reports.values():
            assert report.baseline is not None
            assert report.candidate is not None
            assert report.baseline.value is not None
            assert report.candidate.value is not None
            assert report.difference is not None
            assert report.difference == pytest.approx(report.candidate.value - report.baseline.value)
            assert report.low is not None
            assert report.high is not None
            assert report.low <= 0 <= report.high
            assert report.low <= report.difference <= report.high
            assert report.samples == report.baseline.total + report.candidate.total
        assert reports["errors"].samples == reports["more-errors"].samples
        assert abs(reports["errors"].difference or 0) < 0.01
        if buckets is Buckets.NATIVE:
            latency = reports["latency"]
            assert latency.baseline is not None
            assert latency.difference is not None
            assert latency.baseline.value is not None
            assert abs(latency.difference) < 0.05 * latency.baseline.value


def test_a_difference_of_eight_points_is_shown_as_such() -> None:
    truth = Truth(requests=200, approvals_gain=-0.08, length=250.0)
    outcome = Rollout(plan_of(12), truth, Scraping(), 1).run(25)
    shown = next(report for report in outcome.reports if report.name == "approvals")
    assert outcome.culprits == ("approvals",)
    assert shown.difference == pytest.approx(-0.08, abs=0.05)
    assert shown.high is not None
    assert shown.high < 0


@pytest.mark.parametrize(
    ("measure", "effect", "candidate", "expected"),
    [
        (Measure.DIFFERENCE, 0.02, 0.05, 0.03),
        (Measure.DIFFERENCE, 0.08, 0.05, 0.0),
        (Measure.RATIO, 2.0, 0.05, 0.025),
        (Measure.RATIO, 0.0, 0.0, 0.01),
        (Measure.SLOWDOWN, 1.25, 20.0, 16.0),
        (Measure.ODDS_RATIO, 3.0, 0.6, 1 / 3),
        (Measure.ODDS_RATIO, 0.0, 0.0, 0.01),
        (Measure.ODDS_RATIO, 3.0, 1.0, 0.01),
        (Measure.RATE, 0.5, 0.5, 0.01),
        (Measure.RATIO, None, 0.5, 0.01),
        (Measure.RATIO, 2.0, None, 0.01),
    ],
)
def test_the_baseline_is_shown_at_the_candidates_times_where_the_effect_is_known(
    measure: Measure, effect: float | None, candidate: float | None, expected: float
) -> None:
    assert _at_same_times(Estimate(measure, effect, 0.01, candidate, 100, 100)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("measure", "value", "bound", "expected"),
    [
        (Measure.DIFFERENCE, 0.2, -0.1, -0.1),
        (Measure.RATIO, 0.2, 1.5, 0.1),
        (Measure.SLOWDOWN, 20.0, 0.5, -10.0),
        (Measure.ODDS_RATIO, 1 / 3, 3.0, 0.6 - 1 / 3),
        (Measure.RATE, 0.2, 0.1, None),
        (Measure.RATIO, None, 1.5, None),
        (Measure.RATIO, 0.2, None, None),
    ],
)
def test_limits_of_an_effect_become_limits_of_the_difference(
    measure: Measure, value: float | None, bound: float | None, expected: float | None
) -> None:
    assert _gain(value, measure, bound) == (None if expected is None else pytest.approx(expected))
