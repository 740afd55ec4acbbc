"""Rates of two variants as if at the same times: Mantel-Haenszel sums over ticks, for display."""

import math
from collections.abc import Sequence

from gatestats.ticks import TwoArmCounts


def common_rate_terms(tick: TwoArmCounts) -> tuple[float, float, float, float]:
    """Return this tick's Mantel-Haenszel terms: both variants' weighted events, the weight, and its candidate's part.

    The weight is n_C n_B / N. Its parts, by the variants' shares of the requests, give the variances of the two rates.
    """
    total = tick.baseline_total + tick.candidate_total
    if not total:
        return 0.0, 0.0, 0.0, 0.0
    weight = tick.baseline_total * tick.candidate_total / total
    return (
        tick.candidate_events * tick.baseline_total / total,
        tick.baseline_events * tick.candidate_total / total,
        weight,
        weight * tick.candidate_total / total,
    )


def common_rates(sums: Sequence[float]) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Return (events, total) of baseline and candidate as if at the same times; None until both have been seen.

    Rates are weighted over ticks as in the Mantel-Haenszel estimate, so that a drift common to both variants cancels
    while the weight changes. Totals are those with which a plain rate would vary as much: M^2 / sum of m_t n / N, with
    m_t the weight of a tick, M their sum and n / N the variant's own complement.

    Parameters
    ----------
    sums
        Running sums of `common_rate_terms`.
    """
    candidate, baseline, mass, part = sums
    if mass < 1:
        return None
    return _as_counts(baseline / mass, mass * mass / part), _as_counts(candidate / mass, mass * mass / (mass - part))


def _as_counts(rate: float, size: float) -> tuple[int, int]:
    total = math.floor(size)
    return min(total, round(rate * total)), total
