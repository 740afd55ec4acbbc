"""What goes into an e-process and what comes out for people: counts of one tick, estimates, intervals.

Rule 1: counts are exact integers; whoever has fractions has extrapolated, and is refused.
Rule 2: nothing observed is not the same as zero observed: estimates and bounds that do not exist are None.
Rule 3: every kind of tick stands here, in one closed union; that is why this file is long.
"""

import itertools
import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar


class Worse(StrEnum):
    """The direction in which the candidate would be worse than the baseline."""

    #: More is worse: errors, latency, disagreement.
    HIGHER = "Higher"
    #: Less is worse: true positives, conversions, approvals.
    LOWER = "Lower"


class Measure(StrEnum):
    """What the effect of an estimate and the bounds of an interval are measured in."""

    #: Candidate's odds over baseline's odds, > 0; 1 means equal.
    ODDS_RATIO = "OddsRatio"
    #: Candidate's rate minus baseline's rate, -1..1; 0 means equal.
    DIFFERENCE = "Difference"
    #: Candidate's rate over baseline's rate, > 0; 1 means equal.
    RATIO = "Ratio"
    #: A share of events, 0..1, of the candidate alone.
    RATE = "Rate"
    #: Mean over pairs of (baseline right) - (candidate right), -1..1; 0 means equal.
    PAIRED_LOSS = "PairedLoss"
    #: Candidate's value over baseline's value at the same quantile, > 0; 1 means equal.
    SLOWDOWN = "Slowdown"
    #: Candidate's mean per pod minus baseline's mean per pod, in the unit of the pod statistic.
    POD_DIFFERENCE = "PodDifference"
    #: How much further the candidate's rate in a slice is from its rate elsewhere than the baseline's, -2..2.
    GAP_DIFFERENCE = "GapDifference"
    #: Candidate's share of the requests minus the share asked for, -1..1; 0 means as asked.
    SPLIT_DIFFERENCE = "SplitDifference"
    #: Candidate's mean minus baseline's mean, in the unit of the value; 0 means equal.
    MEAN_DIFFERENCE = "MeanDifference"
    #: Mean of a bounded value over pairs, in the unit of the value.
    PAIRED_MEAN = "PairedMean"


def refuse_bad_count(name: str, count: int, limit: int | None = None) -> None:
    """Raise ValueError unless ``count`` is an int in 0..limit."""
    if type(count) is not int or count < 0 or (limit is not None and count > limit):
        raise ValueError(f"{name} must be a whole number in 0..{'' if limit is None else limit}, got {count!r}")


def refuse_bad_bounds(edges: tuple[float, ...]) -> None:
    """Raise ValueError unless there are two edges or more, all finite and strictly increasing."""
    if len(edges) < 2 or not all(math.isfinite(edge) for edge in edges):
        raise ValueError(f"edges must be finite, and at least 2, got {edges}")
    if not all(low < high for low, high in itertools.pairwise(edges)):
        raise ValueError(f"edges must increase strictly, got {edges}")


@dataclass(frozen=True, slots=True)
class OneArmCounts:
    """Events among a total in one tick of one variant (or of pairs).

    Parameters
    ----------
    events
        Count, 0..total.
    total
        Count of requests or pairs, >= 0.
    """

    events: int
    total: int

    def __post_init__(self) -> None:
        refuse_bad_count("total", self.total)
        refuse_bad_count("events", self.events, self.total)


@dataclass(frozen=True, slots=True)
class TwoArmCounts:
    """Events among requests in one tick, for both variants.

    Parameters
    ----------
    baseline_events, candidate_events
        Counts, 0..total of the same variant.
    baseline_total, candidate_total
        Counts of requests, >= 0, from the same scrapes as the events.
    apart
        Whether the variants were counted over times that begin or end apart, as by scrapes of different servers. What
        befalls both at once then looks, for a tick, as if it befell one; see `gatestats.late_change.held`.
    """

    baseline_events: int
    baseline_total: int
    candidate_events: int
    candidate_total: int
    apart: bool = False

    def __post_init__(self) -> None:
        refuse_bad_count("baseline_total", self.baseline_total)
        refuse_bad_count("candidate_total", self.candidate_total)
        refuse_bad_count("baseline_events", self.baseline_events, self.baseline_total)
        refuse_bad_count("candidate_events", self.candidate_events, self.candidate_total)

    def swapped(self) -> "TwoArmCounts":
        """Return the counts with the variants' labels exchanged."""
        theirs, ours = (self.baseline_events, self.baseline_total), (self.candidate_events, self.candidate_total)
        return TwoArmCounts(*ours, *theirs, apart=self.apart)


