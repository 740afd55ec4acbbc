"""Databases: a file of SQLite, and a real PostgreSQL."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from e2e.bench.postgresql import PostgreSQL
from tests.davylamp.labels.samples import OPENED

KINDS = ("sqlite", "postgresql")


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """The URL of a database that each test finds empty: to make a new one takes longer."""
    with PostgreSQL(durable=False) as server:
        yield server.database("labels")


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database of each kind."""
    return empty_database(request, tmp_path)


def empty_database(request: pytest.FixtureRequest, folder: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{folder / 'labels.db'}"
    found: str = request.getfixturevalue("postgresql")
    with psycopg.connect(found, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
    return found


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    while OPENED:
        OPENED.pop().close()
