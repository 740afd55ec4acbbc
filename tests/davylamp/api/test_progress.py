from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from davylamp.api.v1alpha1.messages import to_outbox
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
    Severity,
    Verdict,
    Weight,
)
from davylamp.core.moves import Fact
from davylamp.core.outbox import Outbox, Pending, Undelivered

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
names = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)
backends = st.builds("{}:{}".format, names, st.integers(1, 65_535))
attempts = st.builds(
    Attempt, words, st.integers(1, 10**6), words, words, times, st.builds(Pair, names, backends, backends)
)
pasts = st.builds(PastAttempt, words, st.sampled_from(Outcome), words, times, times)


def nothing(**fields: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.just(fields)


undecided = nothing(ruling=Ruling.CONTINUE)
decided = st.fixed_dictionaries(
    {"ruling": st.sampled_from(Ruling), "ruling_reason": st.sampled_from(Reason), "ruled_at": times}
)
before_the_first_step = nothing(step=-1)
at_a_step = st.fixed_dictionaries(
    {
        "step": st.integers(-1, 50),
        "entered_at": times,
        "accepted_at": st.none() | times,
        "baked": st.timedeltas(timedelta(0), timedelta(days=90)),
    }
)
free = nothing()
held = st.fixed_dictionaries({"hold_since": times, "hold_reason": st.sampled_from(Reason)})
well_formed = st.fixed_dictionaries(
    {
        "phase": st.sampled_from(Phase),
        "reason": st.sampled_from(Reason),
        "message": st.text(max_size=1024),
        "requested": st.builds(Weight, st.integers(0, 100)),
        "fights": st.lists(times, max_size=16).map(tuple),
        "error_ticks": st.integers(0, 60),
        "quarantine": st.lists(
            st.builds(Quarantine, words, times, st.integers(1, 9), words), max_size=16, unique_by=lambda q: q.digest
        ).map(tuple),
        "history": st.lists(pasts, max_size=10).map(tuple),
    }
)


def ended(progress: Progress, past: PastAttempt) -> Progress:
    """The same with its attempt over."""
    if progress.attempt is None:
        return progress
    past = replace(past, attempt=progress.attempt.id)
    return replace(progress, history=(*progress.history, past)[-10:])


running = st.builds(
    lambda attempt, *fields: Progress(attempt=attempt, **{k: v for part in fields for k, v in part.items()}),
    attempts,
    well_formed,
    undecided | decided,
    before_the_first_step | at_a_step,
    free | held,
)
not_begun = st.builds(
    lambda *fields: Progress(**{k: v for part in fields for k, v in part.items()}), well_formed, free | held
)
progresses = running | st.builds(ended, running, pasts) | not_begun
outboxes = st.builds(
    Outbox,
    st.lists(
        st.builds(
            Pending,
            st.builds(Fact, words, st.sampled_from(Severity), st.text(max_size=1024)),
            times,
            st.integers(0, 24),
            st.none() | times,
            st.lists(names, max_size=8).map(tuple),
            st.lists(names, max_size=8).map(tuple),
        ),
        max_size=16,
        unique_by=lambda pending: pending.fact.key,
    ).map(tuple),
    st.lists(words, max_size=64).map(tuple),
    st.lists(
        st.builds(Undelivered, words, names, st.sampled_from(Severity), st.text(max_size=1024), times), max_size=8
    ).map(tuple),
    st.integers(0, 10**6),
)


def stored(progress: Progress, shown: Shown = SHOWN) -> dict[str, Any]:
    return to_status(progress, shown).manifest()


@given(progresses)
def test_a_restart_goes_on_where_the_last_process_stopped(progress: Progress) -> None:
    read = read_status(stored(progress))
    assert read.damages == ()
    assert to_progress(read) == progress


@given(outboxes)
def test_a_restart_goes_on_telling_people(outbox: Outbox) -> None:
    read = read_status(stored(RUNNING, replace(SHOWN, outbox=outbox)))
    assert read.damages == ()
    assert to_outbox(read.status) == outbox


def test_before_the_first_attempt_there_is_nothing_but_conditions_and_weight_0() -> None:
    status = stored(Progress(), Shown(generation=1, epoch=1, now=T0))
    assert "attempt" not in status
    assert "step" not in status
    assert status["weight"] == {"requested": 0}
    assert to_progress(read_status(status)) == Progress()
    assert to_progress(read_status(None)) == Progress()


def test_the_step_is_counted_as_people_count() -> None:
    assert stored(RUNNING)["step"]["summary"] == "2/4"
    assert stored(replace(RUNNING, step=-1))["step"]["summary"] == "0/4"
    assert stored(replace(RUNNING, step=4, ruling=Ruling.PROMOTE, ruled_at=T0))["step"]["summary"] == "4/4"


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


@pytest.mark.parametrize(
    "pair",
    [
        None,
        "credit",
        {},
        {"route": "credit", "baseline": "credit-fp32:8080"},
        {"route": "", "baseline": "a:1", "candidate": "b:1"},
        {"route": "credit", "baseline": "credit-fp32", "candidate": "credit-int8:8080"},
        {"route": "credit", "baseline": "credit-fp32:8080", "candidate": "credit int8:8080"},
    ],
)
def test_an_attempt_whose_pair_cannot_be_read_is_damage(pair: Any) -> None:
    status = stored(RUNNING)
    read = read_status(status | {"attempt": status["attempt"] | {"pair": pair}})
    assert not read.safe
    progress = to_progress(read)
    assert (progress.attempt, progress.requested, progress.step) == (None, NONE, -1)


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


def test_a_damaged_status_is_not_trusted_for_an_undecided_attempt() -> None:
    back = replace(RUNNING, ruling_reason=Reason.ALL_GATES_PASSED, ruled_at=T0)
    assert to_progress(read_status(stored(back) | {"quarantine": "junk"})).requested == NONE


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
    status = stored(many, replace(SHOWN, outbox=Outbox(told=tuple(str(i) for i in range(100)))))
    assert [entry["digest"] for entry in status["quarantine"]] == [f"sha256:{i}" for i in range(14, 30)]
    assert status["history"][0]["attempt"] == "a20"
    assert (status["told"][0], status["told"][-1]) == ("36", "99")
    assert read_status(status).damages == ()


def test_a_candidate_that_was_tried_twice_is_in_quarantine_once() -> None:
    twice = replace(RUNNING, quarantine=(Quarantine("d", T0, 1, "Regressed"), Quarantine("d", T0, 2, "ErrorShare")))
    assert [entry["attempts"] for entry in stored(twice)["quarantine"]] == [2]


def condition(progress: Progress, shown: Shown = SHOWN) -> dict[str, str]:
    return {c["type"]: c["status"] for c in stored(progress, shown)["conditions"]}


#: The kstatus of a rollout that has not ended, where it is not "in progress, goes on by itself".
STALLED = {Reason.INVALID_SPEC, Reason.ROUTE_UNFIT, Reason.ROUTE_TAKEN, Reason.ROUTE_CONTESTED}
NEEDS_PERSON = {
    Reason.PAUSED_BY_SPEC,
    Reason.DEADLINE,
    Reason.ROUTE_LOWERED,
    Reason.QUARANTINED,
    Reason.SLICE_ROLLED_BACK,
}


@pytest.mark.parametrize("reason", Reason)
def test_a_rollout_on_its_way_fails_waits_for_a_person_or_goes_on(reason: Reason) -> None:
    phase = Phase.PAUSED if reason in {Reason.PAUSED_BY_SPEC, Reason.PAUSED_BY_STEP} else Phase.HELD
    conditions = condition(replace(RUNNING, phase=phase, reason=reason, hold_since=T0, hold_reason=reason))
    assert conditions == {
        "Ready": "False",
        "Reconciling": "False" if reason in STALLED | NEEDS_PERSON else "True",
        "Stalled": "True" if reason in STALLED else "False",
        "Promoted": "False",
        "RolledBack": "False",
    }


def test_a_missing_route_is_awaited_but_not_for_ever() -> None:
    missing = replace(RUNNING, phase=Phase.HELD, reason=Reason.ROUTE_MISSING, hold_since=T0)
    assert condition(missing)["Reconciling"] == "True"
    late = condition(missing, replace(SHOWN, now=T0 + timedelta(minutes=5)))
    assert (late["Reconciling"], late["Stalled"]) == ("False", "True")


@pytest.mark.parametrize("phase", Phase)
def test_only_the_phase_rolled_back_is_shown_as_rolled_back(phase: Phase) -> None:
    shown = condition(replace(RUNNING, phase=phase, reason=Reason.REGRESSED))["RolledBack"]
    assert shown == ("True" if phase is Phase.ROLLED_BACK else "False")


@pytest.mark.parametrize("reason", Reason)
def test_the_end_of_an_attempt_is_the_end_whatever_the_reason(reason: Reason) -> None:
    assert condition(replace(RUNNING, phase=Phase.PROMOTED, reason=reason))["Promoted"] == "True"
    assert condition(replace(RUNNING, phase=Phase.ROLLED_BACK, reason=reason))["RolledBack"] == "True"
