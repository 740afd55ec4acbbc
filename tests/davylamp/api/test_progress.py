from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from davylamp.api.v1alpha1.progress import Shown, to_progress, to_status
from davylamp.api.v1alpha1.stored import StoredStatus, read_status
from davylamp.core.model import (
    ALL,
    NONE,
    Attempt,
    Outcome,
    Pair,
    PastAttempt,
    Phase,
    Progress,
    Quarantine,
    Reason,
    Ruling,
    Verdict,
    Weight,
)

T0 = datetime(2026, 3, 1, 12, tzinfo=UTC)
PAIR = Pair("credit", "credit-fp32:8080", "credit-int8:8080")
ATTEMPT = Attempt("a2", 2, "sha256:1", "hash", T0, PAIR)
RUNNING = Progress(
    attempt=ATTEMPT,
    phase=Phase.PROGRESSING,
    reason=Reason.BAKING,
    message="25 % for 3m of 5m",
    step=1,
    requested=Weight(25),
    entered_at=T0,
    accepted_at=T0 + timedelta(seconds=1),
    baked=timedelta(minutes=3, milliseconds=1),
    quarantine=(Quarantine("sha256:0", T0, 1, "Regressed"),),
    history=(PastAttempt("a1", Outcome.ROLLED_BACK, "Regressed", T0, T0),),
)
SHOWN = Shown(generation=3, epoch=7, now=T0, steps=4)

