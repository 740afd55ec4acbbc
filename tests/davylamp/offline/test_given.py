"""Traffic from the command line: what is read, what is assumed, and what is refused with what to write instead."""

import math
from pathlib import Path

import pytest

from davylamp.errors import SpecError
from davylamp.offline.given import Given, histogram, percent
from davylamp.offline.subject import Subject, rollout_of_service, subject_of

_EXPOSED = """\
# TYPE rest_server_request_duration_seconds histogram
rest_server_request_duration_seconds_bucket{path="/infer",le="0.05"} 10
rest_server_request_duration_seconds_bucket{path="/infer",le="0.1"} 60
rest_server_request_duration_seconds_bucket{path="/infer",le="0.25"} 90
rest_server_request_duration_seconds_bucket{path="/infer",le="+Inf"} 100
rest_server_request_duration_seconds_count{path="/infer"} 100
"""


def _subject(preset: str = "mlserver") -> Subject:
    return subject_of([rollout_of_service("credit", 8080, "ml", preset)])


def test_a_histogram_is_read_from_edges_and_requests() -> None:
    read = histogram("0.05=10,0.1=50,0.25=30,+Inf=10")
    assert read.edges == (0.05, 0.1, 0.25, math.inf)
    assert read.shares == pytest.approx((0.1, 0.5, 0.3, 0.1))


def test_the_series_of_a_prometheus_histogram_say_the_same(tmp_path: Path) -> None:
    file = tmp_path / "metrics"
    file.write_text(_EXPOSED)
    assert histogram(str(file)) == histogram("0.05=10,0.1=50,0.25=30,+Inf=10")


def test_an_open_bucket_is_added_where_none_is_given() -> None:
    assert histogram("0.05=1,0.1=2,0.2=1").edges[-1] == math.inf


def test_without_a_histogram_the_assumption_is_said() -> None:
    demand = Given(50, "1%").demand(_subject())
    assert demand.shares == {"errors": 0.01}
    assert demand.remarks
    assert "median 50 ms" in demand.remarks[0]
    assert Given(50, "1%", histogram="0.05=1,0.1=2,0.2=1").demand(_subject()).remarks == ()
    assert "buckets of Envoy" in Given(50, "1%").demand(_subject("envoy")).remarks[0]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (Given(50, "1"), "--error-rate is a share from 0% to 100%, such as \"0.5%\", got '1'"),
        (Given(50, "101%"), "got '101%'"),
        (Given(50, "1%", ("approvals",)), "--share is written as \"approvals=30%\", got 'approvals'"),
        (Given(50, "1%", ("approvals=30%",)), "--share approvals: the rollout has no such signal; it has errors"),
        (Given(50, "1%", median="0ms"), "--latency-median is a time above 0"),
        (Given(50, "1%", median="fast"), "got 'fast'"),
        (Given(50, "1%", histogram="0.1=x,0.2=1"), "'0.1=x' is no \"edge=requests\""),
        (Given(50, "1%", histogram="0.2=1,0.1=1,0.3=1"), "--latency-histogram: edges must be at least three"),
        (Given(50, "1%", histogram="0.1=0,0.2=0,0.3=0"), "holds 0 requests"),
        (Given(50, "1%", histogram="/no/such/file"), "/no/such/file cannot be read: No such file or directory"),
        (Given(0, "1%"), "requests a second must be above 0 and finite, got 0"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_the_value(given: Given, message: str) -> None:
    with pytest.raises(SpecError) as refused:
        given.demand(_subject())
    assert message in str(refused.value)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "metrics"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(SpecError, match="metrics is not text in UTF-8"):
        histogram(str(file))


def test_a_file_without_a_histogram_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "metrics"
    file.write_text("up 1\n")
    with pytest.raises(SpecError, match="holds no series of a histogram"):
        histogram(str(file))


def test_a_share_is_read_with_its_sign() -> None:
    assert percent(" 0.5% ", "--error-rate") == 0.005
