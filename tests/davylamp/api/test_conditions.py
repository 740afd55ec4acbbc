from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from davylamp.api.v1alpha1.conditions import (
    TYPES,
    Situation,
    first_seen,
    for_phase,
    progressing,
    promoted,
    rolled_back,
    stalled,
    waiting_for_person,
)
from davylamp.api.v1alpha1.status import MAX_MESSAGE, Condition
from davylamp.core.model import Phase

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)
SITUATIONS = (first_seen, progressing, waiting_for_person, promoted, rolled_back, stalled)

type_of = {Phase.PROMOTED: "Current", Phase.ROLLED_BACK: "Failed"}


def situation(now: datetime = NOW, previous: tuple[Condition, ...] = (), generation: int = 3) -> Situation:
    return Situation("Baking", "5 % for 3m of 5m", generation, now, previous)


def kstatus(conditions: tuple[Condition, ...], generation: int, observed: int | None) -> str:
    """What kstatus computes for an object that is not being deleted, in the documented order."""
    by_type = {condition.type: condition.status.value for condition in conditions}
    if observed is not None and observed != generation:
        return "InProgress"
    if by_type.get("Reconciling") == "True":
        return "InProgress"
    if by_type.get("Stalled") == "True":
        return "Failed"
    if "Ready" in by_type:
        return "Current" if by_type["Ready"] == "True" else "InProgress"
    return "Current"


@pytest.mark.parametrize("phase", Phase)
def test_tools_that_follow_kstatus_see_the_end_and_only_the_end(phase: Phase) -> None:
    assert kstatus(for_phase(phase, situation()), 3, 3) == type_of.get(phase, "InProgress")


@pytest.mark.parametrize(
    ("mark", "computed"),
    [
        (first_seen, "InProgress"),
        (progressing, "InProgress"),
        (waiting_for_person, "InProgress"),
        (promoted, "Current"),
        (rolled_back, "Failed"),
        (stalled, "Failed"),
    ],
)
def test_each_situation_is_one_of_kstatus(mark: Callable[[Situation], tuple[Condition, ...]], computed: str) -> None:
    assert kstatus(mark(situation()), 3, 3) == computed


def test_a_changed_spec_is_in_progress_until_it_was_looked_at() -> None:
    assert kstatus(promoted(situation(generation=3)), 4, 3) == "InProgress"


@pytest.mark.parametrize("mark", SITUATIONS)
def test_every_situation_sets_all_conditions_for_its_generation(
    mark: Callable[[Situation], tuple[Condition, ...]],
) -> None:
    conditions = mark(situation(generation=7))
    assert tuple(condition.type for condition in conditions) == TYPES
    assert {condition.observed_generation for condition in conditions} == {7}
    assert all(condition.reason for condition in conditions)


@pytest.mark.parametrize("mark", SITUATIONS)
def test_never_both_in_progress_and_failed(mark: Callable[[Situation], tuple[Condition, ...]]) -> None:
    status = {condition.type: condition.status.value for condition in mark(situation())}
    assert (status["Reconciling"], status["Stalled"]) != ("True", "True")


def test_waiting_for_a_time_is_progress_and_waiting_for_a_person_is_not() -> None:
    timed = {c.type: c.status.value for c in for_phase(Phase.PAUSED, situation())}
    person = {c.type: c.status.value for c in waiting_for_person(situation())}
    assert (timed["Reconciling"], person["Reconciling"]) == ("True", "False")
    assert person["Ready"] == "False"


def test_the_time_of_transition_moves_only_with_the_status() -> None:
    before = progressing(situation())
    same = {c.type: c.last_transition_time for c in progressing(situation(LATER, before))}
    assert set(same.values()) == {NOW}
    after = {c.type: c.last_transition_time for c in promoted(situation(LATER, before))}
    assert after == {"Ready": LATER, "Reconciling": LATER, "Stalled": NOW, "Promoted": LATER, "RolledBack": NOW}


def test_the_first_status_says_that_nothing_is_known_yet() -> None:
    status = {condition.type: condition.status.value for condition in first_seen(situation())}
    assert (status["Ready"], status["Reconciling"]) == ("Unknown", "True")


def test_a_long_message_is_cut_to_what_the_schema_takes() -> None:
    conditions = progressing(Situation("Baking", "x" * 5_000, 1, NOW))
    assert max(len(condition.message) for condition in conditions) == MAX_MESSAGE