times = st.datetimes(min_value=datetime(2020, 1, 1), max_value=datetime(2040, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - hypothesis adds the zone
words = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=40)
rulings = st.one_of(
    st.just({"ruling": Ruling.CONTINUE}),
    st.builds(
        lambda ruling, reason, at: {"ruling": ruling, "ruling_reason": reason, "ruled_at": at},
        st.sampled_from([Ruling.ROLLBACK, Ruling.PROMOTE]),
        st.sampled_from(Reason),
        times,
    ),
)
progresses = st.builds(
    lambda ruling, **fields: Progress(**fields, **ruling),
    rulings,
    attempt=st.builds(Attempt, words, st.integers(1, 10**6), words, words, times, st.just(PAIR)),
    phase=st.sampled_from(Phase),
    reason=st.sampled_from(Reason),
    message=st.text(max_size=1024),
    step=st.integers(0, 49),
    requested=st.builds(Weight, st.integers(0, 100)),
    entered_at=times,
    accepted_at=st.none() | times,
    baked=st.timedeltas(timedelta(0), timedelta(days=7)),
    fights=st.lists(times, max_size=16).map(tuple),
    error_ticks=st.integers(0, 60),
    quarantine=st.lists(
        st.builds(Quarantine, words, times, st.integers(1, 9), words), max_size=16, unique_by=lambda q: q.digest
    ).map(tuple),
    history=st.lists(st.builds(PastAttempt, words, st.sampled_from(Outcome), words, times, times), max_size=10).map(
        tuple
    ),
)


def stored(progress: Progress, shown: Shown = SHOWN) -> dict[str, Any]:
    return to_status(progress, shown).manifest()


@given(progresses)
def test_a_restart_goes_on_where_the_last_process_stopped(progress: Progress) -> None:
    read = read_status(stored(progress))
    assert read.damages == ()
    assert to_progress(read) == progress


def test_before_the_first_attempt_there_is_nothing_but_conditions_and_weight_0() -> None:
    status = stored(Progress(), Shown(generation=1, epoch=1, now=T0))
    assert "attempt" not in status
    assert "step" not in status
    assert status["weight"] == {"requested": 0}
    assert to_progress(read_status(status)) == Progress()
    assert to_progress(read_status(None)) == Progress()


def test_the_step_is_counted_as_people_count() -> None:
    assert stored(RUNNING)["step"]["summary"] == "2/4"


def test_what_was_seen_is_shown_apart_from_what_was_asked() -> None:
    shown = replace(SHOWN, programmed=Weight(5), observed=4.5, verdict=Verdict.NO_DATA)
    status = stored(RUNNING, shown)
    assert status["weight"] == {"requested": 25, "programmed": 5, "observed": 4.5}
    assert status["verdict"] == "NoData"


@pytest.mark.parametrize("field", ["epoch", "attempt", "step", "weight", "quarantine"])
def test_damage_leads_to_weight_0_and_says_what_was_damaged(field: str) -> None:
    progress = to_progress(read_status(stored(RUNNING) | {field: "junk"}))
    assert (progress.requested, progress.step, progress.baked) == (NONE, -1, timedelta(0))
    assert field in progress.message


@pytest.mark.parametrize("field", ["epoch", "attempt", "step", "weight", "quarantine", "phase", "hold"])
def test_a_rollback_that_can_be_read_stays_one_whatever_else_is_damaged(field: str) -> None:
    decided = replace(RUNNING, ruling=Ruling.ROLLBACK, ruling_reason=Reason.REGRESSED, ruled_at=T0)
    assert to_progress(read_status(stored(decided) | {field: "junk"})).ruling is Ruling.ROLLBACK


def test_what_was_promoted_is_not_taken_back_for_a_damaged_entry() -> None:
    done = replace(
        RUNNING, phase=Phase.PROMOTED, ruling=Ruling.PROMOTE, ruling_reason=Reason.ALL_GATES_PASSED, requested=ALL
    )
    progress = to_progress(read_status(stored(done) | {"quarantine": "junk"}))
    assert (progress.ruling, progress.requested, progress.phase) == (Ruling.PROMOTE, ALL, Phase.PROMOTED)


@given(st.dictionaries(st.sampled_from(sorted(stored(RUNNING))), st.none() | st.integers() | st.text(max_size=5)))
def test_damage_never_asks_for_more_weight(junk: dict[str, Any]) -> None:
    assert to_progress(read_status(stored(RUNNING) | junk)).requested <= RUNNING.requested


def test_a_decision_about_another_attempt_rules_nothing() -> None:
    status = stored(replace(RUNNING, ruling=Ruling.PROMOTE)) | {"attempt": stored(RUNNING)["attempt"] | {"id": "a3"}}
    assert to_progress(read_status(status)).ruling is Ruling.CONTINUE


def test_a_reason_of_a_later_version_is_not_a_failure() -> None:
    read = read_status(stored(RUNNING) | {"reason": "SomethingNew"})
    assert isinstance(read, StoredStatus)
    assert to_progress(read).reason is Reason.INTERNAL_ERROR
    assert to_progress(read).requested == Weight(25)


def test_lists_are_cut_to_what_the_schema_takes_and_the_oldest_go_first() -> None:
    many = replace(
        RUNNING,
        quarantine=tuple(Quarantine(f"sha256:{i}", T0, 1, "Regressed") for i in range(30)),
        history=tuple(PastAttempt(f"a{i}", Outcome.SUPERSEDED, "Superseded", T0, T0) for i in range(30)),
        fights=(T0,) * 30,
        message="x" * 5_000,
    )
    status = stored(many, replace(SHOWN, told=[str(i) for i in range(100)]))
    assert [entry["digest"] for entry in status["quarantine"]] == [f"sha256:{i}" for i in range(14, 30)]
    assert status["history"][0]["attempt"] == "a20"
    assert (status["told"][0], status["told"][-1]) == ("36", "99")
    assert read_status(status).damages == ()


def test_a_candidate_that_was_tried_twice_is_in_quarantine_once() -> None:
    twice = replace(RUNNING, quarantine=(Quarantine("d", T0, 1, "Regressed"), Quarantine("d", T0, 2, "ErrorShare")))
    assert [entry["attempts"] for entry in stored(twice)["quarantine"]] == [2]


def condition(progress: Progress) -> dict[str, str]:
    return {c["type"]: c["status"] for c in stored(progress)["conditions"]}


def test_a_contested_route_is_stalled_and_a_missing_one_is_awaited() -> None:
    held = replace(RUNNING, phase=Phase.HELD)
    assert condition(replace(held, reason=Reason.ROUTE_CONTESTED))["Stalled"] == "True"
    assert condition(replace(held, reason=Reason.ROUTE_MISSING))["Reconciling"] == "True"


def test_a_person_who_paused_is_waited_for() -> None:
    paused = condition(replace(RUNNING, phase=Phase.PAUSED, reason=Reason.PAUSED_BY_SPEC))
    assert (paused["Ready"], paused["Reconciling"], paused["Stalled"]) == ("False", "False", "False")
    assert condition(replace(RUNNING, phase=Phase.PAUSED, reason=Reason.PAUSED_BY_STEP))["Reconciling"] == "True"


@pytest.mark.parametrize("reason", Reason)
def test_the_end_of_an_attempt_is_the_end_whatever_the_reason(reason: Reason) -> None:
    assert condition(replace(RUNNING, phase=Phase.PROMOTED, reason=reason))["Promoted"] == "True"
    assert condition(replace(RUNNING, phase=Phase.ROLLED_BACK, reason=reason))["RolledBack"] == "True"
