from __future__ import annotations

import math
from types import NoneType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from davylamp.shadow.formats.parsing import MOST_CONTAINERS, MOST_DEPTH, MOST_KEYS, flattened, parsed, within_bounds
from davylamp.shadow.formats.reading import Fault, UnreadableError


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'{"a": 1}', {"a": 1}),
        (b"\xef\xbb\xbf[1]", [1]),
        ('["é"]'.encode("utf-16"), ["é"]),
        (b'{"a": 1, "a": 2}', {"a": 2}),
        (b"[9223372036854775807, -9223372036854775808, 18446744073709551615]", [2**63 - 1, -(2**63), 2**64 - 1]),
        (b"[Infinity, -Infinity]", [math.inf, -math.inf]),
        (b'"\\ud800"', "\ud800"),
    ],
)
def test_json_is_read_as_servers_send_it(body: bytes, value: Any) -> None:
    assert parsed(body) == value


def test_not_a_number_as_a_bare_word_is_read() -> None:
    (number,) = parsed(b"[NaN]")

    assert math.isnan(number)


@pytest.mark.parametrize("body", [b"", b"<html>", b"{", b'{"a"}', b"\xff\xfe\xff", b"1" + b"0" * 5000 + b",", b"[1,]"])
def test_what_is_no_json_is_unreadable(body: bytes) -> None:
    with pytest.raises(UnreadableError) as raised:
        parsed(body)

    assert raised.value.fault is Fault.FORM


def test_whole_numbers_that_no_float_comes_near_are_read_up_to_a_length() -> None:
    assert parsed(b"1" + b"0" * 400) == 10**400
    with pytest.raises(UnreadableError):
        parsed(b"1" + b"0" * 5000)


def test_json_deeper_than_the_stack_is_over_a_bound() -> None:
    with pytest.raises(UnreadableError) as raised:
        parsed(b"[" * 100_000 + b"]" * 100_000)

    assert raised.value.fault is Fault.BOUND


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth - 1):
        value = [value]
    return value


def test_depth_is_bounded() -> None:
    assert within_bounds(nested(MOST_DEPTH)) == nested(MOST_DEPTH)
    with pytest.raises(UnreadableError) as raised:
        within_bounds(nested(MOST_DEPTH + 2))

    assert raised.value.fault is Fault.BOUND


def test_keys_are_bounded_in_all_objects_together() -> None:
    many = {str(number): 0 for number in range(MOST_KEYS // 2)}
    assert within_bounds([many, many]) == [many, many]
    with pytest.raises(UnreadableError) as raised:
        within_bounds([many, many, {"one": "more"}])

    assert raised.value.fault is Fault.BOUND


def test_lists_are_bounded_in_number() -> None:
    many: list[list[int]] = [[]] * (MOST_CONTAINERS - 1)
    assert within_bounds(many) == many
    with pytest.raises(UnreadableError) as raised:
        within_bounds([*many, []])

    assert raised.value.fault is Fault.BOUND


@pytest.mark.parametrize("data", [[[1], 2], [[1], "ab"], [[[1]], [2]]])
def test_lists_beside_other_things_are_not_flattened_in_silence(data: Any) -> None:
    with pytest.raises(UnreadableError) as raised:
        flattened(data)

    assert raised.value.fault is Fault.FORM


def test_lists_too_deep_for_a_tensor_are_over_a_bound() -> None:
    with pytest.raises(UnreadableError) as raised:
        flattened([nested(MOST_DEPTH + 1)])

    assert raised.value.fault is Fault.BOUND


@given(st.binary(max_size=200) | st.text(max_size=100).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes_are_a_value_or_unreadable(body: bytes) -> None:
    try:
        value = parsed(body)
    except UnreadableError:
        return
    assert isinstance(value, (dict, list, str, int, float, bool, NoneType))
