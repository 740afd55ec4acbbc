"""Arrays from JSON and from raw bytes: what a datatype cannot hold is unreadable, never another number."""

import base64
import binascii
import math
import struct
from collections.abc import Mapping, Sequence
from types import MappingProxyType, NoneType
from typing import Any, Final

import numpy as np

from davylamp.shadow.formats.parsing import flattened, within_bounds
from davylamp.shadow.formats.reading import Array, Document, Fault, Tensor, Tensors, UnreadableError

#: Datatypes of the Open Inference Protocol that have numbers; BF16 is held as FP32.
DTYPES: Final[Mapping[str, np.dtype[Any]]] = MappingProxyType(
    {
        "BOOL": np.dtype("?"),
        **{
            f"{sign}INT{8 * size}": np.dtype(f"<{kind}{size}")
            for sign, kind in (("", "i"), ("U", "u"))
            for size in (1, 2, 4, 8)
        },
        "FP16": np.dtype("<f2"),
        "BF16": np.dtype("<f4"),
        "FP32": np.dtype("<f4"),
        "FP64": np.dtype("<f8"),
    }
)
BYTES: Final = "BYTES"
_MOST_AXES: Final = 32


def from_json(datatype: str, shape: Any, data: Any) -> Array:
    """Read a tensor from a nested or flat list in row-major order.

    Parameters
    ----------
    datatype
        Of the Open Inference Protocol.
    shape
        Expected to be a list of whole numbers.
    data
        Expected to be a list. In a tensor of floats null is NaN, which strict JSON cannot spell.

    Raises
    ------
    UnreadableError
        If the data do not fit the datatype or the shape.
    """
    if type(data) is not list:
        raise UnreadableError(Fault.FORM)
    flat = flattened(data)
    types = set(map(type, flat))
    if datatype == BYTES:
        return shaped(_encoded(flat, types), shape)
    dtype = DTYPES.get(datatype)
    if dtype is None or not types <= _accepted(dtype):
        raise UnreadableError(Fault.FORM)
    try:
        return shaped(np.array(flat, dtype), shape)
    except OverflowError:
        raise UnreadableError(Fault.FORM) from None


def from_raw(datatype: str, shape: Any, buffer: bytes | memoryview) -> Array:
    """Read a tensor from little-endian bytes; BYTES are each four bytes of length and then so many.

    Raises
    ------
    UnreadableError
        If the bytes do not fit the datatype or the shape.
    """
    if datatype == BYTES:
        return shaped(_objects(_pieces(bytes(buffer))), shape)
    if datatype == "BF16":
        halves = from_raw("UINT16", shape, buffer)
        wide: Array = (halves.astype(np.uint32) << 16).view(np.float32)
        return wide
    dtype = DTYPES.get(datatype)
    if dtype is None or len(buffer) % dtype.itemsize:
        raise UnreadableError(Fault.FORM)
    if datatype == "BOOL":
        return shaped(np.frombuffer(buffer, np.uint8) != 0, shape)
    return shaped(np.frombuffer(buffer, dtype), shape)


def shaped(flat: Array, shape: Any) -> Array:
    """Give an array its shape.

    Parameters
    ----------
    flat
        Of one axis.
    shape
        Expected to be a sequence of whole numbers.

    Raises
    ------
    UnreadableError
        If it is none, or not that of so many elements.
    """
    if not isinstance(shape, Sequence) or len(shape) > _MOST_AXES or not set(map(type, shape)) <= {int}:
        raise UnreadableError(Fault.FORM)
    if min(shape, default=0) < 0 or math.prod(shape) != flat.size:
        raise UnreadableError(Fault.FORM)
    try:
        return flat.reshape(tuple(shape))
    except (ValueError, OverflowError):  # an axis of no length beside one that is longer than any array
        raise UnreadableError(Fault.FORM) from None


