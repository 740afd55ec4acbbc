"""What many pairs come to: counts, and bounds that agree with scipy's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from davylamp.cli.diff_requests import Request
from davylamp.cli.diff_summary import Ending, Pair, Summary, quantile, upper_bound
from davylamp.shadow.comparison import Comparison, Difference, Kind, Measure, Unread
from davylamp.shadow.exchange import Answer, Call, Failure, Outcome

CALL = Call("POST", "/v2/models/credit/infer", (), b"{}")
DISAGREES = Comparison(Kind.TENSORS, differences=frozenset({Difference.DECISION}), disagrees=True)
AGREES = Comparison(Kind.TENSORS, measures={Measure.JS: 0.25})


def took(seconds: float, status: int = 200) -> Outcome:
    return Outcome(Answer(status, (), b""), seconds)


def summary(*comparisons: Comparison, limit: float = 0.02, shown: int = 2) -> Summary:
    made = Summary(limit, 0.1, shown)
    for line, comparison in enumerate(comparisons, start=1):
        made.add(Pair(Request(line, CALL), took(1.0), took(1.0), comparison))
    return made


@given(total=st.integers(1, 3000), share=st.floats(0, 1))
def test_the_bound_is_that_of_clopper_and_pearson(total: int, share: float) -> None:
    events = round(share * total)
    # Both sides at 5 % each make an interval of 90 %.
    oracle = binomtest(events, total).proportion_ci(confidence_level=0.9, method="exact").high
    assert upper_bound(events, total) == pytest.approx(oracle, abs=1e-9)


def test_the_limit_is_kept_only_when_the_data_show_it() -> None:
    assert summary(*[AGREES] * 149).ending is Ending.WITHIN
    assert summary(*[AGREES] * 148).ending is Ending.TOO_FEW
    assert summary(*[AGREES] * 96, *[DISAGREES] * 2).ending is Ending.OVER
    assert summary(*[AGREES] * 98, *[DISAGREES] * 2).ending is Ending.TOO_FEW
    assert summary().ending is Ending.NOTHING


@given(agreeing=st.integers(0, 300), disagreeing=st.integers(0, 20), limit=st.sampled_from([0.0, 0.01, 0.05, 1.0]))
def test_a_share_over_the_limit_is_never_within_it(agreeing: int, disagreeing: int, limit: float) -> None:
    made = summary(*[AGREES] * agreeing, *[DISAGREES] * disagreeing, limit=limit)
    if made.ending is Ending.WITHIN:
        assert disagreeing <= limit * (agreeing + disagreeing)
        assert agreeing + disagreeing > 0


def test_pairs_that_cannot_be_compared_count_for_nothing_and_are_named() -> None:
    made = summary(AGREES, *[Comparison(Kind.STATUS, unread=Unread.BASELINE_FAILED)] * 3)
    assert (made.requests, made.pairs) == (4, 1)
    assert made.manifest()["incomparable"] == {"BaselineFailed": 3}
    assert made.measures == {"JS": [0.25]}


def test_the_first_disagreeing_pairs_by_their_lines_are_kept() -> None:
    made = Summary(0.02, 0.1, 2)
    for line in (5, 3, 9, 1):
        made.add(Pair(Request(line, CALL), took(1.0), took(1.0), DISAGREES))
    assert [pair.request.line for pair in made.examples] == [1, 3]


def test_only_pairs_that_both_answer_are_timed_and_slower_is_by_more_than_the_slowdown() -> None:
    made = Summary(0.02, 0.1, 0)
    for baseline, candidate in (
        (took(1.0), took(1.1)),
        (took(1.0), took(1.2)),
        (took(1.0), took(9.0, 500)),
        (took(1.0), Outcome(Failure.TIMEOUT, 9.0)),
    ):
        made.add(Pair(Request(1, CALL), baseline, candidate, AGREES))
    said = made.manifest()
    assert (said["slower"]["events"], said["slower"]["total"]) == (1, 2)
    assert said["latency"]["candidate"] == {"median": pytest.approx(1.15), "p95": 1.2, "greatest": 1.2}


def test_without_a_timed_pair_there_is_no_latency() -> None:
    said = Summary(0.02, 0.1, 0).manifest()
    assert said["latency"] == {"baseline": {}, "candidate": {}}
    assert said["slower"]["share"] is None
    assert said["sentence"] == "no pair could be compared (none was sent)"


@pytest.mark.parametrize(("number", "place"), [(1, 0), (19, 18), (20, 18), (100, 94)])
def test_a_quantile_is_a_value_that_was_seen(number: int, place: int) -> None:
    assert quantile(list(range(number))[::-1], 0.95) == place
