"""Which format an answer has: what the rules say, or else what the path of the request and the answer show."""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from davylamp.shadow.exchange import Answer, Call, Protocol
from davylamp.shadow.formats.event_stream import is_stream
from davylamp.shadow.formats.generated import read_generated
from davylamp.shadow.formats.invocations import read_invocations
from davylamp.shadow.formats.open_inference import read_open_inference
from davylamp.shadow.formats.open_inference_grpc import read_open_inference_grpc
from davylamp.shadow.formats.openai import is_openai, read_openai
from davylamp.shadow.formats.parsing import parsed
from davylamp.shadow.formats.plain import read_events, read_json, read_raw
from davylamp.shadow.formats.reading import Reading, UnreadableError
from davylamp.shadow.formats.tensorflow import read_tensorflow
from davylamp.shadow.task import Format, Rules

Reader = Callable[[Answer, Rules], Reading]

#: Ends of paths, without the query, that say the format.
_PATHS: Final = (
    (re.compile(r"/generate(_stream)?$"), read_generated),
    (re.compile(r"/v2/models/.+/infer$"), read_open_inference),
    (re.compile(r":predict$"), read_tensorflow),
    (re.compile(r"/invocations$"), read_invocations),
    (re.compile(r"/(chat/completions|completions|embeddings)$"), read_openai),
)


def reader_of(call: Call, first: Answer, rules: Rules) -> Reader:
    """Return what reads the answers to a call.

    Parameters
    ----------
    call
        The request.
    first
        The baseline's answer; the candidate's has no say in how it is read.
    rules
        Those of the rollout.
    """
    if rules.format is not Format.AUTO:
        return _READERS[rules.format]
    if call.protocol is Protocol.GRPC:
        return _open_inference if call.target.endswith("/ModelInfer") else _raw
    if rules.select:
        return read_json
    path = call.target.partition("?")[0]
    return next((reader for pattern, reader in _PATHS if pattern.search(path)), None) or _by_content(first)


def _by_content(answer: Answer) -> Reader:
    if is_stream(answer):
        return read_openai if b'"choices"' in answer.body else read_events
    try:
        document = parsed(answer.body)
    except UnreadableError:
        return _raw
    if is_openai(document):
        return read_openai
    if type(document) is dict and "predictions" in document:
        return read_tensorflow
    outputs = document.get("outputs") if type(document) is dict else None
    return read_open_inference if _has_datatypes(outputs) else read_json


def _has_datatypes(outputs: Any) -> bool:
    return type(outputs) is list and bool(outputs) and type(outputs[0]) is dict and "datatype" in outputs[0]


def _open_inference(answer: Answer, rules: Rules) -> Reading:
    if answer.protocol is Protocol.GRPC:
        return read_open_inference_grpc(answer)
    return read_open_inference(answer, rules)


def _raw(answer: Answer, _: Rules) -> Reading:
    return read_raw(answer)


_READERS: Final[Mapping[Format, Reader]] = MappingProxyType(
    {
        Format.OPEN_INFERENCE: _open_inference,
        Format.TENSORFLOW: read_tensorflow,
        Format.INVOCATIONS: read_invocations,
        Format.OPENAI: read_openai,
        Format.JSON: read_json,
        Format.RAW: _raw,
    }
)
