"""What a comparison of two readings finds, while it is being made, and what counts as a disagreement."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from davylamp.shadow.comparison import Comparison, Decision, Difference, Kind, Measure
from davylamp.shadow.task import Notion

#: Scores and confidences of a pair that are kept; a larger batch is one request all the same.
MOST_ITEMS: Final = 1000


@dataclass(slots=True)
class Distance:
    """How far all numbers of a pair of answers are apart, summed up part by part."""

    largest: float = 0.0
    total: float = 0.0
    count: int = 0

    def add(self, largest: float, total: float, count: int) -> None:
        """Add absolute differences: the largest, their sum, and their number."""
        self.largest = max(self.largest, largest)
        self.total += total
        self.count += count


#: Differences that never count under a notion; all others do.
_TOLERATED: Final[Mapping[Notion, frozenset[Difference]]] = MappingProxyType(
    {
        Notion.DECISION: frozenset({Difference.DATATYPE, Difference.FINISH_REASON}),
        Notion.VALUES: frozenset({Difference.DATATYPE, Difference.FINISH_REASON, Difference.DECISION}),
        Notion.EXACT: frozenset(),
    }
)
#: What does not count either, where the answers hold decisions and only these matter.
_NO_DECISION: Final = frozenset({Difference.VALUES, Difference.NOT_FINITE})


@dataclass(slots=True)
class Findings:
    """Collected by the comparison of one kind.

    Parameters
    ----------
    differences, measures, scores, confidences
        As those of `Comparison`.
    distance
        Of floats; written into the measures at the end.
    decides
        Whether the answers hold a decision.
    sides, classes
        Decisions by a threshold, and those for a class, of the first output that has some.
    """

    differences: set[Difference] = field(default_factory=set)
    measures: dict[Measure, float] = field(default_factory=dict)
    scores: list[tuple[float, float]] = field(default_factory=list)
    confidences: list[tuple[float, float]] = field(default_factory=list)
    distance: Distance = field(default_factory=Distance)
    decides: bool = False
    sides: list[tuple[Decision, Decision]] = field(default_factory=list)
    classes: list[tuple[Decision, Decision]] = field(default_factory=list)

    def differ(self, difference: Difference, found: object) -> None:
        """Note a difference if it was found."""
        if found:
            self.differences.add(difference)

    def measure(self, name: Measure, value: float) -> None:
        """Note a measure; one that is not finite says nothing and is left out."""
        if math.isfinite(value):
            self.measures[name] = float(value)

    def measure_most(self, name: Measure, value: float) -> None:
        """Note a measure of which the largest of all parts counts."""
        self.measure(name, max(value, self.measures.get(name, value)))

    def measure_least(self, name: Measure, value: float) -> None:
        """Note a measure of which the smallest of all parts counts."""
        self.measure(name, min(value, self.measures.get(name, value)))

    def comparison(self, kind: Kind, notion: Notion) -> Comparison:
        """Return the outcome under a notion of disagreement."""
        tolerated = _TOLERATED[notion]
        if notion is Notion.DECISION and self.decides:
            tolerated |= _NO_DECISION
        if self.distance.count:
            self.measure(Measure.MAX_ABSOLUTE, self.distance.largest)
            self.measure(Measure.MEAN_ABSOLUTE, self.distance.total / self.distance.count)
        return Comparison(
            kind=kind,
            differences=frozenset(self.differences),
            disagrees=not tolerated.issuperset(self.differences),
            measures=self.measures,
            scores=tuple(self.scores[:MOST_ITEMS]),
            confidences=tuple(self.confidences[:MOST_ITEMS]),
            decisions=tuple((self.sides or self.classes)[:MOST_ITEMS]),
        )
