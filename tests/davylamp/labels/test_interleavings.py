"""Random interleavings of all that can happen to the join store, against a plain model, on both databases.

Two replicas write to the same database. Predictions, labels, their repetitions and contradictions come in any order;
time passes; somebody tidies up or does not; a connection breaks before a commit, or its answer is lost after one.
"""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from sqlalchemy import Connection, event, text

from davylamp.errors import Unavailable
from davylamp.labels.database import Database
from davylamp.labels.outcomes import Pair
from davylamp.labels.records import Label, Prediction, Terms
from davylamp.labels.schema import METADATA
from davylamp.labels.store import Message, Store
from tests.davylamp.labels.model import Model
from tests.davylamp.labels.samples import DAY, HOUR, NOW, Counts, counts, label, opened, pair, prediction

TERMS = Terms(time_to_live=10 * DAY, wait=HOUR, remember=3 * DAY, export=1000 * DAY, most_slices=2)
PAIRS = (
    pair("1/0.95", "0/0.31"),
    pair("0/0.4", "0"),
    pair("0", "1/1.0"),
    pair("cat/0.5", "dog/0.25", positive=None),
    pair("1", "0", labelled_by_decision=True),
    pair("0", "1", labelled_by_decision=True),
)


@st.composite
def predictions(draw: st.DrawFn) -> Prediction:
    what: Pair = draw(st.sampled_from(PAIRS))
    served = draw(st.sampled_from((None, NOW, NOW + 2 * DAY)))
    slices = tuple(draw(st.lists(st.sampled_from(("sex=F", "sex=M", "age=old")), unique=True, max_size=3)))
    where = {
        "rollout": draw(st.sampled_from(("credit", "fraud"))),
        "attempt": draw(st.sampled_from("12")),
        "cohort": draw(st.sampled_from("01")),
    }
    return prediction(draw(st.sampled_from("abcde")), what, slices=slices, served_at=served, **where)


@st.composite
def labels(draw: st.DrawFn) -> Label:
    known = draw(st.sampled_from((None, NOW - DAY, NOW + DAY)))
    return label(draw(st.sampled_from("abcde")), draw(st.sampled_from(("1", "0", "cat"))), known)


MESSAGES = st.lists(st.one_of(predictions(), labels()), min_size=1, max_size=4)
REPLICAS = st.integers(0, 1)


@dataclass
class Replica:
    database: Database
    store: Store


class Interleavings(RuleBasedStateMachine):
    url = ""

    def __init__(self) -> None:
        super().__init__()
        self.now: datetime = NOW
        self.model = Model(TERMS)
        self.before: Counts = {}
        self.replicas: list[Replica] = []

    @initialize()
    def begin(self) -> None:
        url = self.url if self.url.startswith("postgresql") else f"{self.url}.{secrets.token_hex(8)}"
        self.replicas = [Replica(*opened(url, TERMS)) for _ in range(2)]
        with self.replicas[0].database.engine.begin() as connection:
            for table in METADATA.sorted_tables:
                if table.name != "davylamp_label_schema":
                    connection.execute(table.delete())

    def teardown(self) -> None:
        for replica in self.replicas:
            replica.database.close()

    @rule(messages=MESSAGES, who=REPLICAS)
    def take(self, messages: list[Message], who: int) -> None:
        assert self.replicas[who].store.take(messages, self.now) == [self.model.take(m, self.now) for m in messages]

    @rule(messages=MESSAGES, who=REPLICAS)
    def break_before_the_commit(self, messages: list[Message], who: int) -> None:
        breaking = broken_connection(self.replicas[who].database, self.replicas[1 - who].database)
        with breaking, pytest.raises(Unavailable):
            self.replicas[who].store.take(messages, self.now)
        assert counts(self.replicas[who].database) == self.before

    @rule(messages=MESSAGES, who=REPLICAS)
    def lose_the_answer_and_send_again(self, messages: list[Message], who: int) -> None:
        for replica in (self.replicas[who], self.replicas[1 - who]):
            replica.store.take(messages, self.now)
            for message in messages:
                self.model.take(message, self.now)

    @rule(span=st.sampled_from((timedelta(minutes=20), HOUR, 2 * DAY, 9 * DAY)))
    def pass_time(self, span: timedelta) -> None:
        self.now += span

    @rule(who=REPLICAS, most=st.integers(1, 3))
    def tidy(self, who: int, most: int) -> None:
        while self.replicas[who].store.tidy(self.now, most).more:
            pass
        self.model.end(self.now)
        self.model.forget(self.now)

    @invariant()
    def counts_are_the_models_and_never_fall(self) -> None:
        if self.replicas:
            found = counts(self.replicas[0].database)
            assert {key: value for key, value in found.items() if value} == self.model.counts()
            assert all(found[key] >= value for key, value in self.before.items())
            self.before = found


@contextmanager
def broken_connection(database: Database, other: Database) -> Iterator[None]:
    """Let the connection break at the moment of the commit, by the database's own means."""

    def breaking(connection: Connection) -> None:
        raw: Any = connection.connection.dbapi_connection
        if database.kind == "sqlite":
            raw.close()
            return
        with other.engine.begin() as killer:
            killer.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": raw.info.backend_pid})

    event.listen(database.engine, "commit", breaking)
    try:
        yield
    finally:
        event.remove(database.engine, "commit", breaking)


def test_whatever_comes_in_whatever_order_is_counted_once(url: str, tmp_path: Path) -> None:
    machine = type("Machine", (Interleavings,), {"url": url})
    # A failure is not shrunk: with a database in each step that takes minutes.
    run_state_machine_as_test(
        machine, settings=settings(max_examples=60, stateful_step_count=25, phases=[Phase.reuse, Phase.generate])
    )
