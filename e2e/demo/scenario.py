"""The three rollouts of the demo, and how each must end."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import yaml

from e2e.demo.models.artifacts import Models

Manifest = dict[str, Any]

NAMESPACE: Final = "demo"
PORT: Final = 8080
PROMOTED: Final = "Promoted"
ROLLED_BACK: Final = "RolledBack"
#: What the flaky servers fail, as a share of their requests, once they do.
FAULT_SHARE: Final = 0.03
#: The fault begins when the gateway has accepted the weight of this step, counted from 0.
FAULT_STEP: Final = 2
#: After which the demo gives up on rollouts that have not ended.
PATIENCE: Final = timedelta(seconds=240)

_MANIFESTS: Final = Path(__file__).parent / "manifests"


@dataclass(frozen=True, slots=True)
class Case:
    """One rollout.

    Parameters
    ----------
    name
        Of the ModelRollout and its HTTPRoute, and the beginning of its Services' names.
    variant
        The candidate, as its answers name it.
    model
        The candidate's network: ``int8`` or ``pruned``.
    outcome
        How it must end: ``Promoted`` or ``RolledBack``.
    gate
        The gate that must have found it worse; ``None`` for one that is to be promoted.
    rate
        Requests a second.
    faulty
        Whether its servers begin to fail requests in the middle of the rollout.
    in_the_shadow
        Whether it must be found worse on shadow traffic, so that it never serves a live request.
    """

    name: str
    variant: str
    model: str
    outcome: str
    gate: str | None
    rate: float
    faulty: bool = False
    in_the_shadow: bool = False

    @property
    def host(self) -> str:
        """The Host header of its requests."""
        return f"{self.name}.demo.test"

    @property
    def baseline(self) -> str:
        """The Service that serves before the rollout."""
        return f"{self.name}-baseline"

    @property
    def candidate(self) -> str:
        """The Service on trial."""
        return f"{self.name}-candidate"


#: Each begins with shadow traffic. Small differences need many requests, so those that must be measured get more than
#: the one that fails.
CASES: Final = (
    Case("int8", "int8", "int8", PROMOTED, None, rate=80),
    Case("pruned", "pruned", "pruned", ROLLED_BACK, "disagreement", rate=90, in_the_shadow=True),
    Case("flaky", "flaky", "int8", ROLLED_BACK, "errors", rate=60, faulty=True),
)


def platform() -> tuple[Manifest, ...]:
    """Return what the platform team and the model team set once: source, policy, channels."""
    return (*_read("platform"), *_read("channels"))


def policy() -> Manifest:
    """Return the policy by which all of them are rolled out."""
    return next(manifest for manifest in platform() if manifest["kind"] == "ClusterRolloutPolicy")


def route(case: Case) -> Manifest:
    """Return the route of a rollout, as its owner wrote it."""
    return _of_kind(case, "HTTPRoute")


def rollout(case: Case, models: Models) -> Manifest:
    """Return the ModelRollout, with the digests of the files that are served, as a pipeline would fill them in."""
    manifest = _of_kind(case, "ModelRollout")
    for side, onnx in (("baseline", "fp32"), ("candidate", case.model)):
        digest = hashlib.sha256(models.onnx(onnx).read_bytes()).hexdigest()
        manifest["spec"][side]["model"]["digest"] = f"sha256:{digest}"
    return manifest


def secrets(values: Mapping[str, tuple[str, str]]) -> Iterable[Manifest]:
    """Make Secrets of one key each.

    Parameters
    ----------
    values
        Key and value by the Secret's name.
    """
    for name, (key, value) in values.items():
        metadata = {"name": name, "namespace": NAMESPACE}
        yield {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {key: value}}


def _of_kind(case: Case, kind: str) -> Manifest:
    return next(manifest for manifest in _read(case.name) if manifest["kind"] == kind)


def _read(name: str) -> list[Manifest]:
    return list(yaml.safe_load_all((_MANIFESTS / f"{name}.yaml").read_text(encoding="utf-8")))
