"""What makes an attempt a new one, what a candidate is recognised by, and how the variants' series are told apart."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

from davylamp.api.v1alpha1.policy import PolicySpec
from davylamp.api.v1alpha1.rollout import ModelRolloutSpec
from davylamp.api.v1alpha1.variants import Candidate

#: Fields that may change while an attempt runs: they touch neither what is compared nor how it is judged.
_FREE_TO_CHANGE: Final = frozenset({"interval", "notify", "paused", "policyRef"})


def candidate_digest(candidate: Candidate) -> str:
    """Return what a candidate is recognised by when it comes back after a rollback.

    Its model's digest; without one, a hash over its backend, model and optimisation, so that a candidate whose
    description changed counts as another one.
    """
    if candidate.model is not None and candidate.model.digest is not None:
        return candidate.model.digest
    described = candidate.manifest()
    described.pop("metrics", None)
    return f"spec:{hashed(described)}"


def spec_hash(spec: ModelRolloutSpec, policy: PolicySpec | None) -> str:
    """Return a hash over all that an attempt depends on; another hash means another attempt.

    It covers what people wrote, and not Davylamp's own defaults: an upgrade that changes a default starts nothing anew.
    """
    layers = [spec.manifest(), policy.manifest() if policy is not None else {}]
    return hashed([{name: layer[name] for name in layer.keys() - _FREE_TO_CHANGE} for layer in layers])


def hashed(value: Any) -> str:
    """Return a hash of a value that JSON can hold, whatever the order of its fields."""
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()[:32]
