"""T6: what `davylamp plan` predicts, against what happens."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from davylamp.offline.arrival import Detection
from davylamp.offline.demand import Demand
from davylamp.offline.prediction import Scope
from davylamp.offline.timeline import Stage, alone
from e2e.bench.statistics.bounds import share_bounds
from e2e.bench.statistics.delays import Delay, Regression, measured
from e2e.bench.statistics.ingest import plan_of
from e2e.bench.statistics.row import Row
from e2e.bench.statistics.scene import CUT, FloatArray, Line
from e2e.bench.statistics.system import STREAMS, THRESHOLD

#: Of every gate: an odds ratio.
_MARGIN: Final = 1.25
_MOST_OFF: Final = 0.2
_COVERED: Final = (0.85, 0.97)


@dataclass(frozen=True, slots=True)
class _Case:
    """A regression of so many margins: the baseline's share, and the weight in per cent."""

    rate: float
    margins: float
    weight: int
    looks: int
    series: int

    @property
    def odds(self) -> float:
        return 1 + self.margins * (_MARGIN - 1)

    @property
    def regression(self) -> Regression:
        return Regression(Line(50, self.rate, self.odds), self.weight, 0, self.looks, self.series)


_CASES: Final = (
    _Case(0.01, 4.0, 10, 400, 70),
    _Case(0.01, 4.0, 50, 200, 71),
    _Case(0.05, 2.0, 25, 500, 72),
)


def rows(delay: Delay) -> list[Row]:
    """Measure T6."""
    found = []
    for number, case in enumerate(_CASES):
        runs = delay.runs(case.regression, _MARGIN)
        ticks = measured(runs, case.regression, delay.system, THRESHOLD).at_most(case.looks) + CUT
        found += _compared("abcdef"[2 * number : 2 * number + 2], case, ticks, _predicted(case))
    return found


def _predicted(case: _Case) -> Detection:
    plan = plan_of(STREAMS, _MARGIN, case.looks)
    demand = Demand(50, {gate.name: case.rate for gate in plan.gates})
    stage = alone(Stage(0, case.weight / 100, case.looks, CUT), case.looks, case.looks)
    return Scope(plan, demand, stage).prospect(plan.gates[0], case.margins, stage, case.looks).arrival


def _compared(letters: Sequence[str], case: _Case, ticks: FloatArray, arrival: Detection) -> list[Row]:
    what = f"{case.rate:.0%} at {case.odds:.2g} times the odds, margin {_MARGIN}, weight {case.weight} %"
    mean, q90 = float(ticks.mean()), arrival.quantile(0.9)
    off = mean / arrival.mean - 1
    error = 1.645 * float(ticks.std(ddof=1)) / ticks.size**0.5 / arrival.mean
    covered = int((ticks <= q90).sum())
    share, bounds = covered / ticks.size, share_bounds(covered, ticks.size)
    runs = f"{ticks.size} runs"
    return [
        Row(
            f"T6{letters[0]}",
            f"predicted mean, {what}: off by ≤ 20 %",
            abs(off),
            abs(off) + error,
            abs(off) <= _MOST_OFF,
            "%",
            f"{mean:.1f} looks, predicted {arrival.mean:.1f}; {runs}",
        ),
        Row(
            f"T6{letters[1]}",
            f"predicted 90 %, {what}: holds 85 to 97 % of runs",
            share,
            bounds[1],
            _COVERED[0] <= share <= _COVERED[1],
            "%",
            f"{np.quantile(ticks, 0.9):.0f} looks, predicted {q90:.0f}; {runs}, at least {bounds[0]:.0%}",
        ),
    ]
