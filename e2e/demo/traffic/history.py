"""What became of each request: the books of the traffic, from which a report is drawn.

Rule 1: nothing here reads a clock; instants are arguments.
Rule 2: a request is counted under exactly one outcome, and none is forgotten: asked = answered + in flight + shed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import Final

#: The variant of an answer that no model server gave: the gateway's own errors, and requests without an answer.
NOBODY: Final = ""
#: The status of a request that got no answer: refused, reset, or timed out.
NO_ANSWER: Final = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """One request and what came back.

    Parameters
    ----------
    at
        When the answer (or the failure to get one) arrived; aware, UTC.
    variant
        Which variant answered, or ``NOBODY``.
    status
        The HTTP status, or ``NO_ANSWER``.
    took
        From sending to ``at``.
    positive
        The decision, or ``None`` where there is none.
    """

    at: datetime
    variant: str
    status: int
    took: timedelta
    positive: bool | None = None

    @property
    def failed(self) -> bool:
        """Whether the caller got nothing of use: no answer, or a status of 400 and above."""
        return self.status == NO_ANSWER or self.status >= 400


@dataclass(frozen=True, slots=True)
class Served:
    """What one variant did in a span of time.

    Parameters
    ----------
    requests
        How many it answered.
    failed
        How many of them with an error.
    positive
        How many decisions for an income over 50K.
    first, last
        Its first and last answer; ``None`` if it gave none.
    first_failed
        Its first error; ``None`` if it made none.
    """

    requests: int = 0
    failed: int = 0
    positive: int = 0
    first: datetime | None = None
    last: datetime | None = None
    first_failed: datetime | None = None


@dataclass(frozen=True, slots=True)
class Second:
    """One second of traffic: how many answers, by variant and status."""

    start: datetime
    counts: tuple[tuple[str, int, int], ...]

    def requests(self, variant: str | None = None) -> int:
        """Count the answers of this second, all of them or one variant's."""
        return sum(count for name, _, count in self.counts if variant in {None, name})


class History:
    """All answers so far, in the order in which they arrived."""

    def __init__(self) -> None:
        self._answers: list[Answer] = []
        # Kept up to date, so that a live view costs the same after an hour as after a second.
        self._served: dict[str, Served] = {}

    def record(self, answer: Answer) -> None:
        """Add one answer; instants never run backwards.

        Raises
        ------
        ValueError
            If the answer is older than the one before: spans are found by halving, which needs order.
        """
        if self._answers and answer.at < self._answers[-1].at:
            raise ValueError(f"answers must come in order: {answer.at} is before {self._answers[-1].at}")
        self._answers.append(answer)
        self._served[answer.variant] = _add(self._served.get(answer.variant, Served()), answer)

    def __len__(self) -> int:
        return len(self._answers)

    def between(self, start: datetime | None = None, end: datetime | None = None) -> tuple[Answer, ...]:
        """Return the answers with start <= at < end; ``None`` means no limit on that side."""
        first = 0 if start is None else bisect_left(self._answers, start, key=_instant)
        last = len(self._answers) if end is None else bisect_left(self._answers, end, key=_instant)
        return tuple(self._answers[first:last])

    def served(self, variant: str, start: datetime | None = None, end: datetime | None = None) -> Served:
        """Sum up what one variant answered with start <= at < end; ``None`` means no limit on that side."""
        if start is None and end is None:
            return self._served.get(variant, Served())
        return reduce(_add, (answer for answer in self.between(start, end) if answer.variant == variant), Served())

    def by_variant(self) -> dict[str, Served]:
        """Sum up what each variant answered so far; ``NOBODY`` for the gateway's own errors and missing answers."""
        return dict(sorted(self._served.items()))

    def statuses(self, start: datetime | None = None, end: datetime | None = None) -> dict[tuple[str, int], int]:
        """Count answers by (variant, status) with start <= at < end."""
        return dict(Counter((answer.variant, answer.status) for answer in self.between(start, end)))

    def seconds(self, start: datetime | None = None, end: datetime | None = None) -> Iterator[Second]:
        """Give the traffic second by second, from the first answer to the last, empty seconds included."""
        by_second: dict[int, Counter[tuple[str, int]]] = {}
        for answer in self.between(start, end):
            counts = by_second.setdefault(int(answer.at.timestamp()), Counter())
            counts[answer.variant, answer.status] += 1
        if not by_second:
            return
        for second in range(min(by_second), max(by_second) + 1):
            counts = by_second.get(second, Counter())
            rows = tuple((variant, status, count) for (variant, status), count in sorted(counts.items()))
            yield Second(datetime.fromtimestamp(second, UTC), rows)


def _instant(answer: Answer) -> datetime:
    return answer.at


def _add(served: Served, answer: Answer) -> Served:
    return Served(
        requests=served.requests + 1,
        failed=served.failed + answer.failed,
        positive=served.positive + (answer.positive is True),
        first=served.first or answer.at,
        last=answer.at,
        first_failed=served.first_failed or (answer.at if answer.failed else None),
    )
