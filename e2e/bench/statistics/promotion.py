"""T7: candidates that are worse by exactly the margin, and candidates that are equal."""

import math
from functools import partial
from typing import Final

import numpy as np

from e2e.bench.statistics.bounds import ratio_of_means, share_bounds
from e2e.bench.statistics.campaign import Campaign
from e2e.bench.statistics.ingest import FALSE_PROMOTIONS, ticks_of
from e2e.bench.statistics.paths import log_ratios, promotion_paths
from e2e.bench.statistics.row import Row
from e2e.bench.statistics.scene import CUT, Line, Scene
from e2e.bench.statistics.system import first_crossing
from gatestats.combine import log_threshold

_MARGIN: Final = 1.5
_THRESHOLD: Final = log_threshold(FALSE_PROMOTIONS)
_LINE: Final = Line(50, 0.01)
_WEIGHTS: Final = (10, 50)
_AT_MARGIN: Final = 600
_EQUAL: Final = 200
_LOOKS: Final = {10: 450, 50: 250}


def rows(campaign: Campaign) -> list[Row]:
    """Measure T7."""
    found = []
    for letter, weight in zip("ab", _WEIGHTS, strict=True):
        proven = campaign.each(f"at the margin, {weight} %", partial(proven_at_margin, weight), _AT_MARGIN, 40)
        share, bound = sum(proven) / len(proven), share_bounds(sum(proven), len(proven))[1]
        target = f"worse by exactly the margin, weight {weight} %: false promotions ≤ 5 %, bound too"
        note = f"{sum(proven)} of {len(proven)} runs of {_LOOKS[weight]} looks"
        found.append(Row(f"T7{letter}", target, share, bound, bound <= FALSE_PROMOTIONS, "%", note))
    for letter, weight in zip("cd", _WEIGHTS, strict=True):
        delays = np.array(campaign.each(f"equal, {weight} %", partial(delays_of_proof, weight), _EQUAL, 41))
        ratio, _, bound = ratio_of_means(delays[:, 0], delays[:, 1])
        target = f"equal, weight {weight} %: proven in ≤ 1.15 × the time of the SPRT that knows it"
        means = delays.mean(axis=0)
        note = f"{means[0]:.1f} against {means[1]:.1f} ticks, at most {_LOOKS[weight]}; {delays.shape[0]} runs"
        found.append(Row(f"T7{letter}", target, ratio, bound, ratio <= 1.15, "", note))
    return found


def proven_at_margin(weight: int, seed: int) -> bool:
    """Return whether a candidate worse by the margin was ever proven no worse."""
    scene = Scene((Line(_LINE.requests, _LINE.rate, _MARGIN),), _LOOKS[weight], ((0, weight),))
    return bool((promotion_paths(ticks_of(scene, seed), _MARGIN) >= _THRESHOLD).any())


def delays_of_proof(weight: int, seed: int) -> tuple[float, float]:
    """Return the ticks until an equal candidate is proven, by us and by the test that knows it is equal."""
    looks = _LOOKS[weight]
    ticks = ticks_of(Scene((_LINE,), looks, ((0, weight),)), seed)
    known = log_ratios(ticks.counts[:, 0], np.zeros(1), math.log(_MARGIN))[:, 0].cumsum()
    paths = promotion_paths(ticks, _MARGIN)[:, 0], known
    ours, theirs = (first_crossing(path, _THRESHOLD) or looks for path in paths)
    return float(ours - CUT), float(theirs - CUT)
