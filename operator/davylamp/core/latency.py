"""How a latency gate is tested with the buckets that there are.

Fine buckets carry the margin as a shift of the whole distribution. Coarse ones, such as the 1, 5, 10 ms of a gateway,
cannot express "10 % slower": there the margin becomes a range of odds of lying beyond the edge nearest to the
baseline's 95th percentile, read off the baseline's own histogram. Both are frozen before the candidate gets traffic.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from gatestats.bracketed import BracketedOddsRatioDesign
from gatestats.buckets import expressible_shift, refuse_bad_edges
from gatestats.exceedance import counts_beyond, exceedance
from gatestats.histogram import HistogramDesign
from gatestats.process import Process
from gatestats.ticks import TwoArmCounts, TwoArmHistogram

#: Requests of the baseline from which its histogram is good enough to fix scores and edges.
ENOUGH: Final = 200
_MOST_EDGES: Final = 256
_LARGEST_RATIO: Final = 16.0


@dataclass(frozen=True, slots=True)
class Baseline:
    """The baseline's histogram of before the rollout: upper ``edges`` in seconds, and ``counts``."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]

    @property
    def total(self) -> int:
        """Requests in it."""
        return sum(self.counts)

    def to_plain(self) -> dict[str, list[Any]]:
        """Return it for JSON; the open edge is written as a word."""
        return {"edges": [repr(edge) for edge in self.edges], "counts": list(self.counts)}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> "Baseline":
        """Read it back.

        Raises
        ------
        ValueError
            If it is damaged: lengths differ, too long, not numbers, or edges that do not rise.
        """
        try:
            edges = tuple(float(edge) for edge in plain["edges"])
            counts = tuple(int(count) for count in plain["counts"])
        except (KeyError, TypeError, OverflowError) as broken:
            raise ValueError(f"stored histogram is damaged: {broken!r}") from broken
        refuse_bad_edges(edges)
        if len(edges) != len(counts) or len(edges) > _MOST_EDGES or min(counts) < 0:
            raise ValueError(f"stored histogram is damaged: {len(edges)} edges and {len(counts)} counts")
        return cls(edges, counts)


@dataclass(frozen=True, slots=True)
class LatencyDesign:
    """The e-process of a latency gate, and what it looks at.

    Parameters
    ----------
    process
        Takes what `tick` returns.
    beyond
        Index of the edge whose exceedance is counted; None if the whole distribution is.
    sentence
        What is tested, for people.
    """

    process: Process
    beyond: int | None
    sentence: str

    def tick(self, histogram: TwoArmHistogram) -> TwoArmHistogram | TwoArmCounts:
        """Return what the process counts of one look."""
        return histogram if self.beyond is None else counts_beyond(histogram, self.beyond)


def latency_design(baseline: Baseline, margin: float, looks: int | None = None) -> LatencyDesign | None:
    """Return how a slowdown by ``margin`` (a ratio above 1) is tested in ``looks`` looks or, without, in any number.

    None if the buckets show nothing: all of the baseline's requests lie in one bucket, or there are too few of them.
    """
    if baseline.total < ENOUGH or len(baseline.edges) < 3:
        return None
    shift = expressible_shift(baseline.edges, margin)
    if shift is not None:
        design = HistogramDesign.from_baseline(
            baseline.edges, baseline.counts, margin=shift.margin, planned_ticks=looks
        )
        return LatencyDesign(design, None, f"whole distribution, at most {shift.margin - 1:.1%} slower")
    beyond = exceedance(baseline.edges, baseline.counts, margin)
    if beyond is None:
        return None
    low, high = (min(_LARGEST_RATIO, ratio) for ratio in (beyond.least_odds_ratio, beyond.most_odds_ratio))
    least, most = beyond.slowed_share(low), beyond.slowed_share(high)
    sentence = (
        f"buckets too coarse for {margin - 1:.0%}: share beyond the edge {beyond.edge:g}, {beyond.baseline_share:.2%} "
        f"before the rollout; slower by {margin - 1:.0%} is {least:.2%} to {most:.2%}"
    )
    return LatencyDesign(BracketedOddsRatioDesign(low, high, looks), beyond.index, sentence)