@dataclass(frozen=True, slots=True)
class TwoArmHistogram:
    """Requests per bucket in one tick, for both variants, on the same edges.

    Parameters
    ----------
    edges
        Upper bounds of the buckets, strictly increasing, at least two, the last may be ``inf``. The first bucket
        holds everything up to its bound. For a shift by buckets the finite edges must grow by one constant ratio.
    baseline, candidate
        Counts per bucket (not cumulative), >= 0, as many as edges.
    apart
        As in `TwoArmCounts`.
    """

    edges: tuple[float, ...]
    baseline: tuple[int, ...]
    candidate: tuple[int, ...]
    apart: bool = False

    def __post_init__(self) -> None:
        if len(self.edges) < 2:
            raise ValueError(f"a histogram needs at least 2 buckets, got {len(self.edges)}")
        if any(math.isnan(edge) for edge in self.edges) or not all(
            low < high for low, high in zip(self.edges, self.edges[1:], strict=False)
        ):
            raise ValueError(f"edges must increase strictly, got {self.edges}")
        for name, counts in (("baseline", self.baseline), ("candidate", self.candidate)):
            if len(counts) != len(self.edges):
                raise ValueError(f"{name} must have one count for each of {len(self.edges)} edges, got {len(counts)}")
            for index, count in enumerate(counts):
                refuse_bad_count(f"{name}[{index}]", count)


@dataclass(frozen=True, slots=True)
class PodCounts:
    """One number per pod in one tick, for both variants.

    Parameters
    ----------
    baseline, candidate
        The pod statistic, for example errors of the pod, finite, >= 0. All pods expect the same traffic.
    """

    baseline: tuple[float, ...]
    candidate: tuple[float, ...]

    def __post_init__(self) -> None:
        for value in (*self.baseline, *self.candidate):
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"a pod statistic must be finite and at least 0, got {value}")


@dataclass(frozen=True, slots=True)
class PodwiseCounts:
    """One tick seen twice: ``requests`` of both variants, and one number for each of their ``pods``."""

    requests: TwoArmCounts
    pods: PodCounts


@dataclass(frozen=True, slots=True)
class PairedCounts:
    """Pairs of one tick: the same request answered by both variants, compared with the truth.

    Parameters
    ----------
    worse
        Pairs in which the baseline was right and the candidate wrong.
    better
        Pairs in which the candidate was right and the baseline wrong.
    total
        All pairs, at least worse + better.
    """

    worse: int
    better: int
    total: int

    def __post_init__(self) -> None:
        refuse_bad_count("total", self.total)
        refuse_bad_count("worse", self.worse, self.total)
        refuse_bad_count("better", self.better, self.total - self.worse)


@dataclass(frozen=True, slots=True)
class PairedOutcomes:
    """As `PairedCounts`, with the pairs in which ``both`` variants were right; in all other pairs neither was."""

    both: int
    worse: int
    better: int
    total: int

    def __post_init__(self) -> None:
        pairs = self.counts
        refuse_bad_count("both", self.both, pairs.total - pairs.worse - pairs.better)

    @property
    def counts(self) -> PairedCounts:
        """The same without telling the pairs apart in which the variants agree."""
        return PairedCounts(self.worse, self.better, self.total)


@dataclass(frozen=True, slots=True)
class PrecisionCounts:
    """Pairs of one tick: those whose label is positive (deciding so is right), and those whose label is negative."""

    positives: PairedOutcomes
    negatives: PairedOutcomes


@dataclass(frozen=True, slots=True)
class PairedHistogram:
    """Pairs of one tick by the bucket of a bounded value of the pair, such as candidate's loss minus baseline's loss.

    Parameters
    ----------
    edges
        Finite, strictly increasing, at least two: the values lie between the first and the last.
    counts
        Pairs between each edge and the next, >= 0, one fewer than edges.
    """

    edges: tuple[float, ...]
    counts: tuple[int, ...]

    def __post_init__(self) -> None:
        refuse_bad_bounds(self.edges)
        if len(self.counts) != len(self.edges) - 1:
            raise ValueError(f"counts must lie between {len(self.edges)} edges, got {len(self.counts)} of them")
        for index, count in enumerate(self.counts):
            refuse_bad_count(f"counts[{index}]", count)


