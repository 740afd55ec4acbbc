"""What a group of messages does to what is held. Pure: the store brings what is known and writes what has changed.

Rule 1: the first label of a request stands. Whether it comes before or after its prediction makes no difference.
Rule 2: whether a prediction is open and whether a label still waits is a matter of time, not of who tidied up when.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from davylamp.labels.outcomes import counted
from davylamp.labels.records import (
    BINARY,
    CLASSES,
    DELAYS,
    LONGEST_DELAY,
    NOBODY,
    OTHER,
    Arrival,
    Cell,
    Held,
    Known,
    Label,
    Prediction,
    State,
    Taken,
    Terms,
    Waiting,
)


class Ledger:
    """Takes messages one by one and keeps what has changed.

    Parameters
    ----------
    known
        What is stored.
    terms
        How long things are kept.
    now
        When all of them have arrived.
    """

    def __init__(self, known: Known, terms: Terms, now: datetime) -> None:
        self._terms = terms
        self._now = now
        self._held: dict[str, dict[tuple[str, str, str], Held]] = {}
        for held in known.held:
            self._held.setdefault(held.prediction.id, {})[held.key] = held
        self._waiting = {each.label.id: each for each in known.waiting}
        self._waited = frozenset(self._waiting)
        self._slices = {attempt: set(slices) for attempt, slices in known.slices.items()}
        self._new: dict[tuple[str, str, str], Held] = {}
        self._changed: dict[tuple[str, str, str], Held] = {}
        self._touched: set[str] = set()
        #: Increments.
        self.counts: defaultdict[Cell, Counter[str]] = defaultdict(Counter)

    # -- what has changed -------------------------------------------------------------------------------------------

    @property
    def new(self) -> Iterable[Held]:
        """Predictions to be stored."""
        return self._new.values()

    @property
    def changed(self) -> Iterable[Held]:
        """Stored predictions whose state or label is another now."""
        return (held for key, held in self._changed.items() if key not in self._new)

    @property
    def gone(self) -> Iterable[str]:
        """Requests whose stored label waits no longer, or is replaced by that of `waiting`."""
        return (request for request in self._touched if request in self._waited)

    @property
    def waiting(self) -> Iterable[Waiting]:
        """Labels to be stored."""
        return (self._waiting[request] for request in self._touched if request in self._waiting)

    # -- messages ---------------------------------------------------------------------------------------------------

    def take_prediction(self, prediction: Prediction) -> Taken:
        """Take a prediction; it joins at once if its label is known."""
        served_at = prediction.served_at or self._now
        others = self._held.setdefault(prediction.id, {})
        if (prediction.id, prediction.cell.namespace, prediction.cell.rollout) in others:
            return Taken.KNOWN
        held = Held(self._admitted(prediction), served_at, self._now + self._terms.time_to_live)
        known = self._label_of(prediction.id)
        others[held.key] = self._new[held.key] = held
        self._count(held, (CLASSES if prediction.pair.positive is None else BINARY, 1))
        self.counts[prediction.cell.whole]["received"] += 1
        if OTHER in held.prediction.slices:
            self.counts[prediction.cell.whole]["slices_over"] += 1
        if known is not None:
            self._join(held, known)
        return Taken.NEW

    def take_label(self, label: Label) -> Arrival:
        """Take a label."""
        if held := self._held.get(label.id):
            return min((self._meet(each, label) for each in held.values()), key=_WEIGHTIEST.index)
        self._end_waiting_in_vain(label.id)
        if waiting := self._waiting.get(label.id):
            arrival = _repeated(waiting.label.label, label.label)
            self.counts[NOBODY][f"arrival:{arrival}"] += 1
            return arrival
        self._waiting[label.id] = Waiting(label, self._now + self._terms.wait)
        self._touched.add(label.id)
        self.counts[NOBODY]["waiting_in"] += 1
        return Arrival.WAITING

    def expire(self) -> None:
        """End what is over of all that is known."""
        for held in [each for of_request in self._held.values() for each in of_request.values()]:
            if held.state is State.OPEN and held.expires_at <= self._now:
                self._expire(held)
        for request in list(self._waiting):
            self._end_waiting_in_vain(request)

    # -- steps ------------------------------------------------------------------------------------------------------

    def _meet(self, held: Held, label: Label) -> Arrival:
        """Let a label meet a prediction."""
        if held.label is not None:
            arrival = _repeated(held.label, label.label)
        elif held.state is State.OPEN and self._now < held.expires_at:
            self._join(held, label)
            return Arrival.JOINED
        else:
            if held.state is State.OPEN:
                self._expire(held)
            held.label = label.label
            self._changed[held.key] = held
            arrival = Arrival.LATE
        self.counts[held.prediction.cell.whole][f"arrival:{arrival}"] += 1
        return arrival

    def _join(self, held: Held, label: Label) -> None:
        held.state, held.label = State.JOINED, label.label
        self._changed[held.key] = held
        whole = self.counts[held.prediction.cell.whole]
        whole[f"arrival:{Arrival.JOINED}"] += 1
        if not held.prediction.pair.comparable:
            whole["not_comparable"] += 1
        self._count(held, *counted(held.prediction.pair, label.label))
        known_at = min(label.known_at or self._now, self._now)
        delay = min(max(known_at - held.served_at, timedelta(0)), LONGEST_DELAY)
        whole[f"delay:{bucket_of(delay)}"] += 1
        whole["delay_ms"] += delay // timedelta(milliseconds=1)

    def _expire(self, held: Held) -> None:
        held.state = State.EXPIRED
        self._changed[held.key] = held
        self.counts[held.prediction.cell.whole]["expired"] += 1

    def _label_of(self, request: str) -> Label | None:
        """Return the label of a request if it is known already; a label that waited does so no longer."""
        self._end_waiting_in_vain(request)
        if waiting := self._waiting.pop(request, None):
            self._touched.add(request)
            self.counts[NOBODY]["waiting_out"] += 1
            return waiting.label
        labels = (each.label for each in self._held[request].values() if each.label is not None)
        return next((Label(request, label) for label in labels), None)

    def _end_waiting_in_vain(self, request: str) -> None:
        waiting = self._waiting.get(request)
        if waiting is not None and waiting.until <= self._now:
            del self._waiting[request]
            self._touched.add(request)
            self.counts[NOBODY]["waiting_out"] += 1
            self.counts[NOBODY][f"arrival:{Arrival.UNKNOWN}"] += 1

    def _admitted(self, prediction: Prediction) -> Prediction:
        """Return the prediction with the slices under which it is counted: those over the limit are one."""
        cell = prediction.cell
        known = self._slices.setdefault(Cell(cell.namespace, cell.rollout, cell.attempt), set())
        named: dict[str, None] = {}
        for part in prediction.slices:
            if part in known or len(known) < self._terms.most_slices:
                known.add(part)
                named[part] = None
            else:
                named[OTHER] = None
        return replace(prediction, slices=tuple(named))

    def _count(self, held: Held, *increments: tuple[str, int]) -> None:
        for cell in cells_of(held.prediction):
            counts = self.counts[cell]
            for key, much in increments:
                counts[key] += much


def cells_of(prediction: Prediction) -> Iterator[Cell]:
    """Yield all that a request is counted in: all requests of its cohort, and each of its slices."""
    cell = prediction.cell
    for part in ("", *prediction.slices):
        yield Cell(cell.namespace, cell.rollout, cell.attempt, cell.cohort, part)


def bucket_of(delay: timedelta) -> int:
    """Return the place of the bucket of `DELAYS` that a delay is in; their number if it is longer than all."""
    return next((place for place, edge in enumerate(DELAYS) if delay <= timedelta(seconds=edge)), len(DELAYS))


#: What is said of a label that several rollouts had predictions for.
_WEIGHTIEST: Final = (Arrival.JOINED, Arrival.LATE, Arrival.CONTRADICTORY, Arrival.DUPLICATE)


def _repeated(first: str, again: str) -> Arrival:
    return Arrival.DUPLICATE if first == again else Arrival.CONTRADICTORY
