"""Restraint towards a source: not too many queries, and none that a dead server would make everybody wait for."""

import random
from datetime import datetime, timedelta
from typing import Final

from davylamp.ports import Clock

_FAILURES_TO_OPEN: Final = 3
_FIRST_PAUSE: Final = timedelta(seconds=1)
_LONGEST_PAUSE: Final = timedelta(seconds=10)


class TokenBucket:
    """Spreads queries: at most ``rate`` a second on average, and no more than those of one second at once.

    Parameters
    ----------
    rate
        Queries a second, >= 1.
    clock
        Source of time.
    """

    def __init__(self, rate: int, clock: Clock) -> None:
        self._rate = rate
        self._clock = clock
        self._tokens = float(rate)
        self._filled_at: datetime | None = None

    def reserve(self, count: int, patience: timedelta) -> timedelta | None:
        """Reserve some queries and return how long to wait before them; None, and no reservation, if that is too long.

        Parameters
        ----------
        count
            Queries to be sent together, >= 1.
        patience
            Longest wait.
        """
        now = self._clock.now()
        if self._filled_at is not None:
            gained = (now - self._filled_at).total_seconds() * self._rate
            self._tokens = min(float(self._rate), self._tokens + max(0.0, gained))
        self._filled_at = now
        wait = timedelta(seconds=max(0.0, (count - self._tokens) / self._rate))
        if wait > patience:
            return None
        self._tokens -= count
        return wait


class Breaker:
    """Stops asking a server that fails again and again, for 1 to 10 s at a time, and asks again with one query.

    Parameters
    ----------
    clock
        Source of time.
    spread
        Of the pauses, so that operators do not ask in step.
    """

    def __init__(self, clock: Clock, spread: random.Random) -> None:
        self._clock = clock
        self._spread = spread
        self._failures = 0
        self._closed_until: datetime | None = None
        self._sentence = ""

    def refusal(self) -> str | None:
        """Return why nothing is asked now; None if the caller may ask, and then alone until it reports the outcome."""
        if self._closed_until is None:
            return None
        now = self._clock.now()
        if now < self._closed_until:
            left = (self._closed_until - now).total_seconds()
            return f"{self._sentence}; asked again in {left:.0f} s" if self._sentence else "is being asked again"
        self._closed_until = now + _LONGEST_PAUSE
        return None

    def succeeded(self) -> None:
        """Report an answer: everybody may ask again at once."""
        self._failures, self._closed_until, self._sentence = 0, None, ""

    def failed(self, sentence: str, retry_after: timedelta | None = None) -> None:
        """Report a failure, and how long the server itself wants to be left alone.

        Parameters
        ----------
        sentence
            What is wrong, for those who are turned away.
        retry_after
            None if the server did not say.
        """
        self._failures += 1
        self._sentence = sentence
        if retry_after is not None:
            self._closed_until = self._clock.now() + retry_after
        elif self._failures >= _FAILURES_TO_OPEN:
            doublings = min(self._failures - _FAILURES_TO_OPEN, 8)
            pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**doublings)
            self._closed_until = self._clock.now() + pause * self._spread.uniform(0.5, 1)
