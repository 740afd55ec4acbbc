"""How alike the baseline's pods are, and what that means for the margins of a rollout.

A pod is not a version: where pods of one version differ, a candidate on other pods differs too, whatever its model.
No statistic can tell the two apart, so the margin has to be wider than the pods' own spread.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

import numpy as np

from davylamp.core.counting import Span, buckets_of, events_of
from davylamp.core.looking import Window
from davylamp.core.model import Variant
from davylamp.core.plan import Gate, Margin, Plan, SignalKind
from davylamp.core.reading import Reading, Scope, SignalReading
from davylamp.errors import SpecError
from davylamp.offline.halves import Run, halves_of, runs
from davylamp.offline.history import History, read_past
from davylamp.offline.rivals import Thresholds
from davylamp.offline.spread import FEW_PODS, Spread, difference, necessary, spread_of
from davylamp.offline.subject import Subject
from gatestats.buckets import edges_of, pool_buckets, positions, rebucket
from gatestats.pods import Dispersion, dispersion
from gatestats.ticks import OneArmCounts

#: Values of pods are compared by blocks of this length: bursts within a block are noise.
BLOCK: Final = timedelta(minutes=1)
_GATEWAY: Final = (
    "its series come from gateways, which see all pods as one: calibrate by signals that the pods themselves export"
)


@dataclass(frozen=True, slots=True)
class Trial:
    """How the A/A runs are made.

    Parameters
    ----------
    halves
        Runs at most, 1..1000.
    seed
        Of random halves.
    thresholds
        Of the rule with fixed limits.
    """

    halves: int = 10
    seed: int = 1
    thresholds: Thresholds = field(default_factory=Thresholds)

    def __post_init__(self) -> None:
        if not 1 <= self.halves <= 1000:
            raise ValueError(f"halves must lie in 1..1000, got {self.halves}")


@dataclass(frozen=True, slots=True)
class Gauged:
    """What was found for one gate.

    Parameters
    ----------
    gate
        As the rollout has it.
    pods
        Pods that had requests, by name.
    spread
        None if it cannot be measured.
    dispersion
        Of events over pods and looks; None for latency, or if nothing says anything.
    margins
        By number of candidate pods, the margin that the spread makes necessary; None if no margin is wide enough.
    trouble
        Why nothing was measured; empty if it was.
    """

    gate: Gate
    pods: tuple[str, ...] = ()
    spread: Spread | None = None
    dispersion: Dispersion | None = None
    margins: Mapping[int, Margin | None] = field(default_factory=dict)
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Calibration:
    """What a calibration came to: each gate, the A/A runs, and what must be said before anything is believed."""

    gauged: tuple[Gauged, ...]
    runs: tuple[Run, ...]
    pods: tuple[str, ...]
    cautions: tuple[str, ...]


def calibrate(
    subject: Subject,
    history: History,
    span: tuple[datetime, datetime],
    trial: Trial,
    *,
    progress: Callable[[str], None] = lambda _: None,
) -> Calibration:
    """Compare the baseline's pods over a range of history.

    Raises
    ------
    SpecError
        If the history does not hold what is asked for, or no pod of the baseline had requests.
    """
    looks = list(_looks(subject, history, span))
    by_pods = {signal.gate for signal in subject.blueprint.signals if signal.scope == Scope()}
    gauged = [
        gauge(gate, looks, subject.plan) if gate.name in by_pods else Gauged(gate, trouble=_GATEWAY)
        for gate in subject.plan.gates
    ]
    measured = [each for each in gauged if not each.trouble]
    if not measured:
        raise SpecError("; ".join(f"{each.gate.name}: {each.trouble}" for each in gauged))
    pods = tuple(sorted({pod for each in measured for pod in each.pods}))
    made: list[Run] = []
    if len(pods) > 1:
        plan = replace(subject.plan, gates=tuple(each.gate for each in measured))
        halves = halves_of(pods, trial.halves, trial.seed)
        for number, run in enumerate(runs(plan, looks, halves, trial.thresholds), start=1):
            progress(f"A/A run {number} of {len(halves)}")
            made.append(run)
    return Calibration(tuple(gauged), tuple(made), pods, cautions(len(pods), measured))


def gauge(gate: Gate, looks: Sequence[tuple[Reading, Window]], plan: Plan) -> Gauged:
    """Return what the looks say about the pods of one gate."""
    tables, trouble = _tables(gate, looks)
    pods = tuple(sorted({pod for table in tables for pod in table}))
    if not pods:
        return Gauged(gate, trouble=trouble or "no pod of the baseline had requests in the range")
    spread = spread_of(_blocks(tables, plan.interval))
    phi = None
    if gate.kind is not SignalKind.LATENCY:
        phi = dispersion([[_as_counts(cell) for cell in table.values()] for table in tables])
    margins: dict[int, Margin | None] = {}
    if spread is not None:
        for number in sorted({1, 2, len(pods)}):
            margins[number] = necessary(gate, spread, difference(spread, number, plan.false_rollback_rate))
    return Gauged(gate, pods, spread, phi, margins)


def cautions(pods: int, gauged: Sequence[Gauged]) -> tuple[str, ...]:
    """Return what must be said before the numbers are believed."""
    found = []
    if pods == 1:
        found.append(
            "the baseline has one pod: how much pods differ cannot be measured, and a pod is not a version. Run at "
            f"least {FEW_PODS} pods of the baseline, and 2 of the candidate on different nodes"
        )
    elif pods < FEW_PODS:
        found.append(
            f"the baseline has {pods} pods, and a half of them is a single pod: a pod is not a version. The spread "
            f"rests on {pods - 1} difference{'' if pods == 2 else 's'}, so the margins below are little more than a "
            f"guess; calibrate with at least {FEW_PODS} pods"
        )
    found += [
        f"{each.gate.name}: errors come in bursts (phi {each.dispersion.phi:.2f} is above 1.2): single requests are "
        "not independent, and counts look more certain than they are"
        for each in gauged
        if each.dispersion is not None and each.dispersion.bursty
    ]
    return tuple(found)


#: What one pod showed in one look: events and requests, or the sum of ln durations and requests.
Cell = tuple[float, int]


def _looks(subject: Subject, history: History, span: tuple[datetime, datetime]) -> Iterator[tuple[Reading, Window]]:
    begins, interval = span[0], subject.plan.interval
    for number in range(subject.looks(*span)):
        window = (begins + number * interval, begins + (number + 1) * interval)
        yield read_past(history, subject.request(window), subject.settings), window


def _tables(gate: Gate, looks: Sequence[tuple[Reading, Window]]) -> tuple[list[dict[str, Cell]], str]:
    """Return what each pod of the baseline showed, look by look, and the last trouble."""
    tables, trouble = [], ""
    for reading, window in looks:
        signal = reading.signals.get(gate.name, SignalReading(targets={}))
        trouble = signal.trouble.get(Variant.BASELINE, trouble)
        cells: dict[str, Cell] = {}
        for target in signal.targets.get(Variant.BASELINE, ()):
            alone = SignalReading({Variant.BASELINE: (target,)})
            try:
                cell = _cell(gate, alone, Span(*window, {}))
            except ValueError as unusable:
                trouble = str(unusable)
                continue
            if cell is not None and cell[1]:
                cells[target.name] = cell
        tables.append(cells)
    return tables, trouble


def _cell(gate: Gate, alone: SignalReading, span: Span) -> Cell | None:
    if gate.kind is not SignalKind.LATENCY:
        counts = events_of(gate.name, alone, Variant.BASELINE, span)
        return None if counts is None else (counts.events, counts.total)
    buckets = pool_buckets([buckets_of(gate.name, alone, Variant.BASELINE, span)])
    if not buckets or not sum(buckets.values()):
        return None
    edges = edges_of(buckets)
    requests = np.array(rebucket(edges, buckets))
    return float(requests @ positions(edges)), int(requests.sum())


def _as_counts(cell: Cell) -> OneArmCounts:
    return OneArmCounts(round(cell[0]), cell[1])


def _blocks(tables: Sequence[Mapping[str, Cell]], interval: timedelta) -> list[list[float]]:
    """Return the value of each pod in each block, for the pods and blocks without gaps.

    A pod that is missing in more than half of the blocks (it came or went) is left out, and then every block in which
    one of the others is missing.
    """
    length = max(1, round(BLOCK / interval))
    blocks = [_pooled(tables[start : start + length]) for start in range(0, len(tables) - length + 1, length)]
    everyone = {pod for block in blocks for pod in block}
    steady = sorted(pod for pod in everyone if 2 * sum(pod in block for block in blocks) > len(blocks))
    whole = [block for block in blocks if all(pod in block for pod in steady)]
    return [[block[pod][0] / block[pod][1] for block in whole] for pod in steady]


def _pooled(tables: Sequence[Mapping[str, Cell]]) -> dict[str, Cell]:
    pooled: dict[str, Cell] = {}
    for table in tables:
        for pod, (value, total) in table.items():
            before = pooled.get(pod, (0.0, 0))
            pooled[pod] = (before[0] + value, before[1] + total)
    return pooled
