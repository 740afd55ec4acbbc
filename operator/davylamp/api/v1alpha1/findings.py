"""What the gates have found, as a status shows it to people and keeps it for the next process."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from davylamp.api.v1alpha1.convert import gates_hash
from davylamp.api.v1alpha1.status import MAX_MESSAGE, MAX_SIGNALS, MAX_STATE, Checkpoint, Interval, Side, Signal
from davylamp.core import report
from davylamp.core.evidence import Evidence
from davylamp.core.plan import Plan


def signals_of(reports: Sequence[report.GateReport]) -> tuple[Signal, ...]:
    """Return what a status shows of each gate; a number that is not finite is left out, since JSON has none."""
    return tuple(_signal(each) for each in reports[:MAX_SIGNALS])


def checkpoint_of(plan: Plan, evidence: Evidence) -> Checkpoint | None:
    """Return the evidence so far as a status keeps it.

    Parameters
    ----------
    plan
        The plan whose gates the evidence is about.
    evidence
        What was seen.

    Returns
    -------
    Checkpoint or None
        None before the first look, and if the line is longer than a status may hold: a line that was cut would be
        damaged, so that evidence begins anew after a restart either way.
    """
    if evidence.as_of is None:
        return None
    line = evidence.to_json()
    return Checkpoint(as_of=evidence.as_of, design=gates_hash(plan), state=line) if len(line) <= MAX_STATE else None


def _signal(found: report.GateReport) -> Signal:
    low, high = _finite(found.low), _finite(found.high)
    return Signal(
        name=found.name,
        verdict=found.verdict,
        baseline=_side(found.baseline),
        candidate=_side(found.candidate),
        difference=_finite(found.difference),
        interval=None if low is None and high is None else Interval(low=low, high=high),
        evidence=_finite(found.evidence),
        threshold=_finite(found.threshold),
        non_inferiority=_finite(found.non_inferiority),
        non_inferiority_threshold=_finite(found.non_inferiority_threshold),
        required=found.required,
        samples=found.samples,
        message=found.sentence[:MAX_MESSAGE],
        method=found.method[:MAX_MESSAGE] or None,
    )


def _side(side: report.Side | None) -> Side | None:
    return None if side is None else Side(total=side.total, events=side.events, value=_finite(side.value))


def _finite(value: float | None) -> float | None:
    return value if value is not None and isfinite(value) else None
