"""What comes of comparing many pairs of answers: counts, bounds, latencies, and whether the limit is kept.

Rule 1: the limit is kept when the data show it: when the bound of the share lies within it, not the share alone.
Rule 2: pairs that cannot be compared are named, and count for nothing.
"""

from __future__ import annotations

import math
import statistics
from bisect import insort
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from davylamp.cli.diff_requests import Request
    from davylamp.shadow.comparison import Comparison
    from davylamp.shadow.exchange import Outcome

#: Of every bound that is shown, one-sided and at this one look.
CONFIDENCE: Final = 0.95
_P95: Final = 0.95


class Ending(StrEnum):
    """What the pairs say about the limit."""

    #: The share is within the limit, and the data show it.
    WITHIN = "Within"
    #: The share is over the limit.
    OVER = "Over"
    #: The share is within the limit, but so few pairs could come of one that is over it.
    TOO_FEW = "TooFew"
    #: No pair could be compared.
    NOTHING = "Nothing"


@dataclass(frozen=True, slots=True)
class Pair:
    """The same request at both variants, and how their answers compare."""

    request: Request
    baseline: Outcome
    candidate: Outcome
    comparison: Comparison


@dataclass(slots=True)
class Summary:
    """Counts over all pairs so far.

    Parameters
    ----------
    limit
        Largest share of disagreeing pairs, 0..1.
    slowdown
        A pair counts as slower when the candidate took more than (1 + slowdown) times as long, >= 0.
    shown
        How many disagreeing pairs are kept, the first by their lines.
    """

    limit: float
    slowdown: float
    shown: int
    requests: int = 0
    pairs: int = 0
    disagreements: int = 0
    slower: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    differences: Counter[str] = field(default_factory=Counter)
    incomparable: Counter[str] = field(default_factory=Counter)
    latencies: dict[str, list[float]] = field(default_factory=lambda: {"baseline": [], "candidate": []})
    measures: dict[str, list[float]] = field(default_factory=dict)
    examples: list[Pair] = field(default_factory=list)
    #: Of the baseline with itself, where it was asked twice: pairs, and those that disagree.
    again_pairs: int = 0
    again_disagreements: int = 0

    def add(self, pair: Pair) -> None:
        """Count a pair."""
        comparison = pair.comparison
        self.requests += 1
        if comparison.unread is not None:
            self.incomparable[comparison.unread.value] += 1
            return
        self.pairs += 1
        self.kinds[comparison.kind.value] += 1
        self.differences.update(difference.value for difference in comparison.differences)
        for measure, value in comparison.measures.items():
            self.measures.setdefault(measure.value, []).append(value)
        self._time(pair)
        if comparison.disagrees:
            self.disagreements += 1
            insort(self.examples, pair, key=lambda known: known.request.line)
            del self.examples[self.shown :]

    def add_again(self, pair: Pair) -> None:
        """Count a pair of the baseline with itself; it decides nothing."""
        if pair.comparison.unread is None:
            self.again_pairs += 1
            self.again_disagreements += pair.comparison.disagrees

    def _time(self, pair: Pair) -> None:
        from davylamp.shadow.exchange import Answer

        sides = (pair.baseline, pair.candidate)
        if all(isinstance(side.result, Answer) and side.result.succeeded for side in sides):
            self.latencies["baseline"].append(pair.baseline.seconds)
            self.latencies["candidate"].append(pair.candidate.seconds)
            self.slower += pair.candidate.seconds > (1 + self.slowdown) * pair.baseline.seconds

    @property
    def timed(self) -> int:
        """How many pairs were answered with success by both."""
        return len(self.latencies["baseline"])

    @property
    def ending(self) -> Ending:
        """What the pairs say about the limit."""
        if not self.pairs:
            return Ending.NOTHING
        if self.disagreements > self.limit * self.pairs:
            return Ending.OVER
        return Ending.WITHIN if upper_bound(self.disagreements, self.pairs) <= self.limit else Ending.TOO_FEW

    @property
    def sentence(self) -> str:
        """The ending in one sentence, with its numbers."""
        count = f"{self.disagreements:,} of {self.pairs:,} pairs disagree"
        limit = f"the limit of {100 * self.limit:.4g} %"
        ending = self.ending
        if ending is Ending.NOTHING:
            causes = ", ".join(f"{cause}: {number:,}" for cause, number in self.incomparable.items())
            return f"no pair could be compared ({causes or 'none was sent'})"
        if ending is Ending.OVER:
            return f"{count}, {100 * self.disagreements / self.pairs:.3g} %: more than {limit}"
        bound = f"at most {100 * upper_bound(self.disagreements, self.pairs):.3g} % at {CONFIDENCE:.0%} confidence"
        if ending is Ending.WITHIN:
            return f"{count}, {bound}: within {limit}"
        return f"{count}, {bound}: too few pairs to show that it is within {limit}"

    def manifest(self) -> dict[str, Any]:
        """Return all of it but the examples, as JSON has it."""
        return {
            "ending": self.ending.value,
            "sentence": self.sentence,
            "requests": self.requests,
            "pairs": self.pairs,
            "disagreements": _share(self.disagreements, self.pairs) | {"limit": self.limit},
            "baselineWithItself": _share(self.again_disagreements, self.again_pairs),
            "incomparable": dict(self.incomparable),
            "kinds": dict(self.kinds),
            "differences": dict(self.differences.most_common()),
            "latency": {side: _quantiles(seconds) for side, seconds in self.latencies.items()},
            "slower": _share(self.slower, self.timed) | {"slowdown": self.slowdown},
            "measures": {measure: spread(values) for measure, values in sorted(self.measures.items())},
        }


def upper_bound(events: int, total: int, confidence: float = CONFIDENCE) -> float:
    """Bound a share from above at one fixed number of pairs, >= 1.

    One-sided Clopper-Pearson, exact for independent pairs; looking again and again invalidates it.

    References
    ----------
    Clopper and Pearson (1934), Biometrika 26.
    """
    from scipy.special import betaincinv

    return 1.0 if events >= total else float(betaincinv(events + 1, total - events, confidence))


def spread(values: Sequence[float]) -> dict[str, float]:
    """Return how values, at least one, are spread."""
    return {
        "pairs": len(values),
        "least": min(values),
        "median": statistics.median(values),
        "greatest": max(values),
    }


def quantile(values: Sequence[float], level: float) -> float:
    """Return the least value that no fewer than this share of them lie at or below; of at least one."""
    return sorted(values)[max(0, math.ceil(level * len(values)) - 1)]


def _quantiles(seconds: Sequence[float]) -> Mapping[str, float]:
    if not seconds:
        return {}
    return {"median": statistics.median(seconds), "p95": quantile(seconds, _P95), "greatest": max(seconds)}


def _share(events: int, total: int) -> dict[str, Any]:
    if not total:
        return {"events": 0, "total": 0, "share": None, "atMost": None}
    return {"events": events, "total": total, "share": events / total, "atMost": upper_bound(events, total)}
