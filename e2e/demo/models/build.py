"""Make the models: ``python -m e2e.demo.models.build FOLDER``. Runs in the model servers' environment only.

Writes ``fp32.onnx``, ``int8.onnx``, ``pruned.onnx`` and ``held_out.npz``: the rows that training never saw, the truth
about them, and what each variant says, asked row by row as a server is.
"""

# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from e2e.demo.models import adult, export, network

_PRUNED_SHARE: Final = 0.7


def build(folder: Path) -> None:
    """Train, optimise and score, with a line of progress for each."""
    print("models: reading the Adult census", flush=True)
    names, people = adult.load()
    training, held_out = adult.halves(people)
    print(f"models: training 64-64 on {len(training.over_50k):,} people", flush=True)
    trained = network.train(training.features, training.over_50k)
    print("models: writing fp32, int8 and 70 % pruned", flush=True)
    export.write_fp32(trained, folder / "fp32.onnx")
    export.write_int8(folder / "fp32.onnx", folder / "int8.onnx")
    export.write_fp32(network.prune(trained, _PRUNED_SHARE), folder / "pruned.onnx")
    print(f"models: asking each about {len(held_out.over_50k):,} held-out people", flush=True)
    rows = held_out.features.astype(np.float32)
    np.savez(
        folder / "held_out.npz",
        features=rows,
        names=np.array(names),
        over_50k=held_out.over_50k,
        fp32=_probabilities(folder / "fp32.onnx", rows),
        int8=_probabilities(folder / "int8.onnx", rows),
        pruned=_probabilities(folder / "pruned.onnx", rows),
    )


def _probabilities(path: Path, rows: NDArray[np.float32]) -> NDArray[np.float32]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    # One row at a time: int8 scales its activations by what is in the batch, and servers get single rows.
    answers = [session.run(["probability"], {"features": rows[at : at + 1]})[0] for at in range(len(rows))]
    return np.concatenate(answers)[:, 0]


if __name__ == "__main__":
    build(Path(sys.argv[1]))
