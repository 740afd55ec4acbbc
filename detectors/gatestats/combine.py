"""Many e-processes, one decision: means, culprits, quorum, p-values.

All inputs are ln E of e-processes on one joint history; any dependence between them is allowed. -inf (a certain loss)
is an allowed value, +inf and NaN are refused. Roll back when the weighted mean reaches ln(1 / alpha).
Source: statistics.md 1.9; Vovk and Wang (2021), "E-values: calibration, combination and applications"; Wang and Ramdas
(2022), "False discovery rate control with e-values"; Wang (2024), arXiv:2409.19888, on why only the weighted mean.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from gatestats.arrays import FloatArray, as_array, log_sum_exp

#: Below this many nats the closed form of `calibrate_any` would cancel.
_SMALL = 1e-4


def log_threshold(alpha: float) -> float:
    """Return ln(1 / alpha), the evidence at which a null is rejected at level ``alpha``, at any time (Ville).

    Parameters
    ----------
    alpha
        Bound on the chance of ever rejecting a true null, in (0, 1).
    """
    _refuse_bad_share("alpha", alpha)
    return -math.log(alpha)


def weighted_mean(log_e: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """Return ln of the weighted mean of e-processes, nats.

    H0: every stream's own null holds. Valid at any time under any dependence, if weights are fixed beforehand.

    Parameters
    ----------
    log_e
        ln E of each stream, nats; at least one stream.
    weights
        Weight of each stream, >= 0, the same names, adding up to at most 1 (what is missing counts as E = 0).

    Raises
    ------
    ValueError
        If there is no stream, names differ, or weights are negative or add up to more than 1.
    """
    if log_e.keys() != weights.keys():
        differing = sorted(log_e.keys() ^ weights.keys())
        raise ValueError(f"streams and weights must have the same names, these differ: {differing}")
    values = _checked(list(log_e.values()))
    shares = as_array([weights[name] for name in log_e])
    if not (np.isfinite(shares).all() and (shares >= 0).all() and 0 < shares.sum() <= 1 + 1e-12):
        raise ValueError(f"weights must be at least 0 and add up to at most 1, got a sum of {shares.sum()}")
    bets = (shares > 0) & (values > -math.inf)
    return float(log_sum_exp(values[bets] + np.log(shares[bets]))) if bets.any() else -math.inf


def equal_weights(names: Sequence[str]) -> dict[str, float]:
    """Return the same weight for every name, adding up to 1."""
    if not names:
        raise ValueError("weights need at least one stream, got none")
    return dict.fromkeys(names, 1 / len(names))


def guarded_weights(guardrails: Sequence[str], slices: Mapping[str, bool], floor: float = 0.2) -> dict[str, float]:
    """Return weights that add up to 1: half for the primary guardrails, half for the slices, alike within each.

    Most of the slices' half goes to those in which a regression can be found in time; the others keep a floor, so
    that none of them is left unguarded. Fixed before the rollout, so that `weighted_mean` stays valid.

    Parameters
    ----------
    guardrails
        Names of the primary streams.
    slices
        Name of each slice's stream, and whether the plan says that it can be found in time. Without guardrails the
        slices have all, and the other way round.
    floor
        Share of the slices' half that all of them have alike, in 0..1.

    Raises
    ------
    ValueError
        If there is no stream, a name occurs twice, or ``floor`` is out of range.
    """
    names = [*guardrails, *slices]
    if not names or len(set(names)) < len(names):
        raise ValueError(f"weights need at least one stream, each once, got {names}")
    if not 0 <= floor <= 1:
        raise ValueError(f"floor must be a share in 0..1, got {floor}")
    halves = (0.5, 0.5) if guardrails and slices else (1.0, 1.0)
    found = [name for name, findable in slices.items() if findable]
    alike = floor if found else 1.0
    weights = {name: halves[0] / len(guardrails) for name in guardrails}
    for name in slices:
        extra = (1 - alike) / len(found) if name in found else 0.0
        weights[name] = halves[1] * (alike / len(slices) + extra)
    return weights


def culprits(log_e: Mapping[str, float]) -> dict[str, float]:
    """Return for each stream ln of its closed-test e-value, nats.

    H0 of stream i: its own null. Streams whose value reaches ln(1 / alpha) may be named together: the chance that any
    of them is named wrongly, at any time, is at most alpha (closed testing with the mean as merging function).

    Parameters
    ----------
    log_e
        ln E of each stream, nats; at least one stream.

    Notes
    -----
    e*_i = min over l of (E_i + the l smallest others) / (l + 1); Vovk and Wang (2021), Algorithm 1.
    """
    values = _checked(list(log_e.values()))
    order = np.argsort(values, kind="stable")
    closed: dict[str, float] = {}
    for place, name in enumerate(log_e):
        others = values[order[order != place]]
        running = np.logaddexp.accumulate(np.concatenate([values[place : place + 1], others]))
        closed[name] = float((running - np.log(np.arange(1, values.size + 1))).min())
    return closed


def discoveries(log_e: Mapping[str, float], alpha: float) -> frozenset[str]:
    """Return the streams reported by e-BH: the expected share of wrong ones among them is at most ``alpha``.

    H0 of stream i: its own null; any dependence; valid at one data-dependent stopping time.

    Parameters
    ----------
    log_e
        ln E of each stream, nats; at least one stream.
    alpha
        False discovery rate, in (0, 1).
    """
    _refuse_bad_share("alpha", alpha)
    values = _checked(list(log_e.values()))
    names = sorted(log_e, key=lambda name: log_e[name], reverse=True)
    bars = math.log(values.size / alpha) - np.log(np.arange(1, values.size + 1))
    enough = np.flatnonzero(np.sort(values)[::-1] >= bars)
    return frozenset(names[: int(enough[-1]) + 1]) if enough.size else frozenset()


def quorum(log_e: Mapping[str, float], least: int) -> float:
    """Return ln of the partial-conjunction e-value, nats.

    H0: fewer than ``least`` streams are truly regressed. Valid at any time under any dependence: under H0 at least
    n - least + 1 nulls are true, and the mean of the n - least + 1 smallest values is at most the mean of theirs.

    Parameters
    ----------
    log_e
        ln E of each stream, nats; at least one stream.
    least
        Streams that must be regressed, 1..n; 1 gives the mean, n the smallest value.
    """
    values = np.sort(_checked(list(log_e.values())))
    if not 1 <= least <= values.size:
        raise ValueError(f"quorum must be in 1..{values.size} signals, got {least}")
    smallest = values[: values.size - least + 1]
    return _log_mean(smallest)


def intersection_union(log_e: Mapping[str, float]) -> float:
    """Return ln of the smallest e-value: evidence against "at least one of the nulls holds".

    Used for promotion: the null of each required gate is "inferior"; all must fall. No price for their number.

    Parameters
    ----------
    log_e
        ln E of each required gate, nats; at least one gate: no gates is no evidence.
    """
    return float(_checked(list(log_e.values())).min())


def anytime_p(largest_log_e: float) -> float:
    """Return the anytime-valid p-value 1 / max over looks of E, in 0..1.

    H0: the null of the e-process. P(p <= a at any look) <= a.

    Parameters
    ----------
    largest_log_e
        Largest ln E of all looks so far, nats.
    """
    return math.exp(-max(0.0, float(_checked([largest_log_e])[0])))


def calibrate(p_value: float, kappa: float = 0.5) -> float:
    """Return ln e of a fixed-sample p-value: e = kappa p^(kappa - 1).

    H0: that of the p-value. Valid for one look at one block of data; blocks must not overlap.

    Parameters
    ----------
    p_value
        In (0, 1]; an exact 0 is refused, because no test earns it.
    kappa
        In (0, 1); smaller favours very small p-values.
    """
    if not 0 < p_value <= 1:
        raise ValueError(f"p_value must be above 0 and at most 1, got {p_value}")
    _refuse_bad_share("kappa", kappa)
    return math.log(kappa) + (kappa - 1) * math.log(p_value)


def calibrate_any(p_value: float) -> float:
    """Return ln e of a fixed-sample p-value without a choice of kappa: the mean of `calibrate` over all of them.

    H0: that of the p-value. e = (1 - p + p ln p) / (p ln(p)^2); validity and limits as `calibrate`.

    Parameters
    ----------
    p_value
        In (0, 1]; an exact 0 is refused, because no test earns it.
    """
    if not 0 < p_value <= 1:
        raise ValueError(f"p_value must be above 0 and at most 1, got {p_value}")
    nats = -math.log(p_value)
    if nats < _SMALL:
        return math.log(0.5 + nats / 6)  # cut-off series: less than the whole by nats^2 / 24 only
    return nats + math.log1p(-(1 + nats) * p_value) - 2 * math.log(nats)


def adjust(largest_log_e: float, kappa: float = 0.5) -> float:
    """Return ln E of an e-process made from the largest value so far of another, fit to be combined.

    For a process that is valid only with respect to its own, coarser history (ranks of its own past, say): its largest
    value so far bounds a p-value at any time, and a calibrated anytime p-value is an e-process in every finer history.
    The price is a factor of about the square root with kappa = 1/2. E = kappa (max E)^(1 - kappa).
    Source: Choe and Ramdas (2024), arXiv:2402.09698, on lifting e-processes between filtrations.

    Parameters
    ----------
    largest_log_e
        Largest ln E of all looks so far, nats.
    kappa
        As in `calibrate`.
    """
    _refuse_bad_share("kappa", kappa)
    return math.log(kappa) + (1 - kappa) * max(0.0, float(_checked([largest_log_e])[0]))


def attempt_alpha(alpha: float, attempt: int) -> float:
    """Return the error budget of one attempt with the same artefact: alpha / 2^attempt; all attempts stay below alpha.

    Parameters
    ----------
    alpha
        Budget over all attempts, in (0, 1).
    attempt
        1 for the first, >= 1.
    """
    _refuse_bad_share("alpha", alpha)
    if attempt < 1:
        raise ValueError(f"attempt must be at least 1, got {attempt}")
    return math.ldexp(alpha, -attempt)


def _checked(log_e: Sequence[float]) -> FloatArray:
    values = as_array(log_e)
    if not values.size:
        raise ValueError("evidence of at least one stream is needed, got none")
    if np.isnan(values).any() or (values == math.inf).any():
        raise ValueError(f"ln E must be a number below infinity, got {list(log_e)}")
    return values


def _log_mean(values: FloatArray) -> float:
    finite = values[values > -math.inf]
    return float(log_sum_exp(finite)) - math.log(values.size) if finite.size else -math.inf


def _refuse_bad_share(name: str, value: float) -> None:
    if not 0 < value < 1:
        raise ValueError(f"{name} must lie between 0 and 1, both excluded, got {value}")
