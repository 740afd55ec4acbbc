"""How much is asked of the variants, and when they are left alone: the shadow of the traffic must not break them.

Rule 1: time is an argument.
Rule 2: an answer that says "too many", or a variant that grows slow, is a reason; a candidate that fails or does not
answer is evidence, and no reason.
"""

from collections import deque
from statistics import median
from typing import Final

from davylamp.shadow.exchange import Answer, Failure, Outcome, Protocol
from davylamp.shadow.pace import Pace

LONGEST_PAUSE: Final = 30.0
_FIRST_PAUSE: Final = 0.5
_CALLS: Final = 20
_GRPC_EXHAUSTED: Final = 8


class Restraint:
    """Keeps away from both variants of a rollout for a while, twice as long each time; then begins gently.

    Parameters
    ----------
    timeout
        Of one call, in seconds.
    concurrency
        Calls at once for each variant at most, >= 1.
    """

    def __init__(self, timeout: float, concurrency: int = 1) -> None:
        self._paces = (Pace(concurrency), Pace(concurrency))
        self._slow = timeout / 2
        self._recent: tuple[deque[float], deque[float]] = (deque(maxlen=_CALLS), deque(maxlen=_CALLS))
        self._pause = _FIRST_PAUSE
        self._quiet_calls = 0
        self._until = 0.0

    def holds(self, now: float) -> bool:
        """Return whether nothing is sent at this time, in seconds of the loop."""
        return now < self._until

    @property
    def places(self) -> int:
        """How many pairs may be under way at once, 1 or more: as many as the weaker of both variants bears."""
        return min(pace.places for pace in self._paces)

    def note(self, outcome: Outcome, now: float, *, candidate: bool, full: bool = True) -> None:
        """Take note of a call.

        Parameters
        ----------
        outcome
            What became of it.
        now
            Time of the loop, in seconds.
        candidate
            Whether it was the candidate's; else the baseline's.
        full
            Whether all places were taken.
        """
        self._paces[candidate].note(outcome, full=full)
        asked = _asked_for(outcome)
        if asked is not None or self._grew_slow(outcome, self._recent[candidate]):
            self._hold(now, asked or 0.0)
        else:
            self._quiet_calls += 1
            if self._quiet_calls >= _CALLS:
                self._pause = _FIRST_PAUSE

    def _grew_slow(self, outcome: Outcome, recent: deque[float]) -> bool:
        timed_out = outcome.result is Failure.TIMEOUT and recent is self._recent[False]
        if timed_out or (isinstance(outcome.result, Answer) and outcome.result.succeeded):
            recent.append(outcome.seconds)
        return len(recent) == _CALLS and median(recent) > self._slow

    def _hold(self, now: float, asked: float) -> None:
        self._quiet_calls = 0
        if self.holds(now):
            # Said by a call that was on its way already.
            return
        self._until = now + min(max(self._pause, asked), LONGEST_PAUSE)
        self._pause = min(self._pause * 2, LONGEST_PAUSE)
        for recent in self._recent:
            recent.clear()
        for pace in self._paces:
            pace.restart()


def _asked_for(outcome: Outcome) -> float | None:
    """Return for how many seconds a variant asks to be left alone; 0 if it says no time, None if it does not ask."""
    answer = outcome.result
    if not isinstance(answer, Answer):
        return None
    if answer.protocol is Protocol.GRPC:
        return 0.0 if answer.status == _GRPC_EXHAUSTED else None
    after = answer.header("retry-after").strip()
    if answer.status == 429 or (answer.status == 503 and after):
        return float(after) if after.isascii() and after.isdigit() and len(after) <= 9 else 0.0
    return None
