"""What one gate says, in numbers and one sentence that people can act on."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf, log
from typing import Final

from davylamp.core.evidence import Evidence, Stream, Trouble, slowdown
from davylamp.core.latency import ENOUGH, latency_design
from davylamp.core.model import Verdict
from davylamp.core.plan import AbsoluteMargin, Gate, LimitMargin, SignalKind
from davylamp.core.slice_report import SliceEffect, slice_effect, slice_text
from gatestats.method import Method
from gatestats.ticks import Estimate, Measure, Worse

_LN10: Final = log(10)
_TESTED: Final = {
    Method.CONDITIONAL: "by requests",
    Method.TEMPERED: "by requests, divided by their dispersion",
    Method.PODWISE: "by requests and by pods",
}
#: Coverage of the limits that are shown; decisions use evidence, never these.
_LEVEL: Final = 0.95


@dataclass(frozen=True, slots=True)
class Side:
    """What one variant has shown: ``events`` among ``total``, and the ``value`` (a share, or a latency)."""

    total: int
    events: int | None = None
    value: float | None = None


@dataclass(frozen=True, slots=True)
class GateReport:
    """One gate for people.

    Parameters
    ----------
    name, verdict, required
        The gate, what it says, and whether promotion waits for it.
    baseline, candidate
        What the variants have shown since the attempt began; None without data. The baseline's value is that at the
        times at which the candidate served.
    difference
        Candidate less baseline, in the unit of the value.
    low, high
        Limits of the difference that hold at all times together; None if unbounded.
    evidence, threshold
        Of a regression: log10 of the e-value, and where traffic is taken back if it were alone.
    non_inferiority, non_inferiority_threshold
        That the candidate is no worse, log10.
    samples
        Requests of both variants.
    sentence
        The verdict with its numbers.
    method
        How it is tested, and why so; empty before that is known.
    place
        The edge over which a score moves most, and which way; of a slice with several streams, which is strongest.
    """

    name: str
    verdict: Verdict
    required: bool
    sentence: str
    baseline: Side | None = None
    candidate: Side | None = None
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    evidence: float | None = None
    threshold: float | None = None
    non_inferiority: float | None = None
    non_inferiority_threshold: float | None = None
    samples: int = 0
    method: str = ""
    place: str = ""


@dataclass(frozen=True, slots=True)
class Limits:
    """Thresholds of an attempt in nats: ``rollback`` for the weighted mean, ``promotion`` for each gate.

    ``weights`` by stream say what a stream alone would have to reach.
    """

    rollback: float
    promotion: float
    weights: Mapping[str, float] = field(default_factory=dict)


def baseline_total(evidence: Evidence, gate: str) -> int:
    """Return the requests in the baseline's histogram of before the rollout, >= 0."""
    known = evidence.baselines.get(gate)
    return 0 if known is None else known.total


def report(gate: Gate, evidence: Evidence, limits: Limits, guilty: bool) -> GateReport:  # noqa: FBT001 - a verdict's input
    """Return what a gate says.

    Parameters
    ----------
    gate, evidence, limits
        What is judged, what was seen, and the thresholds.
    guilty
        Whether this gate is behind evidence that has crossed the rollback threshold.
    """
    streams = {name: stream for name, stream in evidence.streams.items() if stream.gate == gate.name}
    trouble = evidence.troubles.get(gate.name)
    if not streams:
        verdict = _verdict(trouble, guilty=False, proven=False)
        return GateReport(gate.name, verdict, gate.required, _unseen(gate, evidence, trouble))
    log_e = {name: stream.design.log_e(stream.state) for name, stream in streams.items()}
    strongest = max(log_e, key=lambda name: log_e[name])
    weakest = min(_non_inferior(stream) for stream in streams.values())
    shown = GateReport(
        name=gate.name,
        verdict=_verdict(trouble, guilty=guilty, proven=weakest >= limits.promotion),
        required=gate.required,
        sentence="",
        evidence=_log10(log_e[strongest]),
        threshold=_log10(limits.rollback - log(limits.weights[strongest])),
        non_inferiority=_log10(weakest),
        non_inferiority_threshold=_log10(limits.promotion),
    )
    seen = _with_slice(shown, gate, streams[strongest]) if gate.sliced else _with_effect(shown, streams[strongest])
    shown = replace(seen, method=_method(gate, evidence), place=_place(gate, strongest))
    return replace(shown, sentence=trouble.sentence if trouble and not guilty else sentence(gate, shown))


