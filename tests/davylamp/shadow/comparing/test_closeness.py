from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from davylamp.shadow.comparison import Comparison, Difference, Measure
from davylamp.shadow.formats.reading import Array
from davylamp.shadow.task import Notion
from e2e.bench.answers import INFER, binary, floats, inference, output
from tests.davylamp.shadow.bodies import compared

NAN, INF = math.nan, math.inf


def values(first: list[Any], second: list[Any], **rules: Any) -> Comparison:
    """Compare two columns of numbers over the threshold of no decision, by their values."""
    return compared(INFER, floats(*first, datatype="FP64"), floats(*second, datatype="FP64"), **rules)


@given(
    st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)), min_size=1, max_size=20),
    st.sampled_from([0.0, 1e-6, 1.0]),
    st.sampled_from([0.0, 1e-3, 0.5]),
)
def test_close_is_what_numpy_calls_close(pairs: list[tuple[float, float]], absolute: float, relative: float) -> None:
    first, second = (list(side) for side in zip(*pairs, strict=True))
    found = values(first, second, absolute=absolute, relative=relative)

    close = np.allclose(second, first, rtol=relative, atol=absolute)
    assert (Difference.VALUES in found.differences) is not close


def test_the_distance_is_measured_over_all_outputs() -> None:
    first = inference(output("a", "FP32", [2], [1, 2]), output("b", "FP32", [2], [5, 5]))
    second = inference(output("a", "FP32", [2], [1, 2.5]), output("b", "FP32", [2], [4, 5.5]))
    found = compared(INFER, first, second)

    assert found.measures[Measure.MAX_ABSOLUTE] == 1
    assert found.measures[Measure.MEAN_ABSOLUTE] == 0.5


def test_numbers_at_both_ends_of_their_range_have_no_distance_but_differ() -> None:
    found = values([1.7e308], [-1.7e308])

    assert found.differences == {Difference.VALUES}
    assert Measure.MAX_ABSOLUTE not in found.measures


@pytest.mark.parametrize(
    ("first", "second", "differences"),
    [
        ([NAN, 2], [NAN, 2], set()),
        ([INF, -INF], [INF, -INF], set()),
        ([NAN, 2], [3, 2], {Difference.NOT_FINITE}),
        ([3, 2], [NAN, 2], {Difference.NOT_FINITE}),
        ([INF, 2], [-INF, 2], {Difference.NOT_FINITE}),
        ([INF, 2], [NAN, 2], {Difference.NOT_FINITE}),
        ([INF, 2], [1e300, 2], {Difference.NOT_FINITE}),
        ([NAN, 2], [3, 3], {Difference.NOT_FINITE, Difference.VALUES}),
    ],
)
def test_not_finite_on_one_side_only_is_a_difference_of_its_own(
    first: Any, second: Any, differences: set[Difference]
) -> None:
    found = values(first, second, notion=Notion.VALUES)

    assert found.differences - {Difference.DECISION} == differences
    assert found.disagrees is bool(differences)


TYPES = {"FP16": np.float16, "FP32": np.float32, "FP64": np.float64}


@pytest.mark.parametrize("datatype", TYPES)
@pytest.mark.parametrize("start", [0.0, -0.0, 1.0, -1.0, 3.0, 1e-4, 6e-8, 65504.0])
@pytest.mark.parametrize("steps", [0, 1, 5])
def test_steps_are_those_of_numpys_next_number(datatype: str, start: float, steps: int) -> None:
    kind = TYPES[datatype]
    first = np.array([start], kind)
    second = first
    for _ in range(steps):
        second = np.nextafter(second, np.array(-np.inf, kind))

    found = compared(INFER, raw(datatype, first), raw(datatype, second))
    back = compared(INFER, raw(datatype, second), raw(datatype, first))

    assert found.measures[Measure.ULPS] == back.measures[Measure.ULPS] == steps


def raw(datatype: str, numbers: Array) -> Any:
    return binary(("x", datatype, numbers.shape, numbers.tobytes()))


def test_steps_from_one_end_of_the_range_to_the_other_are_counted() -> None:
    ends = np.array([-np.finfo(np.float64).max]), np.array([np.finfo(np.float64).max])
    found = compared(INFER, *(raw("FP64", end) for end in ends))

    assert found.measures[Measure.ULPS] == 2.0 * (0x7FEF << 48 | 0xFFFFFFFFFFFF)


def test_steps_of_bfloat16_are_its_own() -> None:
    first, second = (np.array([bits], "<u2") for bits in (0x3F80, 0x3F83))

    assert compared(INFER, raw("BF16", first), raw("BF16", second)).measures[Measure.ULPS] == 3


def test_steps_pass_over_what_is_not_finite() -> None:
    first, second = np.array([np.nan, 1.0], "<f4"), np.array([2.0, 1.0], "<f4")

    assert compared(INFER, raw("FP32", first), raw("FP32", second)).measures[Measure.ULPS] == 0
    assert Measure.ULPS not in compared(INFER, raw("FP32", first[:1]), raw("FP32", first[:1])).measures


def test_another_datatype_is_a_difference_only_where_everything_counts() -> None:
    first, second = floats(0.5, datatype="FP32"), floats(0.5, datatype="FP16")

    for notion in Notion:
        found = compared(INFER, first, second, notion=notion)
        assert found.differences == {Difference.DATATYPE}
        assert Measure.ULPS not in found.measures
        assert found.disagrees is (notion is Notion.EXACT)


def test_another_shape_disagrees() -> None:
    found = compared(INFER, floats(0.5, 0.25), floats([0.5, 0.25]))

    assert (set(found.differences), found.disagrees) == ({Difference.SHAPE}, True)


@pytest.mark.parametrize(
    "second",
    [
        inference(output("a", "FP32", [1], [0.5]), output("b", "FP32", [1], [0.5])),
        inference(output("b", "FP32", [1], [0.5])),
        inference(output("a", "FP32", [1], [0.5]), output("a", "FP32", [1], [0.5])),
        inference(output("a", "BYTES", [1], ["x"])),
    ],
)
def test_other_outputs_disagree(second: Any) -> None:
    found = compared(INFER, inference(output("a", "FP32", [1], [0.5])), second)

    assert Difference.STRUCTURE in found.differences
    assert found.disagrees


def test_exact_has_no_tolerance() -> None:
    first, second = floats(0.5, datatype="FP64"), floats(0.5 + 1e-12, datatype="FP64")

    assert compared(INFER, first, second).differences == frozenset()
    assert compared(INFER, first, second, notion=Notion.EXACT).disagrees


def test_one_number_without_axes_is_compared() -> None:
    first, second = (inference(output("x", "FP32", [], [number])) for number in (0.25, 0.75))

    assert compared(INFER, first, second).differences == {Difference.VALUES, Difference.DECISION}
    assert compared(INFER, first, inference(output("x", "FP32", [], [None]))).differences == {
        Difference.NOT_FINITE,
        Difference.DECISION,
    }
