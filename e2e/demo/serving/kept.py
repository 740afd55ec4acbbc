"""Folders that are built once and kept in the user's cache.

A folder appears whole or not at all: it is built beside its place and renamed. Two builders at once are safe: the
second waits for the first and takes what it made.
"""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

Progress = Callable[[str], None]


def kept(folder: Path, build: Callable[[Path], None], *, progress: Progress) -> Path:
    """Return ``folder``, building it first where it is missing.

    Parameters
    ----------
    folder
        Where the result stands; its name must change whenever what goes into it changes.
    build
        Fills an empty folder that is given to it; what it raises leaves nothing behind.
    progress
        Told in one line when somebody else is building and this call waits.
    """
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _alone(folder, progress):
        if folder.is_dir():
            return folder
        # Whoever holds the lock is the only builder, so any half-built folder was left by one that was killed.
        for stale in folder.parent.glob(f"{folder.name}.part-*"):
            shutil.rmtree(stale)
        part = Path(tempfile.mkdtemp(prefix=f"{folder.name}.part-", dir=folder.parent))
        try:
            build(part)
            part.chmod(0o755)
            part.rename(folder)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return folder


@contextmanager
def _alone(folder: Path, progress: Progress) -> Iterator[None]:
    lock = folder.parent / f".{folder.name}.lock"
    with lock.open("w", encoding="utf-8") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress(f"waiting for another process that builds {folder.name}")
            fcntl.flock(held, fcntl.LOCK_EX)
        yield
