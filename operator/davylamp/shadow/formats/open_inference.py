"""The Open Inference Protocol over REST: JSON, and Triton's extension that puts tensors behind it as raw bytes."""

from typing import Any, Final

from davylamp.shadow.exchange import Answer
from davylamp.shadow.formats.arrays import filled, from_json, from_raw
from davylamp.shadow.formats.parsing import parsed
from davylamp.shadow.formats.reading import Fault, Tensor, Tensors, UnreadableError
from davylamp.shadow.formats.selection import without
from davylamp.shadow.task import Rules

#: How many bytes of the body are JSON, if tensors follow it.
JSON_LENGTH: Final = "inference-header-content-length"


def read_open_inference(answer: Answer, rules: Rules) -> Tensors:
    """Read the outputs of an inference.

    Raises
    ------
    UnreadableError
        If it is none.
    """
    head, tail = _split(answer)
    document = without(parsed(head), rules.ignore)
    outputs = document.get("outputs") if type(document) is dict else None
    if type(outputs) is not list:
        failed = type(document) is dict and "error" in document
        raise UnreadableError(Fault.FAILED if failed else Fault.FORM)
    tensors = []
    for output in outputs:
        tensor, tail = _tensor(output, tail)
        tensors.append(tensor)
    return filled(tensors)


def _split(answer: Answer) -> tuple[bytes, memoryview]:
    said = answer.header(JSON_LENGTH)
    if not said:
        return answer.body, memoryview(b"")
    if not (said.isascii() and said.isdigit() and len(said) <= 12) or (length := int(said)) > len(answer.body):
        raise UnreadableError(Fault.FORM)
    return answer.body[:length], memoryview(answer.body)[length:]


def _tensor(output: Any, tail: memoryview) -> tuple[Tensor, memoryview]:
    if type(output) is not dict:
        raise UnreadableError(Fault.FORM)
    name, datatype, shape = output.get("name"), output.get("datatype"), output.get("shape")
    if type(name) is not str or type(datatype) is not str or type(shape) is not list:
        raise UnreadableError(Fault.FORM)
    if "data" in output:
        return Tensor(name, datatype, from_json(datatype, shape, output["data"])), tail
    parameters = output.get("parameters")
    size = parameters.get("binary_data_size") if type(parameters) is dict else None
    if type(size) is not int or not 0 <= size <= len(tail):
        raise UnreadableError(Fault.FORM)
    return Tensor(name, datatype, from_raw(datatype, shape, tail[:size])), tail[size:]
