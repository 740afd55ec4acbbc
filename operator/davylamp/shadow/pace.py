"""How many pairs may be under way at once: one at first, one more while answers come quickly, half when they do not.

Rule 1: a variant is asked for little until it has shown that it can bear more, for live requests may be its too.
Rule 2: it is never left alone: there is always a place for one pair, or nothing would be learnt any more.
Rule 3: what is too slow is told by the mean of many answers, for one request may take a hundred times as long as the
next.
"""

import math
from collections.abc import Set as AbstractSet
from statistics import fmean
from typing import Final

from davylamp.shadow.exchange import Answer, Failure, Outcome, Protocol

#: Answers that are judged together, at least.
ROUND: Final = 10
#: As many times the usual time are too slow, if they are also so many seconds more: less than that is the machine's.
SLOW: Final = 3.0
SLACK: Final = 0.01
#: How far the usual time follows that of a round: down always, and up where nothing of it is by our own doing.
_DOWN: Final = 0.1
_UP: Final = 0.05
_OVERLOADED: Final = frozenset({Failure.TIMEOUT, Failure.UNREACHABLE, Failure.BROKEN_OFF})
_HTTP_OVERLOADED: Final[AbstractSet[int]] = frozenset({429, 503, 504})
#: DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, UNAVAILABLE.
_GRPC_OVERLOADED: Final[AbstractSet[int]] = frozenset({4, 8, 14})


class Pace:
    """How many calls one variant bears at once, as far as is known.

    Parameters
    ----------
    most
        That are ever allowed, >= 1.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        #: How many are allowed now, 1 or more.
        self.places = 1
        self._answers = 0
        self._seconds: list[float] = []
        self._usual = math.inf
        self._wanted = False
        self._outdated = 0

    def note(self, outcome: Outcome, *, full: bool) -> None:
        """Take note of a call.

        Parameters
        ----------
        outcome
            What became of it.
        full
            Whether all places were taken: who has not used what is allowed has not shown that more can be borne.
        """
        if self._outdated:
            # Begun before there were fewer places.
            self._outdated -= 1
            return
        if _tells_of_overload(outcome):
            self._lower()
            return
        self._answers += 1
        self._wanted |= full
        if isinstance(outcome.result, Answer) and outcome.result.succeeded:
            # An error may come sooner than any answer.
            self._seconds.append(outcome.seconds)
        if self._answers >= max(ROUND, self.places):
            self._end_round()

    def restart(self) -> None:
        """Begin with one again; what is usual is remembered."""
        self._outdated = max(self._outdated, self.places - 1)
        self.places = 1
        self._clear()

    def _end_round(self) -> None:
        slow = bool(self._seconds) and self._is_slow(fmean(self._seconds))
        wanted = self._wanted
        self._clear()
        if slow:
            self._lower()
        elif wanted:
            self.places = min(self._most, self.places + 1)

    def _is_slow(self, seconds: float) -> bool:
        if math.isinf(self._usual):
            self._usual = seconds
        usual = self._usual
        if seconds < usual:
            self._usual += _DOWN * (seconds - usual)
        elif self.places == 1:
            self._usual += _UP * (seconds - usual)
        return seconds > max(SLOW * usual, usual + SLACK)

    def _lower(self) -> None:
        self._outdated = self.places - 1
        self.places = max(1, self.places // 2)
        self._clear()

    def _clear(self) -> None:
        self._answers = 0
        self._seconds.clear()
        self._wanted = False


def _tells_of_overload(outcome: Outcome) -> bool:
    answer = outcome.result
    if isinstance(answer, Failure):
        return answer in _OVERLOADED
    return answer.status in (_GRPC_OVERLOADED if answer.protocol is Protocol.GRPC else _HTTP_OVERLOADED)
