import json
from dataclasses import replace
from pathlib import Path

import pytest

from e2e.demo.receivers import PAGERDUTY, SLACK
from e2e.demo.report import write_report
from e2e.demo.results import UNDECIDED, as_json, result, shortfalls, untold
from e2e.demo.scenario import CASES, Case
from e2e.demo.traffic.history import History
from e2e.demo.watching import Track
from tests.e2e.demo.played import (
    ALL_TOLD,
    FLAKY,
    INT8,
    PRUNED,
    after,
    backends,
    found_in_the_shadow,
    promoted,
    rolled_back,
    rollout,
    told,
    traffic,
)


def test_a_candidate_that_is_found_in_the_shadow_is_timed_from_its_first_mirrored_request() -> None:
    found = result(PRUNED, found_in_the_shadow(PRUNED), History(), fault_at=after(11))
    assert (found.outcome, found.gates, found.reason) == ("RolledBack", ("disagreement",), "disagreement in numbers")
    assert (found.detection_seconds, found.rollback_seconds, found.last_bad_seconds) == (17.5, 18.0, None)
    assert (found.bad_requests, found.failed_requests) == (0, 0)


def test_a_live_answer_of_a_candidate_that_is_bad_in_the_shadow_is_a_shortfall() -> None:
    track = found_in_the_shadow(PRUNED)
    (sentence,) = shortfalls(PRUNED, result(PRUNED, track, traffic(PRUNED, 5, 15), fault_at=None), track)
    assert sentence == "pruned should have been found in the shadow, and answered 2 live requests"


def test_a_candidate_that_was_bad_from_the_start_is_timed_from_its_first_answer() -> None:
    live = replace(PRUNED, in_the_shadow=False)
    found = result(live, rolled_back(live), traffic(live, 2.5, 5, 15, 20.75), fault_at=after(11))
    assert (found.detection_seconds, found.rollback_seconds, found.last_bad_seconds) == (17.5, 18.0, 18.25)
    assert (found.bad_requests, found.failed_requests) == (4, 0)


def test_a_candidate_that_turned_bad_is_timed_from_the_switch_and_answers_before_it_count_as_good() -> None:
    history = traffic(FLAKY, 2.5, 5, 12, 20.25, failed=(15, 18))
    found = result(FLAKY, rolled_back(FLAKY), history, fault_at=after(11))
    assert (found.detection_seconds, found.rollback_seconds, found.last_bad_seconds) == (9.0, 9.5, 9.25)
    assert (found.bad_requests, found.failed_requests) == (4, 2)


def test_a_promoted_candidate_has_no_bad_requests_and_the_gates_that_were_waited_for_as_its_reason() -> None:
    found = result(INT8, promoted(), traffic(INT8, 2.5, 5), fault_at=after(11))
    assert (found.outcome, found.reason) == ("Promoted", "errors in numbers; positives in numbers")
    assert (found.detection_seconds, found.rollback_seconds, found.bad_requests) == (None, None, 0)


def test_what_nobody_saw_is_undecided() -> None:
    found = result(FLAKY, Track(), History(), fault_at=None)
    assert (found.outcome, found.reason, found.detection_seconds) == (UNDECIDED, "nothing was seen of it", None)
    assert list(shortfalls(FLAKY, found, Track())) == [
        "flaky should have ended RolledBack, and is Undecided: nothing was seen of it"
    ]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_nothing_is_short_where_all_ended_as_it_should(case: Case) -> None:
    track = promoted() if case == INT8 else found_in_the_shadow(case) if case == PRUNED else rolled_back(case)
    history = History() if case == PRUNED else traffic(case, 12)
    found = result(case, track, history, fault_at=after(11))
    assert not list(shortfalls(case, found, track))


def test_a_rollback_by_another_gate_is_a_shortfall() -> None:
    track = found_in_the_shadow(PRUNED)
    track.rollout = rollout(PRUNED, "RolledBack", decided=20, gates=("latency",))
    found = result(PRUNED, track, History(), fault_at=None)
    (sentence,) = shortfalls(PRUNED, found, track)
    assert "by the gate disagreement, and was by latency" in sentence


def test_a_route_that_is_not_given_back_is_a_shortfall() -> None:
    track = found_in_the_shadow(PRUNED)
    track.rules = (track.rules[0], backends(PRUNED, 0))
    found = result(PRUNED, track, History(), fault_at=None)
    (sentence,) = shortfalls(PRUNED, found, track)
    assert "not as it was" in sentence


def test_a_promotion_that_leaves_the_baseline_some_traffic_is_a_shortfall() -> None:
    track = promoted()
    track.rules = (track.rules[0], backends(INT8, 99))
    (sentence,) = shortfalls(INT8, result(INT8, track, History(), fault_at=None), track)
    assert "does not point to int8-candidate alone" in sentence


def test_a_rollback_that_nobody_timed_is_a_shortfall() -> None:
    track = rolled_back(FLAKY)
    (sentence,) = shortfalls(FLAKY, result(FLAKY, track, traffic(FLAKY, 12), fault_at=None), track)
    assert "nobody saw when" in sentence


def test_nothing_is_untold_where_each_was_told_once() -> None:
    assert not list(untold(CASES, ALL_TOLD))


def test_everybody_who_was_not_told_is_named() -> None:
    assert len(list(untold(CASES, ()))) == 5
    for missing in ALL_TOLD:
        rest = tuple(message for message in ALL_TOLD if message != missing)
        (sentence,) = untold(CASES, rest)
        assert missing.receiver in sentence
        assert missing.rollout in sentence


def test_waking_somebody_about_a_promotion_is_a_shortfall() -> None:
    (sentence,) = untold(CASES, (*ALL_TOLD, told(INT8, PAGERDUTY, "trigger critical")))
    assert sentence == "PagerDuty was told to wake somebody about int8"


def test_telling_twice_is_a_shortfall() -> None:
    (sentence,) = untold(CASES, (*ALL_TOLD, told(FLAKY, SLACK, "Incident")))
    assert sentence.startswith("Slack was told 2 times of flaky")


def test_a_message_that_the_receiver_refuses_is_a_shortfall_and_tells_nobody() -> None:
    broken = tuple(
        replace(message, mistake="no text") if message.receiver == PAGERDUTY else message for message in ALL_TOLD
    )
    assert len(list(untold(CASES, broken))) == 4


def test_the_report_file_has_the_agreed_fields_for_each_rollout(tmp_path: Path) -> None:
    results = [
        result(INT8, promoted(), traffic(INT8, 3), None),
        result(PRUNED, found_in_the_shadow(PRUNED), History(), None),
        result(FLAKY, rolled_back(FLAKY), traffic(FLAKY, 12, failed=(15,)), after(11)),
    ]
    file = tmp_path / "report.json"
    write_report(file, results)
    table = json.loads(file.read_text("utf-8"))
    assert table == as_json(results)
    agreed = ("rollout", "outcome", "reason", "detection_seconds", "rollback_seconds", "bad_requests")
    assert [tuple(row[name] for name in agreed) for row in table] == [
        ("int8", "Promoted", "errors in numbers; positives in numbers", None, None, 0),
        ("pruned", "RolledBack", "disagreement in numbers", 17.5, 18.0, 0),
        ("flaky", "RolledBack", "errors in numbers", 9.0, 9.5, 2),
    ]
    assert list(tmp_path.iterdir()) == [file]
