"""The tables of the join store, the same in SQLite and in PostgreSQL. Times are milliseconds since the epoch, UTC."""

from datetime import UTC, datetime, timedelta
from typing import Final

from sqlalchemy import BigInteger, Column, Double, Index, Integer, MetaData, SmallInteger, String, Table

#: Raised with every change of the tables that a reader or writer of the earlier ones cannot bear.
VERSION: Final = 1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TEXT: Final = String()

METADATA: Final = MetaData()

#: One row: which schema the tables have.
VERSIONS: Final = Table("davylamp_label_schema", METADATA, Column("version", Integer, primary_key=True))

PREDICTIONS: Final = Table(
    "davylamp_label_predictions",
    METADATA,
    Column("id", _TEXT, primary_key=True),
    Column("namespace", _TEXT, primary_key=True),
    Column("rollout", _TEXT, primary_key=True),
    Column("attempt", _TEXT, nullable=False),
    Column("cohort", _TEXT, nullable=False),
    Column("slices", _TEXT, nullable=False),
    Column("baseline", _TEXT, nullable=False),
    Column("baseline_score", Double),
    Column("candidate", _TEXT, nullable=False),
    Column("candidate_score", Double),
    Column("positive", _TEXT),
    Column("by_decision", SmallInteger, nullable=False),
    Column("served_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Column("state", SmallInteger, nullable=False),
    Column("label", _TEXT),
    # What is over is found by this, both what is to be marked and what is to be deleted.
    Index("davylamp_label_predictions_over", "state", "expires_at"),
    sqlite_with_rowid=False,
)

WAITING: Final = Table(
    "davylamp_label_waiting",
    METADATA,
    Column("id", _TEXT, primary_key=True),
    Column("label", _TEXT, nullable=False),
    Column("known_at", BigInteger),
    Column("until", BigInteger, nullable=False),
    Index("davylamp_label_waiting_until", "until"),
    sqlite_with_rowid=False,
)

COUNTERS: Final = Table(
    "davylamp_label_counters",
    METADATA,
    Column("namespace", _TEXT, primary_key=True),
    Column("rollout", _TEXT, primary_key=True),
    Column("attempt", _TEXT, primary_key=True),
    Column("cohort", _TEXT, primary_key=True),
    Column("part", _TEXT, primary_key=True),
    Column("key", _TEXT, primary_key=True),
    Column("value", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

#: When the counts of an attempt changed last; the attempt "" is the rollout as a whole.
ATTEMPTS: Final = Table(
    "davylamp_label_attempts",
    METADATA,
    Column("namespace", _TEXT, primary_key=True),
    Column("rollout", _TEXT, primary_key=True),
    Column("attempt", _TEXT, primary_key=True),
    Column("changed_at", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)


def stored(time: datetime) -> int:
    """Return a time as it is stored."""
    return (time - _EPOCH) // timedelta(milliseconds=1)


def restored(milliseconds: int) -> datetime:
    """Return a time that was stored."""
    return _EPOCH + timedelta(milliseconds=milliseconds)
