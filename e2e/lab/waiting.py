"""Wait for conditions, never for a time: the only place in the lab that reads a clock or sleeps."""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

from e2e.lab.failure import LabError

T = TypeVar("T")

_EVERY = timedelta(milliseconds=25)


def stopwatch() -> Callable[[], float]:
    """Start measuring; what is returned tells the seconds gone since."""
    started = time.monotonic()  # noqa: TID251 - a program of the machine's, outside the operator's clock
    return lambda: time.monotonic() - started  # noqa: TID251 - as above


def until(condition: Callable[[], T | None], what: str, *, within: timedelta, every: timedelta = _EVERY) -> T:
    """Ask `condition` until its answer is true, and return that answer.

    Parameters
    ----------
    condition
        Asked first at once, then after each pause; its own errors pass through.
    what
        What is waited for, as in "Prometheus is ready": it ends up in the error message.
    within
        How long to wait, > 0.
    every
        The pause between two questions, > 0.

    Raises
    ------
    LabError
        The condition did not come true in time.
    """
    elapsed = stopwatch()
    while True:
        answer = condition()
        if answer:
            return answer
        if elapsed() >= within.total_seconds():
            raise LabError(f"waited {within.total_seconds():g} s in vain until {what}")
        time.sleep(every.total_seconds())  # noqa: TID251 - the pause between two looks at the condition