def _place(gate: Gate, stream: str) -> str:
    """Return the edge of a stream and which way scores cross it, for people; of a slice, which of its streams."""
    if gate.sliced:
        return stream.removeprefix(gate.name)
    edge, _, worse = stream.partition("@")[2].partition(":")
    return f"{edge} {'upwards' if worse == Worse.HIGHER else 'downwards'}" if gate.edges else ""


def _method(gate: Gate, evidence: Evidence) -> str:
    """Return how a gate is tested and why so."""
    if gate.shadow or gate.sliced:
        return "by pairs of answers to the same request"
    if gate.kind is SignalKind.LATENCY:
        baseline = evidence.baselines.get(gate.name)
        design = None if baseline is None else latency_design(baseline, slowdown(gate))
        return "" if design is None else design.sentence
    choice = evidence.methods.get(gate.name)
    return "" if choice is None else f"{_TESTED[choice.method]}: {choice.reason}"


def sentence(gate: Gate, shown: GateReport) -> str:
    """Return the numbers of a gate in one sentence."""
    if gate.sliced:
        effect = SliceEffect(shown.samples, shown.difference, shown.low, shown.high)
        text = slice_text(gate, effect, shown.place)
        return f"{text}, {_evidence(shown)}" if shown.samples else text
    if gate.shadow:
        return f"{_on_shadow(gate, shown)}, {_evidence(shown)}" if shown.samples else f"{gate.name}: no pairs yet"
    baseline, candidate = shown.baseline, shown.candidate
    if baseline is None or candidate is None or not baseline.total or not candidate.total:
        return f"{gate.name}: no requests of both variants yet"
    if baseline.value is None or candidate.value is None:
        text = f"p95 {_quantile(candidate.value)} against {_quantile(baseline.value)}"
    elif gate.kind is SignalKind.LATENCY and candidate.events is None:
        ratio = candidate.value / baseline.value - 1 if baseline.value else inf
        text = f"p95 {_quantile(candidate.value)} against {_quantile(baseline.value)} ({ratio:+z.0%})"
    else:
        text = (
            f"{candidate.value:.2%} of {candidate.total:,} against {baseline.value:.2%} of {baseline.total:,} "
            f"({100 * (candidate.value - baseline.value):+z.2f} points)"
        )
    what = (
        f"{gate.name} beyond the edge"
        if gate.kind is SignalKind.LATENCY and candidate.events is not None
        else gate.name
    )
    return f"{what} {text}, {_evidence(shown)}"


def _on_shadow(gate: Gate, shown: GateReport) -> str:
    """Return what pairs of answers to the same request have shown."""
    baseline, candidate = shown.baseline or Side(0), shown.candidate or Side(0)
    match gate.margin:
        case LimitMargin(share):
            return f"{gate.name} {candidate.value or 0:.2%} of {candidate.total:,} pairs (limit {share:.2%})"
        case AbsoluteMargin() if gate.kind is SignalKind.SHADOW_NOISE:
            noise = f"{baseline.value or 0:.2%} of {baseline.total:,} of the baseline with itself"
            return f"{gate.name} {candidate.value or 0:.2%} of {candidate.total:,} pairs against {noise}"
        case AbsoluteMargin(margin):
            moved = f"{100 * (shown.difference or 0):+.2f} points cross {shown.place}"
            return f"{gate.name} {moved}, of {candidate.total:,} (limit {margin:.2%})"
        case _:
            return gate.name


def _evidence(shown: GateReport) -> str:
    if shown.verdict is Verdict.REGRESSED:
        return f"evidence of a regression {_power(shown.evidence)}, limit {_power(shown.threshold)}"
    proof, needed = _power(shown.non_inferiority), _power(shown.non_inferiority_threshold)
    if shown.verdict is Verdict.NON_INFERIOR:
        return f"evidence that it is no worse {proof}, needed {needed}"
    if shown.evidence is not None and shown.evidence >= (shown.threshold or inf) / 2:
        return f"evidence of a regression {_power(shown.evidence)} of {_power(shown.threshold)}"
    return f"evidence that it is no worse {proof} of {needed}"


def _power(log10: float | None) -> str:
    if log10 is None:
        return "none"
    return _digits(10**log10) if abs(log10) < 5 else f"1e{log10:+.0f}"


def _quantile(seconds: float | None) -> str:
    if seconds is None:
        return "beyond the last bucket"
    return f"{_digits(1000 * seconds)} ms" if seconds < 1 else f"{_digits(seconds)} s"


