"""What the comparator counts: the operator's gates read these metrics, so their names and labels are fixed.

Rule 1: every counter of a rollout stands at 0 as soon as the rollout is known, and all vanish with it: a counter that
is not there means that there is no comparator, and never that nothing happened.
Rule 2: every label is of a closed set, but the two that name the rollout.
"""

from bisect import bisect_right
from collections import Counter as Counts
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric
from prometheus_client.registry import Collector

from davylamp.core.shadow_gates import CONFIDENCE_EDGES, SCORE_EDGES, edge_text
from davylamp.core.slices import WHOLE, declared
from davylamp.shadow.buckets import LATENCY_BUCKETS, MEASURES, SHARE_BUCKETS
from davylamp.shadow.comparison import Comparison, Difference, Unread
from davylamp.shadow.exchange import Answer, Outcome
from davylamp.shadow.reception import Reception
from davylamp.shadow.score_divergences import ScoreDivergences
from davylamp.shadow.task import Slicing


class Pair(StrEnum):
    """Whom the baseline was paired with."""

    CANDIDATE = "candidate"
    #: With itself, to see how much it differs without any change.
    BASELINE = "baseline"


class Side(StrEnum):
    """Whose number it is; in a pair with itself both are the baseline's."""

    BASELINE = "baseline"
    CANDIDATE = "candidate"


_ROLLOUT: Final = ("namespace", "rollout")
_PAIR: Final = (*_ROLLOUT, "pair")
_P: Final = "davylamp_shadow_"
_DECISIONS: Final = ("positive", "negative")
_CHANGES: Final = ("false", "true")
Shown = Counter | Gauge | Histogram


@dataclass(frozen=True, slots=True)
class Described:
    """One metric as people read of it: the name that a query uses, its type, its labels and its meaning."""

    name: str
    type: str
    labels: tuple[str, ...]
    meaning: str


class Registry(CollectorRegistry):
    """A registry that does not show when each series began: nothing reads that, and it is a series for each."""

    def __init__(self) -> None:
        super().__init__()
        self._made: list[Any] = []

    def register(self, collector: Collector) -> None:
        """Show a metric from now on."""
        super().register(collector)
        self._made.append(collector)

    def collect(self) -> Iterable[Metric]:
        """Return what is shown now."""
        for family in super().collect():
            family.samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
            yield family

    def described(self) -> Iterator[Described]:
        """Yield all metrics, in the order in which they were made."""
        for collector in self._made:
            labels = collector.labels if isinstance(collector, ScoreDivergences) else collector._labelnames  # noqa: SLF001 - no other way
            for family in collector.describe():
                name = f"{family.name}_total" if family.type == "counter" else family.name
                yield Described(name, family.type, tuple(labels), family.documentation)


