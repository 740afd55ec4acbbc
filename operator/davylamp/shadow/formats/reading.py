"""What an answer says, whatever its format: a closed set of values."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]


class Fault(StrEnum):
    """Why an answer with a status of success says nothing that can be compared."""

    #: Not what its format asks for, cut off, or empty.
    FORM = "Form"
    #: Deeper or with more keys than is read.
    BOUND = "Bound"
    #: The body says that the server failed.
    FAILED = "Failed"


class UnreadableError(ValueError):
    """An answer cannot be read.

    Parameters
    ----------
    fault
        Why.
    """

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.value)
        self.fault = fault


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """One output.

    Parameters
    ----------
    name
        Empty where the format has none.
    datatype
        As the Open Inference Protocol spells it; empty where the format has none.
    values
        In its shape. Booleans, integers, floats (bfloat16 as float32), or objects that are all bytes or all text.
    """

    name: str
    datatype: str
    values: Array


@dataclass(frozen=True, slots=True, eq=False)
class Tensors:
    """Outputs with names; one value at least in all."""

    tensors: tuple[Tensor, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One generated text.

    Parameters
    ----------
    text
        Without what the model thought before it.
    finish
        The format's word for why it ended; empty if it says none.
    refused
        Whether the server says that the model refused, or that a filter cut in.
    tools
        Name and arguments of each call; arguments that are JSON are in one spelling.
    tokens, log_probabilities
        As long as each other; empty if the answer has none. NaN stands for a value too small to be given.
    """

    text: str
    finish: str = ""
    refused: bool = False
    tools: tuple[tuple[str, str], ...] = ()
    tokens: tuple[str, ...] = ()
    log_probabilities: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Texts:
    """Generated texts by their index; one at least."""

    choices: tuple[Choice, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Embeddings:
    """Vectors of float64 by their index; one at least."""

    vectors: tuple[Array, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """Any JSON, within the bounds of depth and keys."""

    value: Any


@dataclass(frozen=True, slots=True)
class Raw:
    """Bytes, one at least."""

    body: bytes


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Nothing that can be compared."""

    fault: Fault


Readable = Tensors | Texts | Embeddings | Document | Raw
Reading = Readable | Unreadable
