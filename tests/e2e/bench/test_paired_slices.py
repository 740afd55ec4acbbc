import json
from pathlib import Path

from e2e.bench.paired_slices import main


def test_pairs_find_a_loss_in_a_slice_much_sooner_than_a_canary_and_the_report_says_so(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    assert main(["--runs", "1", "--report", str(report)]) == 0
    figures = json.loads(report.read_text("utf-8"))
    assert figures["ratio"] == figures["canary_looks"] / figures["pairs_looks"] > 3
    assert figures["runs"] == 1
