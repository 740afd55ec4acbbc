"""Gates on slices: which e-processes judge them, and what a look counts for each.

All of them compare what the two variants decided on the same requests, most of them once the labels are known: such
pairs are comparable whenever they were served and however late their labels come, so that nothing that changes between
two times or two groups of users looks like a change of the model.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, assert_never

from davylamp.core.counting import Cursors, Span, cursors_after, events_of
from davylamp.core.model import Variant
from davylamp.core.plan import BETWEEN_GROUPS, AbsoluteMargin, Gate, RelativeMargin, Sliced, SliceMeasure
from davylamp.core.reading import Reading
from davylamp.core.slices import WHOLE
from gatestats.paired import PairedDesign
from gatestats.paired_both import BothPairedDesign
from gatestats.paired_gap import PairedGapDesign
from gatestats.paired_precision import PairedPrecisionDesign
from gatestats.paired_relative import RelativePairedDesign
from gatestats.process import Process
from gatestats.ticks import OneArmCounts, PairedCounts, PairedGapCounts, PairedOutcomes, PrecisionCounts, Tick, Worse
from gatestats.two_margins import Breach

#: What signals of slices are read under; their cursors outlive a change of weight.
SIGNALS: Final = ("labelled[", "decided[")
_NOTHING: Final = OneArmCounts(0, 0)
#: Which labels a measure looks at: those of positives, of negatives, of both.
_LABELS: Final[Mapping[SliceMeasure, tuple[Variant, ...]]] = {
    SliceMeasure.TRUE_POSITIVE_RATE: (Variant.CANDIDATE,),
    SliceMeasure.FALSE_POSITIVE_RATE: (Variant.BASELINE,),
    SliceMeasure.ACCURACY: tuple(Variant),
}


def labelled(label: str, result: str) -> str:
    """Return the name under which labelled pairs of a slice are read, by what they came to.

    The candidate's side of the signal are requests whose label is positive, the baseline's those whose label is not.
    """
    return f"labelled[{label}]:{result}"


def decided(label: str) -> str:
    """Return the name under which decisions of a slice are read.

    The candidate's side of the signal are requests on which the baseline decided positively, the baseline's the others;
    their events are those on which the candidate decided otherwise.
    """
    return f"decided[{label}]"


def slice_designs(gate: Gate, looks: int | None) -> Mapping[str, Process]:
    """Return the e-processes of a gate on a slice by stream name.

    Beyond either of two margins is two streams: evidence for one of them is evidence, and promotion needs both.

    Raises
    ------
    ValueError
        If its margin is not of the measure's kind.
    """
    sliced = sliced_of(gate)
    match sliced.measure, gate.margin:
        case SliceMeasure.EQUALIZED_ODDS, AbsoluteMargin(difference):
            return {f"{gate.name}:{side}": PairedGapDesign(difference, looks) for side in ("positive", "negative")}
        case SliceMeasure.DEMOGRAPHIC_PARITY, AbsoluteMargin(difference):
            return {gate.name: PairedGapDesign(difference, looks)}
        case SliceMeasure.PRECISION, AbsoluteMargin(difference):
            breach = Breach.BOTH if sliced.beyond_both else Breach.EITHER
            return {gate.name: PairedPrecisionDesign(difference, looks, sliced.relative, breach)}
        case SliceMeasure.PRECISION, RelativeMargin(part):
            return {gate.name: PairedPrecisionDesign(None, looks, part)}
        case (
            SliceMeasure.TRUE_POSITIVE_RATE
            | SliceMeasure.FALSE_POSITIVE_RATE
            | SliceMeasure.ACCURACY
            | SliceMeasure.SELECTION_RATE,
            AbsoluteMargin() | RelativeMargin(),
        ):
            return _rate_designs(gate, sliced, looks)
        case _:
            raise ValueError(f"gate {gate.name} on {sliced.measure} has no margin such as {gate.margin}")


def _rate_designs(gate: Gate, sliced: Sliced, looks: int | None) -> Mapping[str, Process]:
    # A part is meant of what gets worse: of right answers that become fewer, or of wrong ones that become more.
    worse = Worse.HIGHER if sliced.measure is SliceMeasure.FALSE_POSITIVE_RATE else Worse.LOWER
    match gate.margin, sliced.relative:
        case AbsoluteMargin(difference), None:
            return {gate.name: PairedDesign(difference, looks)}
        case RelativeMargin(part), None:
            return {gate.name: RelativePairedDesign(part, looks, worse)}
        case AbsoluteMargin(difference), float(part) if sliced.beyond_both:
            return {gate.name: BothPairedDesign(difference, part, looks, worse)}
        case AbsoluteMargin(difference), float(part):
            return {
                f"{gate.name}:absolute": PairedDesign(difference, looks),
                f"{gate.name}:relative": RelativePairedDesign(part, looks, worse),
            }
        case _:
            raise ValueError(f"gate {gate.name} has two margins of one kind")


def sliced_of(gate: Gate) -> Sliced:
    """Return what of which slice a gate judges; ValueError if it is none of these."""
    if gate.sliced is None:
        raise ValueError(f"gate {gate.name} judges no slice")
    return gate.sliced


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs of one look of one kind of request: both right, the candidate's lost and won, all."""

    both: int
    lost: int
    won: int
    total: int

    def __add__(self, other: "Pairs") -> "Pairs":
        return Pairs(self.both + other.both, self.lost + other.lost, self.won + other.won, self.total + other.total)

    def outside(self, inside: "Pairs") -> "Pairs":
        """Return the pairs of all that are not inside a slice; ValueError if more are inside than there are."""
        rest = Pairs(self.both - inside.both, self.lost - inside.lost, self.won - inside.won, self.total - inside.total)
        if min(rest.both, rest.lost, rest.won, rest.total - rest.both - rest.lost - rest.won) < 0:
            raise ValueError(f"{inside.total} pairs were counted inside a slice, and {self.total} in all")
        return rest

    @property
    def counts(self) -> PairedCounts:
        """As what a paired test takes."""
        return PairedCounts(self.lost, self.won, self.total)

    @property
    def outcomes(self) -> PairedOutcomes:
        """The same with those that both got right."""
        return PairedOutcomes(self.both, self.lost, self.won, self.total)


