"""What gates on slices ask for: how many pairs show that a slice is no worse off, and which slices are too small."""

from collections.abc import Iterator
from typing import Final

from davylamp.core.plan import Gate, Plan, SliceMeasure
from davylamp.core.slice_gates import slice_designs, sliced_of
from davylamp.core.slice_report import slice_words
from davylamp.core.slices import WHOLE
from gatestats.combine import log_threshold
from gatestats.paired import PairedDesign
from gatestats.paired_gap import PairedGapDesign
from gatestats.paired_precision import PairedPrecisionDesign
from gatestats.process import Process
from gatestats.ticks import PairedCounts, PairedGapCounts, PairedOutcomes, PrecisionCounts, Tick

_MOST_PAIRS: Final = 1 << 22
#: How many more requests are outside a slice than inside, where it is compared with everybody else.
_OUTSIDE: Final = 10
_COUNTED: Final = {
    SliceMeasure.TRUE_POSITIVE_RATE: "labelled pairs with a positive label",
    SliceMeasure.FALSE_POSITIVE_RATE: "labelled pairs with a negative label",
    SliceMeasure.ACCURACY: "labelled pairs",
    SliceMeasure.PRECISION: "labelled pairs that both decide positively",
    SliceMeasure.SELECTION_RATE: "pairs",
    SliceMeasure.EQUALIZED_ODDS: "labelled pairs of either label",
    SliceMeasure.DEMOGRAPHIC_PARITY: "pairs",
}


def of_slices(plan: Plan) -> Iterator[str]:
    """Yield a sentence for each metric that is judged by slice, and one on slices that are too small."""
    rules = plan.slices
    if rules is None:
        return
    metrics = {sliced_of(gate).measure: gate for gate in plan.slice_gates if sliced_of(gate).slice.label != WHOLE}
    count = len({sliced_of(gate).slice.label for gate in plan.slice_gates} - {WHOLE})
    for measure, gate in metrics.items():
        needed = pairs_without_loss(gate, plan.false_promotion_rate)
        shown = f"{needed:,}" if needed < _MOST_PAIRS else f"more than {_MOST_PAIRS:,}"
        yield (
            f"{slice_words(measure)} of each of {count} slices: a candidate that loses nothing has shown it after "
            f"{shown} {_COUNTED[measure]} of the slice"
        )
    yield (
        f"a slice with less than {rules.min_support:,} pairs once {rules.min_labels:,} labels have come is too small "
        f"to judge: it is named, and promotion {'waits for it' if rules.hold_when_small else 'says nothing about it'}"
    )


def pairs_without_loss(gate: Gate, false_promotion_rate: float) -> int:
    """Return how many pairs on which the variants never differ show that a slice is no worse off; at most 2^22."""
    needed = log_threshold(false_promotion_rate)
    designs = tuple(slice_designs(gate, None).values())

    def proven(pairs: int) -> bool:
        return all(_no_worse(design, pairs) >= needed for design in designs)

    pairs = 1
    while not proven(pairs) and pairs < _MOST_PAIRS:
        pairs *= 2
    low = pairs // 2
    while pairs - low > 1 and pairs < _MOST_PAIRS:
        middle = (low + pairs + 1) // 2
        low, pairs = (low, middle) if proven(middle) else (middle, pairs)
    return pairs


def _no_worse(design: Process, pairs: int) -> float:
    evidence = design.log_e_non_inferior(design.update(design.start(), _alike(design, pairs)))
    return 0.0 if evidence is None else evidence


def _alike(design: Process, pairs: int) -> Tick:
    """Return a tick in which the variants decide alike and rightly."""
    right = PairedOutcomes(pairs, 0, 0, pairs)
    if isinstance(design, PairedDesign):
        return right.counts
    if isinstance(design, PairedGapDesign):
        return PairedGapCounts(right.counts, PairedCounts(0, 0, _OUTSIDE * pairs))
    if isinstance(design, PairedPrecisionDesign):
        return PrecisionCounts(right, PairedOutcomes(0, 0, 0, 0))
    return right
