"""The database: SQLite on a volume, or PostgreSQL for several replicas. What differs between the two stands here alone.

Rule 1: writers take turns, across processes too. SQLite has one writer by itself; in PostgreSQL each transaction first
takes a lock of the database, which goes with the transaction or with the connection.
Rule 2: a commit that was answered is on disk.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from typing import Any, Final, Protocol

from sqlalchemy import Connection, Engine, Table, create_engine, event, insert, make_url, select, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from davylamp.errors import SpecError, Unavailable
from davylamp.labels.schema import METADATA, VERSION, VERSIONS

#: Names of locks in PostgreSQL: any two numbers that nobody else uses.
_WRITERS: Final = 0x6461_7679_6C61_0001
_EXPORTER: Final = 0x6461_7679_6C61_0002
_SQLITE: Final = "sqlite"
_POSTGRESQL: Final = "postgresql"
_DRIVERS: Final = {_SQLITE: "sqlite+pysqlite", _POSTGRESQL: "postgresql+psycopg"}
_SECONDS: Final = 30
#: Seen by the server of PostgreSQL: a writer that hangs or has gone lets the others go on.
_SESSION: Final = (
    f"-c statement_timeout={_SECONDS}s -c idle_in_transaction_session_timeout={_SECONDS}s -c synchronous_commit=on"
    " -c timezone=UTC"
)
_KEEPALIVE: Final = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}


class Database:
    """Connections to one database.

    Parameters
    ----------
    url
        ``sqlite:////path/to/file`` or ``postgresql://user@host/name``.

    Raises
    ------
    SpecError
        If it is neither.
    """

    def __init__(self, url: str) -> None:
        try:
            parsed = make_url(url)
        except ArgumentError as wrong:
            raise SpecError("the database must be a URL such as sqlite:////data/labels.db") from wrong
        kind = parsed.get_backend_name()
        if kind not in _DRIVERS:
            raise SpecError(f"the database must be SQLite or PostgreSQL, got {kind}")
        if kind == _SQLITE and not parsed.database:
            raise SpecError("a database in memory does not outlive its process: name a file, sqlite:////data/labels.db")
        self.kind = kind
        #: How it may be named in a log: without a password.
        self.name = parsed.render_as_string(hide_password=True)
        self._file = parsed.database or ""
        self.engine = create_engine(parsed.set(drivername=_DRIVERS[kind]), **_options(kind))
        self._writers = self.engine.execution_options(davylamp_writes=True)
        if kind == _SQLITE:
            event.listen(self.engine, "connect", _set_up_sqlite)
            event.listen(self.engine, "begin", _begin_sqlite)

    def prepare(self) -> None:
        """Make the tables where there are none.

        Raises
        ------
        SpecError
            If the tables are those of another version, or cannot be made.
        Unavailable
            If the database does not answer.
        """
        with self.writing() as connection:
            METADATA.create_all(connection)
            versions = connection.scalars(select(VERSIONS.c.version)).all()
            if not versions:
                connection.execute(insert(VERSIONS), {"version": VERSION})
            elif versions != [VERSION]:
                raise SpecError(f"the tables in {self.name} have version {versions[0]}, and this program {VERSION}")

    @contextlib.contextmanager
    def writing(self) -> Iterator[Connection]:
        """Open a transaction that is the only one that writes; it is on disk at the end.

        Raises
        ------
        Unavailable
            If the database fails. Whether the transaction took effect is unknown.
        """
        with _translated(), self._writers.begin() as connection:
            if self.kind == _POSTGRESQL:
                connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _WRITERS})
            yield connection

    def putting(self, table: Table) -> postgresql.Insert | sqlite.Insert:
        """Return an INSERT of this database, which knows what to do on a conflict."""
        return sqlite.insert(table) if self.kind == _SQLITE else postgresql.insert(table)

    def exporter(self) -> "Exporter":
        """Return what decides which process exports the counters."""
        if self.kind == _SQLITE:
            return _FileExporter(self.engine, self._file + ".exporter")
        return _SessionExporter(self.engine)

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()


class Exporter(Protocol):
    """Lets one process at a time read the counters in order to export them.

    All processes would read the same totals, and whoever adds up what its targets export would count them twice.
    """

    def reading(self) -> contextlib.AbstractContextManager[Connection | None]:
        """Open a connection to read by; None if another process exports. Database fails: `Unavailable`."""
        ...

    def close(self) -> None:
        """Let another process export."""
        ...


class _SessionExporter:
    """In PostgreSQL: the lock belongs to the very connection that reads, so who has lost it reads nothing."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine.execution_options(isolation_level="AUTOCOMMIT")
        self._connection: Connection | None = None

    @contextlib.contextmanager
    def reading(self) -> Iterator[Connection | None]:
        with _translated():
            if self._connection is None and not self._take():
                yield None
                return
            try:
                yield self._connection
            except SQLAlchemyError:
                self.close()
                raise

    def _take(self) -> bool:
        connection = self._engine.connect()
        try:
            taken = connection.scalar(text("SELECT pg_try_advisory_lock(:lock)"), {"lock": _EXPORTER})
        except BaseException:
            connection.invalidate()
            connection.close()
            raise
        if taken:
            # Kept out of the pool: a connection that is handed on must not carry the lock along.
            connection.detach()
            self._connection = connection
        else:
            connection.close()
        return bool(taken)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(SQLAlchemyError):
                connection.close()


class _FileExporter:
    """In SQLite: whoever has locked a file beside the database."""

    def __init__(self, engine: Engine, path: str) -> None:
        self._engine = engine
        self._path = path
        self._lock: int | None = None

    @contextlib.contextmanager
    def reading(self) -> Iterator[Connection | None]:
        if self._lock is None and not self._take():
            yield None
            return
        with _translated(), self._engine.begin() as connection:
            yield connection

    def _take(self) -> bool:
        try:
            lock = os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError as failed:
            raise Unavailable(f"the database failed: {self._path}: {failed.strerror}") from failed
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return False
        self._lock = lock
        return True

    def close(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)


def _options(kind: str) -> dict[str, Any]:
    if kind == _SQLITE:
        return {"connect_args": {"timeout": _SECONDS, "check_same_thread": False}}
    return {
        "pool_size": 2,
        "max_overflow": 1,
        "pool_pre_ping": True,
        "connect_args": {
            "options": _SESSION,
            "connect_timeout": 10,
            "application_name": "davylamp-labels",
            **_KEEPALIVE,
        },
    }


def _set_up_sqlite(connection: Any, _: object) -> None:
    # The driver begins transactions by a guess of its own; here each begins as `_begin_sqlite` says.
    connection.isolation_level = None
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "cache_size = -65536"):
        connection.execute(f"PRAGMA {pragma}").close()


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("davylamp_writes", False)
    # A transaction that reads first and writes later would find at its first write that another has written.
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except DBAPIError as failed:
        # The parameters of a statement hold what users sent: no part of a message.
        reason = str(failed.orig).splitlines()[0] if failed.orig and str(failed.orig) else type(failed).__name__
        raise Unavailable(f"the database failed: {reason}") from None
    except SQLAlchemyError as failed:
        raise Unavailable(f"the database failed: {type(failed).__name__}") from None
