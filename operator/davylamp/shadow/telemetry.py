"""What the comparator counts: the operator's gates read these metrics, so their names and labels are fixed.

Rule 1: every counter of a rollout stands at 0 as soon as the rollout is known, and all vanish with it: a counter that
is not there means that there is no comparator, and never that nothing happened.
Rule 2: every label is of a closed set, but the two that name the rollout.
"""

from bisect import bisect_right
from collections import Counter as Counts
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from davylamp.shadow.comparison import Comparison, Difference, Measure, Unread
from davylamp.shadow.exchange import Answer, Outcome
from davylamp.shadow.reception import Reception


class Pair(StrEnum):
    """Whom the baseline was paired with."""

    CANDIDATE = "candidate"
    #: With itself, to see how much it differs without any change.
    BASELINE = "baseline"


class Side(StrEnum):
    """Whose number it is; in a pair with itself both are the baseline's."""

    BASELINE = "baseline"
    CANDIDATE = "candidate"


SCORE_EDGES: Final = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
CONFIDENCE_EDGES: Final = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
# fmt: off
LATENCY_BUCKETS: Final = (
    0.0005, 0.001, 0.0015, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075,
    0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0,
)
# fmt: on
SHARE_BUCKETS: Final = tuple(round(edge * 0.05, 2) for edge in range(1, 21))
_SIZES: Final = (0.0, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0)
_CHANGES: Final = (-0.5, -0.2, -0.1, -0.05, -0.02, -0.01, -0.001, 0.0, 0.001, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
_LIKENESS: Final = (0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 1.0)
_MEASURES: Final[dict[Measure, tuple[str, tuple[float, ...]]]] = {
    Measure.MAX_ABSOLUTE: ("max_absolute_difference", _SIZES),
    Measure.MEAN_ABSOLUTE: ("mean_absolute_difference", _SIZES),
    Measure.ULPS: ("ulps", (0.0, 1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 65536.0, 2.0**24)),
    Measure.TOP_K_OVERLAP: ("top_k_overlap", (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 1.0)),
    Measure.KL: ("kl_divergence", (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.05, 0.1, 0.5, 1.0, 5.0)),
    Measure.JS: ("js_divergence", (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.05, 0.1, 0.2, 0.5, 0.7)),
    Measure.RANK_CORRELATION: ("rank_correlation", (-0.5, *_LIKENESS)),
    Measure.FLIP_MARGIN: ("flip_margin", (0.001, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0)),
    Measure.SCORE_CHANGE: ("score_change", _CHANGES),
    Measure.SIMILARITY: ("similarity", _LIKENESS),
    Measure.LENGTH_RATIO: ("length_ratio", (0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.01, 1.1, 1.25, 1.5, 2.0, 4.0, 10.0)),
    Measure.FIRST_DIFFERENCE: ("first_difference_tokens", (0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0)),
    Measure.LOG_PROBABILITY_CHANGE: ("log_probability_change", (-5.0, -2.0, -1.0, *_CHANGES, 1.0, 2.0, 5.0)),
    Measure.COSINE: ("cosine", (-0.5, *_LIKENESS)),
}
_ROLLOUT: Final = ("namespace", "rollout")
_PAIR: Final = (*_ROLLOUT, "pair")
_P: Final = "davylamp_shadow_"
Metric = Counter | Gauge | Histogram


class Telemetry:
    """All metrics of one process, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = made = CollectorRegistry()

        def counter(name: str, meaning: str, *labels: str) -> Counter:
            return Counter(_P + name, meaning, (*_ROLLOUT, *labels), registry=made)

        def histogram(name: str, meaning: str, buckets: Sequence[float], *labels: str) -> Histogram:
            return Histogram(_P + name, meaning, (*_PAIR, *labels), buckets=buckets, registry=made)

        def gauge(name: str, meaning: str) -> Gauge:
            return Gauge(_P + name, meaning, _ROLLOUT, registry=made)

        self.requests = counter("requests", "Mirrored requests, by what became of them.", "outcome")
        self.pairs = counter("pairs", "Pairs of answers that were compared.", "pair")
        self.disagreements = counter("disagreements", "Compared pairs that disagree.", "pair")
        self.status_mismatches = counter("status_mismatches", "Compared pairs whose status differs.", "pair")
        self.timed = counter("timed_pairs", "Pairs that both answered with success.", "pair")
        self.slower = counter("slower", "Timed pairs whose second took too much longer.", "pair")
        self.incomparable = counter("incomparable_pairs", "Pairs that were not compared.", "reason")
        self.differences = counter("differences", "Compared pairs, by how they differ.", "pair", "difference")
        self.scored = counter("scored", "Scores of compared pairs.", "pair")
        self.score_raised = counter("score_raised", "Scores raised over the edge.", "pair", "edge")
        self.score_lowered = counter("score_lowered", "Scores lowered under the edge.", "pair", "edge")
        self.confident = counter("confident", "Confidences of compared pairs.", "pair")
        self.confidence_raised = counter("confidence_raised", "Confidences raised over the edge.", "pair", "edge")
        self.confidence_lowered = counter("confidence_lowered", "Confidences lowered under it.", "pair", "edge")
        self.failures = counter("failures", "Pairs whose comparison failed unexpectedly.")
        self.latency = histogram("latency_seconds", "Of the answers of timed pairs.", LATENCY_BUCKETS, "variant")
        self.score = histogram("score", "Scores of compared pairs.", SHARE_BUCKETS, "variant")
        self.confidence = histogram("confidence", "Confidences of compared pairs.", SHARE_BUCKETS, "variant")
        self.measures = {
            measure: histogram(name, f"{measure.value} of compared pairs.", buckets)
            for measure, (name, buckets) in _MEASURES.items()
        }
        self.waiting = gauge("waiting_requests", "Requests that wait to be replayed.")
        self.held = gauge("held_bytes", "Bytes of bodies that arrive, wait or are replayed.")
        self.replaying = gauge("replaying_pairs", "Pairs that are replayed now.")
        self.backing_off = gauge("backing_off", "1 while the variants are left alone.")

    def metrics(self) -> Iterable[Metric]:
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
        self._receptions = {each: telemetry.requests.labels(*name, each.value) for each in Reception}
        self._incomparable = {each: telemetry.incomparable.labels(*name, each.value) for each in Unread}
        self._failures = telemetry.failures.labels(*name)
        self._of_pairs = {pair: _PairTallies(telemetry, name, pair) for pair in Pair}
        self._gauges = [
            metric.labels(*name)
            for metric in (telemetry.waiting, telemetry.held, telemetry.replaying, telemetry.backing_off)
        ]

    def show(self, *levels: Callable[[], float]) -> None:
        """Show what waits, what is held, what is replayed and whether nothing is sent, as it is when it is read."""
        for gauge, level in zip(self._gauges, levels, strict=True):
            gauge.set_function(level)

    def received(self, what: Reception) -> None:
        """Count a request."""
        self._receptions[what].inc()

    def failed(self) -> None:
        """Count a pair whose comparison failed in a way that nobody thought of."""
        self._failures.inc()

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
            {edge: telemetry.score_raised.labels(*labels, str(edge)) for edge in SCORE_EDGES},
            {edge: telemetry.score_lowered.labels(*labels, str(edge)) for edge in SCORE_EDGES},
        )
        self._confidences = _Crossings(
            telemetry.confident.labels(*labels),
            [telemetry.confidence.labels(*labels, side.value) for side in sides],
            {edge: telemetry.confidence_raised.labels(*labels, str(edge)) for edge in CONFIDENCE_EDGES},
            {edge: telemetry.confidence_lowered.labels(*labels, str(edge)) for edge in CONFIDENCE_EDGES},
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
