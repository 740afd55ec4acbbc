"""How long until evidence suffices: the growth rate of a bet, and the time that its wealth takes to a threshold.

A bet's log wealth is a random walk. What counts is its pace: the mean and the variance of one look's log factor, in
nats. With requests n_k of rate p_k in cell k, a bet on rates q_k against the nearest null rates r_k has

    drift = sum_k n_k (KL(p_k || r_k) - KL(p_k || q_k))
    variance = sum_k n_k p_k (1 - p_k) (logit q_k - logit r_k)^2

The conditional tests are of this form for many requests: given pooled events, the odds ratio w has the rates that pool
to them. Ln E then meets a line at an inverse Gaussian time. Accuracy: good for some events a look and more; a look at
fixed times finds the walk 0.583 standard deviations beyond the line on average (Siegmund, 1979).
Source: statistics.md 3.5; Chhikara and Folks (1989) for the inverse Gaussian law.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from gatestats.arrays import FloatArray, as_array
from gatestats.late_change import MOST_APART
from gatestats.projection import Null, nearest_null

#: Mean distance by which a random walk overshoots, in standard deviations of one step: -zeta(1/2) / sqrt(2 pi).
OVERSHOOT: Final = 0.5826
_HALVINGS: Final = 60
#: Requests are whole to the projection, and expectations are not.
_FINE: Final = 1000


@dataclass(frozen=True, slots=True)
class Pace:
    """Mean and variance of the log factor of one look.

    Parameters
    ----------
    drift
        Nats a look; below 0 if the bet loses.
    variance
        Squared nats a look, >= 0.
    """

    drift: float
    variance: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.drift) and 0 <= self.variance < math.inf):
            raise ValueError(f"a pace has a finite drift and a variance >= 0, got {self.drift} and {self.variance}")

    def held(self) -> "Pace":
        """Return the pace with factors bounded as `gatestats.late_change.held` bounds them, for normal log factors."""
        from scipy.special import ndtr

        deviation = math.sqrt(self.variance)
        if deviation == 0:
            return Pace(min(self.drift, MOST_APART), 0.0)
        excess = (self.drift - MOST_APART) / deviation
        density, above = math.exp(-excess * excess / 2) / math.sqrt(2 * math.pi), float(ndtr(excess))
        lost = deviation * (density + excess * above)
        # E[max(0, X - c)^2] = sd^2 ((1 + d^2) Phi(d) + d phi(d)), with d = (mean - c) / sd.
        square = self.variance * ((1 + excess * excess) * above + excess * density)
        # Var(X - L), L = max(0, X - c): Cov(X, L) = E[L^2] + (c - mean) E[L].
        common = square + (MOST_APART - self.drift) * lost
        variance = self.variance - 2 * common + square - lost * lost
        return Pace(self.drift - lost, max(0.0, variance))


@dataclass(frozen=True, slots=True)
class Cell:
    """Requests of one arm in one look: ``size`` (> 0), their true ``rate``, and the rates of the ``bet`` and the
    ``null``, all in (0, 1).
    """  # noqa: D205 - four values in one sentence

    size: float
    rate: float
    bet: float
    null: float

    def __post_init__(self) -> None:
        if not 0 < self.size < math.inf:
            raise ValueError(f"size must be above 0 requests and finite, got {self.size}")
        for name, value in (("rate", self.rate), ("bet", self.bet), ("null", self.null)):
            if not 0 < value < 1:
                raise ValueError(f"{name} must lie between 0 and 1, got {value}")


@dataclass(frozen=True, slots=True)
class Arms:
    """Both variants in one look: requests (> 0, expected, so perhaps fractions) and true event rates in (0, 1)."""

    baseline_total: float
    baseline_rate: float
    candidate_total: float
    candidate_rate: float

    def __post_init__(self) -> None:
        for name, total in (("baseline_total", self.baseline_total), ("candidate_total", self.candidate_total)):
            if not 0 < total < math.inf:
                raise ValueError(f"{name} must be above 0 requests and finite, got {total}")
        for name, rate in (("baseline_rate", self.baseline_rate), ("candidate_rate", self.candidate_rate)):
            if not 0 < rate < 1:
                raise ValueError(f"{name} must lie between 0 and 1, got {rate}")

    @property
    def share(self) -> float:
        """The candidate's share of the requests, in (0, 1)."""
        return self.candidate_total / (self.candidate_total + self.baseline_total)

    @property
    def pooled(self) -> float:
        """The rate over both variants, in (0, 1)."""
        return self.share * self.candidate_rate + (1 - self.share) * self.baseline_rate

    def swapped(self) -> "Arms":
        """Return the variants exchanged."""
        return Arms(self.candidate_total, self.candidate_rate, self.baseline_total, self.baseline_rate)


