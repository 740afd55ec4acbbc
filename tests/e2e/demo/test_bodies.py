import json

import numpy as np
import pytest

from e2e.demo.traffic.bodies import request_bodies

ROWS = np.arange(12, dtype=np.float32).reshape(4, 3)


def test_each_row_becomes_one_inference_request() -> None:
    bodies = [json.loads(body) for body in request_bodies(ROWS)]
    tensors = [body["inputs"][0] for body in bodies]
    assert sorted(tensor["data"] for tensor in tensors) == ROWS.astype(int).tolist()
    assert all(tensor["shape"] == [1, 3] and tensor["datatype"] == "FP32" for tensor in tensors)


def test_the_seed_repeats_the_order_and_another_changes_it() -> None:
    many = np.arange(300, dtype=np.float32).reshape(100, 3)
    assert request_bodies(many, seed=1) == request_bodies(many, seed=1)
    assert request_bodies(many, seed=1) != request_bodies(many, seed=2)
    assert request_bodies(many, seed=1, limit=10) == request_bodies(many, seed=1)[:10]


def test_fractions_are_not_cut_off_silently() -> None:
    with pytest.raises(ValueError, match="whole numbers"):
        request_bodies(ROWS + np.float32(0.5))
