"""That the benchmark of the join of labels measures, and notices what is lost; its figures are the machine's affair."""

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_no_label_is_lost_or_doubled_although_the_service_is_killed(tmp_path: Path, database: str) -> None:
    report = tmp_path / "report.json"
    options = ("--open", "2000", "--rate", "300", "--seconds", "4", "--kills", "1", "--database", database)
    program = (sys.executable, "-m", "e2e.bench.labels", *options, "--report", str(report))
    subprocess.run(program, check=True, timeout=240)
    (figures,) = json.loads(report.read_text("utf-8"))
    assert (figures["lost"], figures["doubled"], len(figures["kills"])) == (0, 0, 1)
    assert all(figures[name] > 0 for name in ("opened", "answered", "median", "scrape", "memory", "size"))
