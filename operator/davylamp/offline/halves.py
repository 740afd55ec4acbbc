"""A/A: one half of the baseline's pods plays the candidate, and everything that alarms, alarms falsely.

Each run goes through the same evidence and judgement as a live rollout; the other rules see the same counts.
"""

import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Final

from davylamp.core.evidence import begin, learn_baseline, observe
from davylamp.core.judge import judge
from davylamp.core.looking import Window
from davylamp.core.model import Variant
from davylamp.core.plan import Plan
from davylamp.core.reading import Reading, SignalReading
from davylamp.offline.counts import Counted, Counting
from davylamp.offline.rivals import Thresholds, rivals

OWN: Final = "Davylamp"

Looks = Sequence[tuple[Reading, Window]]


@dataclass(frozen=True, slots=True)
class Run:
    """One run: which pods played the candidate, and by rule the gate that was blamed; None without an alarm."""

    candidate: tuple[str, ...]
    alarms: Mapping[str, str | None]


def halves_of(pods: Sequence[str], most: int, seed: int) -> tuple[tuple[str, ...], ...]:
    """Return which pods play the candidate, run by run: all halves if they are few enough, else random ones.

    Parameters
    ----------
    pods
        Names of all, at least 2.
    most
        Runs at most, >= 1.
    seed
        Of the choice.
    """
    size = len(pods) // 2
    if math.comb(len(pods), size) <= most:
        return tuple(combinations(sorted(pods), size))
    chooser, chosen = random.Random(seed), set[tuple[str, ...]]()  # noqa: S311 - a fixed draw, guards nothing
    while len(chosen) < most:
        chosen.add(tuple(sorted(chooser.sample(sorted(pods), size))))
    return tuple(sorted(chosen))


def halved(reading: Reading, candidate: Iterable[str]) -> Reading:
    """Return a reading in which some of the baseline's targets are the candidate's, and the candidate's are gone."""
    chosen = frozenset(candidate)
    return Reading({name: _halved(signal, chosen) for name, signal in reading.signals.items()})


def runs(plan: Plan, looks: Looks, halves: Iterable[tuple[str, ...]], thresholds: Thresholds) -> Iterator[Run]:
    """Yield one run for each half over all looks.

    Parameters
    ----------
    plan
        Gates and rates; only gates whose targets are pods.
    looks
        Readings of the past and their windows, joined, oldest first.
    halves
        Names of the pods that play the candidate.
    thresholds
        Of the rule with fixed limits.
    """
    for half in halves:
        yield _run(plan, [(halved(reading, half), window) for reading, window in looks], half, thresholds)


def _run(plan: Plan, looks: Looks, half: tuple[str, ...], thresholds: Thresholds) -> Run:
    evidence, serving, blamed = begin(plan), False, None
    counting: Counting | None = None
    counted: list[Counted] = []
    for reading, window in looks:
        if not serving:
            evidence = learn_baseline(plan, evidence, reading, window)
            serving = judge(plan, evidence)[0].baseline_readable
            continue
        if counting is None:
            counting = Counting(plan.gates, evidence.baselines, {})
        counting, found = counting.count(reading, window)
        counted.append(found)
        if blamed is None:
            evidence = observe(plan, evidence, reading, window)
            judgement, _ = judge(plan, evidence)
            blamed = ", ".join(judgement.culprits) if judgement.regressed else None
    others = rivals(plan, thresholds, evidence.baselines).items()
    alarms = {name: alarm.gate if (alarm := rule(counted)) else None for name, rule in others}
    return Run(half, {OWN: blamed, **alarms})


def _halved(signal: SignalReading, candidate: frozenset[str]) -> SignalReading:
    targets = signal.targets.get(Variant.BASELINE, ())
    sides = {
        Variant.BASELINE: tuple(target for target in targets if target.name not in candidate),
        Variant.CANDIDATE: tuple(target for target in targets if target.name in candidate),
    }
    newest = signal.newest.get(Variant.BASELINE)
    why = signal.trouble.get(Variant.BASELINE)
    return replace(
        signal,
        targets={variant: some for variant, some in sides.items() if some},
        newest={} if newest is None else dict.fromkeys(Variant, newest),
        trouble={} if why is None else dict.fromkeys(Variant, why),
    )
