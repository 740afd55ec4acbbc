"""What was found for one variant of one signal, while the series of an answer are sorted."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import Final

from davylamp.core.reading import Target
from davylamp.sources.answers import bounded
from davylamp.sources.questions import Role
from davylamp.sources.samples import NativeSample, UnusableSamplesError, edge
from gatestats.counters import Sample

#: Labels by which the servers of a redundant pair mark what each of them scraped.
_REPLICA_LABELS: Final = (
    "prometheus_replica",
    "__replica__",
    "thanos_replica",
    "thanos_receive_replica",
    "receive_replica",
)
_LONGEST_TARGET: Final = 100
_SERIES_OF_A_BUCKET: Final = frozenset({"__name__", "le"})


class Identity:
    """Tells scraped targets apart.

    Parameters
    ----------
    labels
        That do so, the best first.
    """

    def __init__(self, labels: Sequence[str]) -> None:
        self._labels = tuple(labels)

    def of(self, series: Mapping[str, str]) -> str:
        """Return the name of the target that a series comes from; all that carry none of the labels are one."""
        return " ".join(series[label] for label in self._labels if series.get(label)) or "all"


class Found:
    """Series of one variant of one signal by target; filled once, then read."""

    def __init__(self) -> None:
        self._counters: dict[Role, dict[str, dict[str, tuple[Sample, ...]]]] = {Role.EVENTS: {}, Role.TOTAL: {}}
        self._classic: dict[str, dict[frozenset[tuple[str, str]], dict[float, tuple[Sample, ...]]]] = {}
        self._native: dict[str, dict[str, tuple[NativeSample, ...]]] = {}
        self._jobs: dict[str, str] = {}
        self._replica: tuple[str, str] | None = None
        self._metrics: set[str] = set()
        self._trouble = ""
        self._remark = ""

    # -- filling ----------------------------------------------------------------------------------------------------

    def complain(self, sentence: str) -> None:
        """Note why the samples cannot be used; the first reason stays."""
        self._trouble = self._trouble or sentence

    def remark(self, sentence: str) -> None:
        """Note what matters only if nothing usable is found."""
        self._remark = self._remark or sentence

    def watch_for_twins(self, labels: Mapping[str, str]) -> None:
        """Refuse what would count requests twice: two replicas of Prometheus, or one target in two jobs."""
        self._metrics.add(labels.get("__name__", ""))
        for label in _REPLICA_LABELS:
            if label in labels:
                known = self._replica or (label, labels[label])
                if known != (label, labels[label]):
                    raise UnusableSamplesError(
                        f'comes from several replicas of Prometheus ({label}="{known[1]}" and "{labels[label]}"): '
                        "ask a server that removes duplicates"
                    )
                self._replica = known
        instance, job = labels.get("instance", ""), labels.get("job", "")
        if instance and self._jobs.setdefault(instance, job) != job:
            raise UnusableSamplesError(
                f"is scraped by two jobs, {self._jobs[instance]} and {job}, so each request would count twice: "
                "name one of the jobs in metrics.labels"
            )

    def add_counter(self, role: Role, target: str, name: str, samples: tuple[Sample, ...]) -> None:
        """Take the samples of one counter."""
        self._counters[role].setdefault(target, {})[name] = samples

    def add_bucket(self, target: str, labels: Mapping[str, str], samples: tuple[Sample, ...]) -> None:
        """Take the samples of one bucket of a classic histogram."""
        if "le" not in labels:
            raise UnusableSamplesError("is a bucket without the label le")
        others = frozenset(item for item in labels.items() if item[0] not in _SERIES_OF_A_BUCKET)
        buckets = self._classic.setdefault(target, {}).setdefault(others, {})
        bound = edge(labels["le"])
        if bound in buckets:
            raise UnusableSamplesError(f"is the second bucket up to {bound:g} of one histogram")
        buckets[bound] = samples

    def add_native(self, target: str, name: str, samples: tuple[NativeSample, ...]) -> None:
        """Take the samples of one native histogram."""
        self._native.setdefault(target, {})[name] = samples

    def drop_classic(self) -> None:
        """Forget the classic histograms: the native ones say more."""
        self._classic = {}

    def drop_native(self) -> None:
        """Forget the native histograms: not every target has one."""
        self._native = {}

    # -- reading ----------------------------------------------------------------------------------------------------

    @property
    def trouble(self) -> str:
        """Why the samples cannot be used; empty if they can."""
        if self._trouble:
            return self._trouble
        return "" if self.has_totals or self.has_histograms else self._remark

    @property
    def has_events(self) -> bool:
        """Whether a counter of events was found."""
        return bool(self._counters[Role.EVENTS])

    @property
    def has_totals(self) -> bool:
        """Whether a counter of requests was found."""
        return bool(self._counters[Role.TOTAL])

    @property
    def has_histograms(self) -> bool:
        """Whether a histogram was found."""
        return bool(self._classic or self._native)

    @property
    def all_native(self) -> bool:
        """Whether every target with a histogram has a native one."""
        return self._native.keys() >= self._classic.keys()

    @property
    def all_classic(self) -> bool:
        """Whether every target with a histogram has a classic one."""
        return self._classic.keys() >= self._native.keys()

    @property
    def metrics(self) -> str:
        """Names of the metrics that were found."""
        return " and ".join(sorted(self._metrics))

    @property
    def newest(self) -> float | None:
        """Time of the newest sample of requests, in seconds since the epoch; None if there is none."""
        counters = self._counters[Role.TOTAL].values()
        times = [samples[-1].time for target in counters for samples in target.values()]
        classic = (buckets for target in self._classic.values() for buckets in target.values())
        times += [samples[-1].time for buckets in classic for samples in buckets.values()]
        times += [samples[-1][0] for target in self._native.values() for samples in target.values()]
        return max(times, default=None)

    def targets(self) -> tuple[Target, ...]:
        """Return what was found, by target; targets that show no requests are left out."""
        names = self._counters[Role.TOTAL].keys() | self._classic.keys() | self._native.keys()
        return tuple(target for name in sorted(names) if (target := self._target(name)) is not None)

    def _target(self, name: str) -> Target | None:
        total = self._counters[Role.TOTAL].get(name, {})
        newest = max((samples[-1].time for samples in total.values()), default=-math.inf)
        # Events asked for by a query of their own may be a scrape ahead; that scrape is read by the next look.
        events = {
            key: tuple(sample for sample in samples if sample.time <= newest)
            for key, samples in self._counters[Role.EVENTS].get(name, {}).items()
        }
        try:
            buckets = _added_up(list(self._classic.get(name, {}).values()))
            native = _native_added_up(list(self._native.get(name, {}).values()))
        except ValueError as unfit:
            self.complain(f"{self.metrics} of {bounded(name, _LONGEST_TARGET)} {unfit}")
            return None
        return Target(name, events, total, buckets, native)


def _added_up(parts: Sequence[Mapping[float, tuple[Sample, ...]]]) -> Mapping[float, tuple[Sample, ...]]:
    """Add up the histograms of one target (one for each path, say) scrape by scrape."""
    if not parts:
        return {}
    edges = parts[0].keys()
    for part in parts:
        if part.keys() != edges:
            raise UnusableSamplesError("have unequal buckets and cannot be added up: use the same buckets everywhere")
        if math.inf not in part:
            raise UnusableSamplesError('have no bucket le="+Inf": nothing tells how many requests there were')
    if len(parts) == 1:
        return parts[0]
    return {bound: _sum([part[bound] for part in parts]) for bound in edges}


def _sum(parts: Sequence[tuple[Sample, ...]]) -> tuple[Sample, ...]:
    times = _common_times([[sample.time for sample in part] for part in parts])
    totals: dict[float, float] = {}
    for part in parts:
        for sample in part:
            totals[sample.time] = totals.get(sample.time, 0) + sample.value
    return tuple(Sample(time, totals[time]) for time in times)


def _native_added_up(parts: Sequence[tuple[NativeSample, ...]]) -> tuple[NativeSample, ...]:
    if len(parts) == 1:
        return parts[0]
    times = _common_times([[time for time, _ in part] for part in parts])
    totals: dict[float, dict[tuple[float, float], int]] = {}
    for part in parts:
        for time, buckets in part:
            row = totals.setdefault(time, {})
            for bounds, count in buckets.items():
                row[bounds] = row.get(bounds, 0) + count
    return tuple((time, totals[time]) for time in times)


def _common_times(parts: Sequence[Sequence[float]]) -> list[float]:
    """Return the scrapes that series were seen in; each may begin late and end early, but none misses one between."""
    times = sorted({time for part in parts for time in part})
    for part in parts:
        if bisect_right(times, part[-1]) - bisect_left(times, part[0]) != len(part):
            raise UnusableSamplesError(
                "come from different scrapes, so they belong to several targets: keep the label instance, which tells "
                "these apart"
            )
    return times
