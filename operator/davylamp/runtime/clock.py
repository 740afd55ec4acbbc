"""The only place that reads a clock."""

import time
from datetime import UTC, datetime, timedelta


class SystemClock:
    """The wall clock as it was at the start, carried on by the monotonic one.

    Setting the machine's clock back or forth moves nothing here: a bake is neither cut short nor drawn out. Time in
    which the machine was suspended counts, so that a leader that slept knows that its lease is over.
    """

    def __init__(self) -> None:
        self._wall = datetime.now(UTC)  # noqa: TID251 - this is the clock
        self._start = _steady()

    def now(self) -> datetime:
        """Return the time, UTC, to the microsecond."""
        return self._wall + timedelta(seconds=_steady() - self._start)


def _steady() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)
