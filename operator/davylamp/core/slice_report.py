"""What a gate on a slice says to people: which rate, of whom, how it moved, and on how many pairs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from davylamp.core.plan import BETWEEN_GROUPS, WITHOUT_LABELS, Gate, SliceMeasure
from davylamp.core.slice_gates import sliced_of
from davylamp.core.slices import WHOLE
from gatestats.process import Process
from gatestats.state import State
from gatestats.ticks import Measure

_LEVEL: Final = 0.95
_RATES: Final[Mapping[SliceMeasure, str]] = {
    SliceMeasure.TRUE_POSITIVE_RATE: "true positive rate",
    SliceMeasure.FALSE_POSITIVE_RATE: "false positive rate",
    SliceMeasure.ACCURACY: "accuracy",
    SliceMeasure.PRECISION: "precision",
    SliceMeasure.SELECTION_RATE: "selection rate",
    SliceMeasure.DEMOGRAPHIC_PARITY: "selection rate",
}


@dataclass(frozen=True, slots=True)
class SliceEffect:
    """How a rate has moved: candidate less baseline, limits that hold at all times together, and pairs behind it."""

    pairs: int
    difference: float | None = None
    low: float | None = None
    high: float | None = None


def slice_effect(gate: Gate, design: Process, state: State) -> SliceEffect:
    """Return how the rate that a gate judges has moved by one of its streams."""
    found = design.estimate(state)
    if found is None or found.effect is None:
        return SliceEffect(0 if found is None else found.candidate_total)
    interval = design.interval(state, _LEVEL)
    low, high = (None, None) if interval is None else (interval.low, interval.high)
    if found.measure is Measure.RATIO:
        baseline = found.baseline or 0.0
        limits = ((None if bound is None else baseline * (bound - 1)) for bound in (low, high))
        return SliceEffect(found.candidate_total, (found.candidate or 0.0) - baseline, *limits)
    # Of other pairs losses are counted: a false positive rate rises with them, every other rate falls.
    rises = sliced_of(gate).measure is SliceMeasure.FALSE_POSITIVE_RATE
    if rises or found.measure is Measure.DIFFERENCE:
        return SliceEffect(found.candidate_total, found.effect, low, high)
    turned = (None if high is None else -high, None if low is None else -low)
    return SliceEffect(found.candidate_total, -found.effect, *turned)


def slice_text(gate: Gate, effect: SliceEffect, stream: str = "") -> str:
    """Return how the rate has moved, in words.

    Parameters
    ----------
    gate
        What is judged.
    effect
        How it moved.
    stream
        Which of the gate's streams; the two of equalised odds look at different rates.
    """
    sliced = sliced_of(gate)
    who = "all" if sliced.slice.label == WHOLE else sliced.slice.label
    rate = _rate(sliced.measure, stream)
    if not effect.pairs:
        return f"{rate} of {who}: no {'pairs' if sliced.measure in WITHOUT_LABELS else 'labels'} yet"
    difference = effect.difference or 0.0
    verb = "rose" if difference > 0 else "fell"
    against = ", against everybody else's" if sliced.measure in BETWEEN_GROUPS else ""
    text = f"{rate} of {who} {verb} by {100 * abs(difference):.1f} points{against}"
    return f"{text}{_limits(effect, difference)}, {effect.pairs:,} pairs"


def slice_words(measure: SliceMeasure) -> str:
    """Return what people call a measure."""
    gap = " against everybody else's" if measure in BETWEEN_GROUPS else ""
    return f"{_RATES.get(measure, 'true positive and true negative rate')}{gap}"


def _rate(measure: SliceMeasure, stream: str) -> str:
    if measure is not SliceMeasure.EQUALIZED_ODDS:
        return _RATES[measure]
    return "true negative rate" if stream.endswith(":negative") else "true positive rate"


def _limits(effect: SliceEffect, difference: float) -> str:
    if effect.low is None or effect.high is None:
        return ""
    low, high = (effect.low, effect.high) if difference > 0 else (-effect.high, -effect.low)
    return f", 95 % sequence {100 * low:.1f} to {100 * high:.1f}"