def _digits(number: float) -> str:
    """Return a number in three digits, large ones with separators and not with an exponent."""
    text = f"{number:.3g}"
    return f"{float(text):,.0f}" if "e+" in text else text


def _unseen(gate: Gate, evidence: Evidence, trouble: Trouble | None) -> str:
    if trouble is not None:
        return trouble.sentence
    total = baseline_total(evidence, gate.name)
    if total < ENOUGH or latency_design(evidence.baselines[gate.name], slowdown(gate)) is not None:
        return f"{gate.name}: the baseline's histogram has {total} of {ENOUGH} requests"
    return (
        f"{gate.name}: all of the baseline's requests lie in one bucket, so a slowdown cannot be seen: use finer "
        f"buckets, or set gates.{gate.name}.requiredForPromotion to false"
    )


def _verdict(trouble: Trouble | None, *, guilty: bool, proven: bool) -> Verdict:
    if guilty:
        return Verdict.REGRESSED
    if trouble is not None:
        return Verdict.SOURCE_DOWN if trouble.source else Verdict.NO_DATA
    return Verdict.NON_INFERIOR if proven else Verdict.INCONCLUSIVE


def _non_inferior(stream: Stream) -> float:
    log_e = stream.design.log_e_non_inferior(stream.state)
    return -inf if log_e is None else log_e


def _log10(nats: float) -> float:
    """Return nats as a power of ten, within what JSON and a screen can hold."""
    return max(-300.0, min(300.0, nats / _LN10))


def _with_effect(shown: GateReport, stream: Stream) -> GateReport:
    estimate = stream.design.estimate(stream.state)
    if estimate is None:
        return shown
    if estimate.measure is Measure.PAIRED_LOSS:
        total = estimate.candidate_total
        return replace(shown, candidate=Side(total), difference=estimate.effect, samples=total)
    share = estimate.measure is not Measure.SLOWDOWN
    baseline = _side(estimate.baseline, estimate.baseline_total, share=share)
    candidate = _side(estimate.candidate, estimate.candidate_total, share=share)
    baseline = replace(baseline, value=_at_same_times(estimate))
    interval = stream.design.interval(stream.state, _LEVEL)
    known = baseline.value is not None and candidate.value is not None
    return replace(
        shown,
        baseline=baseline,
        candidate=candidate,
        difference=(candidate.value or 0.0) - (baseline.value or 0.0) if known else None,
        low=_gain(baseline.value, interval.measure, interval.low) if interval else None,
        high=_gain(baseline.value, interval.measure, interval.high) if interval else None,
        samples=baseline.total + candidate.total,
    )


def _with_slice(shown: GateReport, gate: Gate, stream: Stream) -> GateReport:
    effect = slice_effect(gate, stream.design, stream.state)
    return replace(
        shown,
        candidate=Side(effect.pairs),
        difference=effect.difference,
        low=effect.low,
        high=effect.high,
        samples=effect.pairs,
    )


def _side(value: float | None, total: int, *, share: bool) -> Side:
    return Side(total, round(value * total) if share and value is not None else None, value)


def _at_same_times(estimate: Estimate) -> float | None:
    """Return the baseline's value as it would be over the times at which the candidate served.

    Most of the candidate's requests come late, at high weights. With whatever else changes over the day, the plain
    values of two equal variants drift apart; the effect is stratified by looks, and does not.
    """
    candidate, effect = estimate.candidate, estimate.effect
    if candidate is None or effect is None:
        return estimate.baseline
    match estimate.measure:
        case Measure.DIFFERENCE:
            return min(1.0, max(0.0, candidate - effect))
        case Measure.RATIO | Measure.SLOWDOWN if effect > 0:
            return candidate / effect
        case Measure.ODDS_RATIO if effect > 0 and candidate < 1:
            return _multiplied(candidate, 1 / effect)
        case _:
            return estimate.baseline


def _gain(value: float | None, measure: Measure, bound: float | None) -> float | None:
    """Return a bound of the effect as a bound of the difference from the baseline's value; None if there is none."""
    if value is None or bound is None:
        return None
    if measure is Measure.ODDS_RATIO:
        return _multiplied(value, bound) - value
    if measure in {Measure.RATIO, Measure.SLOWDOWN}:
        return value * (bound - 1)
    return bound if measure is Measure.DIFFERENCE else None


def _multiplied(share: float, odds_ratio: float) -> float:
    """Return the share whose odds are ``odds_ratio`` times those of ``share`` (below 1)."""
    odds = odds_ratio * share
    return odds / (1 - share + odds)
