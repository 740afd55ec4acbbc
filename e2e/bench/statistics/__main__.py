# ruff: noqa: A005 - see the package
"""What the statistics promise, measured: ``python -m e2e.bench.statistics``.

Simulated servers show raw counters, with restarts and missed scrapes; the operator's own code counts and tests them.
"""

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Final

from e2e.bench.statistics import agreement, false_alarms, forecasts, plots, promotion, rivals, shadow, slices, speed
from e2e.bench.statistics.campaign import Campaign
from e2e.bench.statistics.delays import Delay
from e2e.bench.statistics.row import Row, table

#: What measures which targets, in this order: processor times first, while nothing else of ours runs.
_PARTS: Final[Mapping[str, Callable[[Campaign, Delay], list[Row]]]] = {
    "T8": lambda _, __: speed.rows(),
    "A0": lambda campaign, _: agreement.rows(campaign),
    "T1": lambda campaign, _: false_alarms.rows(campaign),
    "T2,T3,T4": lambda _, delay: delay.rows(),
    "T5": lambda campaign, _: shadow.rows(campaign),
    "T6": lambda _, delay: forecasts.rows(delay),
    "T7": lambda campaign, _: promotion.rows(campaign),
    "F": lambda campaign, _: slices.rows(campaign),
}
_RIVALS: Final = "R"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and say what came out; 0 whatever that is: a target that was missed is a result, not a fault."""
    options = _options(arguments)
    began, campaign = perf_counter(), Campaign(options.scale, options.workers)
    delay, rows, found = Delay(campaign), list[Row](), list[rivals.Judged]()
    try:
        for names, part in _PARTS.items():
            if not options.only or options.only & set(names.split(",")):
                rows += part(campaign, delay)
                _report(options, perf_counter() - began, rows, [])  # what is measured is kept, whatever follows
        if not options.only or _RIVALS in options.only:
            found = rivals.judged(campaign, delay)
    finally:
        campaign.close()
    seconds = perf_counter() - began
    rows.sort(key=lambda row: row.id)
    sys.stdout.write(f"{table(rows)}\n\n" if rows else "")
    sys.stdout.write(f"{rivals.table(found)}\n\n" if found else "")
    sys.stdout.write(f"{seconds / 60:.1f} min, scale {options.scale:g}\n")
    _report(options, seconds, rows, found)
    if options.plots and found:
        options.plots.mkdir(parents=True, exist_ok=True)
        plots.draw(found, options.plots / "delay-and-false-rollbacks.svg")
    return 0


def _report(options: argparse.Namespace, seconds: float, rows: Sequence[Row], found: Sequence[rivals.Judged]) -> None:
    if not options.report:
        return
    machine = {"python": platform.python_version(), "cores": os.cpu_count(), "machine": platform.machine()}
    report = {
        "scale": options.scale,
        "seconds": round(seconds, 1),
        **machine,
        "rows": [row.to_plain() for row in rows],
        "rivals": rivals.plain(found),
    }
    options.report.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m e2e.bench.statistics", description=__doc__.splitlines()[0])
    parser.add_argument("--report", type=Path, help="write the rows as JSON, too")
    parser.add_argument("--plots", type=Path, help="write a plot (SVG) into this folder")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full number of runs (default 1)")
    parser.add_argument(
        "--only", type=lambda text: set(text.split(",")), help="targets, as T1,T2; R is the other tools (default all)"
    )
    parser.add_argument("--workers", type=int, help="processes (default one for each core; 0 for none)")
    options = parser.parse_args(arguments)
    if not 0 < options.scale <= 10:
        parser.error(f"--scale must be above 0 and at most 10, got {options.scale}")
    return options


if __name__ == "__main__":
    sys.exit(main())
