from __future__ import annotations

from dataclasses import replace

import pytest

from davylamp.core.evidence import Evidence
from davylamp.core.looking import FIRST_WINDOW, LONGEST_GAP, begins_anew, cut, due_window, serving, stratum_start
from davylamp.core.model import NONE, Progress, Weight
from tests.davylamp.core.rollouts import ATTEMPT, INTERVAL, NOW, PLAN, SECOND

BEFORE = Progress(attempt=ATTEMPT, step=0, requested=Weight(5))


def test_a_window_begins_where_the_last_one_ended() -> None:
    evidence = Evidence(as_of=NOW - INTERVAL)
    assert due_window(evidence, NOW - INTERVAL, NOW, INTERVAL) == (NOW - INTERVAL, NOW)
    assert due_window(evidence, None, NOW, INTERVAL) == (NOW - INTERVAL, NOW)


def test_the_first_look_reaches_back_to_learn_what_the_baseline_is_like() -> None:
    assert due_window(Evidence(), None, NOW, INTERVAL) == (NOW - FIRST_WINDOW, NOW)


def test_a_look_right_after_another_reads_nothing() -> None:
    assert due_window(Evidence(as_of=NOW - SECOND), NOW - 4 * SECOND, NOW, INTERVAL) is None
    assert due_window(Evidence(as_of=NOW - SECOND), NOW - 5 * SECOND, NOW, INTERVAL) is not None


def test_before_its_stratum_nothing_is_read_and_after_a_long_gap_a_window_begins_anew() -> None:
    assert due_window(Evidence(as_of=NOW + SECOND), NOW - INTERVAL, NOW, INTERVAL) is None
    late = Evidence(as_of=NOW - LONGEST_GAP - SECOND)
    assert due_window(late, NOW - INTERVAL, NOW, INTERVAL) == (NOW - 60 * SECOND, NOW)


@pytest.mark.parametrize(
    ("after", "anew"),
    [
        (BEFORE, False),
        (replace(BEFORE, step=1), False),
        (replace(BEFORE, step=-1), True),
        (replace(BEFORE, attempt=replace(ATTEMPT, id="rollout1-2")), True),
        (Progress(), True),
    ],
)
def test_another_attempt_or_a_return_to_the_beginning_forgets_the_evidence(after: Progress, anew: bool) -> None:
    assert begins_anew(BEFORE, after) is anew


def test_another_weight_cuts_the_evidence_an_interval_after_it_was_accepted() -> None:
    accepted = replace(BEFORE, accepted_at=NOW)
    assert stratum_start(PLAN, BEFORE, accepted) == NOW + INTERVAL
    assert stratum_start(PLAN, accepted, accepted) is None
    assert stratum_start(PLAN, accepted, BEFORE) is None
    seen = Evidence(as_of=NOW, samples={"errors": (1, 2)})
    assert cut(PLAN, BEFORE, accepted, seen) == Evidence(as_of=NOW + INTERVAL)
    assert cut(PLAN, accepted, replace(accepted, step=1), seen) == seen


def test_the_candidate_is_judged_from_its_first_step_on() -> None:
    assert serving(BEFORE)
    assert not serving(replace(BEFORE, requested=NONE))
    assert not serving(replace(BEFORE, step=-1))
    assert not serving(Progress(step=3))
