"""Predictions and labels, made short."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sqlalchemy import select

from davylamp.labels.database import Database, Exporter
from davylamp.labels.outcomes import Answer, Pair
from davylamp.labels.records import Cell, Label, Prediction, Terms
from davylamp.labels.schema import COUNTERS
from davylamp.labels.store import Store

NOW: Final = datetime(2026, 12, 1, 12, tzinfo=UTC)
HOUR: Final = timedelta(hours=1)
DAY: Final = timedelta(days=1)
#: Closed by a fixture.
OPENED: Final[list[Database | Exporter]] = []
Counts = dict[tuple[Cell, str], int]


def pair(baseline: str = "1", candidate: str = "1", **options: Any) -> Pair:
    """Return what both said; a score is a suffix: "1/0.9"."""
    return Pair(_answer(baseline), _answer(candidate), **{"positive": "1", **options})


def _answer(text: str) -> Answer:
    decision, _, score = text.partition("/")
    return Answer(decision, float(score) if score else None)


def prediction(name: str, what: Pair | None = None, **options: Any) -> Prediction:
    cell = Cell("ml", options.pop("rollout", "credit"), options.pop("attempt", "1"), options.pop("cohort", "0"))
    return Prediction(name, cell, options.pop("slices", ()), what or pair(), **options)


def label(name: str, value: str = "1", known_at: datetime | None = None) -> Label:
    return Label(name, value, known_at)


def opened(url: str, terms: Terms | None = None) -> tuple[Database, Store]:
    """Open a database for one test, at whose end it is closed."""
    database = Database(url)
    OPENED.append(database)
    database.prepare()
    return database, Store(database, terms or Terms())


def counts(database: Database) -> Counts:
    """Return all counters as they are stored."""
    with database.engine.begin() as connection:
        rows = connection.execute(select(COUNTERS)).mappings().all()
    places = ("namespace", "rollout", "attempt", "cohort", "part")
    return {(Cell(*(row[place] for place in places)), row["key"]): row["value"] for row in rows}


def rollout(name: str = "credit") -> Cell:
    return Cell("ml", name)


def whole(name: str = "credit", attempt: str = "1", cohort: str = "0", part: str = "") -> Cell:
    return Cell("ml", name, attempt, cohort, part)


def of(found: Counts, cell: Cell, kind: str = "") -> dict[str, int]:
    """Return the counters of a cell whose key begins so, by the rest of it; zeros are left out."""
    return {
        key.removeprefix(kind): value
        for (place, key), value in found.items()
        if place == cell and key.startswith(kind) and value
    }
