"""The groups of Adult's people, how each variant serves them, and a variant that is damaged for one of them alone."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from e2e.demo.models.artifacts import HeldOut, ModelBuildError, Models
from e2e.demo.models.quality import THRESHOLD
from e2e.demo.serving.environment import CHECKOUT
from e2e.demo.serving.kept import Progress, kept

#: By attribute its values, each of them a column of the features: ``sex_Female`` and so on.
ATTRIBUTES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"sex": ("Female", "Male"), "race": ("White", "Black", "Asian-Pac-Islander", "Amer-Indian-Eskimo")}
)

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Unfair:
    """The network that finds fewer of the black women who earn over 50K, and serves all others as fp32 does.

    Parameters
    ----------
    onnx
        Its file.
    probability
        Shape (n,): what it says of each held-out person.
    """

    onnx: Path
    probability: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Recall:
    """How many of a group's people who earn over 50K two variants find.

    Parameters
    ----------
    people
        Of the group who earn over 50K.
    baseline, candidate
        How many of them fp32 and the other variant find.
    """

    people: int
    baseline: int
    candidate: int

    @property
    def loss(self) -> float:
        """By how many points of a hundred the candidate finds fewer."""
        return 100 * (self.baseline - self.candidate) / self.people


def ensure_unfair(models: Models, progress: Progress = print) -> Unfair:
    """Return the damaged network, making it on first use.

    Raises
    ------
    ModelBuildError
        If the builder fails.
    """
    source = Path(__file__).with_name("fairness_build.py").read_bytes()
    place = models.folder.with_name(f"{models.folder.name}-unfair-{hashlib.sha256(source).hexdigest()[:16]}")

    def build(folder: Path) -> None:
        progress("models: damaging fp32 for one group alone")
        command = [str(models.python), "-m", "e2e.demo.models.fairness_build", str(models.folder), str(folder)]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(CHECKOUT)}
        done = subprocess.run(command, capture_output=True, text=True, cwd=CHECKOUT, env=environment, check=False)
        if done.returncode:
            raise ModelBuildError(f"damaging the model failed with exit code {done.returncode}:\n{done.stderr[-2000:]}")

    folder = kept(place, build, progress=progress)
    return Unfair(folder / "unfair.onnx", np.load(folder / "unfair.npy"))


def groups(people: HeldOut) -> Iterator[tuple[str, Flags]]:
    """Yield everybody under the name "", each value of each attribute, and each race together with each sex."""
    yield "", np.ones(len(people.over_50k), np.bool_)
    for attribute, values in ATTRIBUTES.items():
        for value in values:
            yield f"{attribute}={value}", _are(people, attribute, value)
    for race, sex in product(ATTRIBUTES["race"], ATTRIBUTES["sex"]):
        yield f"race={race},sex={sex}", _are(people, "race", race) & _are(people, "sex", sex)


def recalls(people: HeldOut, probability: NDArray[np.float32]) -> dict[str, Recall]:
    """Compare a variant with fp32, group by group."""
    fp32, other = people.probability["fp32"] >= THRESHOLD, probability >= THRESHOLD
    found = {}
    for name, members in groups(people):
        wanted = members & people.over_50k
        found[name] = Recall(int(wanted.sum()), int((wanted & fp32).sum()), int((wanted & other).sum()))
    return found


def headers_of(people: HeldOut, row: int) -> dict[str, str]:
    """Return the headers by which a gateway and a comparator see to which groups a person belongs."""
    return {
        f"x-{attribute}": next((value for value in values if _are(people, attribute, value)[row]), "other")
        for attribute, values in ATTRIBUTES.items()
    }


def _are(people: HeldOut, attribute: str, value: str) -> Flags:
    flags: Flags = people.features[:, people.names.index(f"{attribute}_{value}")] == 1
    return flags
