"""Series as a server remembers them, and what it would have answered to a look at any moment.

Rule 1: samples are kept as the server's JSON gave them; they are checked where live ones are, in `davylamp.sources`.
Rule 2: a moment of the past sees the samples up to it and none of later.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from davylamp.core.reading import Reading, Request
from davylamp.errors import SpecError
from davylamp.sources.absence import Absence, missing_series
from davylamp.sources.answers import Answer, Series
from davylamp.sources.promql import selector_text
from davylamp.sources.questions import Question, questions, union
from davylamp.sources.settings import PrometheusSettings
from davylamp.sources.targets import Look, sort_answers


@dataclass(frozen=True, slots=True)
class Track:
    """One series over the whole range; ``values`` and ``histograms`` as in `Series`, oldest first."""

    labels: Mapping[str, str]
    values: Sequence[Any] = ()
    histograms: Sequence[Any] = ()
    _times: tuple[Sequence[float], Sequence[float]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        times = tuple([float(pair[0]) for pair in pairs] for pairs in (self.values, self.histograms))
        object.__setattr__(self, "_times", times)

    def between(self, low: float, high: float) -> Series | None:
        """Return the samples in (low, high]; None if there are none."""
        cut = []
        for pairs, times in zip((self.values, self.histograms), self._times, strict=True):
            cut.append(pairs[bisect_right(times, low) : bisect_right(times, high)])
        return Series(self.labels, *cut) if any(cut) else None


@dataclass(frozen=True, slots=True)
class History:
    """All series of a range, by the selector that found them.

    Parameters
    ----------
    begin, end
        Samples in (begin, end] are all there, UTC.
    tracks
        By selector; a selector that found nothing has none, and one that was never asked is absent.
    looks
        The range of the looks that it was read for; None if that is not known.
    """

    begin: datetime
    end: datetime
    tracks: Mapping[str, tuple[Track, ...]]
    looks: tuple[datetime, datetime] | None = None

    def answer(self, question: Question, request: Request) -> Answer:
        """Return what a server would have answered at the end of the request's window.

        Raises
        ------
        SpecError
            If the range does not cover the question, or its selector was never asked.
        """
        low = request.start - request.lookback
        if low < self.begin or request.end > self.end:
            raise SpecError(
                f"the history reaches from {shown(self.begin)} to {shown(self.end)}, and a look at "
                f"{shown(request.end)} needs it from {shown(low)} on"
            )
        selector = selector_of(question)
        if selector not in self.tracks:
            asked = "; ".join(sorted(self.tracks)) or "nothing"
            raise SpecError(
                f"the recording has no answer to {selector}: it was made for other signals, labels or another "
                f"namespace; it answers {asked}"
            )
        found = (track.between(low.timestamp(), request.end.timestamp()) for track in self.tracks[selector])
        return Answer(tuple(series for series in found if series is not None))

    @property
    def samples(self) -> int:
        """How many samples there are."""
        return sum(len(track.values) + len(track.histograms) for some in self.tracks.values() for track in some)


def selector_of(question: Question) -> str:
    """Return the selector of a question, without its range."""
    return selector_text(union(question.wanted))


def read_past(history: History, request: Request, settings: PrometheusSettings) -> Reading:
    """Return what a live look would have read, by the code of the live source.

    Raises
    ------
    SpecError
        If the request cannot be asked, or the history does not cover it.
    """
    asked = questions(request)
    answers = [(question, history.answer(question, request)) for question in asked]
    reading = sort_answers(Look(request, settings), answers)
    return Absence().explain(reading, request, missing_series(reading, asked))


def joined(parts: Iterable[Mapping[str, Any]]) -> tuple[Track, ...]:
    """Join the pieces of series that came chunk by chunk, oldest first; a sample at a seam counts once.

    Parameters
    ----------
    parts
        Entries of ``result`` as the HTTP API spells them.
    """
    whole: dict[tuple[tuple[str, str], ...], tuple[dict[str, str], list[Any], list[Any]]] = {}
    for part in parts:
        labels = dict(part["metric"])
        _, values, histograms = whole.setdefault(tuple(sorted(labels.items())), (labels, [], []))
        for have, more in ((values, part.get("values", ())), (histograms, part.get("histograms", ()))):
            seam = have[-1][0] if have else float("-inf")
            have.extend(pair for pair in more if pair[0] > seam)
    return tuple(Track(labels, values, histograms) for labels, values, histograms in whole.values())


def shown(moment: datetime) -> str:
    """Return a time for a message."""
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"