@dataclass(frozen=True, slots=True)
class GapCounts:
    """Events in one tick for both variants, ``inside`` a slice and ``outside`` it; no request belongs to both."""

    inside: TwoArmCounts
    outside: TwoArmCounts


@dataclass(frozen=True, slots=True)
class PairedGapCounts:
    """Pairs of one tick, inside a slice and outside it; parameters as in `GapCounts`."""

    inside: PairedCounts
    outside: PairedCounts


@dataclass(frozen=True, slots=True)
class SplitCounts:
    """Requests of one tick by variant, and how they should have been split.

    Parameters
    ----------
    counts
        Requests of each variant, >= 0, at least two variants, the candidate last.
    asked
        Share asked for each, in (0, 1), adding up to 1. A variant without traffic takes no part in the split.
    """

    counts: tuple[int, ...]
    asked: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.counts) < 2 or len(self.counts) != len(self.asked):
            raise ValueError(f"a split needs 2 variants and a share for each, got {self.counts} and {self.asked}")
        for index, count in enumerate(self.counts):
            refuse_bad_count(f"counts[{index}]", count)
        if not all(0 < asked < 1 for asked in self.asked) or abs(math.fsum(self.asked) - 1) > 1e-9:
            raise ValueError(f"asked shares must lie between 0 and 1 and add up to 1, got {self.asked}")


@dataclass(frozen=True, slots=True)
class TwoArmSums:
    """Requests and the sum of their values in one tick, for both variants.

    Parameters
    ----------
    baseline_total, candidate_total
        Counts of requests, >= 0.
    baseline_sum, candidate_sum
        Sum of the values over them, finite; 0 where there is no request.
    """

    baseline_total: int
    baseline_sum: float
    candidate_total: int
    candidate_sum: float

    def __post_init__(self) -> None:
        arms = (
            ("baseline", self.baseline_total, self.baseline_sum),
            ("candidate", self.candidate_total, self.candidate_sum),
        )
        for name, total, value in arms:
            refuse_bad_count(f"{name}_total", total)
            if not math.isfinite(value) or (value and not total):
                raise ValueError(f"{name}_sum must be finite, and 0 without requests, got {value} over {total}")


Tick = (
    OneArmCounts
    | TwoArmCounts
    | TwoArmHistogram
    | PodCounts
    | PodwiseCounts
    | PairedCounts
    | PairedOutcomes
    | PrecisionCounts
    | PairedHistogram
    | GapCounts
    | PairedGapCounts
    | SplitCounts
    | TwoArmSums
)
_Kind = TypeVar("_Kind", bound=Tick)


def tick_as(kind: type[_Kind], tick: Tick) -> _Kind:
    """Return ``tick`` if it is of the kind that a design counts, else raise ValueError."""
    if isinstance(tick, kind):
        return tick
    raise ValueError(f"this design counts {kind.__name__}, got {type(tick).__name__}")


@dataclass(frozen=True, slots=True)
class Estimate:
    """The observed effect, for display; decisions use evidence.

    Parameters
    ----------
    measure
        What ``effect`` is measured in.
    effect
        Stratified over ticks, so that a drift common to both variants cancels; None if the data do not fix it.
    baseline, candidate
        The variant's own level (a rate, a mean, a quantile); None without data of that variant.
    baseline_total, candidate_total
        Requests (pairs, pod ticks) behind it, >= 0.
    """

    measure: Measure
    effect: float | None
    baseline: float | None
    candidate: float | None
    baseline_total: int
    candidate_total: int


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence sequence: it covers at every look together with probability of at least ``level``.

    Parameters
    ----------
    measure
        What the bounds are measured in.
    low, high
        Bounds; None where the data give no bound.
    level
        Coverage, in (0, 1).
    """

    measure: Measure
    low: float | None
    high: float | None
    level: float


def refuse_bad_level(level: float) -> None:
    """Raise ValueError unless ``level`` lies in (0, 1)."""
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, both excluded, got {level}")


def share(events: int, total: int) -> float | None:
    """Return events / total, or None if nothing was counted."""
    return events / total if total else None
