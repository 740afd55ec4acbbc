from __future__ import annotations

from typing import Any

import pytest

from davylamp.shadow.formats.reading import Document, Embeddings, Fault, Raw, Tensors, Texts, Unreadable
from davylamp.shadow.task import Format, Rules
from e2e.bench.answers import GRPC_METHOD, VALID, chat, embeddings, floats, grpc_message, stream
from tests.davylamp.shadow.bodies import reading


@pytest.mark.parametrize(
    ("target", "body", "kind"),
    [
        ("/v2/models/a/infer", floats(0.5), Tensors),
        ("/prefix/v2/models/a/versions/1/infer?x=/invocations", floats(0.5), Tensors),
        ("/v1/models/a/versions/1:predict", {"predictions": [1]}, Tensors),
        ("/invocations", {"predictions": [1]}, Tensors),
        ("/openai/v1/chat/completions", chat("a"), Texts),
        ("/v1/completions", {"choices": [{"text": "a"}]}, Texts),
        ("/v1/embeddings", embeddings([1]), Embeddings),
    ],
)
def test_the_path_says_the_format(target: str, body: Any, kind: type) -> None:
    assert isinstance(reading(target, body), kind)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (floats(0.5), Tensors),
        ({"predictions": [1]}, Tensors),
        (chat("a"), Texts),
        (stream({"choices": [{"index": 0, "delta": {"content": "a"}}]}), Texts),
        (embeddings([1]), Embeddings),
        ({"outputs": [1]}, Document),
        ({"outputs": []}, Document),
        ({"a": 1}, Document),
        ([0.1, 0.9], Document),
        (b"<html></html>", Raw),
    ],
)
def test_the_content_says_the_format_where_the_path_does_not(body: Any, kind: type) -> None:
    assert isinstance(reading("/predictions/a", body), kind)


@pytest.mark.parametrize(
    ("form", "kind"),
    [
        (Format.AUTO, Tensors),
        (Format.OPEN_INFERENCE, Tensors),
        (Format.INVOCATIONS, Document),
        (Format.JSON, Document),
        (Format.RAW, Raw),
        (Format.TENSORFLOW, Document),
        (Format.OPENAI, Unreadable),
    ],
)
def test_the_rollout_may_say_the_format(form: Format, kind: type) -> None:
    assert isinstance(reading("/v2/models/a/infer", floats(0.5), rules=Rules(format=form)), kind)


@pytest.mark.parametrize("form", [Format.AUTO, Format.OPEN_INFERENCE])
def test_open_inference_over_grpc_is_known(form: Format) -> None:
    given = grpc_message([{"name": "x", "datatype": "FP32", "shape": [1], "contents": {"fp32_contents": [1]}}])

    assert isinstance(reading(GRPC_METHOD, given, rules=Rules(format=form)), Tensors)


@pytest.mark.parametrize("body", [{}, [], b""])
def test_nothing_is_never_compared_with_nothing(body: Any) -> None:
    assert reading("/predictions/a", body) == Unreadable(Fault.FORM)


@pytest.mark.parametrize("name", VALID)
def test_every_format_of_the_examples_is_readable(name: str) -> None:
    call, given = VALID[name]

    assert not isinstance(reading(call.target, given), Unreadable)
