"""Evidence of many rollouts at once: the odds ratio test of `gatestats.odds_ratio`, whole arrays at a time.

The benchmark needs tens of millions of ticks; one by one they would take hours. The sums are those of the library, and
each run of the benchmark compares some rollouts with the library and the operator itself (row A0).
"""

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from e2e.bench.statistics.ingest import Ticks
from e2e.bench.statistics.scene import FloatArray
from gatestats.late_change import FIRST_STAKE, stake
from gatestats.noncentral import log_normalisers
from gatestats.odds_ratio import _BETTER, _BETTER_WEIGHTS, _EFFECT_WEIGHTS, _EFFECTS
from gatestats.ticks import TwoArmCounts

_MOST_APART: Final = math.log(10.0)
#: Up to this many possible splits, powers of the odds stay far inside what doubles hold.
_LINEAR: Final = 200
#: Stands for 0 in logarithms.
_NOTHING: Final = 1e-300
_CHUNK: Final = 4_000


def rollback_paths(
    ticks: Ticks, margin: float = 1.0, mde: float | None = None, planned: int | None = None
) -> FloatArray:
    """Return ln E against "odds ratio at most the margin" after each look; (looks, lines), nats.

    Parameters
    ----------
    ticks
        What was counted.
    margin, mde, planned
        As of `gatestats.odds_ratio.OddsRatioDesign`; a plan that is not given expects the looks that there are.
    """
    effects, weights = math.log(margin) + np.log(_EFFECTS), np.array(_EFFECT_WEIGHTS)
    if mde is not None:
        effects, weights = np.append(effects, math.log(mde)), np.append(weights / 2, 0.5)
    factors = log_ratios(ticks.counts, effects, math.log(margin))
    factors = np.where(ticks.apart[..., None], np.minimum(factors, _MOST_APART), factors)
    return _mixture(factors, ticks.seen, weights, planned or len(ticks.counts))


def promotion_paths(ticks: Ticks, margin: float) -> FloatArray:
    """Return ln E against "odds ratio at least the margin" after each look; (looks, lines), nats."""
    null = math.log(margin)
    ratios = log_ratios(ticks.counts, null - null * np.array(_BETTER), null).cumsum(axis=0)
    return np.asarray(np.logaddexp.reduce(ratios + np.log(_BETTER_WEIGHTS), axis=-1), dtype=np.float64)


def log_ratios(counts: NDArray[np.int32], log_odds: FloatArray, null: float) -> FloatArray:
    """Return ln of the likelihood ratio of each odds ratio to the null's, for every tick; nats.

    Parameters
    ----------
    counts
        As in `Ticks`, any shape that ends in 4.
    log_odds, null
        ln of odds ratios.
    """
    flat = counts.reshape(-1, 4).astype(np.int64)
    result = np.zeros((flat.shape[0], log_odds.size))
    events, total = flat[:, 0] + flat[:, 2], flat[:, 1] + flat[:, 3]
    telling = np.flatnonzero((flat[:, 1] > 0) & (flat[:, 3] > 0) & (events > 0) & (events < total))
    # Ticks with about as many possible splits are worked out together.
    telling = telling[np.argsort(events[telling], kind="stable")]
    for first in range(0, telling.size, _CHUNK):
        some = telling[first : first + _CHUNK]
        normalisers = _log_normalisers(flat[some], np.append(log_odds, null))
        ratio = flat[some, 2:3] * (log_odds - null) - (normalisers[:, :-1] - normalisers[:, -1:])
        result[some] = ratio
    return result.reshape(*counts.shape[:-1], log_odds.size)


def _log_normalisers(flat: NDArray[np.int64], log_odds: FloatArray) -> FloatArray:
    """Return ln Z(w) - ln Z(1); see `gatestats.noncentral`."""
    baseline, candidate, pooled = flat[:, 1], flat[:, 3], flat[:, 0] + flat[:, 2]
    first = np.maximum(0, pooled - baseline)
    width = np.minimum(pooled, candidate) - first
    result = np.empty((flat.shape[0], log_odds.size))
    wide = width > _LINEAR
    for place in np.flatnonzero(wide):
        result[place] = log_normalisers(_tick(flat[place]), log_odds)
    if wide.all():
        return result
    n_b, n_c, x, low, top = (some[~wide, None] for some in (baseline, candidate, pooled, first, width))
    steps = np.arange(int(top.max()))
    lower = low + steps
    inside = steps < top
    up = np.where(inside, (n_c - lower) * (x - lower), 1)
    down = np.where(inside, (lower + 1) * (n_b - x + lower + 1), 1)
    log_weight = np.concatenate([np.zeros((up.shape[0], 1)), np.cumsum(np.log(up) - np.log(down), axis=1)], axis=1)
    log_weight[:, 1:][~inside] = -np.inf
    weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
    powers = np.exp(log_odds[:, None] * np.arange(weight.shape[1])).T
    result[~wide] = np.log(weight @ powers) - np.log(weight.sum(axis=1, keepdims=True)) + low * log_odds
    return result


def _tick(row: NDArray[np.int64]) -> TwoArmCounts:
    baseline_events, baseline_total, candidate_events, candidate_total = map(int, row)
    return TwoArmCounts(baseline_events, baseline_total, candidate_events, candidate_total)


def _mixture(factors: FloatArray, seen: NDArray[np.bool_], weights: FloatArray, planned: int) -> FloatArray:
    """Return ln E of the weighted late-change mixture; see `gatestats.late_change`."""
    looks, lines, bets = factors.shape
    stakes = np.array([stake(tick, planned) for tick in range(looks + 1)])
    cash = 1 - stakes.cumsum()
    log_stakes = np.log(np.maximum(stakes, _NOTHING))
    wealth = np.full((lines, bets), math.log(FIRST_STAKE))
    passed = np.zeros(lines, np.int64)
    path = np.empty((looks, lines))
    for look in range(looks):
        now = seen[look]
        passed += now
        wealth[now] = np.logaddexp(wealth[now] + factors[look, now], log_stakes[passed[now]][:, None])
        mixed = np.logaddexp.reduce(wealth + np.log(weights), axis=1)
        path[look] = np.logaddexp(mixed, np.log(np.maximum(cash[passed], _NOTHING)))
    return path
