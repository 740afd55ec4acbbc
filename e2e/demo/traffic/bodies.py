"""Requests as bytes, made before the traffic starts, so that sending costs next to nothing."""

from __future__ import annotations

import json

import numpy as np
from numpy.typing import NDArray


def request_bodies(features: NDArray[np.float32], *, seed: int = 0, limit: int | None = None) -> tuple[bytes, ...]:
    """Turn rows into Open Inference Protocol requests, in a random order that the seed repeats.

    Parameters
    ----------
    features
        Shape (n, k): the rows, of whole numbers.
    seed
        Shuffles the rows, so that the people come independently of how the census lists them.
    limit
        At most so many requests; ``None`` for one a row.
    """
    if not np.array_equal(features, np.rint(features)):
        raise ValueError("the rows must hold whole numbers only; others would be cut off")
    order = np.random.default_rng(seed).permutation(len(features))[:limit]
    return tuple(_body(features[at].astype(np.int64).tolist()) for at in order)


def _body(row: list[int]) -> bytes:
    tensor = {"name": "features", "shape": [1, len(row)], "datatype": "FP32", "data": row}
    return json.dumps({"inputs": [tensor]}, separators=(",", ":")).encode()
