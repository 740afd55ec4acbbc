"""The Open Inference Protocol over gRPC: ``inference.ModelInferResponse``.

Only the fields that are compared are declared; the parser passes over the others. The declaration is data, so that no
generated code has to fit the installed version of protobuf.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from davylamp.shadow.exchange import Answer
from davylamp.shadow.formats.arrays import BYTES, DTYPES, filled, from_raw, shaped
from davylamp.shadow.formats.reading import Array, Fault, Tensor, Tensors, UnreadableError

_Field: Final = descriptor_pb2.FieldDescriptorProto
_CONTENTS: Final = (
    ("bool_contents", _Field.TYPE_BOOL),
    ("int_contents", _Field.TYPE_INT32),
    ("int64_contents", _Field.TYPE_INT64),
    ("uint_contents", _Field.TYPE_UINT32),
    ("uint64_contents", _Field.TYPE_UINT64),
    ("fp32_contents", _Field.TYPE_FLOAT),
    ("fp64_contents", _Field.TYPE_DOUBLE),
    ("bytes_contents", _Field.TYPE_BYTES),
)
#: Where a datatype's values stand if they are not raw; FP16 and BF16 are always raw.
_FIELD_OF: Final[Mapping[str, str]] = MappingProxyType(
    {
        "BOOL": "bool_contents",
        "INT8": "int_contents",
        "INT16": "int_contents",
        "INT32": "int_contents",
        "INT64": "int64_contents",
        "UINT8": "uint_contents",
        "UINT16": "uint_contents",
        "UINT32": "uint_contents",
        "UINT64": "uint64_contents",
        "FP32": "fp32_contents",
        "FP64": "fp64_contents",
        BYTES: "bytes_contents",
    }
)


def _response_class() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="davylamp/inference.proto", package="inference", syntax="proto3")
    contents = file.message_type.add(name="InferTensorContents")
    for number, (name, kind) in enumerate(_CONTENTS, start=1):
        contents.field.add(name=name, number=number, type=kind, label=_Field.LABEL_REPEATED)
    response = file.message_type.add(name="ModelInferResponse")
    output = response.nested_type.add(name="InferOutputTensor")
    output.field.add(name="name", number=1, type=_Field.TYPE_STRING, label=_Field.LABEL_OPTIONAL)
    output.field.add(name="datatype", number=2, type=_Field.TYPE_STRING, label=_Field.LABEL_OPTIONAL)
    output.field.add(name="shape", number=3, type=_Field.TYPE_INT64, label=_Field.LABEL_REPEATED)
    output.field.add(
        name="contents",
        number=5,
        type=_Field.TYPE_MESSAGE,
        label=_Field.LABEL_OPTIONAL,
        type_name=".inference.InferTensorContents",
    )
    response.field.add(
        name="outputs",
        number=5,
        type=_Field.TYPE_MESSAGE,
        label=_Field.LABEL_REPEATED,
        type_name=".inference.ModelInferResponse.InferOutputTensor",
    )
    response.field.add(name="raw_output_contents", number=6, type=_Field.TYPE_BYTES, label=_Field.LABEL_REPEATED)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("inference.ModelInferResponse"))


#: The message of protobuf, of which only outputs and raw contents are declared.
ModelInferResponse: Final = _response_class()


def read_open_inference_grpc(answer: Answer) -> Tensors:
    """Read the outputs of an inference.

    Raises
    ------
    UnreadableError
        If it is none.
    """
    response = ModelInferResponse()
    try:
        response.ParseFromString(answer.body)
    except DecodeError:
        raise UnreadableError(Fault.FORM) from None
    raw = response.raw_output_contents
    if not raw:
        return filled([Tensor(output.name, output.datatype, _typed(output)) for output in response.outputs])
    if len(raw) != len(response.outputs):
        raise UnreadableError(Fault.FORM)
    return filled(
        [
            Tensor(output.name, output.datatype, from_raw(output.datatype, list(output.shape), contents))
            for output, contents in zip(response.outputs, raw, strict=True)
        ]
    )


def _typed(output: Any) -> Array:
    field = _FIELD_OF.get(output.datatype)
    if field is None:
        raise UnreadableError(Fault.FORM)
    values = list(getattr(output.contents, field))
    if output.datatype == BYTES:
        flat = np.empty(len(values), object)
        flat[:] = values
    else:
        try:
            flat = np.array(values, DTYPES[output.datatype])
        except OverflowError:  # a number that a smaller type than its field's cannot hold
            raise UnreadableError(Fault.FORM) from None
    return shaped(flat, list(output.shape))
