"""A switch that makes a model server fail a share of its requests, for showing how a rollout takes such a server back.

The share stands in a file, so that the demo can turn the fault on in the middle of a rollout without touching the
process: an empty or missing file means no fault.
"""

from __future__ import annotations

from pathlib import Path

from numpy.random import default_rng


def write_fault_share(path: Path, share: float) -> None:
    """Set the share of requests that servers watching ``path`` fail, in one step that no reader sees half done.

    Parameters
    ----------
    path
        The file that the servers were started with.
    share
        In [0, 1], dimensionless.
    """
    part = path.with_name(f"{path.name}.part")
    part.write_text(f"{_share(str(share))}\n", encoding="utf-8")
    part.replace(path)


class FaultSwitch:
    """Decides for one request after the other whether it fails.

    Parameters
    ----------
    path
        The file with the share, re-read when it changes; ``None`` for a server that never fails on purpose.
    seed
        Makes the draws repeatable.
    """

    def __init__(self, path: Path | None, *, seed: int) -> None:
        self._path = path
        self._draws = default_rng(seed)
        self._seen: tuple[int, int] | None = None
        self._share = 0.0

    def fails(self) -> bool:
        """Tell whether the request at hand is to fail.

        Raises
        ------
        ValueError
            If the file holds anything but a number in [0, 1].
        """
        share = self._current_share()
        return share > 0 and bool(self._draws.random() < share)

    def _current_share(self) -> float:
        if self._path is None:
            return 0.0
        try:
            stat = self._path.stat()
        except FileNotFoundError:
            self._seen = None
            self._share = 0.0
            return 0.0
        # A file replaced within one tick of the file system's clock still has another inode.
        version = (stat.st_mtime_ns, stat.st_ino)
        if version != self._seen:
            self._share = _share(self._path.read_text(encoding="utf-8"))
            self._seen = version
        return self._share


def _share(text: str) -> float:
    share = float(text.strip() or 0)
    if not 0 <= share <= 1:
        raise ValueError(f"the share of failing requests must be in 0..1, got {share}")
    return share
