"""Databases: a file of SQLite, and a real PostgreSQL."""

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.bench.postgresql import PostgreSQL
from tests.davylamp.labels.samples import OPENED

KINDS = ("sqlite", "postgresql")


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSQL]:
    with PostgreSQL(durable=False) as server:
        yield server


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database of each kind."""
    return empty_database(request, tmp_path)


def empty_database(request: pytest.FixtureRequest, folder: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{folder / 'labels.db'}"
    server: PostgreSQL = request.getfixturevalue("postgresql")
    return server.database(f"labels_{secrets.token_hex(4)}")


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    while OPENED:
        OPENED.pop().close()
