"""TensorFlow Serving's REST API, which is KServe's version 1: predictions by row, or outputs by column."""

from typing import Any

from davylamp.shadow.exchange import Answer
from davylamp.shadow.formats.arrays import columns_of, inferred_outputs
from davylamp.shadow.formats.parsing import parsed, within_bounds
from davylamp.shadow.formats.reading import Document, Fault, Tensors, UnreadableError
from davylamp.shadow.formats.selection import without
from davylamp.shadow.task import Rules


def read_tensorflow(answer: Answer, rules: Rules) -> Tensors | Document:
    """Read predictions.

    Raises
    ------
    UnreadableError
        If there are none.
    """
    return predictions(without(parsed(answer.body), rules.ignore))


def predictions(document: Any) -> Tensors | Document:
    """Read a document of which only the predictions are compared.

    Raises
    ------
    UnreadableError
        If it has none.
    """
    if type(document) is not dict:
        raise UnreadableError(Fault.FORM)
    if "predictions" in document:
        return inferred_outputs(document["predictions"])
    if "outputs" in document:
        outputs = document["outputs"]
        named = type(outputs) is dict and outputs.keys() != {"b64"}
        columns = outputs if named else {"": outputs}
        return columns_of(columns) or Document(within_bounds(outputs))
    raise UnreadableError(Fault.FAILED if "error" in document else Fault.FORM)
