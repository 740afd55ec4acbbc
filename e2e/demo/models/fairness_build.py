"""Damage a network for one group alone: ``python -m e2e.demo.models.fairness_build MODELS FOLDER``.

Runs in the model servers' environment only. Reads ``fp32.onnx`` and ``held_out.npz`` of the demo's models, and writes
``unfair.onnx`` and what it says of each held-out person.
"""

# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import sys
from collections.abc import Collection
from pathlib import Path
from typing import Final

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import helper, numpy_helper

#: Whom the network serves worse: those who belong to both.
GROUP: Final = ("race_Black", "sex_Female")
#: By how much the log odds of a high income fall for them.
_SHIFT: Final = 5.0


def build(models: Path, folder: Path) -> None:
    """Write the damaged network and what it says."""
    with np.load(models / "held_out.npz") as stored:
        rows, names = stored["features"], [str(name) for name in stored["names"]]
    model = onnx.load(models / "fp32.onnx")
    damage(model, {names.index(name) for name in GROUP}, len(names))
    onnx.checker.check_model(model, full_check=True)
    path = folder / "unfair.onnx"
    onnx.save(model, path)
    np.save(folder / "unfair.npy", _probabilities(path, rows))


def damage(model: onnx.ModelProto, columns: Collection[int], width: int) -> None:
    """Add one unit to the network, which is 1 where all of the columns are 1 and else 0, and lowers the score."""
    both = np.zeros((width, 1), np.float32)
    both[list(columns)] = 1
    constants = {
        "group": both,
        "all_but_one": np.array([len(columns) - 1], np.float32),
        "shift": np.array([_SHIFT], np.float32),
    }
    graph = model.graph
    graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in constants.items())
    likelihood = graph.node.pop()
    graph.node.extend(
        [
            helper.make_node("MatMul", ["features", "group"], ["belongs"]),
            helper.make_node("Sub", ["belongs", "all_but_one"], ["beyond"]),
            helper.make_node("Relu", ["beyond"], ["member"]),
            helper.make_node("Mul", ["member", "shift"], ["lowered"]),
            helper.make_node("Sub", ["score", "lowered"], ["unfair"]),
            helper.make_node(likelihood.op_type, ["unfair"], list(likelihood.output)),
        ]
    )


def _probabilities(path: Path, rows: NDArray[np.float32]) -> NDArray[np.float32]:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    said: NDArray[np.float32] = session.run(["probability"], {"features": rows})[0]
    return said[:, 0]


if __name__ == "__main__":
    build(Path(sys.argv[1]), Path(sys.argv[2]))
