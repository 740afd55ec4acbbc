"""All outcomes of small cases and their exact probabilities, written without the code under test."""

import itertools
import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from gatestats.ticks import TwoArmCounts


def splits(baseline: int, candidate: int, pooled: int) -> list[TwoArmCounts]:
    """Every way in which ``pooled`` events can fall on the two variants."""
    return [
        TwoArmCounts(pooled - mine, baseline, mine, candidate)
        for mine in range(max(0, pooled - baseline), min(pooled, candidate) + 1)
    ]


def noncentral_law(outcomes: list[TwoArmCounts], odds_ratio: float) -> NDArray[np.float64]:
    weights = np.array(
        [
            math.comb(tick.candidate_total, tick.candidate_events)
            * math.comb(tick.baseline_total, tick.baseline_events)
            * odds_ratio**tick.candidate_events
            for tick in outcomes
        ]
    )
    law: NDArray[np.float64] = weights / weights.sum()
    return law


def binomial(events: int, total: int, rate: float) -> float:
    return math.comb(total, events) * rate**events * (1 - rate) ** (total - events)


def two_binomials(baseline: int, candidate: int) -> list[TwoArmCounts]:
    """Every outcome of two variants with these requests."""
    return [
        TwoArmCounts(theirs, baseline, mine, candidate)
        for theirs in range(baseline + 1)
        for mine in range(candidate + 1)
    ]


def two_binomial_law(outcomes: list[TwoArmCounts], baseline_rate: float, candidate_rate: float) -> NDArray[np.float64]:
    return np.array(
        [
            binomial(tick.baseline_events, tick.baseline_total, baseline_rate)
            * binomial(tick.candidate_events, tick.candidate_total, candidate_rate)
            for tick in outcomes
        ]
    )


def compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """Every way to write ``total`` as an ordered sum of ``parts`` counts."""
    for bars in itertools.combinations(range(total + parts - 1), parts - 1):
        edges = (-1, *bars, total + parts - 1)
        yield tuple(right - left - 1 for left, right in itertools.pairwise(edges))


def multinomial(counts: tuple[int, ...], rates: tuple[float, ...]) -> float:
    ways = math.factorial(sum(counts)) // math.prod(math.factorial(count) for count in counts)
    return ways * math.prod(rate**count for count, rate in zip(counts, rates, strict=True))
