from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from davylamp.shadow.formats.reading import Document, Embeddings, Fault, Raw, Tensors, Texts, Unreadable
from e2e.bench.answers import PREDICT, chat, embeddings
from tests.davylamp.shadow.bodies import reading

INVOCATIONS = "/invocations"


def tensors(target: str, body: Any) -> dict[str, Any]:
    found = reading(target, body)
    assert isinstance(found, Tensors), found
    return {tensor.name: tensor.values for tensor in found.tensors}


@pytest.mark.parametrize(
    ("predictions", "shape", "kind"),
    [
        ([0.5, 1], (2,), "f"),
        ([[0.25, 0.75], [1, 0]], (2, 2), "f"),
        ([1, 0, 1], (3,), "i"),
        ([2**64 - 1, 1], (2,), "u"),
        ([True, False], (2,), "b"),
        (["good", "bad"], (2,), "O"),
        ([{"b64": "YWI="}], (1,), "O"),
        (0.5, (1,), "f"),
        ([0.5, None], (2,), "f"),
    ],
)
def test_rows_of_predictions_are_one_tensor(predictions: Any, shape: tuple[int, ...], kind: str) -> None:
    found = tensors(PREDICT, {"predictions": predictions})[""]

    assert (found.shape, found.dtype.kind) == (shape, kind)


def test_named_predictions_are_a_tensor_each() -> None:
    found = tensors(PREDICT, {"predictions": [{"label": "a", "p": [0.1, 0.9]}, {"label": "b", "p": [0.5, 0.5]}]})

    assert found["label"].tolist() == ["a", "b"]
    assert found["p"].shape == (2, 2)


def test_columns_of_outputs_are_a_tensor_each() -> None:
    found = tensors(PREDICT, {"outputs": {"score": [[0.5], [0.25]], "bytes": [{"b64": "/w=="}]}})

    assert found["score"].shape == (2, 1)
    assert found["bytes"].tolist() == [b"\xff"]


def test_one_column_of_outputs_has_no_name() -> None:
    assert tensors(PREDICT, {"outputs": [0.5]})[""].tolist() == [0.5]


def test_bare_words_of_tensorflow_serving_are_numbers() -> None:
    found = tensors(PREDICT, b'{"predictions": [NaN, Infinity, -Infinity]}')[""]

    np.testing.assert_array_equal(found, [np.nan, np.inf, -np.inf])


@pytest.mark.parametrize(
    "predictions",
    [
        [[1, 2], [3]],
        [[1], 2],
        [1, "a"],
        [True, 1],
        [None],
        [{"a": 1}, {"b": 1}],
        [{"a": {"deep": 1}}],
        [{"b64": 5}],
        [{"b64": "?"}],
        [10**400, 0.5],
        {"a": {"b": 1}},
    ],
)
def test_predictions_that_are_no_arrays_are_compared_as_json(predictions: Any) -> None:
    assert reading(PREDICT, {"predictions": predictions}) == Document(predictions)


@pytest.mark.parametrize("body", [{}, [1], {"predictions": []}, {"predictions": [[], []]}, {"outputs": {}}, b"nan"])
def test_an_answer_without_predictions_is_unreadable(body: Any) -> None:
    assert reading(PREDICT, body) == Unreadable(Fault.FORM)


def test_an_error_is_a_failure() -> None:
    assert reading(PREDICT, {"error": "no such signature"}) == Unreadable(Fault.FAILED)
    assert reading(INVOCATIONS, {"error": "no such model"}) == Unreadable(Fault.FAILED)


def test_lists_too_deep_are_over_a_bound() -> None:
    assert reading(PREDICT, b'{"predictions": ' + b"[" * 40 + b"1" + b"]" * 40 + b"}") == Unreadable(Fault.BOUND)


def test_mlflow_wraps_predictions() -> None:
    assert tensors(INVOCATIONS, {"predictions": [1, 0]})[""].tolist() == [1, 0]


def test_sagemaker_writes_what_it_likes() -> None:
    assert tensors(INVOCATIONS, [[0.5, 0.5]])[""].shape == (1, 2)
    assert tensors(INVOCATIONS, b"0.75")[""].tolist() == [0.75]
    assert tensors(INVOCATIONS, b"0.1,0.9\r\n0.5,nan\r\n")[""].shape == (2, 2)
    assert reading(INVOCATIONS, {"a": 1}) == Document({"a": 1})
    assert reading(INVOCATIONS, b"yes\nno") == Raw(b"yes\nno")
    assert reading(INVOCATIONS, b"1,2\n3\n") == Raw(b"1,2\n3\n")
    assert reading(INVOCATIONS, b"") == Unreadable(Fault.FORM)
    assert reading(INVOCATIONS, b" \n") == Raw(b" \n")


def test_invocations_of_a_language_model_are_texts_and_embeddings() -> None:
    assert isinstance(reading(INVOCATIONS, chat("Hello")), Texts)
    assert isinstance(reading(INVOCATIONS, embeddings([1, 2])), Embeddings)
