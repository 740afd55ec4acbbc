"""Gates on slices, and raw samples of pairs by slice, for the tests of their evidence."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from davylamp.core.model import Variant
from davylamp.core.moves import Diversion
from davylamp.core.plan import AbsoluteMargin, Direction, Gate, Plan, SignalKind, Sliced, SliceMeasure, SliceRules
from davylamp.core.reading import Reading, SignalReading, Target
from davylamp.core.slice_gates import decided, labelled
from davylamp.core.slices import WHOLE, Slice
from gatestats.counters import Sample
from tests.davylamp.core.readings import ERRORS, TICK, ZERO, pair, steady
from tests.davylamp.core.shadow_readings import shadow_plan

EVERYBODY: Final = Slice(WHOLE, ())
WOMEN: Final = Slice("sex=Female", (("sex", "Female"),))
MEN: Final = Slice("sex=Male", (("sex", "Male"),))
BLACK_WOMEN: Final = Slice("race=Black,sex=Female", (("race", "Black"), ("sex", "Female")))
#: Of one kind of request in one look: both right, lost, won, all.
Row = tuple[int, int, int, int]
GOOD: Final[Row] = (90, 1, 1, 100)


def slice_gate(
    measure: SliceMeasure = SliceMeasure.TRUE_POSITIVE_RATE,
    of: Slice = EVERYBODY,
    *,
    margin: AbsoluteMargin = AbsoluteMargin(0.02),  # noqa: B008 - a frozen value
    relative: float | None = None,
    beyond_both: bool = False,
) -> Gate:
    worse = Direction.HIGHER if measure is SliceMeasure.FALSE_POSITIVE_RATE else Direction.LOWER
    name = measure.value if of is EVERYBODY else f"{measure.value}[{of.label}]"
    return Gate(name, SignalKind.SLICE, worse, margin, sliced=Sliced(measure, of, relative, beyond_both))


RECALL: Final = tuple(slice_gate(of=each) for each in (EVERYBODY, WOMEN, MEN))
RULES: Final = SliceRules(
    min_support=50,
    min_labels=200,
    diversions={each.label: Diversion("x-sex", each.parts[0][1]) for each in (WOMEN, MEN)},
)


def slice_plan(*gates: Gate, rules: SliceRules = RULES) -> Plan:
    """Return a plan with shadow steps whose only other gate is that on errors."""
    return replace(shadow_plan(), gates=(ERRORS, *gates), slices=rules)


def pairs(
    positives: Mapping[Slice, Row],
    negatives: Mapping[Slice, Row] | None = None,
    decisions: Mapping[Slice, Row] | None = None,
    *,
    ticks: int = 6,
) -> Reading:
    """Return readings in which every look brings the same pairs, and live traffic on which nothing is wrong."""
    live = pair(steady((5, 500), ticks), steady((5, 500), ticks))
    return Reading({"errors": live, **_labelled(positives, negatives or {}, ticks), **_decided(decisions or {}, ticks)})


def _labelled(
    positives: Mapping[Slice, Row], negatives: Mapping[Slice, Row], ticks: int
) -> Mapping[str, SignalReading]:
    found = {}
    for each in positives.keys() | negatives.keys():
        for place, result in enumerate(("both", "lost", "won")):
            sides = {Variant.CANDIDATE: positives, Variant.BASELINE: negatives}
            found[labelled(each.label, result)] = SignalReading(
                {
                    side: (_counters((rows[each][place], rows[each][3]), ticks),)
                    for side, rows in sides.items()
                    if each in rows
                }
            )
    return found


def _decided(decisions: Mapping[Slice, Row], ticks: int) -> Mapping[str, SignalReading]:
    """Both decide positively, the candidate no more, the candidate alone, all."""
    return {
        decided(each.label): SignalReading(
            {
                Variant.CANDIDATE: (_counters((lost, both + lost), ticks),),
                Variant.BASELINE: (_counters((won, total - both - lost), ticks),),
            }
        )
        for each, (both, lost, won, total) in decisions.items()
    }


def _counters(row: tuple[int, int], ticks: int) -> Target:
    """Return one target's counters of events and of all, that grow by the same in every look."""
    events, total = (tuple(Sample(ZERO + TICK * tick, each * tick) for tick in range(ticks + 1)) for each in row)
    return Target("labels", {"events": events}, {"total": total})
