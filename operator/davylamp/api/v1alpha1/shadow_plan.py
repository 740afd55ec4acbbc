"""From the settings of shadow traffic to the words of the core."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from davylamp.api.v1alpha1.quantities import parse_duration, parse_percent
from davylamp.api.v1alpha1.shadow import GRPC_ABOVE, Capture, Comparator, Compare, MirroredProtocol, Shadow, ShadowStep
from davylamp.api.v1alpha1.signals import Gates
from davylamp.core.plan import AbsoluteMargin, Direction, Gate, LimitMargin, SignalKind
from davylamp.core.plan import Shadow as ShadowPlan
from davylamp.core.shadow_gates import CONFIDENCE_EDGES, DISAGREEMENT, SCORE_EDGES
from davylamp.errors import SpecError
from davylamp.jsonpath import query

OVER_NOISE: Final = "overNoise"
STATUS_MISMATCH: Final = "statusMismatch"
SCORE_SHIFT: Final = "scoreShift"
CONFIDENCE: Final = "confidence"
PAIRED_LATENCY: Final = "pairedLatency"

#: Of the edges' shares, where a gate does not say.
SCORE_TOLERANCE: Final = 0.02
CONFIDENCE_TOLERANCE: Final = 0.05
#: Of pairs whose second answer comes from an equally fast model, as many are slower as faster.
_HALF: Final = 0.5


def refuse_bad_paths(shadow: Shadow) -> None:
    """Raise SpecError for a JSONPath that the comparator does not look for; the schema only knows how one begins."""
    compare, capture = shadow.compare or Compare(), shadow.capture or Capture()
    paths = {"compare.select": compare.select, "compare.ignore": compare.ignore, "capture.redact": capture.redact}
    for field, given in paths.items():
        for number, path in enumerate(given):
            try:
                query(path)
            except SpecError as wrong:
                raise SpecError(f"shadow.{field}[{number}]: {wrong}") from wrong


def shadow_of(step: ShadowStep) -> ShadowPlan:
    """Return how requests are mirrored at a step."""
    return ShadowPlan(parse_percent(step.sample), step.min_pairs, parse_duration(step.max_duration))


def comparator_text(shadow: Shadow) -> str:
    """Return where requests are mirrored to: ``name:port``."""
    comparator = shadow.comparator or Comparator()
    above = GRPC_ABOVE if comparator.protocol is MirroredProtocol.GRPC else 0
    return f"{comparator.name}:{comparator.port + above}"


def shadow_gates(gates: Gates) -> Iterator[Gate]:
    """Yield the gates on shadow traffic; disagreement and another status are always judged, the rest where asked."""
    if (disagreement := gates.disagreement) is not None and disagreement.limit is not None:
        required = disagreement.required_for_promotion
        yield _share(DISAGREEMENT, parse_percent(disagreement.limit), required)
        if disagreement.over_noise is not None:
            margin = AbsoluteMargin(parse_percent(disagreement.over_noise))
            yield Gate(OVER_NOISE, SignalKind.SHADOW_NOISE, Direction.HIGHER, margin, required=_asked(required))
    if (mismatch := gates.status_mismatch) is not None and mismatch.limit is not None:
        yield _share(STATUS_MISMATCH, parse_percent(mismatch.limit), mismatch.required_for_promotion)
    if (shift := gates.score_shift) is not None:
        yield _moves(
            SCORE_SHIFT,
            Direction.EITHER,
            _tolerance(shift.tolerance, SCORE_TOLERANCE),
            required=shift.required_for_promotion,
        )
    if (fall := gates.confidence) is not None:
        yield _moves(
            CONFIDENCE,
            Direction.LOWER,
            _tolerance(fall.tolerance, CONFIDENCE_TOLERANCE),
            required=fall.required_for_promotion,
        )
    if (latency := gates.paired_latency) is not None:
        yield _share(PAIRED_LATENCY, _HALF, latency.required_for_promotion)


def _tolerance(given: str | None, default: float) -> float:
    return default if given is None else parse_percent(given)


def _share(name: str, limit: float, required: bool | None) -> Gate:  # noqa: FBT001 - as the schema has it
    return Gate(name, SignalKind.SHADOW_SHARE, Direction.HIGHER, LimitMargin(limit), required=_asked(required))


def _moves(name: str, worse: Direction, tolerance: float, *, required: bool | None) -> Gate:
    edges = SCORE_EDGES if name == SCORE_SHIFT else CONFIDENCE_EDGES
    margin = AbsoluteMargin(tolerance)
    return Gate(name, SignalKind.SHADOW_MOVES, worse, margin, required=_asked(required), edges=edges)


def _asked(required: bool | None) -> bool:  # noqa: FBT001 - as the schema has it
    return True if required is None else required
