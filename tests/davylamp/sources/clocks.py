"""A clock that stands still until a test moves it."""

from datetime import datetime, timedelta

from tests.davylamp.sources.looks import END


class HandClock:
    def __init__(self, start: datetime = END) -> None:
        self._now = start

    def now(self) -> datetime:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)
