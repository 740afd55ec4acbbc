"""The values that labels and predictions are made of, as they come and as they are stored."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import IntEnum, StrEnum
from typing import Final

from davylamp.labels.outcomes import Pair

#: The name under which slices are counted that are over the limit.
OTHER: Final = "other"
#: Keys under which predictions are counted in their cells: those with a positive class, and those without.
BINARY: Final = "predictions:binary"
CLASSES: Final = "predictions:classes"
#: A longer delay is a wrong clock, and counts as this one.
LONGEST_DELAY: Final = timedelta(days=366)
#: How long after its request a label came: upper edges of the buckets, in seconds.
DELAYS: Final = (1, 10, 60, 300, 900, 3600, 21600, 86400, 259200, 604800, 1209600, 2592000)


class State(IntEnum):
    """Where a prediction stands; the numbers are stored."""

    OPEN = 0
    JOINED = 1
    EXPIRED = 2


class Arrival(StrEnum):
    """What became of a label that arrived."""

    JOINED = "joined"
    #: There is no prediction yet. It joins if one comes in time, and is unknown otherwise.
    WAITING = "waiting"
    #: The prediction's time to live was over.
    LATE = "late"
    #: The same label again.
    DUPLICATE = "duplicate"
    #: Another label than the first, which stands.
    CONTRADICTORY = "contradictory"
    #: No prediction came while it waited.
    UNKNOWN = "unknown"


class Taken(StrEnum):
    """What became of a prediction that arrived."""

    NEW = "new"
    #: It had come before, and nothing was done.
    KNOWN = "known"


@dataclass(frozen=True, slots=True)
class Cell:
    """What is counted together. All but namespace and rollout are empty where the whole rollout is meant.

    Parameters
    ----------
    namespace, rollout
        Whose; both are empty for labels of which that is not known.
    attempt
        Which attempt of the rollout.
    cohort
        The step at which the requests were served.
    part
        The slice; empty for all requests.
    """

    namespace: str
    rollout: str
    attempt: str = ""
    cohort: str = ""
    part: str = ""

    @property
    def whole(self) -> "Cell":
        """The rollout as a whole."""
        return Cell(self.namespace, self.rollout)


NOBODY: Final = Cell("", "")


@dataclass(frozen=True, slots=True)
class Prediction:
    """What both variants said about one request.

    Parameters
    ----------
    id
        Of the request.
    cell
        Rollout, attempt and cohort.
    slices
        The slices that the request belongs to.
    pair
        What was said.
    served_at
        When; None if that is when it arrives here.
    """

    id: str
    cell: Cell
    slices: tuple[str, ...]
    pair: Pair
    served_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Label:
    """The truth about one request.

    Parameters
    ----------
    id
        Of the request.
    label
        The true class.
    known_at
        Since when it is known; None if that is when it arrives here.
    """

    id: str
    label: str
    known_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Terms:
    """How long things are kept, and how much is told apart.

    Parameters
    ----------
    time_to_live
        How long a prediction is open.
    wait
        How long a label waits for its prediction.
    remember
        How long a prediction is kept after its time to live, so that what comes then is known to be late.
    export
        How long an attempt is exported after the last change of its counts.
    most_slices
        Slices of one attempt that are counted by name, >= 0.
    """

    time_to_live: timedelta = timedelta(days=30)
    wait: timedelta = timedelta(hours=1)
    remember: timedelta = timedelta(days=7)
    export: timedelta = timedelta(days=30)
    most_slices: int = 64


@dataclass(slots=True)
class Held:
    """A prediction as it is stored."""

    prediction: Prediction
    served_at: datetime
    expires_at: datetime
    state: State = State.OPEN
    label: str | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells it apart from all others."""
        return self.prediction.id, self.prediction.cell.namespace, self.prediction.cell.rollout


@dataclass(frozen=True, slots=True)
class Waiting:
    """A label without a prediction."""

    label: Label
    until: datetime


@dataclass(frozen=True, slots=True)
class Known:
    """What is stored about the requests and attempts that a group of messages is about.

    Parameters
    ----------
    held
        Predictions.
    waiting
        Labels that wait.
    slices
        Slices that are counted by name, by attempt.
    """

    held: Iterable[Held] = ()
    waiting: Iterable[Waiting] = ()
    slices: Mapping[Cell, frozenset[str]] = field(default_factory=dict)
