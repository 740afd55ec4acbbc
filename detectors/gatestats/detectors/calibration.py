"""Whether confidences mean what they say: expected calibration error from bin counters, and what chance makes of it.

The calibration error of a perfect model is not 0: each bin's sampling error counts in full. So it is reported with its
value under H0, "in every bin outcomes are independent and as frequent as the mean confidence". Fixed n: one look.
Two variants are compared by the residuals of their bins, never by their errors, which are biased by their sizes.
They describe and alert; they never roll back.
Source: Naeini, Cooper and Hauskrecht (2015), "Obtaining well calibrated probabilities using Bayesian binning"; the null
law is that of binomial counts; statistics.md 4.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.special import ndtr

from gatestats.arrays import as_array
from gatestats.detectors.inputs import NoData, Undefined, refuse_bad_alpha, refuse_bad_draws
from gatestats.detectors.redraws import p_value, threshold
from gatestats.ticks import refuse_bad_count


@dataclass(frozen=True, slots=True)
class ConfidenceBin:
    """The counters of one bin of confidence.

    Parameters
    ----------
    total
        Predictions in the bin whose outcome is known, >= 0.
    confidence
        Sum of their confidences, 0..total.
    outcomes
        How many came true, 0..total.
    """

    total: int
    confidence: float
    outcomes: int

    def __post_init__(self) -> None:
        refuse_bad_count("total", self.total)
        refuse_bad_count("outcomes", self.outcomes, self.total)
        # sums of confidences may pass their end by rounding
        if not -1e-9 <= self.confidence <= self.total * (1 + 1e-9):
            raise ValueError(f"confidence must be a sum in 0..{self.total}, got {self.confidence}")

    @property
    def mean(self) -> float:
        """The mean confidence, 0..1, of a bin that is not empty."""
        return min(max(0.0, self.confidence / self.total), 1.0)

    @property
    def residual(self) -> float:
        """Share come true less mean confidence, -1..1, of a bin that is not empty."""
        return (self.outcomes - self.confidence) / self.total


@dataclass(frozen=True, slots=True)
class CalibrationError:
    """The expected calibration error and what it would be for a calibrated model.

    Parameters
    ----------
    error
        Mean over predictions of |share come true - mean confidence| of their bin, 0..1.
    null_mean
        Its mean under H0, in the normal approximation; the part of the error that is chance.
    null_threshold
        Exceeded with chance at most alpha under H0; inf if there are too few draws for that alpha.
    p_value
        Chance under H0 of an error at least as large, in (0, 1].
    undefined
        Empty bins.
    """

    error: float
    null_mean: float
    null_threshold: float
    p_value: float
    undefined: tuple[Undefined, ...]

    @property
    def excess(self) -> float:
        """The error less its null mean."""
        return self.error - self.null_mean


@dataclass(frozen=True, slots=True)
class ErrorRange:
    """The expected calibration error where only the bins of confidences are known, not their sums.

    Parameters
    ----------
    middle
        If every confidence lay in the middle of its bin, 0..1.
    low, high
        The least and the most that it can be, whatever the bins hide.
    """

    middle: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class ResidualGap:
    """How much more the candidate's outcomes exceed its confidences than the baseline's do, in one bin.

    Parameters
    ----------
    place
        Place of the bin, from 0.
    gap
        Candidate's mean residual less baseline's, -2..2.
    standard_error
        Of the gap, > 0.
    p_value
        Two-sided, under H0 "both residuals have one mean", 0..1; normal approximation. One of several: adjust.
    """

    place: int
    gap: float
    standard_error: float
    p_value: float


@dataclass(frozen=True, slots=True)
class ResidualGaps:
    """The gaps of all bins that both variants fill, and the bins that they do not."""

    gaps: tuple[ResidualGap, ...]
    undefined: tuple[Undefined, ...]


def calibration_error(
    bins: Sequence[ConfidenceBin], *, alpha: float = 0.01, draws: int = 999, seed: int = 0
) -> CalibrationError | NoData:
    """Return the expected calibration error sum |outcomes - confidence| / N, with its law under H0.

    H0 and validity: see the module. Threshold and p-value come from redrawing outcomes at the mean confidence of each
    bin, so they need no large counts; confidences that vary inside a bin make them conservative.

    Parameters
    ----------
    bins
        One variant's, shape (K,), K >= 1, any order.
    alpha
        Chance of exceeding the threshold under H0, in (0, 1).
    draws
        Number of redraws, >= 99.
    seed
        Of the redraws, >= 0: the same input gives the same output.
    """
    refuse_bad_alpha(alpha)
    refuse_bad_draws(draws)
    filled = [each for each in bins if each.total]
    if not filled:
        return NoData("no bin holds a prediction with a known outcome")
    totals, means = np.array([each.total for each in filled]), as_array([each.mean for each in filled])
    number = int(totals.sum())
    error = sum(abs(each.outcomes - each.confidence) for each in filled) / number
    dealt = np.random.default_rng(seed).binomial(totals, means, (draws, totals.size))
    redrawn = np.abs(dealt - totals * means).sum(axis=1) / number
    return CalibrationError(
        error=error,
        null_mean=float(np.sqrt(2 * totals * means * (1 - means) / math.pi).sum()) / number,
        null_threshold=threshold(redrawn, alpha),
        p_value=p_value(redrawn, error),
        undefined=tuple(_empty(index, "no predictions") for index, each in enumerate(bins) if not each.total),
    )


def error_range(totals: Sequence[int], outcomes: Sequence[int], edges: Sequence[float]) -> ErrorRange | NoData:
    """Return between which values the expected calibration error lies; fixed n, and without a law under H0.

    Parameters
    ----------
    totals
        Predictions with a known outcome by bin, shape (K,), K >= 1.
    outcomes
        How many of them came true, 0..total.
    edges
        Edges of the bins, in 0..1, strictly increasing, shape (K + 1,).
    """
    if not len(totals) == len(outcomes) == len(edges) - 1:
        raise ValueError(f"{len(edges)} edges lie around bins, got {len(totals)} totals and {len(outcomes)} outcomes")
    if not (edges[0] >= 0 and edges[-1] <= 1 and all(low < high for low, high in pairwise(edges))):
        raise ValueError(f"edges must increase strictly within 0..1, got {tuple(edges)}")
    low, middle, high = 0.0, 0.0, 0.0
    for total, outcome, (left, right) in zip(totals, outcomes, pairwise(edges), strict=True):
        refuse_bad_count("total", total)
        refuse_bad_count("outcomes", outcome, total)
        low += max(0.0, left * total - outcome, outcome - right * total)
        middle += abs(outcome - (left + right) / 2 * total)
        high += max(outcome - left * total, right * total - outcome)
    number = sum(totals)
    if not number:
        return NoData("no bin holds a prediction with a known outcome")
    return ErrorRange(middle / number, low / number, high / number)


def residual_gaps(baseline: Sequence[ConfidenceBin], candidate: Sequence[ConfidenceBin]) -> ResidualGaps | NoData:
    """Compare the mean residuals of both variants, bin by bin.

    H0 and validity: see `ResidualGap` and the module. Variances are those of outcomes with rate (outcomes + 1/2) /
    (total + 1), never 0; about ten outcomes of either kind per bin are needed for the normal approximation.

    Parameters
    ----------
    baseline, candidate
        Bins over the same confidences, shape (K,), K >= 1.

    Returns
    -------
    ResidualGaps or NoData
        NoData if no bin holds predictions of both variants.
    """
    if len(baseline) != len(candidate):
        raise ValueError(f"both variants need the same bins, got {len(baseline)} and {len(candidate)}")
    gaps, undefined = [], []
    for place, (theirs, ours) in enumerate(zip(baseline, candidate, strict=True)):
        lacking = [name for name, each in (("baseline", theirs), ("candidate", ours)) if not each.total]
        if lacking:
            undefined.append(_empty(place, f"no predictions of the {' and the '.join(lacking)}"))
            continue
        gap, error = ours.residual - theirs.residual, math.sqrt(_variance(theirs) + _variance(ours))
        gaps.append(ResidualGap(place, gap, error, 2 * float(ndtr(-abs(gap) / error))))
    return ResidualGaps(tuple(gaps), tuple(undefined)) if gaps else NoData("no bin holds predictions of both variants")


def _variance(each: ConfidenceBin) -> float:
    rate = (each.outcomes + 0.5) / (each.total + 1)
    return rate * (1 - rate) / each.total


def _empty(place: int, why: str) -> Undefined:
    return Undefined(f"bin {place}", why)
