from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from davylamp.shadow.exchange import Answer
from davylamp.shadow.formats.open_inference import JSON_LENGTH
from davylamp.shadow.formats.reading import Array, Fault, Tensors, Unreadable
from davylamp.shadow.task import Rules
from e2e.bench.answers import INFER, answer, binary, inference, output
from tests.davylamp.shadow.bodies import reading


def values(body: Any, place: int = 0) -> Array:
    found = reading(INFER, body)
    assert isinstance(found, Tensors), found
    return found.tensors[place].values


@pytest.mark.parametrize("data", [[1, 2, 3, 4, 5, 6], [[1, 2, 3], [4, 5, 6]]])
def test_flat_and_nested_data_are_the_same_tensor(data: Any) -> None:
    found = values(inference(output("x", "FP32", [2, 3], data)))

    assert found.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert found.dtype == np.float32


@pytest.mark.parametrize(
    ("datatype", "number"),
    [
        ("INT8", -128),
        ("UINT8", 255),
        ("INT16", -(2**15)),
        ("UINT16", 2**16 - 1),
        ("INT32", -(2**31)),
        ("UINT32", 2**32 - 1),
        ("INT64", 2**63 - 1),
        ("UINT64", 2**64 - 1),
    ],
)
def test_integers_are_exact_to_the_end_of_their_range(datatype: str, number: int) -> None:
    assert values(inference(output("x", datatype, [2], [number, 1]))).tolist() == [number, 1]


@pytest.mark.parametrize(
    ("datatype", "data"),
    [
        ("INT8", [128]),
        ("UINT8", [-1]),
        ("INT64", [2**63]),
        ("UINT64", [2**64]),
        ("INT32", [1.5]),
        ("INT32", ["1"]),
        ("INT32", [True]),
        ("INT32", [None]),
        ("BOOL", [1]),
        ("FP32", ["1.5"]),
        ("FP32", [True]),
        ("FP32", [[1], 2]),
        ("FP32", [10**400]),
        ("BYTES", [5]),
        ("FP8", [1]),
        ("", [1]),
    ],
)
def test_what_a_datatype_cannot_hold_is_unreadable(datatype: str, data: list[Any]) -> None:
    assert reading(INFER, inference(output("x", datatype, [1], data))) == Unreadable(Fault.FORM)


@pytest.mark.parametrize(
    "shape", [[3], [-1, -2], [2.0], ["2"], [True, 2], [1] * 33 + [2], [0, 10**30], [0, 2**63], [0, 2**62, 8]]
)
def test_a_shape_that_does_not_fit_is_unreadable(shape: Any) -> None:
    data: list[int] = [] if 0 in shape else [1, 2]
    assert reading(INFER, inference(output("x", "FP32", shape, data))) == Unreadable(Fault.FORM)


def test_a_tensor_of_one_number_needs_no_axis() -> None:
    assert values(inference(output("x", "FP64", [], [0.5]))).shape == ()


def test_null_among_floats_is_not_a_number() -> None:
    assert np.isnan(values(inference(output("x", "FP32", [2], [None, 1.0])))).tolist() == [True, False]


def test_bare_words_are_numbers() -> None:
    found = values(inference(output("x", "FP64", [3], [float("nan"), float("inf"), float("-inf")])))

    np.testing.assert_array_equal(found, [np.nan, np.inf, -np.inf])


def test_texts_are_bytes_whatever_they_hold() -> None:
    assert values(inference(output("x", "BYTES", [2], ["é", "\ud800"]))).tolist() == [
        "é".encode(),
        b"\xed\xa0\x80",
    ]


@pytest.mark.parametrize(
    ("datatype", "numbers"),
    [
        ("BOOL", np.array([True, False])),
        ("INT8", np.array([-1, 2], "<i1")),
        ("UINT64", np.array([2**64 - 1, 0], "<u8")),
        ("FP16", np.array([0.5, -2], "<f2")),
        ("FP32", np.array([1e-30, 3], "<f4")),
        ("FP64", np.array([1e-300, np.pi], "<f8")),
    ],
)
def test_raw_tensors_are_little_endian(datatype: str, numbers: Array) -> None:
    found = values(binary(("x", datatype, [2], numbers.tobytes())))

    np.testing.assert_array_equal(found, numbers)


