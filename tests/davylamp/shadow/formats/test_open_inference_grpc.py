from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from davylamp.shadow.formats.reading import Fault, Raw, Tensors, Unreadable
from e2e.bench.answers import GRPC_METHOD, grpc_answer, grpc_message
from tests.davylamp.shadow.bodies import reading


@pytest.mark.parametrize(
    ("datatype", "field", "data"),
    [
        ("BOOL", "bool_contents", [True, False]),
        ("INT8", "int_contents", [-128, 127]),
        ("INT32", "int_contents", [-(2**31), 2**31 - 1]),
        ("INT64", "int64_contents", [-(2**63), 2**63 - 1]),
        ("UINT16", "uint_contents", [0, 2**16 - 1]),
        ("UINT64", "uint64_contents", [0, 2**64 - 1]),
        ("FP32", "fp32_contents", [0.5, -1.25]),
        ("FP64", "fp64_contents", [0.1, 1e-300]),
        ("BYTES", "bytes_contents", [b"\xff", b""]),
    ],
)
def test_typed_contents_are_read_exactly(datatype: str, field: str, data: list[Any]) -> None:
    given = grpc_message([{"name": "x", "datatype": datatype, "shape": [2, 1], "contents": {field: data}}])
    found = reading(GRPC_METHOD, given)

    assert isinstance(found, Tensors)
    assert found.tensors[0].values.ravel().tolist() == data
    assert found.tensors[0].values.shape == (2, 1)


def test_raw_contents_are_read_in_the_order_of_the_outputs() -> None:
    outputs = [{"name": name, "datatype": "FP16", "shape": [2]} for name in "ab"]
    raw = [np.array(numbers, "<f2").tobytes() for numbers in ([0.5, 1], [2, 3])]
    found = reading(GRPC_METHOD, grpc_message(outputs, raw))

    assert isinstance(found, Tensors)
    assert [(tensor.name, tensor.values.tolist()) for tensor in found.tensors] == [("a", [0.5, 1]), ("b", [2, 3])]


#: A response as another implementation writes it, byte by byte: model_name (1), id (3), a parameter (4), an output (5)
#: with name (1), datatype (2), packed shape (3) and fp32_contents (5.6), all lengths by hand.
_BY_HAND = (
    b"\x0a\x01m"
    b"\x1a\x017"
    b"\x22\x07\x0a\x01k\x12\x02\x08\x01"
    b"\x2a\x18\x0a\x01p\x12\x04FP32\x1a\x01\x02\x2a\x0a\x32\x08\x00\x00\x00\x3f\x00\x00\x80\xbf"
)


def test_the_bytes_on_the_wire_are_those_of_the_protocol() -> None:
    found = reading(GRPC_METHOD, grpc_answer(_BY_HAND))

    assert isinstance(found, Tensors)
    (tensor,) = found.tensors
    assert (tensor.name, tensor.datatype, tensor.values.tolist()) == ("p", "FP32", [0.5, -1.0])


@pytest.mark.parametrize(
    ("outputs", "raw"),
    [
        ([], []),
        ([{"name": "x", "datatype": "FP32", "shape": [1]}], []),
        ([{"name": "x", "datatype": "FP16", "shape": [1], "contents": {"fp32_contents": [1]}}], []),
        ([{"name": "x", "datatype": "INT8", "shape": [1], "contents": {"int_contents": [128]}}], []),
        ([{"name": "x", "datatype": "FP32", "shape": [1]}], [b"\x00" * 4, b"\x00" * 4]),
        ([{"name": "x", "datatype": "FP32", "shape": [1]}], [b"\x00" * 5]),
        ([{"name": "x", "datatype": "FP32", "shape": [-1, -1]}], [b"\x00" * 4]),
        ([{"name": "x", "datatype": "odd", "shape": [1]}], [b"\x00" * 4]),
    ],
)
def test_what_does_not_fit_is_unreadable(outputs: Any, raw: list[bytes]) -> None:
    assert reading(GRPC_METHOD, grpc_message(outputs, raw)) == Unreadable(Fault.FORM)


@pytest.mark.parametrize("body", [b"\xff", b"\x2a\x7f", b"\x2a\x03\x0a\x01\xff", b"\x0b" * 500, b""])
def test_what_is_no_such_message_is_unreadable(body: bytes) -> None:
    assert reading(GRPC_METHOD, grpc_answer(body)) == Unreadable(Fault.FORM)


def test_other_methods_are_compared_as_bytes() -> None:
    assert reading("/other.Service/Method", grpc_answer(b"\x08\x01")) == Raw(b"\x08\x01")
