"""What other rules say of the same counts: models of published rules, one for each line, "more events" is worse.

Each takes the counts of one rollout, (looks, lines, 4) as in `e2e.bench.statistics.ingest.Ticks`, and returns for each
line a path (looks,) that a limit is held against: the rule alarms where the path first reaches the limit.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from davylamp.offline.mann_whitney import shift_of
from e2e.bench.statistics.scene import FloatArray
from e2e.bench.statistics.system import LINES
from gatestats.means import MeanDesign
from gatestats.ticks import TwoArmSums, Worse

#: Looks in a minute.
_MINUTE: Final = 6
#: A fixed limit is twice the usual share; minutes with fewer requests of the candidate are no check.
_LIMIT: Final = 2.0
_GUARD: Final = 100
_KAYENTA_CONFIDENCE: Final = 0.98
_KAYENTA_TOLERANCE: Final = 0.25
_SMOOTHING: Final = 0.2

#: What a z-test that is made at each of 180 looks exceeds with a chance of 1 % / 12, by numerical integration.
POCOCK: Final = 3.963

Counts = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule.

    Parameters
    ----------
    name
        For people.
    paths
        See the module; returns (looks, lines).
    limits
        That of the rule as it is used first, then others for the plot.
    fewer
        Runs to try it on are divided by this, because it is slow.
    """

    name: str
    paths: Callable[[Counts], FloatArray]
    limits: tuple[float, ...]
    fewer: int = 1


def z_of_all(counts: Counts) -> FloatArray:
    """Return the pooled z of all counts so far."""
    return _z(counts.cumsum(axis=0))


def z_of_last(looks: int, counts: Counts) -> FloatArray:
    """Return the pooled z of the last so many looks."""
    return _z(_of_last(looks, counts))


def ewma(counts: Counts) -> FloatArray:
    """Return the smoothed z of each look in standard deviations of its own."""
    z, smoothed = _z(counts), np.zeros(counts.shape[1])
    path = np.empty_like(z)
    for look, values in enumerate(z):
        smoothed = _SMOOTHING * values + (1 - _SMOOTHING) * smoothed
        spread = _SMOOTHING / (2 - _SMOOTHING) * (1 - (1 - _SMOOTHING) ** (2 * look + 2))
        path[look] = smoothed / np.sqrt(spread)
    return path


def failed_checks(counts: Counts) -> FloatArray:
    """Return how many minutes so far had a share of the candidate beyond the fixed limit."""
    path = np.zeros(counts.shape[:2])
    failed = np.zeros(counts.shape[1])
    usual = np.array([line.rate for line in LINES])[: counts.shape[1]]
    for end in range(_MINUTE, counts.shape[0] + 1, _MINUTE):
        events, total = counts[end - _MINUTE : end, :, 2].sum(axis=0), counts[end - _MINUTE : end, :, 3].sum(axis=0)
        failed += (total >= _GUARD) & (events > _LIMIT * usual * total)
        path[end - 1 :] = failed
    return path


def kayenta(counts: Counts) -> FloatArray:
    """Return 1 where Kayenta's rule, asked every two minutes with all minutes so far, calls a line worse."""
    path = np.zeros(counts.shape[:2])
    minutes = counts[: counts.shape[0] // _MINUTE * _MINUTE].reshape(-1, _MINUTE, counts.shape[1], 4).sum(axis=1)
    for line in range(counts.shape[1]):
        baseline, candidate = (
            (minutes[:, line, side] / np.maximum(1, minutes[:, line, side + 1])).tolist() for side in (0, 2)
        )
        for count in range(2, minutes.shape[0] + 1, 2):
            shift = shift_of(candidate[:count], baseline[:count], _KAYENTA_CONFIDENCE)
            if shift is not None and shift.low > _KAYENTA_TOLERANCE * abs(shift.estimate):
                path[count * _MINUTE - 1 :, line] = 1
                break
    return path


def stability(counts: Counts) -> FloatArray:
    """Return the population stability index of events and others, candidate against baseline, of the last 5 minutes."""
    x_b, n_b, x_c, n_c = np.moveaxis(_of_last(5 * _MINUTE, counts), -1, 0)
    theirs, ours = (x_b + 0.5) / (n_b + 1), (x_c + 0.5) / (n_c + 1)
    log_odds = np.log(ours / theirs) - np.log((1 - ours) / (1 - theirs))
    return np.asarray(np.where(ours > theirs, (ours - theirs) * log_odds, 0), dtype=np.float64)


def asymptotic(counts: Counts) -> FloatArray:
    """Return the evidence of the asymptotic confidence sequence over minutes, see `gatestats.means`."""
    design, path = MeanDesign(worse=Worse.HIGHER), np.zeros(counts.shape[:2])
    for line in range(counts.shape[1]):
        state = design.start()
        for look, (x_b, n_b, x_c, n_c) in enumerate(counts[:, line].tolist()):
            state = design.update(state, TwoArmSums(n_b, x_b, n_c, x_c))
            path[look, line] = design.log_e(state)
    return path


def _of_last(looks: int, counts: Counts) -> NDArray[np.integer]:
    """Return the counts of the last so many looks together, after each look."""
    sums: NDArray[np.integer] = counts.cumsum(axis=0)
    last: NDArray[np.integer] = sums - np.concatenate([np.zeros_like(sums[:looks]), sums[:-looks]])
    return last


def _z(counts: NDArray[np.integer]) -> FloatArray:
    x_b, n_b, x_c, n_c = np.moveaxis(counts.astype(np.float64), -1, 0)
    pooled = (x_b + x_c) / np.maximum(1, n_b + n_c)
    variance = pooled * (1 - pooled) * (1 / np.maximum(1, n_b) + 1 / np.maximum(1, n_c))
    gap = x_c / np.maximum(1, n_c) - x_b / np.maximum(1, n_b)
    defined = (variance > 0) & (n_b > 0) & (n_c > 0)
    return np.asarray(np.where(defined, gap / np.sqrt(np.where(defined, variance, 1)), 0), dtype=np.float64)


RULES: Final = (
    Rule("z-test at every look, p < 1 %", z_of_all, (2.326, 1.645, 2.0, 2.6, 3.0, 3.4, 3.8, 4.3, 5.0)),
    Rule("z-test at every look, p < 1 % / 12", z_of_all, (3.14,)),
    Rule("z-test of the last minute, p < 1 %", partial(z_of_last, 6), (2.326, 3.0, 3.5, 4.0, 4.5, 5.0)),
    Rule("z-test of the last 5 minutes, p < 1 %", partial(z_of_last, 30), (2.326, 3.0, 3.5, 4.0, 4.5, 5.0)),
    Rule("z-test, Pocock's limit for 180 looks, p < 1 % / 12", z_of_all, (POCOCK,)),
    Rule("Asymptotic confidence sequence, 1 % / 12", asymptotic, (math.log(1200), 2.0, 3.0, 4.6, 6.0, 9.0)),
    Rule("PSI of the last 5 minutes, 0.2", stability, (0.2, 0.005, 0.01, 0.02, 0.05, 0.1)),
    Rule("EWMA (0.2), 3 sd", ewma, (3.0, 2.5, 3.5, 4.0, 4.5, 5.0)),
    Rule("Argo: one minute over twice the usual share", failed_checks, (1,)),
    Rule("Flagger: 5 such minutes", failed_checks, (5, 2, 3, 4, 7, 10)),
    Rule("Kayenta: Mann-Whitney 98 %, tolerance 0.25", kayenta, (1,), fewer=4),
)
