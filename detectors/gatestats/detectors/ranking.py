"""Whether scores rank those who deserve it above those who do not: the area under the ROC curve, from histograms.

The area is the share of pairs of one positive and one negative in which the positive scores higher, ties counting
half. Pairs in different bins are known exactly; of pairs in the same bin only their number is. So it is reported with
the two areas between which it lies whatever the bins hide. The standard error is that of independent requests, fixed n.
They describe and alert; they never roll back.
Source: Bamber (1975), "The area above the ordinal dominance graph and the area below the receiver operating
characteristic graph"; DeLong, DeLong and Clarke-Pearson (1988) for the standard error.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gatestats.arrays import FloatArray
from gatestats.detectors.inputs import NoData, Undefined, checked_counts


@dataclass(frozen=True, slots=True)
class RankingArea:
    """The area under the ROC curve.

    Parameters
    ----------
    area
        With pairs in the same bin counted half, 0..1; exact if bins hold single scores. One half is chance.
    low, high
        What it is if every such pair is in the wrong order, and if every one is in the right order.
    standard_error
        Of ``area``, >= 0; None with fewer than two of either label.
    undefined
        What does not exist of the above, by name, and why.
    """

    area: float
    low: float
    high: float
    standard_error: float | None
    undefined: tuple[Undefined, ...]


def ranking_area(negatives: Sequence[int], positives: Sequence[int]) -> RankingArea | NoData:
    """Return the area under the ROC curve of scores that were counted in bins by label.

    Parameters
    ----------
    negatives, positives
        Counts by bin of the score, from low to high, of requests whose label is negative and positive; shape (J,).

    Returns
    -------
    RankingArea or NoData
        NoData if one of the labels has no counts.
    """
    if len(negatives) != len(positives):
        raise ValueError(f"both labels must be counted in the same bins, got {len(negatives)} and {len(positives)}")
    below, above = checked_counts("negatives", negatives), checked_counts("positives", positives)
    lacking = [name for name, counts in (("negative", below), ("positive", above)) if not counts.any()]
    if lacking:
        return NoData(f"no request with a {' or a '.join(lacking)} label has a score")
    number, wins = below.sum() * above.sum(), _beaten(below)
    certain, unknown = float(above @ wins / number), float(above @ below / number)
    error = _standard_error(below, above)
    undefined = () if error is not None else (Undefined("standard error", "it needs two requests of each label"),)
    return RankingArea(certain + unknown / 2, certain, min(1.0, certain + unknown), error, undefined)


def _beaten(counts: FloatArray) -> FloatArray:
    """Return how many lie in lower bins than each."""
    result: FloatArray = counts.cumsum() - counts
    return result


def _standard_error(negatives: FloatArray, positives: FloatArray) -> float | None:
    if min(negatives.sum(), positives.sum()) < 2:
        return None
    variance = 0.0
    for counts, others in ((positives, negatives), (negatives, positives)):
        placements = (_beaten(others) + others / 2) / others.sum()
        size = counts.sum()
        middle = counts @ placements / size
        variance += float(counts @ (placements - middle) ** 2 / (size - 1) / size)
    return math.sqrt(variance)