def cells_pace(cells: Sequence[Cell]) -> Pace:
    """Return the pace of a likelihood ratio over Bernoulli cells: one cell for a rate against a limit, two for arms."""
    drift = sum(cell.size * (_divergence(cell.rate, cell.null) - _divergence(cell.rate, cell.bet)) for cell in cells)
    variance = sum(
        cell.size * cell.rate * (1 - cell.rate) * (_logit(cell.bet) - _logit(cell.null)) ** 2 for cell in cells
    )
    return Pace(drift, variance)


def odds_ratio_pace(arms: Arms, bet: float, null: float) -> Pace:
    """Return the pace of a conditional odds ratio bet (`gatestats.odds_ratio`).

    Parameters
    ----------
    arms
        What is true; the candidate is the arm under test.
    bet, null
        Odds ratios, > 0.
    """
    (ours, theirs), (null_ours, null_theirs) = (_rates_at(arms, ratio) for ratio in (bet, null))
    return cells_pace(
        (
            Cell(arms.candidate_total, arms.candidate_rate, ours, null_ours),
            Cell(arms.baseline_total, arms.baseline_rate, theirs, null_theirs),
        )
    )


def projected_pace(arms: Arms, rates: tuple[float, float], null: Null) -> Pace:
    """Return the pace of a bet on (candidate's, baseline's) rates against its projection (`gatestats.rates`)."""
    sizes = (max(1, round(_FINE * arms.candidate_total)), max(1, round(_FINE * arms.baseline_total)))
    ours, theirs = nearest_null(rates, sizes, null)
    return cells_pace(
        (
            Cell(arms.candidate_total, arms.candidate_rate, rates[0], ours),
            Cell(arms.baseline_total, arms.baseline_rate, rates[1], theirs),
        )
    )


def tilt_pace(baseline: FloatArray, candidate: FloatArray, exponents: FloatArray) -> Pace:
    """Return the pace of a histogram tilt (`gatestats.histogram`).

    Parameters
    ----------
    baseline, candidate
        Expected requests of one look by bucket, >= 0, each with a sum above 0.
    exponents
        The tilt times the score of each bucket, nats.
    """
    pooled, drawn = baseline + candidate, float(candidate.sum())
    others = float(baseline.sum())
    if not (drawn > 0 and others > 0 and np.isfinite(pooled).all() and (pooled >= 0).all()):
        raise ValueError(f"both variants need requests in some bucket, got {others} and {drawn}")
    share = drawn / (drawn + others)
    log_z = _balance(pooled, drawn, exponents)
    chance = 1 / (1 + np.exp(-(log_z + exponents)))
    ours, theirs = np.log(chance / share), np.log((1 - chance) / (1 - share))
    drift = float((candidate * ours).sum() + (baseline * theirs).sum())
    spread = _scatter(candidate, ours) + _scatter(baseline, theirs)
    return Pace(drift, spread)


def paired_pace(total: float, worse: float, better: float, bet: tuple[float, float]) -> Pace:
    """Return the pace of a paired bet (`gatestats.paired`).

    Parameters
    ----------
    total
        Pairs of one look, > 0.
    worse, better
        Shares of pairs that only the baseline, and only the candidate, got right; >= 0, at most 1 together.
    bet
        The bet's size l, and the margin, with l in (0, 1 / (1 + margin)).
    """
    if not (total > 0 and worse >= 0 and better >= 0 and worse + better <= 1):
        raise ValueError(f"shares of {total} pairs must be >= 0 and at most 1 together, got {worse} and {better}")
    size, margin = bet
    if not 0 < size * (1 + margin) < 1:
        raise ValueError(f"a bet lies between 0 and 1 / (1 + margin) = {1 / (1 + margin):.6g}, got {size}")
    gains = np.log([1 + size * (1 - margin), 1 - size * (1 + margin), 1 - size * margin])
    chances = as_array((worse, better, 1 - worse - better))
    mean = float((chances * gains).sum())
    return Pace(total * mean, total * float((chances * gains * gains).sum() - mean * mean))


