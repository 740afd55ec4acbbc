"""That the benchmark of the comparator measures; what it measures is the machine's affair."""

import json
import subprocess
import sys
from pathlib import Path


def test_pairs_are_compared_and_what_is_too_much_is_dropped(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    options = ("--seconds", "1", "--overload", "0.05", "--rate", "6000", "--report", str(report))
    subprocess.run((sys.executable, "-m", "e2e.bench.shadow", *options), check=True, timeout=120)

    figures = json.loads(report.read_text("utf-8"))
    assert figures["pairs"] > 0
    assert figures["capacity"] > 0
    assert 0 < figures["dropped"] < 1
    assert all(memory > 0 for memory in figures["memory"])
