"""The counters of the database as metrics, read when they are asked for: what is exported is what is committed.

Rule 1: one process at a time exports them, so that whoever adds up all processes counts nothing twice.
Rule 2: all are read by one statement, so that no event is ahead of its total.
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import product
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from sqlalchemy import Connection, and_, select

from davylamp.labels.database import Exporter
from davylamp.labels.outcomes import SCORE_UNITS, Outcome, PairResult, Truth, Variant
from davylamp.labels.records import BINARY, CLASSES, DELAYS, NOBODY, Arrival, Cell, Terms
from davylamp.labels.schema import ATTEMPTS, COUNTERS, stored

_ROLLOUT: Final = ("namespace", "rollout")
_CELL: Final = (*_ROLLOUT, "attempt", "cohort", "slice")
#: Name, meaning and further labels of what is counted by cell, by the kind of its keys.
_BY_CELL: Final = {
    "predictions": ("davylamp_label_predictions", "Requests of which both answers are known.", ()),
    "outcome": ("davylamp_label_outcomes", "Labelled answers, by what they were.", ("variant", "outcome")),
    "pair": ("davylamp_label_pairs", "Labelled requests, by which variant was right.", ("label", "result")),
    "bin": ("davylamp_label_calibration", "Labelled scores, by tenth.", ("variant", "bin", "label")),
    "score": ("davylamp_label_score_sum", "Sum of the labelled scores of a tenth.", ("variant", "bin")),
}
#: The same of what is counted by rollout.
_BY_ROLLOUT: Final = {
    "arrival": ("davylamp_label_arrivals", "Labels, by what became of them.", ("result",)),
    "expired": ("davylamp_label_expired_predictions", "Requests whose label did not come in time.", ()),
    "not_comparable": ("davylamp_label_not_comparable", "Joined labels that the baseline's decision excludes.", ()),
    "slices_over": ("davylamp_label_slices_over_limit", "Requests of slices that are counted as other.", ()),
}
_DELAY: Final = ("davylamp_label_delay_seconds", "From the request until its label was known.")
_OPEN: Final = ("davylamp_label_open_predictions", "Requests that wait for their label.")
_WAITING: Final = ("davylamp_label_waiting_labels", "Labels that wait for their request.")
_EXPORTS: Final = ("davylamp_label_exporter", "1 if this process exports the counters of the database.")
#: What a cell has from its first request on, so that nothing begins at another number than 0.
_FROM_THE_START: Final = {
    BINARY: tuple(
        [f"outcome:{v}:{o}" for v, o in product(Variant, ("TP", "FP", "TN", "FN"))]
        + [f"pair:{t}:{r}" for t, r in product((Truth.POSITIVE, Truth.NEGATIVE), PairResult)]
    ),
    CLASSES: tuple(
        [f"outcome:{v}:{o}" for v, o in product(Variant, (Outcome.RIGHT, Outcome.WRONG))]
        + [f"pair:{Truth.ANY}:{r}" for r in PairResult]
    ),
}
_RESULTS: Final = tuple(each for each in Arrival if each is not Arrival.WAITING)


@dataclass(frozen=True, slots=True)
class Described:
    """One metric as people read of it: the name that a query uses, its type, its labels and its meaning."""

    name: str
    type: str
    labels: tuple[str, ...]
    meaning: str


Counts = Mapping[Cell, Mapping[str, int]]


class Exposition(Collector):
    """Reads the counters at each scrape.

    Parameters
    ----------
    exporter
        Says whether this process exports.
    terms
        How long a silent attempt is exported.
    now
        The clock.
    """

    def __init__(self, exporter: Exporter, terms: Terms, now: Callable[[], datetime]) -> None:
        self._exporter = exporter
        self._terms = terms
        self._now = now
        # Scrapes come in threads of their own, and there is one connection to read by.
        self._one = threading.Lock()

    def describe(self) -> Iterable[Metric]:
        """Return all metrics without samples."""
        return (*families({}), _exports(0))

    def collect(self) -> Iterable[Metric]:
        """Return all metrics.

        Raises
        ------
        Unavailable
            If the database does not answer: then nothing is exported, rather than nothing counted.
        """
        with self._one, self._exporter.reading() as connection:
            if connection is None:
                return (_exports(0),)
            counts = read_counts(connection, self._now() - self._terms.export)
        return (*families(counts), _exports(1))


def described() -> Iterator[Described]:
    """Yield all metrics."""
    for name, meaning, more in _BY_CELL.values():
        yield Described(f"{name}_total", "counter", (*_CELL, *more), meaning)
    for name, meaning, more in _BY_ROLLOUT.values():
        yield Described(f"{name}_total", "counter", (*_ROLLOUT, *more), meaning)
    yield Described(_DELAY[0], "histogram", _ROLLOUT, _DELAY[1])
    yield Described(_OPEN[0], "gauge", _ROLLOUT, _OPEN[1])
    for name, meaning in (_WAITING, _EXPORTS):
        yield Described(name, "gauge", (), meaning)


def read_counts(connection: Connection, since: datetime) -> Counts:
    """Return the counters of all attempts that have changed since a time."""
    names = ("namespace", "rollout", "attempt")
    same = and_(*(COUNTERS.c[name] == ATTEMPTS.c[name] for name in names))
    wanted = select(COUNTERS).join(ATTEMPTS, same).where(ATTEMPTS.c.changed_at > stored(since))
    counts: defaultdict[Cell, dict[str, int]] = defaultdict(dict)
    for namespace, rollout, attempt, cohort, part, key, value in connection.execute(wanted):
        counts[Cell(namespace, rollout, attempt, cohort, part)][key] = value
    return counts


def families(counts: Counts) -> Iterator[Metric]:
    """Yield all metrics that counters make."""
    wholes = {cell: found for cell, found in counts.items() if cell == cell.whole}
    cells = {cell: _begun(found) for cell, found in counts.items() if cell != cell.whole}
    yield from _counters(_BY_CELL, _CELL, cells)
    yield from _counters(_BY_ROLLOUT, _ROLLOUT, {cell: _answered(cell, found) for cell, found in wholes.items()})
    delay = HistogramMetricFamily(*_DELAY, labels=_ROLLOUT)
    still_open = GaugeMetricFamily(*_OPEN, labels=_ROLLOUT)
    for cell, found in sorted(wholes.items(), key=_order):
        if cell != NOBODY:
            buckets, total = _histogram(found)
            delay.add_metric((cell.namespace, cell.rollout), buckets, sum_value=total)
            ended = found.get("arrival:joined", 0) + found.get("expired", 0)
            still_open.add_metric((cell.namespace, cell.rollout), found.get("received", 0) - ended)
    nobody = counts.get(NOBODY, {})
    waiting = GaugeMetricFamily(*_WAITING, value=nobody.get("waiting_in", 0) - nobody.get("waiting_out", 0))
    yield from (delay, still_open, waiting)


def _counters(
    kinds: Mapping[str, tuple[str, str, tuple[str, ...]]], place: tuple[str, ...], counts: Counts
) -> Iterator[Metric]:
    made = {kind: CounterMetricFamily(name, text, labels=(*place, *more)) for kind, (name, text, more) in kinds.items()}
    for cell, found in sorted(counts.items(), key=_order):
        where = (cell.namespace, cell.rollout, cell.attempt, cell.cohort, cell.part)[: len(place)]
        for key, value in sorted(found.items()):
            kind, *words = key.split(":")
            if kind in made:
                labels = words[: len(kinds[kind][2])]
                made[kind].add_metric((*where, *labels), value / SCORE_UNITS if kind == "score" else value)
    yield from made.values()


def _begun(found: Mapping[str, int]) -> dict[str, int]:
    """Return the counters of a cell with those that are 0 still; requests with and without a class are one."""
    zeros = {key: 0 for kind, keys in _FROM_THE_START.items() if kind in found for key in keys}
    requests = found.get(BINARY, 0) + found.get(CLASSES, 0)
    rest = {key: value for key, value in found.items() if key not in {BINARY, CLASSES}}
    return {**zeros, **rest, "predictions": requests}


def _answered(cell: Cell, found: Mapping[str, int]) -> dict[str, int]:
    """Return the counters of a rollout with those that are 0 still."""
    zeros = {f"arrival:{result}": 0 for result in _RESULTS}
    if cell != NOBODY:
        zeros |= dict.fromkeys(("expired", "not_comparable", "slices_over"), 0)
    return {**zeros, **found}


def _histogram(found: Mapping[str, int]) -> tuple[list[tuple[str, float]], float]:
    buckets, total = [], 0
    for place, edge in enumerate((*map(float, DELAYS), "+Inf")):
        total += found.get(f"delay:{place}", 0)
        buckets.append((str(edge), float(total)))
    return buckets, found.get("delay_ms", 0) / 1000


def _exports(value: int) -> Metric:
    return GaugeMetricFamily(*_EXPORTS, value=value)


def _order(item: tuple[Cell, Mapping[str, int]]) -> tuple[str, ...]:
    cell = item[0]
    return cell.namespace, cell.rollout, cell.attempt, cell.cohort, cell.part
