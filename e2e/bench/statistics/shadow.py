"""T5: what it gains to see both variants answer the same requests."""

from dataclasses import replace
from typing import Final

import numpy as np

from davylamp.core.counting import Span, cursors_after, events_of
from davylamp.core.model import Variant
from davylamp.core.reading import SignalReading
from e2e.bench.statistics.campaign import Campaign
from e2e.bench.statistics.ingest import Reel, ticks_of, window_of
from e2e.bench.statistics.paths import rollback_paths
from e2e.bench.statistics.row import Row
from e2e.bench.statistics.scene import CUT, Line, Scene, Shown, shown
from e2e.bench.statistics.system import THRESHOLD, first_crossing
from gatestats.paired import PairedDesign
from gatestats.ticks import PairedCounts

#: 20 positives in a look; the baseline finds 90 % of them, the candidate 87 %.
_POSITIVES: Final = 2.0
_MISSED, _MISSED_BY_CANDIDATE = 0.10, 0.13
#: Of all pairs: found by the baseline only, and by the candidate only.
_LOST, _WON = 0.045, 0.015
_RUNS: Final = 120
_PAIRED_LOOKS: Final = 250
_LOOKS: Final = 2_000


def rows(campaign: Campaign) -> list[Row]:
    """Measure T5."""
    paired = np.array(campaign.each("pairs", with_pairs, _RUNS, 30))
    apart = np.array(campaign.each("no pairs", without_pairs, _RUNS, 31))
    random = np.random.default_rng(30)
    drawn = random.integers(0, paired.size, (2, 2_000, paired.size))
    ratios = apart[drawn[0]].mean(axis=1) / paired[drawn[1]].mean(axis=1)
    ratio, bound = float(apart.mean() / paired.mean()), float(np.quantile(ratios, 0.05))
    note = f"{paired.mean():.1f} against {apart.mean():.0f} ticks (at most {_LOOKS}); {paired.size} runs each; "
    note += "bound from below; the operator has no paired signal yet: its counting, with gatestats' paired test"
    target = "true positives 90→87 %: pairs of a shadow find it ≥ 10 × sooner than a canary of 10 %"
    return [Row("T5", target, ratio, bound, ratio >= 10, "×", note)]


def with_pairs(seed: int) -> float:
    """Return the ticks until pairs show the loss; a comparer counts pairs, those lost and those won."""
    random = np.random.default_rng(seed)
    scene, design = Scene((), _PAIRED_LOOKS, ((0, 0),)), PairedDesign()
    lost = shown(scene, Line(_POSITIVES, _LOST), random)[0][0]
    counters = [Reel(target, scene) for target in (lost, _won(lost, random))]
    state, as_of, cursors = design.start(), 0.0, dict[str, float]()
    for look in range(1, _PAIRED_LOOKS + 1):
        as_of, window = window_of(scene, look, as_of)
        if window is None:
            continue
        span, counts = Span(*window, cursors), []
        for place, counter in enumerate(counters):
            target = counter.target(look)
            signal = SignalReading({Variant.BASELINE: () if target is None else (target,)})
            counts.append(None if target is None else events_of(f"{place}", signal, Variant.BASELINE, span))
            cursors = dict(cursors_after(f"{place}", signal, Span(*window, cursors)))
        worse, better = counts
        if worse is not None and better is not None:
            state = design.update(state, PairedCounts(worse.events, better.events, worse.total))
        if design.log_e(state) >= THRESHOLD:
            return float(look - CUT)
    return float(_PAIRED_LOOKS)


def _won(lost: Shown, random: np.random.Generator) -> Shown:
    """Return the counter of pairs won, shown in the same scrapes as pairs lost, and set back by the same restarts."""
    pairs, losses = (np.diff(counter, prepend=0) for counter in (lost.total, lost.events))
    restarted = pairs < 0
    pairs, losses = np.where(restarted, lost.total, pairs), np.where(restarted, lost.events, losses)
    wins = random.binomial(pairs - losses, _WON / (1 - _LOST)).cumsum()
    before = np.maximum.accumulate(np.where(restarted, np.concatenate([[0], wins[:-1]]), 0))
    return replace(lost, events=wins - before)


def without_pairs(seed: int) -> float:
    """Return the ticks until the two variants' own positives show it."""
    odds = _MISSED_BY_CANDIDATE / (1 - _MISSED_BY_CANDIDATE) / (_MISSED / (1 - _MISSED))
    ticks = ticks_of(Scene((Line(_POSITIVES, _MISSED, odds),), _LOOKS), seed)
    look = first_crossing(rollback_paths(ticks)[:, 0], THRESHOLD)
    return float(_LOOKS if look is None else look - CUT)
