"""What a rollout has come to, for scripts that wait."""

from __future__ import annotations

from davylamp.api.v1alpha1.conditions import STALLED
from davylamp.api.v1alpha1.status import ConditionStatus
from davylamp.cli.failure import ExitCode
from davylamp.cli.sight import Sight
from davylamp.core.model import Phase


def outcome(seen: Sight) -> ExitCode | None:
    """Return how a rollout ended, as an exit code; None while it is not decided.

    A status about an older spec decides nothing: the newest may have been applied a moment ago.
    """
    if seen.stale:
        return None
    match seen.status.phase:
        case Phase.PROMOTED:
            return ExitCode.OK
        case Phase.ROLLED_BACK:
            return ExitCode.ROLLED_BACK
        case _:
            return ExitCode.WRONG if _stalled(seen) else None


def _stalled(seen: Sight) -> bool:
    return any(
        condition.type == STALLED and condition.status is ConditionStatus.TRUE for condition in seen.status.conditions
    )
