"""The demo's models as files in the user's cache, made on first use."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from e2e.demo.models.quality import THRESHOLD, Quality, Top1, quality, top1
from e2e.demo.serving.environment import CHECKOUT, ensure_environment, environment_key
from e2e.demo.serving.kept import Progress, kept
from e2e.lab.places import cache

VARIANTS: Final = ("fp32", "int8", "pruned")
_SOURCES: Final = ("adult.py", "build.py", "digits.py", "export.py", "network.py", "splitting.py")


class ModelBuildError(RuntimeError):
    """The models could not be made; the message holds the builder's last words."""


@dataclass(frozen=True, slots=True)
class HeldOut:
    """People whom training never saw.

    Parameters
    ----------
    features
        Shape (n, 104), raw: what a request carries.
    names
        The features' names.
    over_50k, men, white
        Shape (n,): the truth, and the groups.
    probability
        By variant, shape (n,): what it says of each, asked row by row.
    """

    features: NDArray[np.float32]
    names: tuple[str, ...]
    over_50k: NDArray[np.bool_]
    men: NDArray[np.bool_]
    white: NDArray[np.bool_]
    probability: Mapping[str, NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class HeldOutDigits:
    """Images that training never saw.

    Parameters
    ----------
    pixels
        Shape (n, 64), raw: what a request carries.
    digit
        Shape (n,): what they show, 0 to 9.
    probability
        By variant, shape (n, 10): what it says of each, asked image by image.
    """

    pixels: NDArray[np.float32]
    digit: NDArray[np.int64]
    probability: Mapping[str, NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class Models:
    """Where the models are, and the environment that serves them."""

    python: Path
    folder: Path

    def onnx(self, variant: str) -> Path:
        """Return the file of ``fp32``, ``int8`` or ``pruned`` of the network for Adult."""
        return self.folder / f"{_known(variant)}.onnx"

    def digits_onnx(self, variant: str) -> Path:
        """Return the file of ``fp32``, ``int8`` or ``pruned`` of the network for digits."""
        return self.folder / f"digits-{_known(variant)}.onnx"

    def held_out(self) -> HeldOut:
        """Read the held-out people and what each variant says of them."""
        with np.load(self.folder / "held_out.npz") as stored:
            features, names = stored["features"], tuple(str(name) for name in stored["names"])
            return HeldOut(
                features=features,
                names=names,
                over_50k=stored["over_50k"],
                men=features[:, names.index("sex_Male")] == 1,
                white=features[:, names.index("race_White")] == 1,
                probability=MappingProxyType({variant: stored[variant] for variant in VARIANTS}),
            )

    def held_out_digits(self) -> HeldOutDigits:
        """Read the held-out images and what each variant says of them."""
        with np.load(self.folder / "digits-held_out.npz") as stored:
            said = MappingProxyType({variant: stored[variant] for variant in VARIANTS})
            return HeldOutDigits(stored["pixels"], stored["digit"], said)


def ensure_models(progress: Progress = print) -> Models:
    """Return the models, making them (and their environment) on first use.

    Raises
    ------
    ModelBuildError
        If the builder fails.
    EnvironmentBuildError
        If the environment cannot be installed.
    """
    python = ensure_environment(progress)

    def build(folder: Path) -> None:
        build_models(python, folder, progress)

    return Models(python, kept(cache() / f"models-{_key()}", build, progress=progress))


def qualities(people: HeldOut) -> dict[str, Quality]:
    """Judge each variant over the held-out people."""
    decisions = {variant: said >= THRESHOLD for variant, said in people.probability.items()}
    return {
        variant: quality(decided, truth=people.over_50k, men=people.men, fp32=decisions["fp32"])
        for variant, decided in decisions.items()
    }


def digits_qualities(images: HeldOutDigits) -> dict[str, Top1]:
    """Judge each variant over the held-out images."""
    decisions = {variant: said.argmax(axis=1) for variant, said in images.probability.items()}
    return {
        variant: top1(decided, truth=images.digit, fp32=decisions["fp32"]) for variant, decided in decisions.items()
    }


def build_models(python: Path, folder: Path, progress: Progress) -> None:
    """Make the models anew in an empty folder; ``ensure_models`` is the way to have them.

    Raises
    ------
    ModelBuildError
        If the builder fails.
    """
    # One thread: the matrices are small, and threads that wait for each other cost more than they bring.
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(CHECKOUT)}
    with (folder / "build.log").open("w+", encoding="utf-8") as errors:
        command = [str(python), "-m", "e2e.demo.models.build", str(folder)]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=CHECKOUT, env=environment
        ) as builder:
            for line in builder.stdout or ():
                progress(line.rstrip())
        if builder.returncode:
            errors.seek(0)
            raise ModelBuildError(
                f"making the models failed with exit code {builder.returncode}:\n{errors.read()[-2000:]}"
            )


def _known(variant: str) -> str:
    if variant not in VARIANTS:
        raise ValueError(f"the variants are {', '.join(VARIANTS)}; got {variant!r}")
    return variant


def _key() -> str:
    parts = hashlib.sha256(environment_key().encode())
    for source in _SOURCES:
        parts.update((Path(__file__).parent / source).read_bytes())
    return parts.hexdigest()[:16]
