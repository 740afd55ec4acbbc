"""Whether a model treats groups alike: equalised odds, demographic parity, any rate by group, counterfactual flips.

The largest difference between groups is not 0 for a fair model: with three groups of 100 and a rate of one half it is
0.084 on average. So each is reported with its mean under H0, "all groups have one rate", requests independent. Fixed n.
A rate whose denominator is 0 does not exist; it is named in the result, which covers only the other groups then.
They describe and alert; they never roll back. Decide by e-processes of one group against a reference.
Source: Hardt, Price and Srebro (2016), "Equality of opportunity in supervised learning"; Kusner et al. (2017),
"Counterfactual fairness"; statistics.md 4.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np

from gatestats.detectors.inputs import NoData, Undefined
from gatestats.detectors.intervals import FixedInterval, jeffreys
from gatestats.ticks import refuse_bad_count

_DRAWS: Final = 2_000
_SEED: Final = 0


class GroupRate(StrEnum):
    """A rate that is compared across groups."""

    #: TP / (TP + FN): approved among those who deserve it.
    TRUE_POSITIVE = "TruePositive"
    #: FP / (FP + TN): approved among those who do not.
    FALSE_POSITIVE = "FalsePositive"
    #: (TP + FP) / all: approved.
    SELECTION = "Selection"
    #: TP / (TP + FP): deserving among those approved.
    PRECISION = "Precision"
    #: (TP + TN) / all: judged rightly.
    ACCURACY = "Accuracy"


@dataclass(frozen=True, slots=True)
class Confusion:
    """What was predicted and what was true in one group; counts >= 0."""

    true_positives: int
    false_negatives: int
    false_positives: int
    true_negatives: int

    def __post_init__(self) -> None:
        for name in ("true_positives", "false_negatives", "false_positives", "true_negatives"):
            refuse_bad_count(name, getattr(self, name))


@dataclass(frozen=True, slots=True)
class RateSpread:
    """One rate across groups.

    Parameters
    ----------
    rate
        Which.
    by_group
        The rate of each group that has one, 0..1.
    difference
        Largest less smallest, 0..1; None with fewer than two groups.
    ratio
        Smallest over largest, 0..1; None with fewer than two groups or if all rates are 0.
    null_difference
        Mean of ``difference`` if all groups had the pooled rate, 0..1; None where ``difference`` is.
    undefined
        What does not exist of the above, by name, and why.
    """

    rate: GroupRate
    by_group: Mapping[str, float]
    difference: float | None
    ratio: float | None
    null_difference: float | None
    undefined: tuple[Undefined, ...]


@dataclass(frozen=True, slots=True)
class EqualisedOdds:
    """True and false positive rates across groups.

    Parameters
    ----------
    true_positive, false_positive
        The two spreads.
    worst_difference, mean_difference
        Larger and mean of both differences, 0..1; None unless both exist.
    worst_ratio
        Smaller of both ratios, 0..1; None unless both exist.
    undefined
        All that does not exist, by name, and why.
    """

    true_positive: RateSpread
    false_positive: RateSpread
    worst_difference: float | None
    mean_difference: float | None
    worst_ratio: float | None
    undefined: tuple[Undefined, ...]


def equalised_odds(groups: Mapping[str, Confusion]) -> EqualisedOdds | NoData:
    """Compare true and false positive rates across groups.

    H0 and validity: see the module.

    Parameters
    ----------
    groups
        Counts by name of the group.

    Returns
    -------
    EqualisedOdds or NoData
        NoData if no group has any count.
    """
    if _empty(groups):
        return NoData("no group has any counts")
    spreads = rate_spread(groups, GroupRate.TRUE_POSITIVE), rate_spread(groups, GroupRate.FALSE_POSITIVE)
    differences = [each.difference for each in spreads if each.difference is not None]
    ratios = [each.ratio for each in spreads if each.ratio is not None]
    both = len(differences) == 2
    return EqualisedOdds(
        *spreads,
        worst_difference=max(differences) if both else None,
        mean_difference=sum(differences) / 2 if both else None,
        worst_ratio=min(ratios) if len(ratios) == 2 else None,
        undefined=spreads[0].undefined + spreads[1].undefined,
    )


def demographic_parity(groups: Mapping[str, Confusion]) -> RateSpread | NoData:
    """Compare selection rates across groups; parameters as in `equalised_odds`."""
    return NoData("no group has any counts") if _empty(groups) else rate_spread(groups, GroupRate.SELECTION)


def rate_spread(groups: Mapping[str, Confusion], rate: GroupRate) -> RateSpread:
    """Compare one rate across groups.

    H0 and validity: see the module. The null mean comes from 2,000 redraws with a fixed seed.

    Parameters
    ----------
    groups
        Counts by name of the group.
    rate
        Which.
    """
    counts = {name: _COUNTED[rate](group) for name, group in groups.items()}
    undefined = [
        Undefined(f"{rate} rate of group {name}", f"it has no {_AMONG[rate]}")
        for name, (_, total) in counts.items()
        if not total
    ]
    some = {name: count for name, count in counts.items() if count[1]}
    by_group = {name: events / total for name, (events, total) in some.items()}
    if len(some) < 2:
        why = f"fewer than two groups have {_AMONG[rate]}"
        undefined += [Undefined(f"{rate} {what}", why) for what in ("difference", "ratio")]
        return RateSpread(rate, by_group, None, None, None, tuple(undefined))
    low, high = min(by_group.values()), max(by_group.values())
    if not high:
        undefined.append(Undefined(f"{rate} ratio", "the rate of every group is 0"))
    ratio = low / high if high else None
    return RateSpread(rate, by_group, high - low, ratio, _null_difference(list(some.values())), tuple(undefined))


def counterfactual_flip_rate(flips: int, pairs: int, *, level: float = 0.95) -> FixedInterval | NoData:
    """Return the share of pairs, alike but for the protected attribute, whose decision differs, with Jeffreys' bounds.

    Fixed n, independent pairs: for display. For decisions the same counts go to `gatestats.limits`, and those of both
    variants on the same pairs to `gatestats.paired`.

    Parameters
    ----------
    flips
        Pairs with different decisions, 0..pairs.
    pairs
        Count, >= 0; 0 gives NoData.
    level
        Nominal coverage of the bounds, in (0, 1).
    """
    return jeffreys(flips, pairs, level=level)


def _null_difference(counts: list[tuple[int, int]]) -> float:
    totals = np.array([total for _, total in counts])
    pooled = sum(events for events, _ in counts) / int(totals.sum())
    rates = np.random.default_rng(_SEED).binomial(totals, pooled, (_DRAWS, totals.size)) / totals
    return float(np.ptp(rates, axis=1).mean())


def _empty(groups: Mapping[str, Confusion]) -> bool:
    return not any(_COUNTED[GroupRate.SELECTION](group)[1] for group in groups.values())


def _selected(group: Confusion) -> tuple[int, int]:
    chosen = group.true_positives + group.false_positives
    return chosen, chosen + group.false_negatives + group.true_negatives


_COUNTED: Final[Mapping[GroupRate, Callable[[Confusion], tuple[int, int]]]] = {
    GroupRate.TRUE_POSITIVE: lambda group: (group.true_positives, group.true_positives + group.false_negatives),
    GroupRate.FALSE_POSITIVE: lambda group: (group.false_positives, group.false_positives + group.true_negatives),
    GroupRate.SELECTION: _selected,
    GroupRate.PRECISION: lambda group: (group.true_positives, _selected(group)[0]),
    GroupRate.ACCURACY: lambda group: (group.true_positives + group.true_negatives, _selected(group)[1]),
}
_AMONG: Final[Mapping[GroupRate, str]] = {
    GroupRate.TRUE_POSITIVE: "positives",
    GroupRate.FALSE_POSITIVE: "negatives",
    GroupRate.SELECTION: "counts",
    GroupRate.PRECISION: "positive decisions",
    GroupRate.ACCURACY: "counts",
}
