"""Make the models: ``python -m e2e.demo.models.build FOLDER``. Runs in the model servers' environment only.

Writes ``fp32.onnx``, ``int8.onnx`` and ``pruned.onnx`` of Adult, ``digits-fp32.onnx`` and so on of digits, and for each
of the two what was held out: the rows that training never saw, the truth about them, and what each variant says, asked
row by row as a server is.
"""

# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from e2e.demo.models import adult, digits, export, network

_PRUNED_SHARE: Final = 0.7
_ADULT: Final = network.Schedule(epochs=10, batch=256)
#: Far fewer rows, so they are gone through more often, in smaller steps.
_DIGITS: Final = network.Schedule(epochs=60, batch=64)


def build(folder: Path) -> None:
    """Train, optimise and score both networks, with a line of progress for each."""
    _build_adult(folder)
    _build_digits(folder)


def _build_adult(folder: Path) -> None:
    print("models: reading the Adult census", flush=True)
    names, people = adult.load()
    training, held_out = adult.halves(people)
    print(f"models: training 64-64 on {len(training.over_50k):,} people", flush=True)
    targets = training.over_50k.astype(np.float64)[:, None]
    files = _write(network.train(training.features, targets, _ADULT), folder, name="income", prefix="")
    print(f"models: asking each about {len(held_out.over_50k):,} held-out people", flush=True)
    rows = held_out.features.astype(np.float32)
    said = {variant: _probabilities(path, rows)[:, 0] for variant, path in files.items()}
    np.savez(
        folder / "held_out.npz",
        features=rows,
        names=np.array(names),
        over_50k=held_out.over_50k,
        fp32=said["fp32"],
        int8=said["int8"],
        pruned=said["pruned"],
    )


def _build_digits(folder: Path) -> None:
    training, held_out = digits.halves(digits.load())
    print(f"models: training 64-64 on {len(training.digit):,} images of digits", flush=True)
    targets = np.eye(digits.CLASSES)[training.digit]
    files = _write(network.train(training.pixels, targets, _DIGITS), folder, name="digits", prefix="digits-")
    print(f"models: asking each about {len(held_out.digit):,} held-out images", flush=True)
    rows = held_out.pixels.astype(np.float32)
    said = {variant: _probabilities(path, rows) for variant, path in files.items()}
    np.savez(
        folder / "digits-held_out.npz",
        pixels=rows,
        digit=held_out.digit,
        fp32=said["fp32"],
        int8=said["int8"],
        pruned=said["pruned"],
    )


def _write(trained: network.Network, folder: Path, *, name: str, prefix: str) -> dict[str, Path]:
    print("models: writing fp32, int8 and 70 % pruned", flush=True)
    files = {variant: folder / f"{prefix}{variant}.onnx" for variant in ("fp32", "int8", "pruned")}
    export.write_fp32(trained, files["fp32"], name=name)
    export.write_int8(files["fp32"], files["int8"])
    export.write_fp32(network.prune(trained, _PRUNED_SHARE), files["pruned"], name=name)
    return files


def _probabilities(path: Path, rows: NDArray[np.float32]) -> NDArray[np.float32]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    # One row at a time: int8 scales its activations by what is in the batch, and servers get single rows.
    answers = [session.run(["probability"], {"features": rows[at : at + 1]})[0] for at in range(len(rows))]
    return np.concatenate(answers)


if __name__ == "__main__":
    build(Path(sys.argv[1]))