def slice_ticks(gate: Gate, reading: Reading, span: Span) -> Mapping[str, Tick]:
    """Return what each stream of a gate takes of one look; none if nothing was counted in it.

    Raises
    ------
    ValueError
        If samples cannot be counted.
    """
    sliced = sliced_of(gate)
    label = sliced.slice.label
    match sliced.measure:
        case SliceMeasure.EQUALIZED_ODDS:
            sides = {"positive": Variant.CANDIDATE, "negative": Variant.BASELINE}
            found = {
                name: _gap(_labelled(label, reading, span, side), _labelled(WHOLE, reading, span, side))
                for name, side in sides.items()
            }
            return {f"{gate.name}:{name}": tick for name, tick in found.items() if tick is not None}
        case SliceMeasure.DEMOGRAPHIC_PARITY:
            tick = _gap(_decided(label, reading, span), _decided(WHOLE, reading, span))
            return {} if tick is None else {gate.name: tick}
        case SliceMeasure.PRECISION:
            positives, negatives = (
                _labelled(label, reading, span, side) for side in (Variant.CANDIDATE, Variant.BASELINE)
            )
            seen = PrecisionCounts(positives.outcomes, negatives.outcomes)
            return {gate.name: seen} if positives.total or negatives.total else {}
        case SliceMeasure.SELECTION_RATE:
            return _rate_ticks(gate, _decided(label, reading, span))
        case SliceMeasure.TRUE_POSITIVE_RATE | SliceMeasure.FALSE_POSITIVE_RATE | SliceMeasure.ACCURACY:
            pairs = sum((_labelled(label, reading, span, side) for side in _LABELS[sliced.measure]), Pairs(0, 0, 0, 0))
            return _rate_ticks(gate, pairs)
        case never:
            assert_never(never)


def _rate_ticks(gate: Gate, pairs: Pairs) -> Mapping[str, Tick]:
    if not pairs.total:
        return {}
    return {
        name: pairs.counts if isinstance(design, PairedDesign) else pairs.outcomes
        for name, design in slice_designs(gate, None).items()
    }


def _gap(inside: Pairs, everybody: Pairs) -> PairedGapCounts | None:
    if not everybody.total:
        return None
    return PairedGapCounts(inside.counts, everybody.outside(inside).counts)


def _labelled(label: str, reading: Reading, span: Span, side: Variant) -> Pairs:
    """Return the labelled pairs of a slice whose label is positive (the candidate's side of a signal) or is not."""
    counts = {result: _counted(labelled(label, result), reading, span, side) for result in ("both", "lost", "won")}
    totals = {count.total for count in counts.values()}
    if len(totals) > 1:
        raise ValueError(f"{sorted(totals)} labelled pairs were counted for one slice")
    return Pairs(counts["both"].events, counts["lost"].events, counts["won"].events, totals.pop())


def _decided(label: str, reading: Reading, span: Span) -> Pairs:
    """Return the decisions of a slice: "right" is a positive one."""
    positive, negative = (
        _counted(decided(label), reading, span, side) for side in (Variant.CANDIDATE, Variant.BASELINE)
    )
    both = positive.total - positive.events
    return Pairs(both, positive.events, negative.events, positive.total + negative.total)


def _counted(name: str, reading: Reading, span: Span, side: Variant) -> OneArmCounts:
    signal = reading.signals.get(name)
    if signal is None or not signal.targets.get(side):
        return _NOTHING
    return events_of(name, signal, side, span) or _NOTHING


def labels_counted(reading: Reading, span: Span) -> int:
    """Return how many requests got their label in one look, in all."""
    return sum(_counted(labelled(WHOLE, "lost"), reading, span, side).total for side in Variant)


def signals_of(gate: Gate) -> Iterator[str]:
    """Yield the names of the signals that a gate looks at."""
    sliced = sliced_of(gate)
    labels = {sliced.slice.label: None}
    if sliced.measure in BETWEEN_GROUPS:
        labels[WHOLE] = None
    for label in labels:
        match sliced.measure:
            case SliceMeasure.SELECTION_RATE | SliceMeasure.DEMOGRAPHIC_PARITY:
                yield decided(label)
            case _:
                yield from (labelled(label, result) for result in ("both", "lost", "won"))


def trouble_of(gate: Gate, reading: Reading) -> str:
    """Return why samples that are there cannot be used; empty if they can, or if none have come yet."""
    for name in signals_of(gate):
        signal = reading.signals.get(name)
        if signal is None:
            continue
        for side, text in signal.trouble.items():
            if signal.targets.get(side):
                return text
    return ""


def cursors_of(reading: Reading, span: Span) -> Cursors:
    """Return up to where each target is counted after a look at all slices."""
    after = span.cursors
    for name, signal in reading.signals.items():
        if name.startswith(SIGNALS):
            after = cursors_after(name, signal, Span(span.start, span.end, after))
    return after
