"""Fisher's noncentral hypergeometric law: how events split between two variants, given their pooled number."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from gatestats.arrays import FloatArray, IntArray
from gatestats.ticks import TwoArmCounts
from gatestats.tilted_sum import log_tilted_expectation

#: Above this many possible splits the sum over all of them costs more than the tilted sum.
_LARGEST_SUPPORT = 600
#: Streams are summed together up to this many numbers at a time.
_LARGEST_BLOCK: Final = 2_000_000
#: One segment, for `reduceat`: the same order of additions as in a sum over many streams.
_WHOLE: Final = np.array([0])


def log_normalisers(counts: TwoArmCounts, log_odds: FloatArray) -> FloatArray:
    """Return ln Z(w) - ln Z(1) for odds ratios w of candidate against baseline.

    Z(w) = sum_u C(n_C, u) C(n_B, X - u) w^u over the possible candidate events u, X pooled events. The candidate's
    events, given n_B, n_C and X, have P(u) = C(n_C, u) C(n_B, X - u) w^u / Z(w), whatever the event rate is.

    Parameters
    ----------
    counts
        Counts of one tick.
    log_odds
        ln w, finite, nats, shape (K,).

    Returns
    -------
    FloatArray
        Shape (K,), nats.

    Notes
    -----
    Fog (2008), "Calculation methods for Fisher's noncentral hypergeometric distribution". Coefficients are built
    from ratios of neighbours and summed in log space; long sums use `log_tilted_expectation`.
    """
    first, last = _support(counts)
    if last - first > _LARGEST_SUPPORT:
        return _by_tilted_sum(counts, log_odds)
    baseline, candidate = counts.baseline_total, counts.candidate_total
    pooled = counts.baseline_events + counts.candidate_events
    lower = np.arange(first, last, dtype=np.float64)
    rises = np.log((candidate - lower) * (pooled - lower)) - np.log((lower + 1) * (baseline - pooled + lower + 1))
    log_weight = np.concatenate([[0.0], np.cumsum(rises)])
    support = np.arange(first, last + 1, dtype=np.float64)
    odds = np.concatenate([log_odds, [0.0]])
    terms = log_weight + odds[:, None] * support
    largest = terms.max(axis=1, keepdims=True)
    sums = np.log(np.add.reduceat(np.exp(terms - largest), _WHOLE, axis=1)) + largest
    result: FloatArray = sums[:-1, 0] - sums[-1, 0]
    return result


def log_normalisers_of_many(counts: Sequence[TwoArmCounts], log_odds: FloatArray) -> FloatArray:
    """Return `log_normalisers` of many streams in one pass: the same bits as one by one.

    Parameters
    ----------
    counts
        Counts of one tick of each stream.
    log_odds
        ln w, finite, nats, shape (streams, K).

    Returns
    -------
    FloatArray
        Shape (streams, K), nats.
    """
    result = np.empty_like(log_odds)
    block: list[int] = []
    size, rows = 0, log_odds.shape[1] + 1
    for stream, tick in enumerate(counts):
        first, last = _support(tick)
        if last - first > _LARGEST_SUPPORT:
            result[stream] = _by_tilted_sum(tick, log_odds[stream])
            continue
        if block and size + (last - first + 1) * rows > _LARGEST_BLOCK:
            result[block] = _summed([counts[index] for index in block], log_odds[block])
            block, size = [], 0
        block.append(stream)
        size += (last - first + 1) * rows
    if block:
        result[block] = _summed([counts[index] for index in block], log_odds[block])
    return result


def _support(counts: TwoArmCounts) -> tuple[int, int]:
    """Return the least and the largest number of events that the candidate can have."""
    pooled = counts.baseline_events + counts.candidate_events
    return max(0, pooled - counts.baseline_total), min(pooled, counts.candidate_total)


def _by_tilted_sum(counts: TwoArmCounts, log_odds: FloatArray) -> FloatArray:
    pooled = counts.baseline_events + counts.candidate_events
    total = counts.baseline_total + counts.candidate_total
    values = np.array([pooled, total - pooled], dtype=np.float64)
    exponents = np.stack([log_odds, np.zeros_like(log_odds)], axis=1)
    return log_tilted_expectation(values, counts.candidate_total, exponents)


def _summed(counts: Sequence[TwoArmCounts], log_odds: FloatArray) -> FloatArray:
    """Sum over the supports of all streams, laid end to end.

    A sum over a segment does not depend on its neighbours (`reduceat` adds each on its own), nor does a cumulative sum
    on what follows it, so that a stream gives the same bits in any company.
    """
    ends = np.array([_support(tick) for tick in counts], dtype=np.int64)
    lengths = ends[:, 1] - ends[:, 0] + 1
    log_weight, support = _log_weights(counts, ends[:, 0], lengths)
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    odds = np.concatenate([log_odds, np.zeros((len(counts), 1))], axis=1).T
    terms = log_weight + np.repeat(odds, lengths, axis=1) * support
    largest = np.maximum.reduceat(terms, starts, axis=1)
    terms -= np.repeat(largest, lengths, axis=1)
    sums = np.log(np.add.reduceat(np.exp(terms, out=terms), starts, axis=1)) + largest
    result: FloatArray = (sums[:-1] - sums[-1]).T
    return result


def _log_weights(counts: Sequence[TwoArmCounts], first: IntArray, lengths: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return ln C(n_C, u) C(n_B, X - u) up to a constant of each stream, and u, for all streams end to end."""
    sizes = np.array(
        [(tick.baseline_total, tick.candidate_total, tick.baseline_events + tick.candidate_events) for tick in counts],
        dtype=np.float64,
    )
    baseline, candidate, pooled = sizes.T[:, :, None]
    places = np.arange(lengths.max())
    lower = first[:, None] + places[:-1].astype(np.float64)
    inside = places[1:] < lengths[:, None]
    more, fewer = (candidate - lower) * (pooled - lower), (lower + 1) * (baseline - pooled + lower + 1)
    rises = np.log(np.where(inside, more, 1.0)) - np.log(np.where(inside, fewer, 1.0))
    log_weight = np.concatenate([np.zeros((len(counts), 1)), np.cumsum(rises, axis=1)], axis=1)
    kept = places < lengths[:, None]
    return log_weight[kept], (first[:, None] + places)[kept].astype(np.float64)
