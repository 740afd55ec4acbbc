"""Many seeded runs on all cores, with progress, and what several targets share."""

import gc
import os
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from time import perf_counter
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from e2e.bench.statistics.system import LONGEST, THREE_HOURS, Whole, drifting, equal, whole

_Result = TypeVar("_Result")
#: Runs at full scale.
ROLLOUTS: Final = 310
#: So many of the long rollouts go on until a regression after three hours has been found.
_LONGEST_RUNS: Final = 80
#: Where the seeds of each kind of run begin, so that no two share traffic.
_SEEDS: Final = 1_000_000


class Campaign:
    """Runs on all cores.

    Parameters
    ----------
    scale
        Share of the full number of runs, in (0, 1].
    workers
        Processes; 0 runs everything in this one.
    """

    def __init__(self, scale: float = 1.0, workers: int | None = None) -> None:
        self.scale = scale
        self.workers = os.cpu_count() or 1 if workers is None else workers
        self._pool = ProcessPoolExecutor(self.workers, initializer=gc.disable) if self.workers else None
        self._kept: dict[str, list[Whole]] = {}

    def close(self) -> None:
        """End the processes."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def runs(self, full: int) -> int:
        """Return how many runs there are at this scale."""
        return max(2, round(full * self.scale))

    def each(self, name: str, run: Callable[[int], _Result], full: int, series: int) -> list[_Result]:
        """Return the result of every run.

        Parameters
        ----------
        name
            Shown while it goes on.
        run
            Takes a seed.
        full
            Number of runs at full scale.
        series
            Number of this kind of run; it fixes the seeds.
        """
        number, began = self.runs(full), perf_counter()
        seeds = range(series * _SEEDS, series * _SEEDS + number)
        size = max(1, min(8, number // (4 * max(1, self.workers))))
        found = self._pool.map(run, seeds, chunksize=size) if self._pool else map(run, seeds)
        results = []
        for count, result in enumerate(found, start=1):
            results.append(result)
            if count % max(1, number // 4) == 0:
                sys.stderr.write(f"\r{name}: {count} of {number}, {perf_counter() - began:.0f} s ")
                sys.stderr.flush()
        sys.stderr.write("\n")
        return results

    def equal(self) -> list[Whole]:
        """Return rollouts of half an hour of equal variants at 10 %."""
        return self._once("equal", lambda: self.each("equal, 30 min", partial(whole, equal()), ROLLOUTS, 1))

    def drifting(self) -> list[Whole]:
        """Return rollouts of half an hour of equal variants that drift while the weight rises."""
        return self._once("drifting", lambda: self.each("drifting, 30 min", partial(whole, drifting()), ROLLOUTS, 2))

    def long(self) -> list[Whole]:
        """Return rollouts of three hours of equal variants that drift while the weight rises."""
        return self._once("long", self._long)

    def others(self, run: int) -> NDArray[np.float32]:
        """Return the evidence of all streams but the first line's, in the long rollout that run ``run`` is given."""
        longest = [each for each in self.long() if each.others.size >= LONGEST]
        return longest[run % len(longest)].others

    def _long(self) -> list[Whole]:
        first = self.each("drifting, 3 h and more", partial(whole, drifting(LONGEST)), _LONGEST_RUNS, 3)
        rest = self.each("drifting, 3 h", partial(whole, drifting(THREE_HOURS)), ROLLOUTS - _LONGEST_RUNS, 4)
        return [*first, *rest]

    def _once(self, name: str, run: Callable[[], list[Whole]]) -> list[Whole]:
        if name not in self._kept:
            self._kept[name] = run()
        return self._kept[name]
