import numpy as np

from e2e.demo.models.adult import People, halves


def test_nobody_is_both_trained_on_and_held_out() -> None:
    everybody = People(np.arange(101, dtype=float)[:, None], np.arange(101) % 3 == 0)
    training, held_out = halves(everybody)
    ids = np.concatenate([training.features[:, 0], held_out.features[:, 0]])
    assert sorted(ids) == list(range(101))
    for half in (training, held_out):
        assert np.array_equal(half.over_50k, half.features[:, 0] % 3 == 0)
