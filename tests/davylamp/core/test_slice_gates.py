"""What each measure of a slice is judged by, and what it counts."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from davylamp.core.counting import Span
from davylamp.core.evidence import designs
from davylamp.core.plan import AbsoluteMargin, LimitMargin, RelativeMargin, SliceMeasure
from davylamp.core.reading import Reading
from davylamp.core.slice_gates import labels_counted, signals_of, slice_designs, slice_ticks, sliced_of, trouble_of
from gatestats.paired import PairedDesign
from gatestats.paired_both import BothPairedDesign
from gatestats.paired_gap import PairedGapDesign
from gatestats.paired_precision import PairedPrecisionDesign
from gatestats.paired_relative import RelativePairedDesign
from gatestats.process import Process
from gatestats.ticks import PairedCounts, PairedGapCounts, PairedOutcomes, PrecisionCounts, Tick, Worse
from gatestats.two_margins import Breach
from tests.davylamp.core.readings import ERRORS, TICK, at
from tests.davylamp.core.slice_readings import EVERYBODY, MEN, WOMEN, Row, pairs, slice_gate

POSITIVES: Mapping[object, Row] = {EVERYBODY: (170, 6, 4, 200), WOMEN: (50, 5, 1, 60)}
NEGATIVES: Mapping[object, Row] = {EVERYBODY: (700, 20, 10, 800), WOMEN: (200, 12, 3, 240)}
DECIDED: Mapping[object, Row] = {EVERYBODY: (150, 30, 10, 1000), WOMEN: (40, 20, 2, 300)}
FOUND = pairs(POSITIVES, NEGATIVES, DECIDED)  # type: ignore[arg-type]  # slices are hashable values
LOOK = Span(at(TICK), at(2 * TICK), {})


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        (SliceMeasure.TRUE_POSITIVE_RATE, {"": PairedCounts(5, 1, 60)}),
        (SliceMeasure.FALSE_POSITIVE_RATE, {"": PairedCounts(12, 3, 240)}),
        (SliceMeasure.ACCURACY, {"": PairedCounts(17, 4, 300)}),
        (
            SliceMeasure.PRECISION,
            {"": PrecisionCounts(PairedOutcomes(50, 5, 1, 60), PairedOutcomes(200, 12, 3, 240))},
        ),
        (SliceMeasure.SELECTION_RATE, {"": PairedCounts(20, 2, 300)}),
        (
            SliceMeasure.EQUALIZED_ODDS,
            {
                ":positive": PairedGapCounts(PairedCounts(5, 1, 60), PairedCounts(1, 3, 140)),
                ":negative": PairedGapCounts(PairedCounts(12, 3, 240), PairedCounts(8, 7, 560)),
            },
        ),
        (
            SliceMeasure.DEMOGRAPHIC_PARITY,
            {"": PairedGapCounts(PairedCounts(20, 2, 300), PairedCounts(10, 8, 700))},
        ),
    ],
)
def test_each_measure_counts_its_own_pairs_of_the_slice(measure: SliceMeasure, expected: Mapping[str, Tick]) -> None:
    gate = slice_gate(measure, WOMEN)
    assert slice_ticks(gate, FOUND, LOOK) == {f"{gate.name}{end}": tick for end, tick in expected.items()}
    assert slice_designs(gate, None).keys() == slice_ticks(gate, FOUND, LOOK).keys()
    assert slice_ticks(gate, Reading({}), LOOK) == {}


@pytest.mark.parametrize(
    ("measure", "margin", "relative", "both", "expected"),
    [
        (SliceMeasure.TRUE_POSITIVE_RATE, AbsoluteMargin(0.02), None, False, {"": PairedDesign(0.02, 60)}),
        (SliceMeasure.ACCURACY, RelativeMargin(0.05), None, False, {"": RelativePairedDesign(0.05, 60)}),
        (
            SliceMeasure.SELECTION_RATE,
            AbsoluteMargin(0.02),
            0.05,
            False,
            {":absolute": PairedDesign(0.02, 60), ":relative": RelativePairedDesign(0.05, 60)},
        ),
        (SliceMeasure.ACCURACY, AbsoluteMargin(0.02), 0.05, True, {"": BothPairedDesign(0.02, 0.05, 60)}),
        (SliceMeasure.FALSE_POSITIVE_RATE, AbsoluteMargin(0.02), None, False, {"": PairedDesign(0.02, 60)}),
        (
            SliceMeasure.FALSE_POSITIVE_RATE,
            AbsoluteMargin(0.02),
            0.2,
            True,
            {"": BothPairedDesign(0.02, 0.2, 60, Worse.HIGHER)},
        ),
        (
            SliceMeasure.FALSE_POSITIVE_RATE,
            RelativeMargin(0.2),
            None,
            False,
            {"": RelativePairedDesign(0.2, 60, Worse.HIGHER)},
        ),
        (
            SliceMeasure.PRECISION,
            AbsoluteMargin(0.02),
            0.05,
            True,
            {"": PairedPrecisionDesign(0.02, 60, 0.05, Breach.BOTH)},
        ),
        (SliceMeasure.PRECISION, RelativeMargin(0.05), None, False, {"": PairedPrecisionDesign(None, 60, 0.05)}),
        (SliceMeasure.DEMOGRAPHIC_PARITY, AbsoluteMargin(0.03), None, False, {"": PairedGapDesign(0.03, 60)}),
        (
            SliceMeasure.EQUALIZED_ODDS,
            AbsoluteMargin(0.03),
            None,
            False,
            {":positive": PairedGapDesign(0.03, 60), ":negative": PairedGapDesign(0.03, 60)},
        ),
    ],
)
def test_each_measure_has_the_designs_of_its_margins(
    measure: SliceMeasure,
    margin: AbsoluteMargin | RelativeMargin,
    relative: float | None,
    both: bool,
    expected: Mapping[str, Process],
) -> None:
    gate = replace(slice_gate(measure, WOMEN, relative=relative, beyond_both=both), margin=margin)
    found = {f"{gate.name}{end}": design for end, design in expected.items()}
    assert designs(gate, None, looks=60) == found
    # Whatever is counted for a gate, its designs can take it.
    for name, tick in slice_ticks(gate, FOUND, LOOK).items():
        assert found[name].update(found[name].start(), tick).ticks == 1


@pytest.mark.parametrize(
    "gate",
    [
        replace(slice_gate(), margin=LimitMargin(0.1)),
        replace(slice_gate(SliceMeasure.EQUALIZED_ODDS), margin=RelativeMargin(0.1)),
        replace(slice_gate(relative=0.1), margin=RelativeMargin(0.1)),
    ],
)
def test_a_margin_that_does_not_fit_the_measure_is_refused(gate: object) -> None:
    with pytest.raises(ValueError, match="margin"):
        slice_designs(gate, None)  # type: ignore[arg-type]  # a gate


def test_a_gate_that_judges_no_slice_is_none_of_these() -> None:
    with pytest.raises(ValueError, match="errors judges no slice"):
        sliced_of(ERRORS)


def test_all_labels_that_came_are_counted_once() -> None:
    assert labels_counted(FOUND, LOOK) == 1000
    assert labels_counted(Reading({}), LOOK) == 0


def test_totals_that_do_not_fit_are_no_counts() -> None:
    broken = dict(FOUND.signals)
    broken["labelled[sex=Female]:lost"] = broken["labelled[]:lost"]
    with pytest.raises(ValueError, match=r"\[60, 200\] labelled pairs were counted for one slice"):
        slice_ticks(slice_gate(of=WOMEN), Reading(broken), LOOK)
    more = pairs({EVERYBODY: (10, 1, 1, 20), MEN: (20, 1, 1, 30)})
    with pytest.raises(ValueError, match="30 pairs were counted inside a slice, and 20 in all"):
        slice_ticks(slice_gate(SliceMeasure.EQUALIZED_ODDS, MEN), more, LOOK)


@pytest.mark.parametrize(
    ("measure", "names"),
    [
        (SliceMeasure.ACCURACY, {"labelled[sex=Female]:both", "labelled[sex=Female]:lost", "labelled[sex=Female]:won"}),
        (SliceMeasure.SELECTION_RATE, {"decided[sex=Female]"}),
        (SliceMeasure.DEMOGRAPHIC_PARITY, {"decided[sex=Female]", "decided[]"}),
    ],
)
def test_a_gate_names_what_it_looks_at(measure: SliceMeasure, names: set[str]) -> None:
    assert set(signals_of(slice_gate(measure, WOMEN))) == names


def test_only_trouble_with_samples_that_are_there_is_trouble() -> None:
    gate = slice_gate(of=WOMEN)
    assert trouble_of(gate, Reading({})) == ""
    name = next(signals_of(gate))
    sides = dict.fromkeys(FOUND.signals[name].targets, "is not a whole number")
    assert trouble_of(gate, Reading({name: replace(FOUND.signals[name], trouble=sides)})) == "is not a whole number"
    gone = replace(FOUND.signals[name], trouble=sides, targets={})
    assert trouble_of(gate, Reading({name: gone})) == ""
