"""Answers of every format, as servers give them."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from davylamp.shadow.exchange import Answer, Call, Headers, Protocol
from davylamp.shadow.formats.open_inference import JSON_LENGTH
from davylamp.shadow.formats.open_inference_grpc import ModelInferResponse

INFER: Final = "/v2/models/credit/infer"
PREDICT: Final = "/v1/models/credit:predict"
CHAT: Final = "/v1/chat/completions"
JSON_TYPE: Final = (("content-type", "application/json"),)
STREAM_TYPE: Final = (("content-type", "text/event-stream; charset=utf-8"),)
GRPC_METHOD: Final = "/inference.GRPCInferenceService/ModelInfer"


def call(target: str, protocol: Protocol = Protocol.HTTP) -> Call:
    """Return a request to a path."""
    return Call("POST", target, (), b"{}", protocol)


def answer(body: Any, headers: Headers = JSON_TYPE, *, status: int = 200) -> Answer:
    """Return an answer; anything but bytes is written as JSON, with NaN and Infinity as bare words."""
    return Answer(status, headers, body if isinstance(body, bytes) else json.dumps(body).encode())


def grpc_answer(body: bytes, *, status: int = 0) -> Answer:
    """Return an answer over gRPC."""
    return Answer(status, (), body, Protocol.GRPC)


def output(name: str, datatype: str, shape: Sequence[int], data: Any) -> dict[str, Any]:
    """Return one output of an inference."""
    return {"name": name, "datatype": datatype, "shape": list(shape), "data": data}


def inference(*outputs: dict[str, Any]) -> dict[str, Any]:
    """Return an inference of the Open Inference Protocol."""
    return {"model_name": "credit", "model_version": "1", "id": "7", "outputs": list(outputs)}


def floats(*values: Any, datatype: str = "FP32") -> dict[str, Any]:
    """Return an inference with one output, of the shape of the values."""
    array = np.array(values, float)
    return inference(output("output", datatype, array.shape, list(values)))


def binary(*outputs: tuple[str, str, Sequence[int], bytes]) -> Answer:
    """Return an answer in Triton's binary extension."""
    head = inference(
        *(
            {"name": name, "datatype": datatype, "shape": list(shape), "parameters": {"binary_data_size": len(raw)}}
            for name, datatype, shape, raw in outputs
        )
    )
    text = json.dumps(head).encode()
    headers = (("content-type", "application/octet-stream"), (JSON_LENGTH, str(len(text))))
    return Answer(200, headers, text + b"".join(raw for *_, raw in outputs))


def grpc_message(outputs: Sequence[dict[str, Any]], raw: Sequence[bytes] = ()) -> Answer:
    """Return an answer over gRPC; each output has the fields of the message."""
    return grpc_answer(ModelInferResponse(outputs=outputs, raw_output_contents=raw).SerializeToString())


def chat(*texts: str | None, finish: str = "stop", **message: Any) -> dict[str, Any]:
    """Return a chat completion with a choice for each text."""
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [
            {"index": place, "message": {"role": "assistant", "content": text, **message}, "finish_reason": finish}
            for place, text in enumerate(texts)
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8},
    }


