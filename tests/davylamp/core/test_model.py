from dataclasses import replace
from datetime import UTC, datetime
from itertools import permutations

import pytest

from davylamp.core.model import (
    ALL,
    NONE,
    Attempt,
    Outcome,
    Pair,
    PastAttempt,
    Progress,
    Ruling,
    Verdict,
    Weight,
    worst,
)
from davylamp.core.world import Judgement, RouteView

WORST_FIRST = (
    Verdict.REGRESSED,
    Verdict.SOURCE_DOWN,
    Verdict.NO_DATA,
    Verdict.INCONCLUSIVE,
    Verdict.NON_INFERIOR,
)
ROUTE = RouteView("uid", NONE, prepared=False)


@pytest.mark.parametrize("percent", [-1, 101, 5.0, 0.5, "5", None, True, float("nan")])
def test_a_weight_is_a_whole_percent_and_nothing_else(percent: object) -> None:
    with pytest.raises(ValueError, match=r"weight must be a whole percent in 0\.\.100, got"):
        Weight(percent)  # type: ignore[arg-type]  # that is the point


def test_weights_are_ordered_and_read_as_percent() -> None:
    assert NONE < Weight(5) < Weight(50) < ALL
    assert [str(NONE), str(Weight(5)), str(ALL)] == ["0 %", "5 %", "100 %"]


def test_the_worst_verdict_wins_in_any_order() -> None:
    assert set(WORST_FIRST) == set(Verdict)
    for place, verdict in enumerate(WORST_FIRST):
        for order in permutations(WORST_FIRST[place:]):
            assert worst(order) is verdict


def test_no_verdict_at_all_is_no_data_and_never_good() -> None:
    assert worst([]) is Verdict.NO_DATA
    nothing = Judgement()
    assert nothing.verdict is Verdict.NO_DATA
    assert (nothing.proven, nothing.regressed, nothing.suspicious) == (False, False, False)


@pytest.mark.parametrize(
    ("evidence", "suspicious", "regressed"),
    [(1.99, False, False), (2.0, True, False), (3.99, True, False), (4.0, True, True), (float("-inf"), False, False)],
)
def test_evidence_is_suspicious_half_way_and_a_regression_at_the_threshold(
    evidence: float, suspicious: bool, regressed: bool
) -> None:
    judgement = Judgement(log_evidence=evidence, log_threshold=4.0)
    assert (judgement.suspicious, judgement.regressed) == (suspicious, regressed)


def test_evidence_that_is_not_a_number_is_suspicious() -> None:
    assert Judgement(log_evidence=float("nan"), log_threshold=4.0).suspicious


def test_one_gate_that_says_regressed_is_enough() -> None:
    judgement = Judgement({"errors": Verdict.NON_INFERIOR, "latency": Verdict.REGRESSED}, log_threshold=4.0)
    assert judgement.regressed


def test_only_required_gates_are_waited_for_and_all_of_them() -> None:
    verdicts = {"errors": Verdict.NON_INFERIOR, "clicks": Verdict.INCONCLUSIVE}
    assert Judgement(verdicts, required=frozenset({"errors"})).proven
    assert not Judgement(verdicts, required=frozenset({"errors", "clicks"})).proven
    assert not Judgement(verdicts, required=frozenset({"errors", "unread"})).proven
    assert not Judgement(verdicts).proven


def test_an_attempt_is_over_when_its_end_stands_in_the_history() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    attempt = Attempt("a-2", 2, "digest", "spec", now, Pair("route", "old:80", "new:80"))
    earlier, this = (PastAttempt(name, Outcome.ROLLED_BACK, "Regressed", now, now) for name in ("a-1", "a-2"))
    assert not Progress(history=(earlier,)).ended
    assert not Progress(attempt, history=(earlier,)).ended
    assert Progress(attempt, history=(earlier, this)).ended


@pytest.mark.parametrize(
    "marked",
    [
        replace(ROUTE, prepared=True),
        replace(ROUTE, asked=NONE),
        replace(ROUTE, attempt=""),
        replace(ROUTE, ruling=Ruling.CONTINUE),
        replace(ROUTE, epoch=0),
    ],
)
def test_any_mark_shows_that_the_route_is_worked_on(marked: RouteView) -> None:
    assert marked.marked


def test_a_route_of_the_user_alone_bears_no_mark() -> None:
    assert not replace(ROUTE, accepted=True, editor="kubectl", weight=Weight(5)).marked