class Telemetry:
    """All metrics of one process, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = made = Registry()

        def counter(name: str, meaning: str, *labels: str) -> Counter:
            return Counter(_P + name, meaning, (*_ROLLOUT, *labels), registry=made)

        def histogram(name: str, meaning: str, buckets: Sequence[float], *labels: str) -> Histogram:
            return Histogram(_P + name, meaning, (*_PAIR, *labels), buckets=buckets, registry=made)

        def gauge(name: str, meaning: str) -> Gauge:
            return Gauge(_P + name, meaning, _ROLLOUT, registry=made)

        self.requests = counter("requests", "Mirrored requests, by what became of them.", "outcome")
        # They are read in this order, while pairs go on: events first, so that no event is ahead of its total.
        self.disagreements = counter("disagreements", "Compared pairs that disagree.", "pair")
        self.status_mismatches = counter("status_mismatches", "Compared pairs whose status differs.", "pair")
        self.slower = counter("slower", "Timed pairs whose second took too much longer.", "pair")
        self.incomparable = counter("incomparable_pairs", "Pairs that were not compared.", "reason")
        self.differences = counter("differences", "Compared pairs, by how they differ.", "pair", "difference")
        self.score_raised = counter("score_raised", "Scores raised over the edge.", "pair", "edge")
        self.score_lowered = counter("score_lowered", "Scores lowered under the edge.", "pair", "edge")
        self.confidence_raised = counter("confidence_raised", "Confidences raised over the edge.", "pair", "edge")
        self.confidence_lowered = counter("confidence_lowered", "Confidences lowered under it.", "pair", "edge")
        self.pairs = counter("pairs", "Pairs of answers that were compared.", "pair")
        self.slice_pairs = counter(
            "slice_pairs",
            "Compared pairs with a decision, by slice, the baseline's decision and whether the candidate's is another.",
            "attempt",
            "slice",
            "baseline",
            "changed",
        )
        self.timed = counter("timed_pairs", "Pairs that both answered with success.", "pair")
        self.scored = counter("scored", "Scores of compared pairs.", "pair")
        self.confident = counter("confident", "Confidences of compared pairs.", "pair")
        self.failures = counter("failures", "Pairs whose comparison failed unexpectedly.")
        self.latency = histogram("latency_seconds", "Of the answers of timed pairs.", LATENCY_BUCKETS, "variant")
        self.score = histogram("score", "Scores of compared pairs.", SHARE_BUCKETS, "variant")
        made.register(ScoreDivergences(self.score))
        self.confidence = histogram("confidence", "Confidences of compared pairs.", SHARE_BUCKETS, "variant")
        self.measures = {
            measure: histogram(name, meaning, buckets) for measure, (name, meaning, buckets) in MEASURES.items()
        }
        self.waiting = gauge("waiting_requests", "Requests that wait to be replayed.")
        self.held = gauge("held_bytes", "Bytes of bodies that arrive, wait or are replayed.")
        self.replaying = gauge("replaying_pairs", "Pairs that are replayed now.")
        self.places = gauge("replaying_pairs_limit", "Pairs that may be replayed at once, as the variants bear it.")
        self.backing_off = gauge("backing_off", "1 while the variants are left alone.")

    def metrics(self) -> Iterable[Shown]:
        """Return all metrics."""
        for each in vars(self).values():
            if isinstance(each, Counter | Gauge | Histogram):
                yield each
        yield from self.measures.values()

    def forget(self, namespace: str, rollout: str) -> None:
        """Show nothing any more of a rollout that is gone."""
        for metric in self.metrics():
            metric.remove_by_labels({"namespace": namespace, "rollout": rollout})


class Tallies:
    """The metrics of one rollout; making it sets them all to 0.

    Parameters
    ----------
    telemetry
        Of the process.
    namespace, rollout
        Whose.
    """

    def __init__(self, telemetry: Telemetry, namespace: str, rollout: str) -> None:
        name = (namespace, rollout)
        self._telemetry, self._name, self._attempt = telemetry, name, ""
        self._receptions = {each: telemetry.requests.labels(*name, each.value) for each in Reception}
        self._incomparable = {each: telemetry.incomparable.labels(*name, each.value) for each in Unread}
        self._failures = telemetry.failures.labels(*name)
        self._of_pairs = {pair: _PairTallies(telemetry, name, pair) for pair in Pair}
        self._gauges = [
            metric.labels(*name)
            for metric in (
                telemetry.waiting,
                telemetry.held,
                telemetry.replaying,
                telemetry.places,
                telemetry.backing_off,
            )
        ]

    def show(self, *levels: Callable[[], float]) -> None:
        """Show what waits, is held, is replayed and may be, and whether nothing is sent, as it is when it is read."""
        for gauge, level in zip(self._gauges, levels, strict=True):
            gauge.set_function(level)

    def received(self, what: Reception) -> None:
        """Count a request."""
        self._receptions[what].inc()

    def failed(self) -> None:
        """Count a pair whose comparison failed in a way that nobody thought of."""
        self._failures.inc()

    def abandoned(self) -> None:
        """Count a pair that was under way when its rollout changed."""
        self._incomparable[Unread.ABANDONED].inc()

    def slice_by(self, slicing: Slicing | None) -> None:
        """Count pairs by slice from now on, those of every declared slice from 0; what other attempts had is gone."""
        attempt = "" if slicing is None else slicing.attempt
        if attempt != self._attempt:
            self._telemetry.slice_pairs.remove_by_labels(dict(zip(_ROLLOUT, self._name, strict=True)))
            self._attempt = attempt
        if slicing is not None:
            slices = declared(slicing.attributes, slicing.intersections, slicing.key)
            for label in (WHOLE, *(each.label for each in slices)):
                for baseline, changed in product(_DECISIONS, _CHANGES):
                    self._telemetry.slice_pairs.labels(*self._name, attempt, label, baseline, changed)

    def decided(self, slices: tuple[str, ...], baseline: bool, candidate: bool) -> None:  # noqa: FBT001 - two decisions
        """Count a pair whose decisions are known (whether they are positive) for everybody and in its slices."""
        labels = (_DECISIONS[not baseline], _CHANGES[baseline != candidate])
        for label in (WHOLE, *slices):
            self._telemetry.slice_pairs.labels(*self._name, self._attempt, label, *labels).inc()

    def compared(self, pair: Pair, comparison: Comparison, outcomes: tuple[Outcome, Outcome], slowdown: float) -> None:
        """Count a pair.

        Parameters
        ----------
        pair
            Whom the baseline was paired with.
        comparison
            What came of it.
        outcomes
            First the baseline's.
        slowdown
            As in `Task`.
        """
        tallies = self._of_pairs[pair]
        tallies.time(*outcomes, slowdown)
        if comparison.unread is None:
            tallies.compare(comparison)
        else:
            self._incomparable[comparison.unread].inc()


class _PairTallies:
    def __init__(self, telemetry: Telemetry, name: tuple[str, str], pair: Pair) -> None:
        labels = (*name, pair.value)
        second = Side.CANDIDATE if pair is Pair.CANDIDATE else Side.BASELINE
        sides = (Side.BASELINE, second)
        self._pairs = telemetry.pairs.labels(*labels)
        self._disagreements = telemetry.disagreements.labels(*labels)
        self._status = telemetry.status_mismatches.labels(*labels)
        self._timed = telemetry.timed.labels(*labels)
        self._slower = telemetry.slower.labels(*labels)
        self._differences = {each: telemetry.differences.labels(*labels, each.value) for each in Difference}
        self._latency = [telemetry.latency.labels(*labels, side.value) for side in sides]
        self._measures = {each: metric.labels(*labels) for each, metric in telemetry.measures.items()}
        self._scores = _Crossings(
            telemetry.scored.labels(*labels),
            [telemetry.score.labels(*labels, side.value) for side in sides],
            {edge: telemetry.score_raised.labels(*labels, edge_text(edge)) for edge in SCORE_EDGES},
            {edge: telemetry.score_lowered.labels(*labels, edge_text(edge)) for edge in SCORE_EDGES},
        )
        self._confidences = _Crossings(
            telemetry.confident.labels(*labels),
            [telemetry.confidence.labels(*labels, side.value) for side in sides],
            {edge: telemetry.confidence_raised.labels(*labels, edge_text(edge)) for edge in CONFIDENCE_EDGES},
            {edge: telemetry.confidence_lowered.labels(*labels, edge_text(edge)) for edge in CONFIDENCE_EDGES},
        )

    def time(self, first: Outcome, second: Outcome, slowdown: float) -> None:
        if not (_succeeded(first) and _succeeded(second)):
            return
        self._timed.inc()
        for metric, outcome in zip(self._latency, (first, second), strict=True):
            metric.observe(outcome.seconds)
        if second.seconds > (1 + slowdown) * first.seconds:
            self._slower.inc()

    def compare(self, comparison: Comparison) -> None:
        self._pairs.inc()
        if comparison.disagrees:
            self._disagreements.inc()
        if Difference.STATUS in comparison.differences:
            self._status.inc()
        for difference in comparison.differences:
            self._differences[difference].inc()
        for measure, value in comparison.measures.items():
            self._measures[measure].observe(value)
        self._scores.count(comparison.scores)
        self._confidences.count(comparison.confidences)


class _Crossings:
    """Counts how many of pairs of numbers lie on either side of each edge."""

    def __init__(
        self, total: Counter, sides: list[Histogram], raised: dict[float, Counter], lowered: dict[float, Counter]
    ) -> None:
        self._total = total
        self._sides = sides
        self._raised = raised
        self._lowered = lowered
        self._edges = tuple(raised)

    def count(self, numbers: tuple[tuple[float, float], ...]) -> None:
        if not numbers:
            return
        self._total.inc(len(numbers))
        moves: Counts[tuple[bool, float]] = Counts()
        for first, second in numbers:
            below, above = bisect_right(self._edges, first), bisect_right(self._edges, second)
            moves.update((True, edge) for edge in self._edges[below:above])
            moves.update((False, edge) for edge in self._edges[above:below])
            self._sides[0].observe(first)
            self._sides[1].observe(second)
        for (up, edge), times in moves.items():
            (self._raised if up else self._lowered)[edge].inc(times)


def _succeeded(outcome: Outcome) -> bool:
    return isinstance(outcome.result, Answer) and outcome.result.succeeded
