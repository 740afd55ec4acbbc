"""ModelRollouts whose present step mirrors requests, with the status that the operator would write."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from davylamp.api.v1alpha1.convert import read_spec
from davylamp.api.v1alpha1.identity import candidate_digest, spec_hash
from davylamp.api.v1alpha1.progress import Shown, to_status
from davylamp.core.model import Attempt, Pair, Phase, Progress, Reason, Ruling, Weight
from e2e.stage.manifests import model_rollout

Object = dict[str, Any]
NOW: Final = datetime(2026, 12, 1, 12, tzinfo=UTC)
STEPS: Final = [{"shadow": {"sample": "20%"}}, {"weight": 20, "bake": "1h"}, {"weight": 50, "bake": "1h"}]


def rollout(
    name: str = "credit", namespace: str = "ml", *, created: str = "2026-12-01T00:00:00Z", **spec: Any
) -> Object:
    """Return a ModelRollout as the API server holds it, whose first step is one of shadow traffic."""
    wanted = {"steps": STEPS} | spec
    made = model_rollout(namespace, name, baseline="credit-fp32", candidate="credit-int8", **wanted)
    marks = {"uid": f"{name}-{created}", "creationTimestamp": created, "resourceVersion": "1", "generation": 1}
    made["metadata"] |= marks
    return made


def at_step(manifest: Object, step: int = 0, **changes: Any) -> Object:
    """Return a ModelRollout with the status of an attempt that stands at a step."""
    return {**manifest, "status": status(manifest, step, **changes)}


def status(manifest: Object, step: int = 0, **changes: Any) -> Object:
    """Return the status of an attempt that stands at a step; ``changes`` are fields of its progress."""
    spec = read_spec(manifest["spec"])
    pair = Pair("credit", "credit-fp32:8080", "credit-int8:8080")
    progress: Object = {
        "attempt": Attempt("0123abcd-1", 1, candidate_digest(spec.candidate), spec_hash(spec, None), NOW, pair),
        "phase": Phase.PROGRESSING,
        "reason": Reason.SHADOWING,
        "message": "requests are mirrored",
        "ruling": Ruling.CONTINUE,
        "step": step,
        "requested": Weight(0),
        "entered_at": NOW,
        "baked": timedelta(0),
    }
    return dict(to_status(Progress(**(progress | changes)), Shown(1, 1, NOW, steps=3)).manifest())
