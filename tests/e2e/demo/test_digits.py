import numpy as np

from e2e.demo.models.digits import Images, halves


def test_no_image_is_both_trained_on_and_held_out() -> None:
    everything = Images(np.arange(101, dtype=float)[:, None], np.arange(101) % 10)
    training, held_out = halves(everything)
    ids = np.concatenate([training.pixels[:, 0], held_out.pixels[:, 0]])
    assert sorted(ids) == list(range(101))
    for half in (training, held_out):
        assert np.array_equal(half.digit, half.pixels[:, 0] % 10)
