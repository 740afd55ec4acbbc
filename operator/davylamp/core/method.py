"""Which test judges a gate on counters: chosen once, before the first request of the candidate is counted."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from itertools import pairwise
from math import inf
from typing import Any, Final

from davylamp.core.counting import Span, pods_of
from davylamp.core.model import Variant
from davylamp.core.plan import Gate, OddsRatioMargin
from davylamp.core.reading import SignalReading
from gatestats.method import Choice, Method, choose_method
from gatestats.non_inferiority import ErrorRateDesign
from gatestats.odds_ratio import OddsRatioDesign
from gatestats.pods import Spread
from gatestats.podwise import PodwiseDesign, pod_statistics
from gatestats.process import Process
from gatestats.tempered import TemperedDesign
from gatestats.ticks import OneArmCounts, PodwiseCounts, Tick, TwoArmCounts, Worse

#: What is said of a candidate with one pod.
_ALONE: Final = "; the candidate has one pod: a bad pod cannot be told from a bad version"
_MOST_PHI: Final = 1000
_LONGEST_REASON: Final = 300
#: A window is cut into at most so many pieces.
_MOST_PIECES: Final = 60


def learn_spread(spread: Spread, gate: Gate, signal: SignalReading, span: Span, *, interval: timedelta) -> Spread:
    """Return what is known of the baseline's bursts after a look before the rollout.

    Parameters
    ----------
    spread
        What was known.
    gate, signal, span
        What is counted; the window is cut into pieces of one interval.
    interval
        Time between two looks.

    Raises
    ------
    ValueError
        If the baseline's samples cannot be counted.
    """
    pieces = min(_MOST_PIECES, max(1, (span.end - span.start) // interval))
    length = (span.end - span.start) / pieces
    edges = [span.start + number * length for number in range(pieces)] + [span.end]
    for start, end in pairwise(edges):
        pods = pods_of(gate.name, signal, Variant.BASELINE, Span(start, end, {}))
        spread = spread.plus(list(pods.values()))
    return spread


def choose(gate: Gate, signal: SignalReading, spread: Spread | None) -> Choice | None:
    """Return the test for a gate from the names of the targets; None as long as the candidate has none."""
    names = {variant: {target.name for target in signal.targets.get(variant, ())} for variant in Variant}
    if not names[Variant.CANDIDATE] or not names[Variant.BASELINE]:
        return None
    shared = not names[Variant.BASELINE].isdisjoint(names[Variant.CANDIDATE])
    choice = choose_method(
        len(names[Variant.BASELINE]),
        None if spread is None else spread.dispersion(),
        shared=shared,
        tempers=isinstance(gate.margin, OddsRatioMargin),
    )
    alone = len(names[Variant.CANDIDATE]) == 1 and not shared
    return replace(choice, reason=choice.reason + _ALONE) if alone else choice


def with_method(design: Process, choice: Choice | None, worse: Worse, looks: int | None) -> Process:
    """Return the design as the method asks for it; ``looks`` is how long the rollout is planned to last."""
    if choice is None or choice.method is Method.CONDITIONAL:
        return design
    if choice.method is Method.PODWISE:
        return PodwiseDesign(design, worse, looks)
    if isinstance(design, OddsRatioDesign):
        return TemperedDesign(choice.phi, design.margin, worse, looks)
    return replace(design, phi=choice.phi) if isinstance(design, ErrorRateDesign) else design


@dataclass(frozen=True, slots=True)
class Pods:
    """Counts of a tick by pod, for both variants, and what names the tick."""

    baseline: Mapping[str, OneArmCounts]
    candidate: Mapping[str, OneArmCounts]
    seed: str


def seen_by(design: Process, tick: Tick, pods: Pods | None) -> Tick:
    """Return a tick as a design takes it."""
    if not isinstance(design, PodwiseDesign) or not isinstance(tick, TwoArmCounts) or pods is None:
        return tick
    each = pod_statistics(pods.baseline, pods.candidate, worse=design.worse, seed=pods.seed)
    return PodwiseCounts(tick, each)


def to_plain(spreads: Mapping[str, Spread], choices: Mapping[str, Choice]) -> dict[str, Any]:
    """Return both as JSON holds them."""
    return {
        "spreads": {name: list(asdict(spread).values()) for name, spread in spreads.items()},
        "methods": {name: asdict(choice) for name, choice in choices.items()},
    }


def from_plain(data: Mapping[str, Any]) -> tuple[dict[str, Spread], dict[str, Choice]]:
    """Read back what `to_plain` made.

    Raises
    ------
    ValueError
        If it is damaged.
    """
    try:
        spreads = {str(name): _spread(plain) for name, plain in data["spreads"].items()}
        choices = {str(name): _choice(plain) for name, plain in data["methods"].items()}
    except (KeyError, TypeError, AttributeError) as broken:
        raise ValueError(f"stored methods are damaged: {broken!r}") from broken
    return spreads, choices


def _spread(plain: Any) -> Spread:
    if not all(type(value) in {int, float} and 0 <= value < inf for value in plain):
        raise ValueError(f"stored methods are damaged: a spread is {plain}")
    return Spread(*plain)


def _choice(plain: Any) -> Choice:
    phi, approximate, reason = plain["phi"], plain["approximate"], plain["reason"]
    if type(phi) is not float or not 1 <= phi <= _MOST_PHI or type(approximate) is not bool:
        raise ValueError(f"stored methods are damaged: phi is {phi} and approximate {approximate}")
    if type(reason) is not str or len(reason) > _LONGEST_REASON:
        raise ValueError("stored methods are damaged: a reason is no text, or too long")
    return Choice(Method(plain["method"]), approximate, phi, reason)