def inferred(data: Any) -> Array | None:
    """Read numbers, truth values or texts in lists as JSON gives them; None if they are no array.

    Parameters
    ----------
    data
        A list of items, or one item.

    Raises
    ------
    UnreadableError
        If the lists are too deep.
    """
    flat = data if type(data) is list else [data]
    shape = [len(flat)]
    while flat and type(flat[0]) is list:
        lengths = set(map(len, flat)) if set(map(type, flat)) == {list} else set()
        if len(lengths) != 1:
            return None
        if len(shape) >= _MOST_AXES:
            raise UnreadableError(Fault.BOUND)
        shape.append(lengths.pop())
        flat = [element for inner in flat for element in inner]
    found = _untyped(flat)
    return None if found is None else found.reshape(shape)


def inferred_outputs(data: Any, name: str = "") -> Tensors | Document:
    """Read the items of an answer: plain ones as one tensor, objects with the same keys as one tensor for each key.

    Raises
    ------
    UnreadableError
        If there is nothing in it, or too much.
    """
    columns = {name: data}
    if type(data) is list and set(map(type, data)) == {dict} and not _is_binary(data[0]):
        if any(entry.keys() != data[0].keys() for entry in data):
            return Document(within_bounds(data))
        columns = {key: [entry[key] for entry in data] for key in data[0]}
    return columns_of(columns) or Document(within_bounds(data))


def columns_of(columns: Mapping[str, Any]) -> Tensors | None:
    """Read named outputs; None if one of them is no array.

    Raises
    ------
    UnreadableError
        If there is no value in any of them.
    """
    tensors = []
    for name, column in columns.items():
        values = inferred(column)
        if values is None:
            return None
        tensors.append(Tensor(name, "", values))
    return filled(tensors)


def filled(tensors: Sequence[Tensor]) -> Tensors:
    """Return the outputs, if there is any value: nothing is never the same as nothing.

    Raises
    ------
    UnreadableError
        If there is none.
    """
    if not any(tensor.values.size for tensor in tensors):
        raise UnreadableError(Fault.FORM)
    return Tensors(tuple(tensors))


def _accepted(dtype: np.dtype[Any]) -> set[type]:
    match dtype.kind:
        case "b":
            return {bool}
        case "f":
            return {float, int, NoneType}
        case _:
            return {int}


def _encoded(flat: list[Any], types: set[type]) -> Array:
    if not types <= {str}:
        raise UnreadableError(Fault.FORM)
    return _objects([text.encode("utf-8", "surrogatepass") for text in flat])


def _objects(flat: Sequence[Any]) -> Array:
    array = np.empty(len(flat), object)
    array[:] = flat
    return array


def _pieces(buffer: bytes) -> list[bytes]:
    pieces = []
    at = 0
    while at < len(buffer):
        if at + 4 > len(buffer):
            raise UnreadableError(Fault.FORM)
        (length,) = struct.unpack_from("<I", buffer, at)
        at += 4 + length
        if at > len(buffer):
            raise UnreadableError(Fault.FORM)
        pieces.append(buffer[at - length : at])
    return pieces


def _untyped(flat: list[Any]) -> Array | None:
    types = set(map(type, flat))
    if types == {bool}:
        return np.array(flat, np.bool_)
    if types == {str}:
        return _objects(flat)
    if types == {dict}:
        return _decoded(flat)
    if types == {int}:
        return _whole(flat)
    return _floats(flat) if types <= {float, int, NoneType} and types != {NoneType} else None


def _floats(flat: list[Any]) -> Array | None:
    try:
        return np.array(flat, np.float64)
    except OverflowError:  # a whole number that no float comes near
        return None


def _whole(flat: list[int]) -> Array | None:
    low, high = min(flat), max(flat)
    if low >= -(2**63) and high < 2**63:
        return np.array(flat, np.int64)
    return np.array(flat, np.uint64) if low >= 0 and high < 2**64 else None


def _is_binary(entry: dict[str, Any]) -> bool:
    return entry.keys() == {"b64"}


def _decoded(flat: list[dict[str, Any]]) -> Array | None:
    """Return what TensorFlow Serving wraps as ``{"b64": …}``; None if it is something else."""
    if not all(_is_binary(entry) and type(entry["b64"]) is str for entry in flat):
        return None
    try:
        return _objects([base64.b64decode(entry["b64"], validate=True) for entry in flat])
    except (binascii.Error, ValueError):
        return None
