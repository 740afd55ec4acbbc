"""How `davylamp diff` compares: as a rollout's manifest says, or by Davylamp's defaults."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from davylamp.api.v1alpha1.convert import read_policy, read_spec, settings_of
from davylamp.api.v1alpha1.policy import PolicySpec
from davylamp.api.v1alpha1.quantities import parse_percent
from davylamp.api.v1alpha1.shadow import Compare, Shadow
from davylamp.cli.failure import ExitCode, FailureError
from davylamp.cli.past import manifests
from davylamp.errors import SpecError
from davylamp.runtime.comparator_tasks import replay_of, rules_of
from davylamp.shadow.task import Replay, Rules

_LIMIT: Final = 0.02
_SLOWDOWN: Final = 0.1
_POLICIES: Final = ("RolloutPolicy", "ClusterRolloutPolicy")


@dataclass(frozen=True, slots=True)
class Manner:
    """How requests are sent and answers compared.

    Parameters
    ----------
    rules, replay
        As for the comparator.
    limit
        Largest share of disagreeing pairs, 0..1.
    slowdown
        A pair counts as slower when the candidate took more than (1 + slowdown) times as long, >= 0.
    redact
        JSONPaths of what is shown of no body.
    """

    rules: Rules = field(default_factory=Rules)
    replay: Replay = field(default_factory=Replay)
    limit: float = _LIMIT
    slowdown: float = _SLOWDOWN
    redact: tuple[str, ...] = ()


def manner_of(file: Path | None) -> Manner:
    """Return how a file with a ModelRollout, or with a policy alone, says that answers are compared.

    Raises
    ------
    FailureError
        If the file cannot be read, or holds neither or several.
    """
    if file is None:
        return Manner()
    try:
        return _manner(_settings(file, [each for each in manifests([file]) if isinstance(each, dict)]))
    except SpecError as error:
        raise FailureError(f"{file}: {error}", ExitCode.WRONG) from error


def _settings(file: Path, documents: list[dict[str, Any]]) -> PolicySpec:
    rollouts = [each for each in documents if each.get("kind") == "ModelRollout"]
    policies = [each for each in documents if each.get("kind") in _POLICIES]
    if len(rollouts) > 1 or len(policies) > 1 or not (rollouts or policies):
        text = f"{file} must hold one ModelRollout, or one policy, or both"
        raise FailureError(text, ExitCode.WRONG)
    policy = read_policy(policies[0].get("spec") or {}) if policies else None
    if rollouts:
        return settings_of(read_spec(rollouts[0].get("spec") or {}), policy)
    return policy or PolicySpec()


def _manner(settings: PolicySpec) -> Manner:
    shadow, gates = settings.shadow or Shadow(), settings.gates
    disagreement = gates.disagreement.limit if gates and gates.disagreement else None
    latency = gates.paired_latency.slowdown if gates and gates.paired_latency else None
    return Manner(
        rules=rules_of(shadow.compare or Compare()),
        # Whoever names requests means them: no method or path is left out.
        replay=replace(replay_of(shadow), concurrency=4),
        limit=_LIMIT if disagreement is None else parse_percent(disagreement),
        slowdown=_SLOWDOWN if latency is None else parse_percent(latency),
        redact=shadow.capture.redact if shadow.capture else (),
    )
