"""The only place that reads a clock."""

import time
from datetime import UTC, datetime, timedelta


class SystemClock:
    """The wall clock as it was at the start, carried on by the monotonic one.

    Setting the machine's clock back or forth moves nothing here: a bake is neither cut short nor drawn out.
    """

    def __init__(self) -> None:
        self._wall = datetime.now(UTC)  # noqa: TID251 - this is the clock
        self._start = time.monotonic()  # noqa: TID251 - this is the clock

    def now(self) -> datetime:
        """Return the time, UTC, to the microsecond."""
        return self._wall + timedelta(seconds=time.monotonic() - self._start)  # noqa: TID251 - this is the clock