def tool_call(name: str, arguments: str) -> dict[str, Any]:
    """Return a call of a tool."""
    return {"id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments}}


def stream(*chunks: Any, done: bool = True) -> Answer:
    """Return a streamed answer."""
    sent = [chunk if isinstance(chunk, str) else json.dumps(chunk) for chunk in chunks]
    text = "".join(f"data: {data}\n\n" for data in (*sent, *(["[DONE]"] if done else [])))
    return Answer(200, STREAM_TYPE, text.encode())


def delta(index: int = 0, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    """Return a chunk of a streamed chat completion."""
    choice = {"index": index, "delta": fields, "finish_reason": finish}
    return {"object": "chat.completion.chunk", "choices": [choice]}


def embeddings(*vectors: Any) -> dict[str, Any]:
    """Return embeddings, each as numbers or packed."""
    entries = [{"object": "embedding", "index": place, "embedding": vector} for place, vector in enumerate(vectors)]
    return {"object": "list", "data": entries, "model": "m"}


def packed(*numbers: float) -> str:
    """Return an embedding as base64 has it."""
    return base64.b64encode(np.array(numbers, "<f4").tobytes()).decode()


_SCORES = np.linspace(0.1, 0.9, 8, dtype="<f4")
#: By format: where such an answer comes from, and one.
VALID: Final[Mapping[str, tuple[Call, Answer]]] = MappingProxyType(
    {
        "open-inference": (
            call(INFER),
            answer(
                inference(
                    output("label", "INT64", [3], [0, 2, 1]),
                    output("probabilities", "FP32", [3, 3], [[0.8, 0.1, 0.1], [0.2, 0.2, 0.6], [0.1, 0.7, 0.2]]),
                    output("name", "BYTES", [2], ["good", "bad"]),
                    output("flag", "BOOL", [2], [True, False]),
                )
            ),
        ),
        "open-inference-logits": (call(INFER), answer(floats([1.5, -0.25, 3.0, 0.5, 0.1, -2.0, 7.5]))),
        "triton-binary": (
            call(INFER),
            binary(
                ("scores", "FP32", [8], _SCORES.tobytes()),
                ("halves", "BF16", [2], b"\x80\x3f\x00\x40"),
                ("name", "BYTES", [2], b"\x02\x00\x00\x00ab\x01\x00\x00\x00c"),
            ),
        ),
        "grpc": (
            call(GRPC_METHOD, Protocol.GRPC),
            grpc_message(
                [
                    {
                        "name": "p",
                        "datatype": "FP32",
                        "shape": [2, 2],
                        "contents": {"fp32_contents": [0.1, 0.9, 0.7, 0.3]},
                    },
                    {"name": "l", "datatype": "INT64", "shape": [2], "contents": {"int64_contents": [1, 0]}},
                ]
            ),
        ),
        "grpc-raw": (
            call(GRPC_METHOD, Protocol.GRPC),
            grpc_message([{"name": "p", "datatype": "FP16", "shape": [1, 4]}], [np.arange(4, dtype="<f2").tobytes()]),
        ),
        "tensorflow-rows": (call(PREDICT), answer({"predictions": [[0.25, 0.5, 0.25], [0.1, 0.1, 0.8]]})),
        "tensorflow-named": (
            call(PREDICT),
            answer({"predictions": [{"label": "a", "score": 0.9}, {"label": "b", "score": 0.2}]}),
        ),
        "tensorflow-columns": (
            call(PREDICT),
            answer({"outputs": {"score": [[0.1], [float("nan")]], "b": [{"b64": "YWI="}]}}),
        ),
        "mlflow": (call("/invocations"), answer({"predictions": [0, 1, 1, 0]})),
        "sagemaker-csv": (call("/invocations"), answer(b"0.1,0.9\n0.4,0.6\n", (("content-type", "text/csv"),))),
        "chat": (call(CHAT), answer(chat("The loan is granted.", None, tool_calls=[tool_call("grant", '{"sum": 5}')]))),
        "chat-stream": (
            call(CHAT),
            stream(
                delta(role="assistant", content=""),
                delta(content="Hel"),
                delta(content="lo", tool_calls=[{"index": 0, "function": {"name": "f", "arguments": '{"a"'}}]),
                delta(tool_calls=[{"index": 0, "function": {"arguments": ": 1}"}}], finish="tool_calls"),
                {"choices": [], "usage": {"total_tokens": 9}},
            ),
        ),
        "completions": (
            call("/v1/completions"),
            answer(
                {
                    "choices": [
                        {
                            "index": 0,
                            "text": " a b",
                            "finish_reason": "length",
                            "logprobs": {"tokens": [" a", " b"], "token_logprobs": [-0.5, -9999.0]},
                        }
                    ]
                }
            ),
        ),
        "embeddings": (call("/v1/embeddings"), answer(embeddings([0.1, 0.2, -0.3], packed(1, 2, 3)))),
        "generate": (call("/v2/models/llm/generate"), answer({"model_name": "llm", "text_output": "Once upon a time"})),
        "generate-stream": (
            call("/v2/models/llm/generate_stream"),
            stream({"text_output": "Once"}, {"text_output": " upon"}, done=False),
        ),
        "torchserve": (call("/predictions/cats"), answer({"tabby": 0.46, "tiger_cat": 0.34, "Egyptian_cat": 0.07})),
        "raw": (
            call("/predictions/picture"),
            answer(b"\x89PNG\r\n\x1a\n\x00\x01\x02", (("content-type", "image/png"),)),
        ),
    }
)
