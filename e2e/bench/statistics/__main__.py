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

from e2e.bench.statistics import agreement, delays, false_alarms, promotion, shadow, speed
from e2e.bench.statistics.campaign import Campaign
from e2e.bench.statistics.row import Row, table

#: What measures each target; those of the first are made before those of the second.
_PARTS: Final[Mapping[str, Callable[[Campaign], list[Row]]]] = {
    "T8": lambda _: speed.rows(),
    "A0": agreement.rows,
    "T1": false_alarms.rows,
    "T2,T3,T4": lambda campaign: delays.Delay(campaign).rows(),
    "T5": shadow.rows,
    "T7": promotion.rows,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and say what came out; 0 whatever that is, so that a report is a report."""
    options = _options(arguments)
    began, campaign = perf_counter(), Campaign(options.scale, options.workers)
    rows: list[Row] = []
    try:
        for names, part in _PARTS.items():
            if not options.only or options.only & set(names.split(",")):
                rows += part(campaign)
    finally:
        campaign.close()
    seconds = perf_counter() - began
    rows.sort(key=lambda row: row.id)
    sys.stdout.write(f"{table(rows)}\n\n{seconds / 60:.1f} min, scale {options.scale:g}\n")
    if options.report:
        machine = {"python": platform.python_version(), "cores": os.cpu_count(), "machine": platform.machine()}
        report = {"scale": options.scale, "seconds": round(seconds, 1), **machine}
        options.report.write_text(json.dumps({**report, "rows": [row.to_plain() for row in rows]}, indent=2) + "\n")
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m e2e.bench.statistics", description=__doc__.splitlines()[0])
    parser.add_argument("--report", type=Path, help="write the rows as JSON, too")
    parser.add_argument("--plots", type=Path, help="write plots (SVG) into this folder")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full number of runs (default 1)")
    parser.add_argument("--only", type=lambda text: set(text.split(",")), help="targets, as T1,T2 (default all)")
    parser.add_argument("--workers", type=int, help="processes (default one for each core; 0 for none)")
    options = parser.parse_args(arguments)
    if not 0 < options.scale <= 10:
        parser.error(f"--scale must be above 0 and at most 10, got {options.scale}")
    return options


if __name__ == "__main__":
    sys.exit(main())
