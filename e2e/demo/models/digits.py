"""Handwritten digits of 1998, as the package ``scikit-learn`` carries them: 1,797 images of 8x8 pixels."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import distribution
from typing import Final

import numpy as np
from numpy.typing import NDArray

from e2e.demo.models.splitting import halves_of

CLASSES: Final = 10
_FILE: Final = "sklearn/datasets/data/digits.csv.gz"


@dataclass(frozen=True, slots=True)
class Images:
    """Images and what they show.

    Parameters
    ----------
    pixels
        Shape (n, 64): how much ink, in whole numbers from 0 to 16, row by row.
    digit
        Shape (n,): 0 to 9.
    """

    pixels: NDArray[np.float64]
    digit: NDArray[np.int64]


def load() -> Images:
    """Return all images."""
    table = np.loadtxt(str(distribution("scikit-learn").locate_file(_FILE)), delimiter=",", dtype=np.int64)
    return Images(table[:, :-1].astype(np.float64), table[:, -1])


def halves(images: Images) -> tuple[Images, Images]:
    """Split at random, always the same way, into (training, held out)."""
    first, second = halves_of(len(images.digit))
    return Images(images.pixels[first], images.digit[first]), Images(images.pixels[second], images.digit[second])
