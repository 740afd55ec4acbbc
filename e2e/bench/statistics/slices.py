"""F: whether slices are left alone that are well, and whether those are found that are not."""

from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np

from e2e.bench.statistics.bounds import ratio_of_means, share_bounds
from e2e.bench.statistics.campaign import Campaign
from e2e.bench.statistics.ingest import Ticks
from e2e.bench.statistics.paths import rollback_paths
from e2e.bench.statistics.row import Row
from e2e.bench.statistics.scene import FloatArray
from e2e.bench.statistics.sliced import (
    ADULT,
    LOOKS,
    POINTS,
    POSITIVE,
    REQUESTS,
    IntArray,
    Stream,
    delayed,
    everywhere,
    evidence,
    labelled,
    losses,
    mean_of,
    streams,
)
from e2e.bench.statistics.system import THRESHOLD, first_crossing
from gatestats.paired import PairedDesign

_LONG: Final = 600
_MOST: Final = 0.01
_ROLLOUTS: Final = 1_000
_DAMAGED: Final = 200
_DROP: Final = 0.18
_WOMEN: Final = tuple(place for place, group in enumerate(ADULT) if group[0] == "Female")
#: T5 on a slice: the baseline finds 90 % of the positives, the candidate 87 %; and how many pairs are lost and won.
_FOUND, _LOST, _WON = 0.90, 0.045, 0.015
_CANARY: Final = 0.1
_PAIRED_LOOKS: Final = 400
_UNPAIRED_LOOKS: Final = 4_000


def rows(campaign: Campaign) -> list[Row]:
    """Measure all parts of F."""
    system = "12 slices of sex and race, 63 streams, labels late and out of order"
    equal = campaign.each("slices, equal", partial(taken_back, 0.0), _ROLLOUTS, 70)
    margin = campaign.each("slices, at the margin", partial(taken_back, POINTS), _ROLLOUTS, 71)
    return [
        _healthy("F1", f"{system}; equal variants", equal),
        _healthy("F2", f"{system}; every rate of every slice worse by exactly its margin", margin),
        _damaged("F3", "women's recall 18 points lower", campaign.each("women", women, _DAMAGED, 72)),
        _damaged("F4", "Black women's alone, averages within half a point", campaign.each("both", both, _DAMAGED, 73)),
        _sooner(campaign),
    ]


def taken_back(points: float, seed: int) -> bool:
    """Return whether a rollout in which every slice loses so much was taken back."""
    named, weights = streams()
    pairs = labelled(everywhere(points), LOOKS, np.random.default_rng(seed))
    return bool((mean_of(named, weights, pairs) >= THRESHOLD).any())


def women(seed: int) -> tuple[float, float]:
    """Return the labelled pairs, and those of women with a positive label, until all women's loss was found."""
    return _until_found(losses(_DROP, "Female"), _WOMEN, LOOKS, seed)


def both(seed: int) -> tuple[float, float]:
    """Return the same for the loss of Black women alone, whose positives are one in a hundred."""
    place = next(place for place, group in enumerate(ADULT) if group[:2] == ("Female", "Black"))
    return _until_found(losses(_DROP, "Female", "Black"), (place,), _LONG, seed)


def _until_found(loss: FloatArray, inside: tuple[int, ...], looks: int, seed: int) -> tuple[float, float]:
    named, weights = streams()
    pairs = labelled(loss, looks, np.random.default_rng(seed))
    look = first_crossing(mean_of(named, weights, pairs), THRESHOLD)
    if look is None:
        return np.inf, np.inf
    seen = pairs[:look]
    return float(seen.sum()), float(seen[:, list(inside), POSITIVE].sum())


def sooner(seed: int) -> tuple[float, float]:
    """Return the looks until pairs of all women, and until a canary's and the baseline's own, show a fall by 3 points.

    Women's positives are 3.7 % of the requests; their labels come as late both ways.
    """
    random = np.random.default_rng(seed)
    positives = REQUESTS * sum(ADULT[place][3] for place in _WOMEN) / sum(group[2] for group in ADULT)
    served = random.multinomial(
        random.poisson(positives, _PAIRED_LOOKS), (_FOUND - _LOST, _LOST, _WON, 1 - _FOUND - _WON)
    )
    pairs = delayed(served, POSITIVE, random)[:, None, None]
    paired = first_crossing(evidence({"pairs": Stream(PairedDesign(), (0,), (0,))}, pairs)[:, 0], THRESHOLD)
    arms: list[IntArray] = []
    for share, found in ((1 - _CANARY, _FOUND), (_CANARY, _FOUND - _LOST + _WON)):
        own = random.multinomial(random.poisson(positives * share, _UNPAIRED_LOOKS), (1 - found, found))
        arrived = delayed(own, POSITIVE, random)
        arms += [arrived[:, 0], arrived.sum(axis=1)]
    counts = np.stack(arms, axis=-1)[:, None].astype(np.int32)
    seen = np.ones(counts.shape[:2], np.bool_)
    apart = first_crossing(rollback_paths(Ticks(counts, seen, ~seen))[:, 0], THRESHOLD)
    return float(paired or _PAIRED_LOOKS), float(apart or _UNPAIRED_LOOKS)


def _healthy(name: str, target: str, back: Sequence[bool]) -> Row:
    alarms, runs = sum(back), len(back)
    bound = share_bounds(alarms, runs)[1]
    interval = "–".join(f"{end:.2%}" for end in two_sided(alarms, runs))
    note = f"{alarms} of {runs} rollouts of {LOOKS} looks taken back, 95 % of {interval}"
    return Row(name, f"{target}: taken back ≤ 1 %, bound too", alarms / runs, bound, bound <= _MOST, "%", note)


def _damaged(name: str, target: str, found: Sequence[tuple[float, float]]) -> Row:
    pairs, affected = np.array(found).T
    missed = float(np.isinf(pairs).mean())
    note = f"q90 {np.quantile(pairs, 0.9) / 1000:.1f}; of the damaged with a positive label, median "
    note += f"{np.median(affected):.0f}, q90 {np.quantile(affected, 0.9):.0f}; missed {missed:.1%}; {pairs.size} runs"
    words, thousands = f"{target}: found in ≥ 99 %, median", float(np.median(pairs)) / 1000
    return Row(name, words, thousands, None, missed <= _MOST, "thousand labelled pairs", note)


def _sooner(campaign: Campaign) -> Row:
    looks = np.array(campaign.each("pairs and canary", sooner, _DAMAGED, 74))
    ratio, bound, _ = ratio_of_means(looks[:, 1], looks[:, 0])
    means = looks.mean(axis=0)
    note = f"{means[0]:.1f} against {means[1]:.0f} looks (at most {_UNPAIRED_LOOKS}), both with the same late labels; "
    note += f"{len(looks)} runs; bound from below"
    target = "women's true positives 90→87 %: pairs find it ≥ 10 × sooner than a canary of 10 % of the same traffic"
    return Row("F5", target, ratio, bound, ratio >= 10, "×", note)


def two_sided(events: int, runs: int) -> tuple[float, float]:
    """Return the exact binomial 95 % interval of a share."""
    return share_bounds(events, runs, 0.975)
