"""What people are shown must agree with what is decided, also while traffic drifts and the weight rises."""

import pytest

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
        assert errors[2] / errors[3] - errors[0] / errors[1] > 0.012  # plain shares lie apart
        for report in reports.values():
            assert report.baseline is not None
            assert report.candidate is not None
            assert report.baseline.value is not None
            assert report.candidate.value is not None
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
