"""The join store: each group of messages is one transaction with all that it counts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, bindparam, delete, insert, select, tuple_, update

from davylamp.labels.database import Database
from davylamp.labels.joining import Ledger
from davylamp.labels.records import (
    BINARY,
    CLASSES,
    OTHER,
    Arrival,
    Cell,
    Held,
    Known,
    Label,
    Prediction,
    State,
    Taken,
    Terms,
)
from davylamp.labels.rows import attempt_row, counter_row, held_of, held_row, waiting_of, waiting_row
from davylamp.labels.schema import ATTEMPTS, COUNTERS, PREDICTIONS, WAITING, stored

#: Messages in one transaction, and rows that are tidied up in one: SQLite takes 32,766 parameters in a statement.
MOST_MESSAGES: Final = 5_000

Message = Prediction | Label
Answer = Taken | Arrival

_OF_HELD: Final = tuple(PREDICTIONS.primary_key.columns)
_WHERE_HELD: Final = [column == bindparam(f"of_{column.name}") for column in _OF_HELD]


@dataclass(frozen=True, slots=True)
class Tidied:
    """How many rows were dealt with.

    Parameters
    ----------
    ended
        Predictions whose time to live is over, and labels that waited in vain.
    forgotten
        Predictions that are no longer stored.
    more
        Whether more is to be done.
    """

    ended: int
    forgotten: int
    more: bool


class Store:
    """Takes messages and keeps counts.

    Parameters
    ----------
    database
        Where; its tables are there.
    terms
        How long things are kept.
    """

    def __init__(self, database: Database, terms: Terms) -> None:
        self._database = database
        self._terms = terms

    def take(self, messages: Sequence[Message], now: datetime) -> list[Answer]:
        """Take messages that have arrived, all of them or, if the database fails, none.

        Parameters
        ----------
        messages
            At most `MOST_MESSAGES`, in the order in which they came. To take one again changes no count of outcomes.
        now
            When they arrived.

        Returns
        -------
        list
            What became of each. It is on disk.

        Raises
        ------
        Unavailable
            If the database fails. Whether they were taken is unknown.
        """
        if len(messages) > MOST_MESSAGES:
            raise ValueError(f"{len(messages)} messages at once, at most {MOST_MESSAGES}")
        with self._database.writing() as connection:
            ledger = Ledger(_known(connection, messages), self._terms, now)
            answers: list[Answer] = []
            for message in messages:
                match message:
                    case Prediction():
                        answers.append(ledger.take_prediction(message))
                    case Label():
                        answers.append(ledger.take_label(message))
            self._write(connection, ledger, now)
        return answers

    def tidy(self, now: datetime, most: int = MOST_MESSAGES) -> Tidied:
        """End what is over and forget what is long over, in one small transaction.

        Parameters
        ----------
        now
            The time.
        most
            Rows of each kind, 1 to `MOST_MESSAGES`.

        Raises
        ------
        Unavailable
            If the database fails.
        """
        with self._database.writing() as connection:
            known = _over(connection, now, most)
            ledger = Ledger(known, self._terms, now)
            ledger.expire()
            self._write(connection, ledger, now)
            forgotten = self._forget_predictions(connection, now, most)
            silent = self._forget_an_attempt(connection, now)
        held, waiting = len(tuple(known.held)), len(tuple(known.waiting))
        return Tidied(held + waiting, forgotten, more=silent or most in {held, waiting, forgotten})

    def _forget_predictions(self, connection: Connection, now: datetime, most: int) -> int:
        over = stored(now - self._terms.remember)
        found = select(*_OF_HELD).where(PREDICTIONS.c.state.in_((State.JOINED, State.EXPIRED)))
        rows = connection.execute(found.where(PREDICTIONS.c.expires_at <= over).limit(most)).mappings().all()
        if rows:
            connection.execute(delete(PREDICTIONS).where(*_WHERE_HELD), [_of(row) for row in rows])
        return len(rows)

    def _forget_an_attempt(self, connection: Connection, now: datetime) -> bool:
        # Nothing can change the counts of an attempt any more once its last prediction is forgotten.
        longest = max(self._terms.export, self._terms.time_to_live + self._terms.remember)
        silent = ATTEMPTS.c.changed_at <= stored(now - longest)
        attempt = (ATTEMPTS.c.namespace, ATTEMPTS.c.rollout, ATTEMPTS.c.attempt)
        name = connection.execute(select(*attempt).where(silent).limit(1)).first()
        if name is not None:
            for table in (COUNTERS, ATTEMPTS):
                same = tuple_(table.c.namespace, table.c.rollout, table.c.attempt) == tuple(name)
                connection.execute(delete(table).where(same))
        return name is not None

    def _write(self, connection: Connection, ledger: Ledger, now: datetime) -> None:
        """Write what has changed."""
        new = [held_row(held) for held in ledger.new]
        if new:
            connection.execute(insert(PREDICTIONS), new)
        changed = [_change(held) for held in ledger.changed]
        if changed:
            change = update(PREDICTIONS).where(*_WHERE_HELD)
            connection.execute(change.values(state=bindparam("to_state"), label=bindparam("to_label")), changed)
        gone = [{"of_id": request} for request in ledger.gone]
        if gone:
            connection.execute(delete(WAITING).where(WAITING.c.id == bindparam("of_id")), gone)
        waiting = [waiting_row(each) for each in ledger.waiting]
        if waiting:
            connection.execute(insert(WAITING), waiting)
        self._count(connection, ledger.counts, now)

    def _count(self, connection: Connection, counts: Mapping[Cell, Mapping[str, int]], now: datetime) -> None:
        if not counts:
            return
        add = self._database.putting(COUNTERS)
        add = add.on_conflict_do_update(
            index_elements=list(COUNTERS.primary_key), set_={"value": COUNTERS.c.value + add.excluded.value}
        )
        connection.execute(
            add, [counter_row(cell, key, much) for cell, found in counts.items() for key, much in found.items()]
        )
        touch = self._database.putting(ATTEMPTS)
        touch = touch.on_conflict_do_update(
            index_elements=list(ATTEMPTS.primary_key), set_={"changed_at": touch.excluded.changed_at}
        )
        attempts = {tuple(attempt_row(cell).values()): attempt_row(cell) for cell in counts}
        connection.execute(touch, [{**row, "changed_at": stored(now)} for row in attempts.values()])


def _known(connection: Connection, messages: Sequence[Message]) -> Known:
    ids = list({message.id for message in messages})
    held = connection.execute(select(PREDICTIONS).where(PREDICTIONS.c.id.in_(ids))).mappings()
    waiting = connection.execute(select(WAITING).where(WAITING.c.id.in_(ids))).mappings()
    attempts = {
        Cell(message.cell.namespace, message.cell.rollout, message.cell.attempt)
        for message in messages
        if isinstance(message, Prediction)
    }
    return Known(
        tuple(held_of(row) for row in held),
        tuple(waiting_of(row) for row in waiting),
        {attempt: _slices(connection, attempt) for attempt in attempts},
    )


def _slices(connection: Connection, attempt: Cell) -> frozenset[str]:
    """Return the slices that are counted by name."""
    of_attempt = [COUNTERS.c[name] == value for name, value in attempt_row(attempt).items()]
    found = select(COUNTERS.c.part).where(*of_attempt, COUNTERS.c.key.in_((BINARY, CLASSES))).distinct()
    return frozenset(connection.scalars(found)) - {"", OTHER}


def _over(connection: Connection, now: datetime, most: int) -> Known:
    open_still = select(PREDICTIONS).where(PREDICTIONS.c.state == State.OPEN, PREDICTIONS.c.expires_at <= stored(now))
    waiting = select(WAITING).where(WAITING.c.until <= stored(now))
    return Known(
        tuple(held_of(row) for row in connection.execute(open_still.limit(most)).mappings()),
        tuple(waiting_of(row) for row in connection.execute(waiting.limit(most)).mappings()),
    )


def _change(held: Held) -> dict[str, Any]:
    names = dict(zip((f"of_{column.name}" for column in _OF_HELD), held.key, strict=True))
    return {**names, "to_state": int(held.state), "to_label": held.label}


def _of(row: Mapping[Any, Any]) -> dict[str, Any]:
    return {f"of_{column.name}": row[column.name] for column in _OF_HELD}