@dataclass(frozen=True, slots=True)
class Passage:
    """The number of looks until a walk of constant pace has gained ``distance`` (nats, > 0): inverse Gaussian."""

    distance: float
    pace: Pace

    def __post_init__(self) -> None:
        if not 0 < self.distance < math.inf:
            raise ValueError(f"distance must be above 0 nats and finite, got {self.distance}")

    @property
    def mean(self) -> float:
        """Expected looks; inf if the walk does not rise."""
        return self.distance / self.pace.drift if self.pace.drift > 0 else math.inf

    def probability(self, looks: float) -> float:
        """Return the chance that ``looks`` (>= 0) are enough, 0..1."""
        return float(passed(as_array((looks * self.pace.drift,)), self.distance, self._ratio)[0]) if looks > 0 else 0.0

    def quantile(self, chance: float) -> float:
        """Return the looks that are enough with a ``chance`` in (0, 1); inf if the walk does not rise."""
        if not 0 < chance < 1:
            raise ValueError(f"chance must lie between 0 and 1, got {chance}")
        if self.pace.drift <= 0:
            return math.inf
        end = self.mean
        while self.probability(end) < chance:
            end *= 2
        return invert(self.probability, chance, (0.0, end))

    @property
    def _ratio(self) -> float:
        return self.pace.variance / self.pace.drift if self.pace.drift else math.inf


def passed(gained: FloatArray, distance: float, ratio: float) -> FloatArray:
    """Return the chance that a walk has passed ``distance`` by the time its mean has gained so much.

    The clock is the mean gain itself, so it holds for a pace that changes while variance / drift stays.

    Parameters
    ----------
    gained
        Mean gain so far, nats; not above 0 means no chance.
    distance
        Nats, > 0.
    ratio
        Variance over drift, nats, >= 0; 2 for a likelihood ratio at its own truth.
    """
    from scipy.special import log_ndtr, ndtr

    chances = np.zeros_like(gained)
    rising = gained > 0
    if ratio <= 0:
        chances[rising] = gained[rising] >= distance
        return chances
    risen = gained[rising]
    scale = np.sqrt(ratio * risen)
    reflected = np.exp(2 * distance / ratio + log_ndtr(-(risen + distance) / scale))
    chances[rising] = np.minimum(1.0, ndtr((risen - distance) / scale) + reflected)
    return chances


def invert(
    chance_of: Callable[[float], float], wanted: float, between: tuple[float, float], tolerance: float = 1e-4
) -> float:
    """Return the smallest value at which a rising chance reaches ``wanted``; inf if it does not reach it at the end.

    Parameters
    ----------
    chance_of
        Nondecreasing, such as the power as a function of the effect.
    wanted
        In (0, 1).
    between
        Low and high end, finite.
    tolerance
        Largest relative error of the value, > 0.
    """
    low, high = between
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(f"the ends must be finite, low before high, got {low} and {high}")
    if chance_of(high) < wanted:
        return math.inf
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if high - low <= tolerance * abs(high):
            break
        low, high = (low, middle) if chance_of(middle) >= wanted else (middle, high)
    return high


def _divergence(rate: float, other: float) -> float:
    return rate * math.log(rate / other) + (1 - rate) * math.log((1 - rate) / (1 - other))


def _logit(rate: float) -> float:
    return math.log(rate) - math.log1p(-rate)


def _rates_at(arms: Arms, ratio: float) -> tuple[float, float]:
    """Return the (candidate's, baseline's) rates with an odds ratio that pool to what is true.

    With y the baseline's rate, the candidate's is w y / (1 + (w - 1) y), and share * candidate + rest * y = pooled:
    a quadratic in y with one root in (0, 1).
    """
    if not 0 < ratio < math.inf:
        raise ValueError(f"an odds ratio must be above 0 and finite, got {ratio}")
    share, pooled, more = arms.share, arms.pooled, ratio - 1
    square = (1 - share) * more
    linear = share * ratio + (1 - share) - pooled * more
    root = math.sqrt(linear * linear + 4 * square * pooled)
    theirs = 2 * pooled / (linear + root)
    return ratio * theirs / (1 + more * theirs), theirs


def _balance(pooled: FloatArray, drawn: float, exponents: FloatArray) -> float:
    """Return ln z with sum_j m_j z e^(e_j) / (1 + z e^(e_j)) = drawn, by halving."""
    centre = math.log(drawn / (float(pooled.sum()) - drawn))
    low, high = centre - float(exponents.max()), centre - float(exponents.min())
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        too_many = float((pooled / (1 + np.exp(-(middle + exponents)))).sum()) > drawn
        low, high = (low, middle) if too_many else (middle, high)
    return (low + high) / 2


def _scatter(counts: FloatArray, values: FloatArray) -> float:
    """Return the variance of a sum of values over so many independent requests with these shares."""
    total = float(counts.sum())
    mean = float((counts * values).sum()) / total
    return float((counts * (values - mean) ** 2).sum())
