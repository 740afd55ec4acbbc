"""The join store on both databases: what a person would try first, and what must not be lost or counted twice."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import func, select

from davylamp.errors import SpecError, Unavailable
from davylamp.labels.database import Database
from davylamp.labels.records import NOBODY, Arrival, Taken, Terms
from davylamp.labels.schema import ATTEMPTS, COUNTERS, PREDICTIONS, VERSIONS, WAITING
from davylamp.labels.store import MOST_MESSAGES, Message, Store, Tidied
from tests.davylamp.labels.samples import (
    DAY,
    HOUR,
    NOW,
    counts,
    label,
    of,
    opened,
    pair,
    prediction,
    rollout,
    whole,
)

SECOND = timedelta(seconds=1)


def test_a_label_joins_its_prediction_and_counts_for_the_whole_and_for_each_slice(url: str) -> None:
    database, store = opened(url)
    assert store.take([prediction("r", pair("1", "0"), slices=("sex=F", "sex=F,age=old"))], NOW) == [Taken.NEW]
    assert store.take([label("r")], NOW + 2 * HOUR) == [Arrival.JOINED]
    found = counts(database)
    for part in ("", "sex=F", "sex=F,age=old"):
        assert of(found, whole(part=part), "outcome:") == {"baseline:TP": 1, "candidate:FN": 1}
        assert of(found, whole(part=part), "pair:") == {"positive:baseline_right": 1}
    assert of(found, rollout()) == {"received": 1, "arrival:joined": 1, "delay:6": 1, "delay_ms": 7_200_000}


def test_attempts_and_cohorts_are_counted_apart(url: str) -> None:
    database, store = opened(url)
    where: list[dict[str, Any]] = [
        {"attempt": "1", "cohort": "0"},
        {"attempt": "1", "cohort": "1"},
        {"attempt": "2", "cohort": "0"},
    ]
    store.take([prediction(f"r{n}", **place) for n, place in enumerate(where)], NOW)
    store.take([label("r0"), label("r1", "0"), label("r2")], NOW)
    found = counts(database)
    words = [of(found, whole(**place), "outcome:baseline:") for place in where]
    assert words == [{"TP": 1}, {"FP": 1}, {"TP": 1}]


def test_one_label_joins_the_predictions_of_all_rollouts_of_its_request(url: str) -> None:
    database, store = opened(url)
    store.take([prediction("r"), prediction("r", rollout="fraud")], NOW)
    assert store.take([label("r")], NOW) == [Arrival.JOINED]
    # The third rollout's comparator was slow.
    assert store.take([prediction("r", rollout="churn")], NOW) == [Taken.NEW]
    found = counts(database)
    assert [of(found, rollout(name))["arrival:joined"] for name in ("credit", "fraud", "churn")] == [1, 1, 1]


def test_a_label_before_its_prediction_waits_and_joins(url: str) -> None:
    database, store = opened(url)
    assert store.take([label("r", known_at=NOW - HOUR)], NOW) == [Arrival.WAITING]
    assert store.take([prediction("r")], NOW + HOUR - SECOND) == [Taken.NEW]
    found = counts(database)
    assert of(found, whole(), "outcome:") == {"baseline:TP": 1, "candidate:TP": 1}
    assert of(found, NOBODY) == {"waiting_in": 1, "waiting_out": 1}
    assert of(found, rollout(), "delay") == {":0": 1}


def test_a_label_that_waited_in_vain_is_unknown_whoever_notices_first(url: str) -> None:
    database, store = opened(url)
    store.take([label("a"), label("b"), label("c")], NOW)
    # Found by tidying, by the prediction that came too late, and by the same label again.
    assert store.take([prediction("b")], NOW + HOUR) == [Taken.NEW]
    assert store.take([label("c")], NOW + HOUR) == [Arrival.WAITING]
    assert not store.tidy(NOW + HOUR).more
    assert of(counts(database), NOBODY) == {"arrival:unknown": 3, "waiting_in": 4, "waiting_out": 3}
    # The late prediction is open all the same, and the label may be sent again.
    assert store.take([label("b")], NOW + HOUR) == [Arrival.JOINED]


def test_the_first_label_stands(url: str) -> None:
    database, store = opened(url)
    store.take([prediction("r")], NOW)
    arrivals = store.take([label("r", "0"), label("r", "0"), label("r", "1")], NOW)
    assert arrivals == [Arrival.JOINED, Arrival.DUPLICATE, Arrival.CONTRADICTORY]
    assert store.take([label("w"), label("w"), label("w", "0")], NOW) == [
        Arrival.WAITING,
        Arrival.DUPLICATE,
        Arrival.CONTRADICTORY,
    ]
    found = counts(database)
    assert of(found, whole(), "outcome:") == {"baseline:FP": 1, "candidate:FP": 1}
    assert of(found, rollout(), "arrival:") == {"joined": 1, "duplicate": 1, "contradictory": 1}
    assert of(found, NOBODY, "arrival:") == {"duplicate": 1, "contradictory": 1}


def test_a_prediction_that_is_sent_again_changes_nothing(url: str) -> None:
    database, store = opened(url)
    store.take([prediction("r", pair("1"))], NOW)
    before = counts(database)
    assert store.take([prediction("r", pair("0"))], NOW) == [Taken.KNOWN]
    assert counts(database) == before


def test_a_label_after_the_time_to_live_is_late_and_counts_no_outcome(url: str) -> None:
    database, store = opened(url)
    store.take([prediction("tidied"), prediction("not"), prediction("in_time")], NOW)
    assert store.take([label("in_time")], NOW + 30 * DAY - SECOND) == [Arrival.JOINED]
    assert store.take([label("not")], NOW + 30 * DAY) == [Arrival.LATE]
    assert store.tidy(NOW + 30 * DAY).ended == 1
    assert store.take([label("tidied"), label("tidied")], NOW + 31 * DAY) == [Arrival.LATE, Arrival.DUPLICATE]
    found = counts(database)
    assert of(found, rollout(), "arrival:") == {"joined": 1, "late": 2, "duplicate": 1}
    assert of(found, rollout())["expired"] == 2
    assert of(found, whole(), "outcome:baseline:") == {"TP": 1}


def test_what_is_forgotten_leaves_its_counts(url: str) -> None:
    database, store = opened(url, Terms(export=90 * DAY))
    store.take([prediction("a"), prediction("b")], NOW)
    store.take([label("a")], NOW)
    before = counts(database)
    assert store.tidy(NOW + 37 * DAY - SECOND).forgotten == 0
    assert store.tidy(NOW + 37 * DAY).forgotten == 2
    after = counts(database)
    assert {key: after[key] for key in before} == before
    assert store.take([label("b")], NOW + 37 * DAY) == [Arrival.WAITING]


def test_counts_of_an_attempt_go_once_nothing_can_change_them_any_more(url: str) -> None:
    database, store = opened(url, Terms(export=2 * DAY))
    store.take([prediction("a"), prediction("b", attempt="2"), label("nobody")], NOW)
    store.take([label("b")], NOW + DAY)
    while store.tidy(NOW + 37 * DAY).more:
        pass
    found = counts(database)
    # The expiry of a prediction has just changed the rollout as a whole.
    assert {cell for cell, _ in found} == {whole(attempt="2"), rollout(), NOBODY}
    while store.tidy(NOW + 80 * DAY).more:
        pass
    with database.engine.begin() as connection:
        sizes = [
            connection.scalar(select(func.count()).select_from(t)) for t in (PREDICTIONS, WAITING, COUNTERS, ATTEMPTS)
        ]
    assert sizes == [0, 0, 0, 0]


def test_tidying_goes_in_small_steps(url: str) -> None:
    database, store = opened(url)
    store.take([prediction(f"r{n}") for n in range(25)] + [label(f"w{n}") for n in range(5)], NOW)
    steps: list[Tidied] = []
    while not steps or steps[-1].more:
        steps.append(store.tidy(NOW + 30 * DAY, 10))
    assert [step.ended for step in steps] == [15, 10, 5]
    assert of(counts(database), rollout())["expired"] == 25


def test_slices_over_the_limit_are_counted_as_one(url: str) -> None:
    database, store = opened(url, Terms(most_slices=2))
    store.take([prediction("a", slices=("zip=1", "zip=2"))], NOW)
    store.take([prediction("b", slices=("zip=2", "zip=3", "zip=4"))], NOW)
    store.take([prediction("c", slices=("zip=3",), attempt="2"), prediction("d", slices=("zip=9",))], NOW)
    store.take([label(name) for name in "abcd"], NOW)
    found = counts(database)
    for part, times in (("", 3), ("zip=1", 1), ("zip=2", 2), ("other", 2), ("zip=3", 0), ("zip=9", 0)):
        assert of(found, whole(part=part), "outcome:candidate:").get("TP", 0) == times, part
    # Each attempt has the names to itself.
    assert of(found, whole(attempt="2", part="zip=3"), "outcome:candidate:") == {"TP": 1}
    assert of(found, rollout())["slices_over"] == 2


def test_what_the_baseline_declined_is_told_where_labels_follow_its_decision(url: str) -> None:
    database, store = opened(url)
    selective = [pair("1", "0", labelled_by_decision=True), pair("0", "1", labelled_by_decision=True)]
    store.take([prediction(f"r{n}", what) for n, what in enumerate(selective)], NOW)
    assert store.take([label("r0"), label("r1")], NOW) == [Arrival.JOINED, Arrival.JOINED]
    found = counts(database)
    assert of(found, whole(), "pair:") == {"positive:baseline_right": 1}
    assert of(found, rollout())["not_comparable"] == 1


def test_text_of_any_script_survives(url: str) -> None:
    database, store = opened(url)
    name, part = "Запрос-1 ' \" \\ %", "город=Orléans 東京"
    store.take([prediction(name, pair("да", "нет", positive="да"), slices=(part,))], NOW)
    assert store.take([label(name, "да")], NOW) == [Arrival.JOINED]
    assert of(counts(database), whole(part=part), "outcome:") == {"baseline:TP": 1, "candidate:FN": 1}


def test_as_many_messages_as_are_allowed_fit_into_one_transaction(url: str) -> None:
    database, store = opened(url)
    half = MOST_MESSAGES // 2
    messages = [prediction(f"r{n}") for n in range(half)] + [label(f"r{n}") for n in range(half)]
    assert store.take(messages, NOW) == [Taken.NEW] * half + [Arrival.JOINED] * half
    assert of(counts(database), whole(), "outcome:") == {"baseline:TP": half, "candidate:TP": half}
    with pytest.raises(ValueError, match="at most"):
        store.take([label("r")] * (MOST_MESSAGES + 1), NOW)


# The database itself.


def test_preparing_twice_keeps_what_is_there(url: str) -> None:
    database, store = opened(url)
    store.take([prediction("r")], NOW)
    database.close()
    _, store = opened(url)
    assert store.take([label("r")], NOW) == [Arrival.JOINED]


def test_tables_of_another_version_are_not_touched(url: str) -> None:
    database, _ = opened(url)
    with database.engine.begin() as connection:
        connection.execute(VERSIONS.update().values(version=99))
    with pytest.raises(SpecError, match="have version 99, and this program 1"):
        database.prepare()


def test_only_one_of_several_processes_exports(url: str) -> None:
    first, second = opened(url)[0], opened(url)[0]
    one, other = first.exporter(), second.exporter()
    with one.reading() as here, other.reading() as there:
        assert here is not None
        assert there is None
    with one.reading() as here:
        assert here is not None
        assert here.scalar(select(func.count()).select_from(COUNTERS)) == 0
    one.close()
    with other.reading() as there, one.reading() as here:
        assert there is not None
        assert here is None
    other.close()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("labels.db", "must be a URL"),
        ("mysql://host/labels", "must be SQLite or PostgreSQL, got mysql"),
        ("sqlite://", "in memory"),
    ],
)
def test_a_url_that_names_no_such_database_is_refused(wrong: str, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        Database(wrong)


@pytest.mark.parametrize("wrong", ["sqlite:////nowhere/labels.db", "postgresql://u:secret@localhost:1/x"])
def test_a_database_that_does_not_answer_is_unavailable_and_no_password_is_told(wrong: str) -> None:
    database = Database(wrong)
    assert "secret" not in database.name
    with pytest.raises(Unavailable, match="the database failed") as failure:
        database.prepare()
    assert "secret" not in str(failure.value)


def test_a_label_and_its_prediction_that_come_at_once_by_two_replicas_meet(url: str) -> None:
    """Each in a transaction that does not see the other's: unless writers take turns, they miss each other for good."""
    database, store = opened(url)
    _, other = opened(url)
    rounds = 40
    with ThreadPoolExecutor(2) as threads:
        for n in range(rounds):
            names = [f"r{n}-{place}" for place in range(5)]
            together = threading.Barrier(2)

            def take(replica: Store, messages: list[Message], together: threading.Barrier = together) -> None:
                together.wait(60)
                replica.take(messages, NOW)

            predicting = threads.submit(take, store, [prediction(name) for name in names])
            labelling = threads.submit(take, other, [label(name) for name in reversed(names)])
            predicting.result()
            labelling.result()
    found = counts(database)
    assert of(found, rollout(), "arrival:") == {"joined": 5 * rounds}
    assert of(found, whole(), "outcome:baseline:") == {"TP": 5 * rounds}
