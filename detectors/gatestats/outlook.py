"""What the bets of a design can expect: the prior mass and the pace of each, under what is assumed to be true.

Rule 1: bets are taken from where they are placed, so that a plan cannot differ from the test that it is about.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from gatestats import histogram, odds_ratio, rates
from gatestats.arrays import FloatArray, as_array
from gatestats.bracketed import BracketedOddsRatioDesign
from gatestats.histogram import HistogramDesign
from gatestats.non_inferiority import ErrorRateDesign
from gatestats.odds_ratio import OddsRatioDesign
from gatestats.planning import Arms, Pace, odds_ratio_pace, projected_pace, tilt_pace
from gatestats.podwise import PodwiseDesign
from gatestats.process import Process
from gatestats.projection import Null
from gatestats.rate_bets import EFFECT_WEIGHTS, SMALLER_WEIGHTS, Bet, RateBets, place
from gatestats.rates import AbsoluteRateDesign, RelativeRateDesign
from gatestats.tempered import TemperedDesign
from gatestats.ticks import Worse


@dataclass(frozen=True, slots=True)
class Histograms:
    """Expected requests of one look by bucket, >= 0, on the design's edges."""

    baseline: tuple[float, ...]
    candidate: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Backing:
    """A bet: its prior ``mass`` in (0, 1], and its ``pace``."""

    mass: float
    pace: Pace


Truth = Arms | Histograms
_Kind = TypeVar("_Kind", Arms, Histograms)


def rollback_outlook(design: Process, truth: Truth) -> tuple[Backing, ...]:
    """Return the bets of a design on a regression.

    Parameters
    ----------
    design
        A process for two arms of counts, or for two histograms.
    truth
        What one look shows of both variants on average.

    Raises
    ------
    ValueError
        If the design counts something else than ``truth`` is about, or nothing is known of its bets.
    """
    match design:
        case OddsRatioDesign():
            return _odds_ratio_rollback(design, _as(Arms, truth))
        case ErrorRateDesign() | PodwiseDesign():
            # As long as requests are independent, the pods need about as long as the requests.
            part = design.odds_ratio() if isinstance(design, ErrorRateDesign) else design.requests
            return rollback_outlook(part, truth)
        case TemperedDesign():
            # Its bets are on smaller effects; for the margin and twice the margin the difference is small.
            return _slower(rollback_outlook(design.independent(), truth), design.phi)
        case BracketedOddsRatioDesign():
            return _odds_ratio_rollback(design.rollback(), _as(Arms, truth))
        case AbsoluteRateDesign() | RelativeRateDesign():
            bets, masses = _rate_bets(design), as_array(EFFECT_WEIGHTS)
            weights = masses if design.mde is None else np.append(masses / 2, 0.5)
            return _rate_backings(bets, _as(Arms, truth), bets.null, list(zip(weights, bets.effects, strict=True)))
        case HistogramDesign():
            placed = histogram._bets(design)  # noqa: SLF001 - rule 1
            return _tilts(design, _as(Histograms, truth), (placed.rollback, placed.first), histogram._WEIGHTS)  # noqa: SLF001 - rule 1
        case _:
            raise ValueError(f"nothing is known of the bets of {type(design).__name__}")


def promotion_outlook(design: Process, truth: Truth) -> tuple[Backing, ...]:
    """Return the bets of a design on "no worse"; parameters and errors as for `rollback_outlook`."""
    match design:
        case OddsRatioDesign() | BracketedOddsRatioDesign():
            odds_ratio = design if isinstance(design, OddsRatioDesign) else design.promotion()
            return _odds_ratio_promotion(odds_ratio, _as(Arms, truth))
        case ErrorRateDesign():
            difference = _slower(promotion_outlook(design.difference(), truth), design.phi)
            parts = (*promotion_outlook(design.odds_ratio(), truth), *difference)
            return tuple(Backing(part.mass / 2, part.pace) for part in parts)
        case TemperedDesign():
            return _slower(promotion_outlook(design.independent(), truth), design.phi)
        case PodwiseDesign():
            return promotion_outlook(design.requests, truth)
        case AbsoluteRateDesign() | RelativeRateDesign():
            bets = _rate_bets(design)
            smaller = list(zip(SMALLER_WEIGHTS, bets.smaller, strict=True))
            return _rate_backings(bets, _as(Arms, truth), bets.reverse, smaller)
        case HistogramDesign():
            placed = histogram._bets(design)  # noqa: SLF001 - rule 1
            return _tilts(design, _as(Histograms, truth), (placed.promotion, placed.last), histogram._BETTER_WEIGHTS)  # noqa: SLF001 - rule 1
        case _:
            raise ValueError(f"nothing is known of the bets of {type(design).__name__}")


def _slower(backings: tuple[Backing, ...], phi: float) -> tuple[Backing, ...]:
    """Return the bets of a design whose evidence is divided by a dispersion."""
    return tuple(Backing(each.mass, Pace(each.pace.drift / phi, each.pace.variance / phi**2)) for each in backings)


def _as(kind: type[_Kind], truth: Truth) -> _Kind:
    if not isinstance(truth, kind):
        message = f"the design is about {kind.__name__}, got {type(truth).__name__}"
        raise ValueError(message)  # noqa: TRY004 - the two arguments do not fit each other
    return truth


def _odds_ratio_rollback(design: OddsRatioDesign, arms: Arms) -> tuple[Backing, ...]:
    placed = odds_ratio.bets_of(design)
    return _odds_ratios(design, arms, placed.rollback, placed.rollback_weights)


def _odds_ratio_promotion(design: OddsRatioDesign, arms: Arms) -> tuple[Backing, ...]:
    placed = odds_ratio.bets_of(design)
    better = placed.log_odds[odds_ratio.MARGIN + 1 : placed.kept]
    return _odds_ratios(design, arms, better, as_array(odds_ratio._BETTER_WEIGHTS))  # noqa: SLF001 - rule 1


def _odds_ratios(design: OddsRatioDesign, arms: Arms, log_odds: FloatArray, masses: FloatArray) -> tuple[Backing, ...]:
    turned = arms.swapped() if design.worse is Worse.LOWER else arms
    return tuple(
        Backing(float(mass), odds_ratio_pace(turned, float(ratio), design.margin))
        for mass, ratio in zip(masses, np.exp(log_odds), strict=True)
    )


def _rate_bets(design: AbsoluteRateDesign | RelativeRateDesign) -> RateBets:
    if isinstance(design, AbsoluteRateDesign):
        return rates._bets_absolute(design)  # noqa: SLF001 - rule 1
    return rates._bets_relative(design)  # noqa: SLF001 - rule 1


def _rate_backings(
    bets: RateBets, arms: Arms, null: Null, weighted: Sequence[tuple[float, Bet]]
) -> tuple[Backing, ...]:
    turned = arms.swapped() if bets.swap else arms
    return tuple(
        Backing(float(mass), projected_pace(turned, place(turned.pooled, turned.share, bet), null))
        for mass, bet in weighted
    )


def _tilts(
    design: HistogramDesign, truth: Histograms, bets: tuple[FloatArray, "np.ndarray"], masses: Sequence[float]
) -> tuple[Backing, ...]:
    exponents, target = bets
    reference, test = as_array(truth.baseline), as_array(truth.candidate)
    if design.worse is Worse.LOWER:
        reference, test = test, reference
    moved = np.bincount(target, test, test.size).astype(np.float64)
    return tuple(Backing(mass, tilt_pace(reference, moved, row)) for mass, row in zip(masses, exponents, strict=True))