def test_bfloat16_is_the_upper_half_of_float32() -> None:
    numbers = np.array([1.0, -2.5, 3.0e38], np.float32)
    upper = (numbers.view(np.uint32) >> 16).astype("<u2")

    found = values(binary(("x", "BF16", [3], upper.tobytes())))

    assert found.tolist()[:2] == [1.0, -2.5]
    assert found[2] == pytest.approx(3.0e38, rel=2**-7)


def test_raw_texts_have_their_length_before_them() -> None:
    raw = struct.pack("<I2sI0sI1s", 2, b"ab", 0, b"", 1, b"\xff")

    assert values(binary(("x", "BYTES", [3], raw))).tolist() == [b"ab", b"", b"\xff"]


def test_raw_and_plain_outputs_stand_beside_each_other() -> None:
    given = binary(("x", "INT8", [1], b"\x05"), ("y", "INT8", [2], b"\x06\x07"))

    assert [values(given, place).tolist() for place in (0, 1)] == [[5], [6, 7]]


@pytest.mark.parametrize(
    "raw", [b"", b"\x01", b"\x05\x00\x00\x00ab", b"\xff\xff\xff\xff", struct.pack("<I1sI1s", 1, b"a", 1, b"b")]
)
def test_raw_texts_that_do_not_fit_are_unreadable(raw: bytes) -> None:
    assert reading(INFER, binary(("x", "BYTES", [1], raw))) == Unreadable(Fault.FORM)


@pytest.mark.parametrize("raw", [b"\x00" * 3, b"\x00" * 8, b""])
def test_raw_floats_that_do_not_fit_are_unreadable(raw: bytes) -> None:
    assert reading(INFER, binary(("x", "FP32", [1], raw))) == Unreadable(Fault.FORM)


@pytest.mark.parametrize("said", ["x", "-1", "99999", "²", "1" * 13])
def test_a_length_of_json_that_is_none_is_unreadable(said: str) -> None:
    given = binary(("x", "INT8", [1], b"\x05"))

    assert reading(INFER, Answer(200, ((JSON_LENGTH, said),), given.body)) == Unreadable(Fault.FORM)


@pytest.mark.parametrize("size", [-1, 5, "1", None, True])
def test_a_size_of_raw_bytes_that_is_none_is_unreadable(size: Any) -> None:
    body = inference({"name": "x", "datatype": "INT8", "shape": [1], "parameters": {"binary_data_size": size}})

    assert reading(INFER, body) == Unreadable(Fault.FORM)


@pytest.mark.parametrize(
    "body",
    [
        [],
        5,
        {},
        {"outputs": {}},
        {"outputs": []},
        inference(),
        {"outputs": [5]},
        {"outputs": [{"name": "x"}]},
        {"outputs": [{"name": "x", "datatype": "FP32", "shape": [1]}]},
        {"outputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": 5}]},
        {"outputs": [{"name": 5, "datatype": "FP32", "shape": [1], "data": [5]}]},
        inference(output("x", "FP32", [0], [])),
        b"<html>",
    ],
)
def test_an_answer_of_another_form_is_unreadable(body: Any) -> None:
    assert reading(INFER, body) == Unreadable(Fault.FORM)


def test_an_error_with_a_status_of_success_is_a_failure() -> None:
    assert reading(INFER, {"error": "out of memory"}) == Unreadable(Fault.FAILED)


def test_an_ignored_output_is_not_read() -> None:
    body = inference(output("x", "FP32", [1], [1]), output("time", "FP8", [1], [5]))
    found = reading(INFER, answer(body), rules=Rules(ignore=("$.outputs[?@.name=='time']",)))

    assert isinstance(found, Tensors)
    assert [tensor.name for tensor in found.tensors] == ["x"]
