"""T8 and section 6: what the statistics cost in processor time."""

import subprocess
import sys
from statistics import median
from time import process_time
from typing import Final

import numpy as np

from e2e.bench.statistics.ingest import evidence_after
from e2e.bench.statistics.row import Row
from e2e.bench.statistics.scene import Line, Scene
from gatestats.odds_ratio import OddsRatioDesign
from gatestats.odds_ratio_batch import OddsRatioBlock
from gatestats.ticks import TwoArmCounts

_TICKS: Final = 400
_STREAMS: Final = 500
_IMPORTS: Final = 5
_IMPORT: Final = "import time; a = time.process_time(); import {}; print(time.process_time() - a)"


def rows() -> list[Row]:
    """Measure T8, one process, nothing else of ours running."""
    update, look = 1000 * _update(), 1000 * _look()
    numpy, whole = (sorted(_import(module) for _ in range(_IMPORTS)) for module in ("numpy", "gatestats.odds_ratio"))
    test, both = "test of one tick of one stream, N = 5,000: ≤ 2 ms", "count and test one stream in a look: ≤ 2 ms"
    load, loaded = (
        "import of gatestats' odds ratio test: ≤ 150 ms",
        f"processor time, median and largest of {_IMPORTS}; ",
    )
    return [
        Row(
            "T8a", test, update, None, update <= 2, "ms", f"median of {_TICKS} ticks, all bets and the interval's grid"
        ),
        Row("T8b", both, look, None, look <= 2, "ms", "the whole of `observe`: 24 streams, 3 + 2 pods each"),
        *_many(),
        Row(
            "T8e",
            load,
            median(whole),
            whole[-1],
            median(whole) <= 150,
            "ms",
            f"{loaded}numpy alone {median(numpy):.0f} ms",
        ),
    ]


def _update() -> float:
    design, random = OddsRatioDesign(), np.random.default_rng(50)
    state, spent = design.start(), []
    for _ in range(_TICKS):
        tick = TwoArmCounts(int(random.binomial(4500, 0.02)), 4500, int(random.binomial(500, 0.02)), 500)
        began = process_time()
        state = design.update(state, tick)
        spent.append(process_time() - began)
    return median(spent)


def _look() -> float:
    scene = Scene((Line(50, 0.01, servers=(3, 2)),) * 24, 40)
    began = process_time()
    looks = len(evidence_after(scene, 50))
    return (process_time() - began) / looks / 24


def _many() -> list[Row]:
    random, spent, together = np.random.default_rng(51), [], []
    designs = [OddsRatioDesign()] * _STREAMS
    states = [design.start() for design in designs]
    block = OddsRatioBlock.of(designs, states)
    for _ in range(5):
        ticks = [
            TwoArmCounts(int(random.binomial(450, 0.02)), 450, int(random.binomial(50, 0.02)), 50)
            for _ in range(_STREAMS)
        ]
        began = process_time()
        states = [design.update(state, tick) for design, state, tick in zip(designs, states, ticks, strict=True)]
        spent.append(process_time() - began)
        began = process_time()
        block = block.advance(ticks)
        together.append(process_time() - began)
    one, all_ = 1000 * median(spent), 1000 * median(together)
    alone, whole = "500 streams, one tick each, one after the other: < 1 s", "the same in one pass: < 50 ms"
    return [
        Row("T8c", alone, one, None, one < 1000, "ms", "median of 5"),
        Row("T8d", whole, all_, None, all_ < 50, "ms", "median of 5; 52 odds ratios for each stream, not 10"),
    ]


def _import(module: str) -> float:
    run = subprocess.run([sys.executable, "-c", _IMPORT.format(module)], check=True, capture_output=True, text=True)
    return 1000 * float(run.stdout)
